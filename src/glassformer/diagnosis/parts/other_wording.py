"""What is said of masks, positions, schedules, caches and beam searches: their properties, and what can be wrong."""

from __future__ import annotations

from glassformer.core.wording import Catalogue
from glassformer.diagnosis.parts.attention_wording import WORDS as ATTENTION
from glassformer.diagnosis.parts.attention_wording import for_each_meaning

WORDS = Catalogue(
    {
        **ATTENTION,
        **for_each_meaning("mask_right", "{rule}; {meaning}", "{rule}；{meaning}"),
        "mask_run.name": {
            "en": "it runs",
            "zh": "能运行",
        },
        "mask_run.why": {
            "en": "nothing else can be asked of it",
            "zh": "否则其他性质都无从检查",
        },
        "mask_run.look": {
            "en": "what it is given: a length n, tokens (and the id of padding), or lengths (and n)",
            "zh": "参数：长度 n、词元（及填充的编号），或各句长度（及 n）",
        },
        "mask_hides.name": {
            "en": "it hides what it must, and nothing else",
            "zh": "该遮的都遮住，不该遮的都能看到",
        },
        "mask_hides.why": {
            "en": "one wrong place is a position that reads its own answer, or padding that speaks",
            "zh": "错一个位置，就是某个位置读到自己的答案，或填充参与了计算",
        },
        "mask_hides.look": {
            "en": "print it for a length of 4; rows are queries, columns are keys",
            "zh": "打印长度为 4 的掩码；行是查询，列是键",
        },
        "mask_spreads.name": {
            "en": "its shape meets the scores (B, H, T, S)",
            "zh": "形状能与分数 (B, H, T, S) 相配",
        },
        "mask_spreads.why": {
            "en": "a dimension that is spread over the wrong one fails only when two sizes differ",
            "zh": "广播到错误的维度，只有尺寸不同时才报错",
        },
        "mask_spreads.look": {
            "en": "unsqueeze: (B, 1, 1, S) or (B, 1, T, S)",
            "zh": "用 unsqueeze 得到 (B, 1, 1, S) 或 (B, 1, T, S)",
        },
        "mask_one.name": {
            "en": "it works for one token",
            "zh": "长度为 1 时也能用",
        },
        "mask_one.why": {
            "en": "generation begins with one token",
            "zh": "生成从一个词元开始",
        },
        "mask_one.look": {
            "en": "n = 1",
            "zh": "n = 1",
        },
        "position_run.name": {
            "en": "it runs",
            "zh": "能运行",
        },
        "position_run.why": {
            "en": "nothing else can be asked of it",
            "zh": "否则其他性质都无从检查",
        },
        "position_run.look": {
            "en": "n, d_model -> (n, D); or (B, T, D) -> (B, T, D); or (B, H, T, E) -> (B, H, T, E)",
            "zh": "n, d_model → (n, D)；或 (B, T, D) → (B, T, D)；或 (B, H, T, E) → (B, H, T, E)",
        },
        "position_over_time.name": {
            "en": "positions run along time, and are the same for every row",
            "zh": "位置沿时间变化，每个样本相同",
        },
        "position_over_time.why": {
            "en": "else every token of a row gets the same position, and order stays invisible",
            "zh": "否则一行里所有词元位置相同，仍然分不清语序",
        },
        "position_over_time.look": {
            "en": "pe[:, :x.size(1)] for (B, T, D); if your batch comes second, say --expect time_first",
            "zh": "(B, T, D) 应写 pe[:, :x.size(1)]；若批次在第二维，请用 --expect time_first",
        },
        "position_adds.name": {
            "en": "the positions are added once",
            "zh": "位置只加一次",
        },
        "position_adds.why": {
            "en": "too large, they drown the words; not added, they are not there",
            "zh": "太大会淹没词向量；没加就不存在",
        },
        "position_adds.look": {
            "en": "x + pe, with x scaled by sqrt(D) at most",
            "zh": "x + pe；x 至多乘以 sqrt(D)",
        },
        "position_distinct.name": {
            "en": "no two positions are alike",
            "zh": "任意两个位置都不同",
        },
        "position_distinct.why": {
            "en": "two alike cannot be told apart by any layer",
            "zh": "相同的两个位置任何层都分不开",
        },
        "position_distinct.look": {
            "en": "the exponents; integer division",
            "zh": "指数；是否用了整除",
        },
        "position_begins.name": {
            "en": "it begins with position 0",
            "zh": "从位置 0 开始",
        },
        "position_begins.why": {
            "en": "the last position of a table is missing then, and cached steps are off by one",
            "zh": "否则表的最后一个位置会越界，带缓存的生成也会差一位",
        },
        "position_begins.look": {
            "en": "arange(n), and not arange(1, n + 1)",
            "zh": "用 arange(n)，而不是 arange(1, n + 1)",
        },
        "position_shift.name": {
            "en": "a shift by k is one linear map",
            "zh": "平移 k 是一个线性映射",
        },
        "position_shift.why": {
            "en": "so attention can learn 'k places back' once for all positions",
            "zh": "这样注意力就能学到“往前 k 个位置”，对所有位置通用",
        },
        "position_shift.look": {
            "en": "sine and cosine of a pair share the exponent 2i/D",
            "zh": "同一对正弦和余弦共用指数 2i/D",
        },
        "position_paper.name": {
            "en": "it is the paper's table",
            "zh": "与论文的公式一致",
        },
        "position_paper.why": {
            "en": "it was said to be",
            "zh": "要求如此",
        },
        "position_paper.look": {
            "en": "PE(p, 2i) = sin(p / 10000^(2i/D)), PE(p, 2i+1) = cos of the same angle",
            "zh": "PE(p, 2i) = sin(p / 10000^(2i/D))，PE(p, 2i+1) 为同一角度的余弦",
        },
        "position_dtype.name": {
            "en": "it keeps the type of the numbers",
            "zh": "保持数值类型",
        },
        "position_dtype.why": {
            "en": "in half precision, queries and values of different types crash or are slow",
            "zh": "半精度下，查询与值类型不同会崩溃或变慢",
        },
        "position_dtype.look": {
            "en": ".to(x.dtype) on the table, or on cosine and sine",
            "zh": "对表或 cos、sin 用 .to(x.dtype)",
        },
        "rotary_norms.name": {
            "en": "rotation changes no length",
            "zh": "旋转不改变长度",
        },
        "rotary_norms.why": {
            "en": "else scores depend on where a word stands, and not only on how far it is away",
            "zh": "否则分数取决于词的绝对位置，而不只是距离",
        },
        "rotary_norms.look": {
            "en": "(x1 cos - x2 sin, x1 sin + x2 cos), with the same pairs in both",
            "zh": "(x1 cos - x2 sin, x1 sin + x2 cos)，两处配对要一致",
        },
        "rotary_relative.name": {
            "en": "scores depend on the distance only",
            "zh": "分数只取决于距离",
        },
        "rotary_relative.why": {
            "en": "this is what rotary positions are for",
            "zh": "这正是旋转位置编码的目的",
        },
        "rotary_relative.look": {
            "en": "the angle: position times frequency, for queries and keys alike",
            "zh": "角度 = 位置 × 频率，查询和键相同",
        },
        "rotary_apart.name": {
            "en": "every row and head is turned alike",
            "zh": "每个样本、每个头旋转相同",
        },
        "rotary_apart.why": {
            "en": "position is about time only",
            "zh": "位置只与时间有关",
        },
        "rotary_apart.look": {
            "en": "the dimension that cosine and sine are spread over",
            "zh": "cos 和 sin 沿哪个维度广播",
        },
        "schedule_run.name": {
            "en": "it gives a rate for every update",
            "zh": "每次更新都有学习率",
        },
        "schedule_run.why": {
            "en": "an update with NaN destroys the model",
            "zh": "一次 NaN 更新就会毁掉模型",
        },
        "schedule_run.look": {
            "en": "roots and divisions",
            "zh": "开方与除法",
        },
        "schedule_once.name": {
            "en": "a step has one rate",
            "zh": "同一步只有一个学习率",
        },
        "schedule_once.why": {
            "en": "asking, for a log, would move the schedule",
            "zh": "为了记录而查询也会推动调度",
        },
        "schedule_once.look": {
            "en": "no counter inside the function",
            "zh": "函数内部不要计数",
        },
        "schedule_first.name": {
            "en": "the first update has a rate above 0",
            "zh": "第一次更新的学习率大于 0",
        },
        "schedule_first.why": {
            "en": "else the first update is made for nothing",
            "zh": "否则第一次更新白做",
        },
        "schedule_first.look": {
            "en": "count updates from 1: lambda step: f(step + 1)",
            "zh": "从 1 开始数更新：lambda step: f(step + 1)",
        },
        "schedule_zero.name": {
            "en": "step 0 does not crash",
            "zh": "第 0 步不崩溃",
        },
        "schedule_zero.why": {
            "en": "many loops count from 0, and 0 ** -0.5 is a division by zero",
            "zh": "很多循环从 0 数起，而 0 ** -0.5 就是除以零",
        },
        "schedule_zero.look": {
            "en": "max(step, 1), or step + 1",
            "zh": "max(step, 1)，或 step + 1",
        },
        "schedule_rises.name": {
            "en": "the warm-up is a straight line to the peak",
            "zh": "预热是一条到峰值的直线",
        },
        "schedule_rises.why": {
            "en": "Adam's second moment is unreliable in the first updates",
            "zh": "Adam 的二阶矩在最初几步不可靠",
        },
        "schedule_rises.look": {
            "en": "peak * step / warmup",
            "zh": "peak * step / warmup",
        },
        "schedule_peak.name": {
            "en": "the peak is where the warm-up ends",
            "zh": "峰值在预热结束处",
        },
        "schedule_peak.why": {
            "en": "a warm-up of another length is another experiment",
            "zh": "预热长度不同就是另一个实验",
        },
        "schedule_peak.look": {
            "en": "step < warmup, step <= warmup",
            "zh": "step < warmup 与 step <= warmup",
        },
        "schedule_falls.name": {
            "en": "after the peak it only falls",
            "zh": "峰值之后只降不升",
        },
        "schedule_falls.why": {
            "en": "a second rise undoes what was learned",
            "zh": "再次上升会破坏已学到的东西",
        },
        "schedule_falls.look": {
            "en": "the part after the warm-up",
            "zh": "预热之后的部分",
        },
        "schedule_paper.name": {
            "en": "it is the paper's",
            "zh": "与论文的公式一致",
        },
        "schedule_paper.why": {
            "en": "it was said to be",
            "zh": "要求如此",
        },
        "schedule_paper.look": {
            "en": "D ** -0.5 * min(t ** -0.5, t * w ** -1.5)",
            "zh": "D ** -0.5 * min(t ** -0.5, t * w ** -1.5)",
        },
        "cache_run.name": {
            "en": "it runs",
            "zh": "能运行",
        },
        "cache_run.why": {
            "en": "nothing else can be asked of it",
            "zh": "否则其他性质都无从检查",
        },
        "cache_run.look": {
            "en": "(x, cache=None) -> (y, cache)",
            "zh": "(x, cache=None) → (y, cache)",
        },
        "cache_causal.name": {
            "en": "no position sees a later one",
            "zh": "任何位置都看不到后面的位置",
        },
        "cache_causal.why": {
            "en": "a cache is right only where earlier tokens never change",
            "zh": "只有前面的词元不再变化，缓存才成立",
        },
        "cache_causal.look": {
            "en": "the causal mask of the whole",
            "zh": "整段计算时的因果掩码",
        },
        "cache_steps.name": {
            "en": "step by step it says what it says of the whole",
            "zh": "逐步计算与整段计算结果相同",
        },
        "cache_steps.why": {
            "en": "else a model writes other text than it was trained for, and nothing crashes",
            "zh": "否则模型生成的与训练的不一致，而且不会报错",
        },
        "cache_steps.look": {
            "en": "where the new keys are appended, and which positions they get",
            "zh": "新的键追加在哪里，位置是多少",
        },
        "cache_chunks.name": {
            "en": "so it does in pieces of any size",
            "zh": "任意分块也相同",
        },
        "cache_chunks.why": {
            "en": "a prompt is read at once, and then one token at a time",
            "zh": "提示一次读入，之后逐个词元",
        },
        "cache_chunks.look": {
            "en": "the causal mask of T queries over S keys: tril(diagonal=S - T)",
            "zh": "T 个查询、S 个键的因果掩码：tril(diagonal=S - T)",
        },
        "cache_apart.name": {
            "en": "a new text knows nothing of the one before",
            "zh": "新文本与上一段无关",
        },
        "cache_apart.why": {
            "en": "the cache belongs to the caller",
            "zh": "缓存属于调用者",
        },
        "cache_apart.look": {
            "en": "a cache that is kept on the module",
            "zh": "把缓存存在模块上",
        },
        "cache_rows.name": {
            "en": "rows do not see each other",
            "zh": "样本互不影响",
        },
        "cache_rows.why": {
            "en": "a text's result would depend on its batch",
            "zh": "否则结果取决于同批的其他文本",
        },
        "cache_rows.look": {
            "en": "cat along time: dim=2 for (B, H, S, E)",
            "zh": "沿时间拼接：(B, H, S, E) 用 dim=2",
        },
        "beam_run.name": {
            "en": "it runs",
            "zh": "能运行",
        },
        "beam_run.why": {
            "en": "nothing else can be asked of it",
            "zh": "否则其他性质都无从检查",
        },
        "beam_run.look": {
            "en": "search(next_log_probs, begin, end, width, max_new, length_penalty) -> [(tokens, score), ...]; "
            "next_log_probs(list of prefixes) -> (N, V)",
            "zh": "search(next_log_probs, begin, end, width, max_new, length_penalty) → [(tokens, score), "
            "...]；next_log_probs(前缀列表) → (N, V)",
        },
        "beam_scores.name": {
            "en": "a score is the sum of log-probabilities",
            "zh": "分数是对数概率之和",
        },
        "beam_scores.why": {
            "en": "else two texts cannot be compared",
            "zh": "否则两段文本无法比较",
        },
        "beam_scores.look": {
            "en": "every token counts, the end token too",
            "zh": "每个词元都要算，结束符也算",
        },
        "beam_greedy.name": {
            "en": "a width of 1 is greedy",
            "zh": "宽度 1 等于贪心",
        },
        "beam_greedy.why": {
            "en": "the simplest case must be the simple algorithm",
            "zh": "最简单的情形应是最简单的算法",
        },
        "beam_greedy.look": {
            "en": "which token is chosen at each step",
            "zh": "每一步选了哪个词元",
        },
        "beam_finished.name": {
            "en": "what has ended is kept, and not extended",
            "zh": "已结束的候选要保留，且不再延长",
        },
        "beam_finished.why": {
            "en": "short good texts are lost, or go on behind their end",
            "zh": "否则短而好的文本会丢失，或在结束符后继续",
        },
        "beam_finished.look": {
            "en": "a list of finished texts, compared with the live ones at the end",
            "zh": "把已结束的文本单独存放，最后与未结束的比较",
        },
        "beam_best.name": {
            "en": "a wide beam finds the best text there is",
            "zh": "足够宽时找到最优文本",
        },
        "beam_best.why": {
            "en": "with room for all prefixes nothing may be dropped",
            "zh": "容得下所有前缀时不应丢掉任何一个",
        },
        "beam_best.look": {
            "en": "topk over all prefixes times all tokens",
            "zh": "对“所有前缀 × 所有词元”取 topk",
        },
        "beam_sorted.name": {
            "en": "the best comes first, and none twice",
            "zh": "最好的在前，且不重复",
        },
        "beam_sorted.why": {
            "en": "who takes the first takes the best",
            "zh": "取第一个的人以为是最好的",
        },
        "beam_sorted.look": {
            "en": "sort by score before returning",
            "zh": "返回前按分数排序",
        },
        "beam_penalty.name": {
            "en": "one rule of length for all",
            "zh": "长度归一化规则一致",
        },
        "beam_penalty.why": {
            "en": "texts are compared under it",
            "zh": "文本按它来比较",
        },
        "beam_penalty.look": {
            "en": "sum / n ** alpha, with the same n everywhere",
            "zh": "sum / n ** alpha，n 处处一致",
        },
        "guessed": {
            "en": "taken for {kind} by what it does; --as says otherwise",
            "zh": "按其行为当作 {kind} 检查；可用 --as 改变",
        },
        "kind.attention": {
            "en": "an attention function",
            "zh": "注意力函数",
        },
        "kind.multi_head": {
            "en": "an attention with several heads",
            "zh": "多头注意力",
        },
        "kind.mask": {
            "en": "a mask",
            "zh": "掩码",
        },
        "kind.position": {
            "en": "positions",
            "zh": "位置编码",
        },
        "kind.encoder_layer": {
            "en": "a layer of an encoder",
            "zh": "编码器层",
        },
        "kind.decoder_layer": {
            "en": "a layer of a decoder",
            "zh": "解码器层",
        },
        "kind.feed_forward": {
            "en": "a feed-forward network",
            "zh": "前馈网络",
        },
        "kind.schedule": {
            "en": "a schedule of the learning rate",
            "zh": "学习率调度",
        },
        "kind.cache": {
            "en": "attention with a cache",
            "zh": "带缓存的注意力",
        },
        "kind.beam": {
            "en": "a beam search",
            "zh": "束搜索",
        },
        "mask_runs": {
            "en": "shape {shape}, {dtype}, made from {way}",
            "zh": "形状 {shape}，{dtype}，由 {way} 得到",
        },
        "mask_shape": {
            "en": "shape {got} is no mask ({rule}) for {n} tokens",
            "zh": "形状 {got} 不是 {n} 个词元的掩码（{rule}）",
        },
        "causal_no_self": {
            "en": "a token does not see itself: the diagonal is hidden",
            "zh": "词元看不到自己：对角线被遮住",
        },
        "causal_upper": {
            "en": "1 stands on the diagonal and above it: if 1 is what may be seen, a token sees only itself and what "
            "comes after; if 1 is hidden, it does not see itself",
            "zh": "对角线及其上方是 1：若 1 表示可以看，词元只能看到自己和后面的；若 1 表示遮住，它看不到自己",
        },
        "causal_upper.look": {
            "en": "tril() for what may be seen, triu(1) for what is hidden",
            "zh": "可以看的用 tril()，要遮住的用 triu(1)",
        },
        "padding_fixed": {
            "en": "it hides the id 0, and not the one that it is given as padding",
            "zh": "它遮住的是编号 0，而不是给它的填充编号",
        },
        "causal_one_ahead": {
            "en": "a token sees the next one: the diagonal is one off",
            "zh": "词元能看到下一个：对角线差一位",
        },
        "causal_all": {
            "en": "nothing is hidden",
            "zh": "什么都没遮住",
        },
        "causal_transposed": {
            "en": "the past is hidden, and the future is seen: it is transposed",
            "zh": "遮住了过去，却能看到未来：转置了",
        },
        "padding_last": {
            "en": "the last real token of each row is hidden",
            "zh": "每行最后一个真实词元被遮住",
        },
        "padding_first": {
            "en": "the first token of the padding is seen",
            "zh": "填充的第一个位置能被看到",
        },
        "padding_queries": {
            "en": "rows (queries) are hidden, and not columns (keys)",
            "zh": "遮住的是行（查询），而不是列（键）",
        },
        "padding_none": {
            "en": "no padding is hidden",
            "zh": "没有遮住任何填充",
        },
        "both_no_padding": {
            "en": "it is causal, but hides no padding",
            "zh": "只有因果部分，没有遮住填充",
        },
        "both_or": {
            "en": "padding or the past: the two are joined by 'or', and must be joined by 'and'",
            "zh": "两个条件用“或”连接了，应该用“与”",
        },
        "both_queries": {
            "en": "padded queries are hidden, and not padded keys",
            "zh": "遮住的是填充的查询，而不是填充的键",
        },
        "mask_wrong": {
            "en": "{wrong} places are wrong; the first: row {row}, query {query}, key {other}",
            "zh": "有 {wrong} 处错误；第一处：样本 {row}，查询 {query}，键 {other}",
        },
        "spreads_good": {
            "en": "shape {shape}",
            "zh": "形状 {shape}",
        },
        "spreads_keys": {
            "en": "shape {shape}: a mask of keys (B, S); attention has to unsqueeze it",
            "zh": "形状 {shape}：键的掩码 (B, S)；注意力里要 unsqueeze",
        },
        "spreads_rows": {
            "en": "shape {shape}: attention has to put the heads in between ([:, None])",
            "zh": "形状 {shape}：注意力里要插入头的维度（[:, None]）",
        },
        "spreads_bad": {
            "en": "shape {got} does not spread over (B, H, T, S)",
            "zh": "形状 {got} 不能广播到 (B, H, T, S)",
        },
        "one_good": {
            "en": "its one place is {value}",
            "zh": "唯一的位置为 {value}",
        },
        "not_from_length": {
            "en": "it is not made from a length",
            "zh": "它不是由长度得到的",
        },
        "position_runs": {
            "en": "{kind}, {shape}",
            "zh": "{kind}，{shape}",
        },
        "rotary_runs": {
            "en": "a rotation of {order}",
            "zh": "对 {order} 的旋转",
        },
        "position_shape": {
            "en": "shape {got}; it must be {wanted}",
            "zh": "形状 {got}，应为 {wanted}",
        },
        "rotary_pairs.name": {"en": "every pair turns, each at its own speed", "zh": "每一对都旋转，且速度各不相同"},
        "rotary_pairs.why": {
            "en": "fast pairs tell neighbours apart, slow ones tell far from near",
            "zh": "快的维度对区分相邻位置，慢的区分远近",
        },
        "rotary_pairs.look": {
            "en": "the frequencies: base ** (-2 i / E) as floating-point numbers, i = 0 .. E/2 - 1",
            "zh": "频率：base ** (-2 i / E)，用浮点数计算，i = 0 .. E/2 - 1",
        },
        "rotary_few": {
            "en": "only {turned} of {width} numbers turn; the others are the same at every position",
            "zh": "{width} 个数中只有 {turned} 个旋转；其余的在每个位置都相同",
        },
        "rotary_one_speed": {"en": "all pairs turn at one speed", "zh": "所有维度对的旋转速度相同"},
        "pairs_good": {"en": "{turned} of {width} numbers turn", "zh": "{width} 个数中有 {turned} 个旋转"},
        "position_near.name": {"en": "neighbouring positions are alike", "zh": "相邻位置相似"},
        "position_near.why": {
            "en": "waves of many lengths tell how far apart two positions are; if all are short, near looks like far",
            "zh": "波长各异才能表示两个位置相距多远；若全是短波，远近就没有区别",
        },
        "position_near.look": {
            "en": "the exponent: 10000 ** (-2 i / D), from 1 down to almost 1 / 10000",
            "zh": "指数：10000 ** (-2 i / D)，从 1 降到接近 1 / 10000",
        },
        "position_offset.name": {"en": "it can begin at a later place", "zh": "可以从后面的位置开始"},
        "position_offset.why": {
            "en": "what comes after a cache is not at place 0: with the wrong place, it reads the past wrongly",
            "zh": "缓存之后的词元不在位置 0：位置错了，就会读错前文",
        },
        "position_offset.look": {
            "en": "the slice of the table: [offset : offset + T]",
            "zh": "表的切片：[offset : offset + T]",
        },
        "position_offset_bad": {
            "en": "with {name}={begin} it is not what a longer input has from place {begin} on (off by {off})",
            "zh": "{name}={begin} 时，与更长输入从位置 {begin} 起的结果不同（相差 {off}）",
        },
        "offset_good": {
            "en": "with {name}={begin} it goes on as a longer input does",
            "zh": "{name}={begin} 时，与更长输入的后半部分一致",
        },
        "no_offset": {"en": "no argument says where it begins", "zh": "没有参数指定起始位置"},
        "position_still": {
            "en": "only {moving} of {width} numbers differ from place to place, over {n} places",
            "zh": "{n} 个位置上，{width} 个数中只有 {moving} 个随位置变化",
        },
        "position_base": {
            "en": "its waves are powers of 1/{base}, and not of 1/10000: it repeats itself after a few hundred places",
            "zh": "它的波长按 {base} 的幂增长，而不是 10000：几百个位置后就会重复",
        },
        "position_base.look": {
            "en": "exp(-2i ln(10000) / D): math.log is the natural one, math.log10 is not",
            "zh": "exp(-2i ln(10000) / D)：math.log 是自然对数，math.log10 不是",
        },
        "unlisted": {
            "en": "it learns with numbers that are not among its parameters(), of shape {shapes}: no optimizer is "
            "given them, and no file keeps them",
            "zh": "参与计算、需要梯度的数（形状 {shapes}）不在 parameters() 中：优化器得不到它们，保存时也会丢失",
        },
        "position_far": {
            "en": "neighbours have a mean cosine of {near}: the waves are shorter than a step",
            "zh": "相邻位置的平均余弦为 {near}：波长比一步还短",
        },
        "position_one_wave": {"en": "all columns are one wave", "zh": "所有列都是同一个波"},
        "near_good": {"en": "neighbours have a mean cosine of {near}", "zh": "相邻位置的平均余弦为 {near}"},
        "no_waves": {"en": "no table of sines and cosines", "zh": "不是正弦余弦表"},
        "position_same": {
            "en": "positions {a} and {b} are alike",
            "zh": "位置 {a} 与 {b} 相同",
        },
        "distinct_good": {
            "en": "the nearest two of {n} are {nearest} apart",
            "zh": "{n} 个位置中最近的两个相距 {nearest}",
        },
        "position_over_rows": {
            "en": "positions run along the batch: all tokens of a row get the same one",
            "zh": "位置沿批次变化：一行里所有词元相同",
        },
        "position_rows_differ": {
            "en": "rows get different positions",
            "zh": "不同样本得到不同的位置",
        },
        "over_time_good": {
            "en": "they differ along time only",
            "zh": "只沿时间变化",
        },
        "adds_good": {
            "en": "y(x) - y(0) = {factor} x",
            "zh": "y(x) - y(0) = {factor} x",
        },
        "position_not_added": {
            "en": "y(x) - y(0) is no multiple of x: something else is done to it",
            "zh": "y(x) - y(0) 不是 x 的倍数：还做了别的事",
        },
        "position_factor": {
            "en": "the input is multiplied by {factor}; usual are 1 and sqrt(D) = {root}",
            "zh": "输入乘以了 {factor}；通常是 1 或 sqrt(D) = {root}",
        },
        "position_twice": {
            "en": "they are added twice ({times} times)",
            "zh": "位置加了两次（{times} 倍）",
        },
        "position_scaled": {
            "en": "they are added {times} times",
            "zh": "位置被加了 {times} 倍",
        },
        "begins_good": {
            "en": "the first position is not turned",
            "zh": "第一个位置不旋转",
        },
        "begins_known": {
            "en": "row 0 is row 0 of a table ({name})",
            "zh": "第 0 行就是表（{name}）的第 0 行",
        },
        "position_begins": {
            "en": "its first row is that of position {offset}",
            "zh": "第一行是位置 {offset} 的",
        },
        "rotary_begins": {
            "en": "the first position is turned already, by {off}",
            "zh": "第一个位置已经被旋转（{off}）",
        },
        "begins_unknown": {
            "en": "the table is none that is known here",
            "zh": "不是已知的表",
        },
        "shift_good": {
            "en": "PE(p + k) = M PE(p) to {residual}, over {n} positions",
            "zh": "PE(p + k) = M PE(p)，误差 {residual}，共 {n} 个位置",
        },
        "position_unregistered": {
            "en": "the table is a plain tensor of random numbers: no optimizer, no checkpoint and no .to() knows it",
            "zh": "位置表是普通的随机张量：优化器、检查点和 .to() 都不知道它",
        },
        "position_unregistered.look": {
            "en": "nn.Parameter(torch.randn(max_len, d_model))",
            "zh": "nn.Parameter(torch.randn(max_len, d_model))",
        },
        "position_prefix.name": {
            "en": "a place does not depend on how many follow",
            "zh": "位置与后面有多少词元无关",
        },
        "position_prefix.why": {
            "en": "a text of another length, or the same text one token later, would stand elsewhere",
            "zh": "否则文本长度一变（例如生成时多了一个词元），所有位置都会改变",
        },
        "position_prefix.look": {
            "en": "pe[:T] from the front; no flip, no slice from the end, nothing divided by T",
            "zh": "从头取 pe[:T]；不翻转，不从末尾切片，不除以 T",
        },
        "position_of_length": {
            "en": "the first places of a longer text differ by {off} from those of a shorter one",
            "zh": "长文本开头的位置与短文本的位置相差 {off}",
        },
        "prefix_good": {
            "en": "a shorter text has the first ones of a longer one",
            "zh": "短文本的位置就是长文本的前几个位置",
        },
        "position_exponent": {
            "en": "the exponent is doubled: 2 i / D, where i counts in twos already",
            "zh": "指数多乘了 2：i 已按 2 递增，却仍写成 2 i / D",
        },
        "position_learns.name": {"en": "the gradient passes", "zh": "梯度能通过"},
        "position_learns.why": {
            "en": "what stands in front of it, the embeddings, would never learn",
            "zh": "否则它前面的词向量永远学不到东西",
        },
        "position_learns.look": {"en": "detach(), no_grad(), .data", "zh": "detach()、no_grad()、.data"},
        "learns_good": {"en": "it reaches the input and all that is learned", "zh": "梯度到达输入和所有参数"},
        "shift_none": {
            "en": "no linear map takes PE(p) to PE(p + k): the best one misses by {residual}",
            "zh": "没有线性映射把 PE(p) 变为 PE(p + k)：最好的也差 {residual}",
        },
        "shift_short": {
            "en": "{n} positions are too few to tell",
            "zh": "{n} 个位置太少，无法判断",
        },
        "paper_good": {
            "en": "differs by {off}",
            "zh": "相差 {off}",
        },
        "paper_other": {
            "en": "differs by {off} from the formula",
            "zh": "与公式相差 {off}",
        },
        "dtype_finer": {
            "en": "bfloat16 becomes {got}: cast it back before it meets numbers of the old type",
            "zh": "bfloat16 变成 {got}：与原类型的数相遇之前请转回来",
        },
        "dtype_good": {
            "en": "bfloat16 stays bfloat16",
            "zh": "bfloat16 仍为 bfloat16",
        },
        "position_dtype": {
            "en": "bfloat16 becomes {got}",
            "zh": "bfloat16 变成了 {got}",
        },
        "norms_good": {
            "en": "lengths are kept to {off}",
            "zh": "长度误差 {off}",
        },
        "rotary_norm": {
            "en": "lengths change by {off}",
            "zh": "长度变化 {off}",
        },
        "rotary_absolute": {
            "en": "the same pair at the same distance scores differently, by {off}",
            "zh": "同样的距离、同样的一对，分数相差 {off}",
        },
        "rotary_still": {
            "en": "scores do not depend on the distance at all",
            "zh": "分数与距离完全无关",
        },
        "relative_good": {
            "en": "equal along each diagonal, to {off}",
            "zh": "沿对角线相等，误差 {off}",
        },
        "rotary_rows": {
            "en": "rows or heads are turned differently, by {off}",
            "zh": "不同样本或头的旋转相差 {off}",
        },
        "apart_good": {
            "en": "alike",
            "zh": "相同",
        },
        "other_kind": {
            "en": "it is asked of others, not of a {kind}",
            "zh": "此项不适用于 {kind}",
        },
        "learned": {
            "en": "its positions are learned",
            "zh": "位置是学习得到的",
        },
        "not_claimed": {
            "en": "it was not said to be; --expect paper asks for it",
            "zh": "没有要求；用 --expect paper 检查",
        },
        "schedule_runs": {
            "en": "first {first}, tenth {tenth}",
            "zh": "第 1 步 {first}，第 10 步 {tenth}",
        },
        "schedule_negative": {
            "en": "the rate of update {step} is {rate}",
            "zh": "第 {step} 次更新的学习率为 {rate}",
        },
        "first_good": {
            "en": "{rate}",
            "zh": "{rate}",
        },
        "schedule_first": {
            "en": "it is 0",
            "zh": "为 0",
        },
        "schedule_zero": {
            "en": "step 0 gives {what}",
            "zh": "第 0 步得到 {what}",
        },
        "zero_good": {
            "en": "step 0 gives {rate}",
            "zh": "第 0 步为 {rate}",
        },
        "once_good": {
            "en": "asked twice, it says the same",
            "zh": "查询两次结果相同",
        },
        "schedule_counts": {
            "en": "asked twice for step 7 it says {first} and then {second}",
            "zh": "对第 7 步查询两次，先得 {first}，后得 {second}",
        },
        "rises_good": {
            "en": "in equal steps to {top} at update {peak}",
            "zh": "匀速升到第 {peak} 次更新的 {top}",
        },
        "schedule_no_warmup": {
            "en": "it begins at its peak: there is no warm-up",
            "zh": "一开始就在峰值：没有预热",
        },
        "schedule_twice": {
            "en": "updates {step} and the next have the same rate",
            "zh": "第 {step} 次更新与下一次的学习率相同",
        },
        "schedule_bent": {
            "en": "it is no straight line up to update {peak} (off by {off} of the peak)",
            "zh": "到第 {peak} 次更新之前不是直线（偏离峰值的 {off}）",
        },
        "schedule_peak": {
            "en": "the peak is at update {peak}; the warm-up is {warmup}",
            "zh": "峰值在第 {peak} 次更新；预热为 {warmup}",
        },
        "peak_good": {
            "en": "update {peak} of a warm-up of {warmup}",
            "zh": "第 {peak} 次更新，预热 {warmup}",
        },
        "no_warmup_named": {
            "en": "it has no argument for the warm-up",
            "zh": "没有预热参数",
        },
        "schedule_only_rises": {
            "en": "after {most} updates it still rises: that is no schedule",
            "zh": "{most} 次更新之后仍在上升：这不是学习率调度",
        },
        "schedule_only_rises.look": {
            "en": "what makes it fall; and whether this is a schedule at all: --as says otherwise",
            "zh": "是什么让它下降；以及它是不是调度函数：可用 --as 改变",
        },
        "schedule_never_falls": {
            "en": "after the warm-up it stays at {top}, though {claim} is among its arguments",
            "zh": "预热之后一直停在 {top}，但它的参数里有 {claim}",
        },
        "schedule_never_falls.look": {
            "en": "the other half of min(...): step ** -0.5; the branch behind the warm-up",
            "zh": "min(...) 的另一半：step ** -0.5；预热之后的分支",
        },
        "schedule_no_pi": {
            "en": "it falls as cos(share) does, from 1 to cos(1) = 0.54, and stops half way up",
            "zh": "它按 cos(比例) 下降，只从 1 降到 cos(1) = 0.54，停在半途",
        },
        "schedule_no_pi.look": {"en": "cos(pi * share)", "zh": "cos(pi * 比例)"},
        "schedule_rises_again": {
            "en": "it rises again at update {step}",
            "zh": "第 {step} 次更新又上升了",
        },
        "schedule_jumps": {
            "en": "it falls by {jump} of the peak in one update",
            "zh": "一次更新就下降了峰值的 {jump}",
        },
        "schedule_other_shape": {
            "en": "it falls as {shape}, and was to be {expected}",
            "zh": "按 {shape} 下降，而要求是 {expected}",
        },
        "falls_good": {
            "en": "as {shape}",
            "zh": "按 {shape} 下降",
        },
        "falls_other": {
            "en": "in a way that has no name here",
            "zh": "下降方式不在已知之列",
        },
        "schedule_late": {
            "en": "update {step} has the rate of the one before",
            "zh": "第 {step} 次更新用的是上一次的学习率",
        },
        "schedule_not_paper": {
            "en": "update {step} has {rate}; the formula says {wanted}",
            "zh": "第 {step} 次更新为 {rate}；公式给出 {wanted}",
        },
        "schedule_paper_good": {
            "en": "D = {d_model}, warm-up {warmup}",
            "zh": "D = {d_model}，预热 {warmup}",
        },
        "is_scheduler": {
            "en": "it is a scheduler of torch",
            "zh": "它是 torch 的调度器",
        },
        "cache_runs": {
            "en": "output {shape}, cache through {name}",
            "zh": "输出 {shape}，缓存参数为 {name}",
        },
        "cache_shape": {
            "en": "the output has shape {got}; it must be {wanted}",
            "zh": "输出形状为 {got}，应为 {wanted}",
        },
        "cache_future": {
            "en": "position {query} of the whole depends on position {other}",
            "zh": "整段计算时，位置 {query} 依赖位置 {other}",
        },
        "cache_causal_good": {
            "en": "the whole is causal",
            "zh": "整段计算满足因果性",
        },
        "steps_good": {
            "en": "differs by {off}",
            "zh": "相差 {off}",
        },
        "cache_doubled": {
            "en": "from step {step} on it differs ({off}); the cache grows by {growth} entries a token: what was there "
            "is appended again",
            "zh": "从第 {step} 步起不同（{off}）；每个词元缓存增长 {growth} 份：已有内容又被追加了一遍",
        },
        "cache_no_self": {
            "en": "from step {step} on it differs ({off}): a token does not see itself",
            "zh": "从第 {step} 步起不同（{off}）：词元看不到自己",
        },
        "cache_forgets": {
            "en": "from step {step} on it differs ({off}): no token sees an earlier one, the cache is not read",
            "zh": "从第 {step} 步起不同（{off}）：看不到更早的词元，缓存没有被读取",
        },
        "cache_drops_first": {
            "en": "from step {step} on it differs ({off}): the first token is lost from the cache",
            "zh": "从第 {step} 步起不同（{off}）：缓存丢了第一个词元",
        },
        "cache_one_off": {
            "en": "from step {step} on it differs ({off}): a token does not see the one right before it, the cache is "
            "one off",
            "zh": "从第 {step} 步起不同（{off}）：看不到紧邻的前一个词元，缓存差一位",
        },
        "cache_misses": {
            "en": "from step {step} on it differs ({off}): position {query} does not see position {other}",
            "zh": "从第 {step} 步起不同（{off}）：位置 {query} 看不到位置 {other}",
        },
        "cache_positions": {
            "en": "from step {step} on it differs ({off}), although each token sees those before it: their positions "
            "are not those of the whole",
            "zh": "从第 {step} 步起不同（{off}），但每个词元都看得到之前的词元：位置与整段计算时不同",
        },
        "cache_differs": {
            "en": "it differs from the first token on ({off})",
            "zh": "从第一个词元起就不同（{off}）",
        },
        "chunks_good": {
            "en": "3, 2 and 1 tokens at a time: differs by {off}",
            "zh": "每次 3、2、1 个词元：相差 {off}",
        },
        "chunks_bad": {
            "en": "3, 2 and 1 tokens at a time it differs by {off}",
            "zh": "每次 3、2、1 个词元时相差 {off}",
        },
        "cache_kept": {
            "en": "the second text changes what is said of the first, by {off}",
            "zh": "第二段文本使第一段的结果变化 {off}",
        },
        "apart_good_cache": {
            "en": "two texts, one after the other, are as if alone",
            "zh": "先后两段文本互不影响",
        },
        "cache_rows": {
            "en": "another row moves this one by {off}",
            "zh": "其他样本使本样本变化 {off}",
        },
        "cache_rows_good": {
            "en": "another row changes nothing",
            "zh": "改变其他样本没有影响",
        },
        "beam_runs": {
            "en": "{n} texts for a width of 2",
            "zh": "宽度为 2 时返回 {n} 段文本",
        },
        "beam_nothing": {
            "en": "it returns nothing",
            "zh": "什么都没有返回",
        },
        "beam_not_greedy": {
            "en": "a width of 1 gives {got}; greedy is {wanted}",
            "zh": "宽度 1 得到 {got}；贪心为 {wanted}",
        },
        "greedy_good": {
            "en": "9 distributions",
            "zh": "9 个分布",
        },
        "beam_not_best": {
            "en": "with room for everything it gives {got}; the best text is {wanted}",
            "zh": "容得下一切时得到 {got}；最优文本是 {wanted}",
        },
        "exhaustive_good": {
            "en": "40 distributions of {texts} texts each, all tried",
            "zh": "40 个分布，每个 {texts} 段文本，全部枚举",
        },
        "beam_loses": {
            "en": "{text} ended early and is the best; it is lost",
            "zh": "{text} 提前结束且最优，却丢失了",
        },
        "beam_goes_on": {
            "en": "a text goes on behind its end token",
            "zh": "文本在结束符之后继续",
        },
        "finished_good": {
            "en": "early ends are kept",
            "zh": "提前结束的文本被保留",
        },
        "beam_probabilities": {
            "en": "the score {score} is a probability; the sum of logarithms is {wanted}",
            "zh": "分数 {score} 是概率；对数之和为 {wanted}",
        },
        "beam_end_free": {
            "en": "the score {score} leaves the end token out; with it, it is {wanted}",
            "zh": "分数 {score} 漏了结束符；算上为 {wanted}",
        },
        "beam_always_mean": {
            "en": "the score {score} is a mean although no length penalty was asked for; the sum is {wanted}",
            "zh": "没有要求长度归一化，分数 {score} 却是平均；总和为 {wanted}",
        },
        "beam_score": {
            "en": "the score of {text} is {score}; the sum of log-probabilities is {wanted}",
            "zh": "{text} 的分数为 {score}；对数概率之和为 {wanted}",
        },
        "scores_good": {
            "en": "equal to the sum, the end token included",
            "zh": "等于总和（含结束符）",
        },
        "beam_unsorted": {
            "en": "scores come as {scores}",
            "zh": "分数顺序为 {scores}",
        },
        "beam_repeats": {
            "en": "a text comes twice",
            "zh": "同一文本出现两次",
        },
        "sorted_good": {
            "en": "{n} different texts in falling order",
            "zh": "{n} 段不同文本，按分数降序",
        },
        "penalty_good": {
            "en": "the sum divided by {rule}",
            "zh": "总和除以 {rule}",
        },
        "beam_penalty": {
            "en": "with a length penalty of 1 the scores follow no rule that is known here",
            "zh": "长度惩罚为 1 时，分数不符合任何已知规则",
        },
        "no_penalty": {
            "en": "it has no argument for a length penalty",
            "zh": "没有长度惩罚参数",
        },
    }
)
"""By key and language."""
