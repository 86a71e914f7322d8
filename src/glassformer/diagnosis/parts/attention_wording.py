"""What is said of attention: its properties, and what can be wrong with it."""

from __future__ import annotations

from glassformer.core.wording import Catalogue

MEANINGS = {
    "keep": {"en": "True = may be seen", "zh": "True 表示可以看"},
    "hide": {"en": "True = hidden", "zh": "True 表示遮住"},
    "additive": {"en": "added, 0 or -inf", "zh": "相加，0 或 -inf"},
    "keep_number": {"en": "1 = may be seen", "zh": "1 表示可以看"},
    "hide_number": {"en": "1 = hidden", "zh": "1 表示遮住"},
    "length": {"en": "how many may be seen", "zh": "可见的个数"},
}
"""What the numbers of a mask say, as it was found out."""


def for_each_meaning(key: str, english: str, chinese: str) -> dict[str, dict[str, str]]:
    """Return a message once for each meaning of a mask, which stands at its `{meaning}`."""
    return {
        f"{key}.{name}": {
            "en": english.replace("{meaning}", said["en"]),
            "zh": chinese.replace("{meaning}", said["zh"]),
        }
        for name, said in MEANINGS.items()
    }


EQUATION_WHY = {
    "en": "a fresh model may still learn with it, but what it learns is not attention",
    "zh": "模型也许仍能训练，但学到的不是注意力",
}

WORDS = Catalogue(
    {
        "attention_runs.name": {"en": "it runs", "zh": "能运行"},
        "attention_runs.why": {
            "en": "nothing else can be asked of it",
            "zh": "否则其他性质都无从检查",
        },
        "attention_runs.look": {
            "en": "the shapes: q (B, H, T, E), k and v (B, H, S, E), output (B, H, T, E)",
            "zh": "形状：q (B, H, T, E)，k 与 v (B, H, S, E)，输出 (B, H, T, E)",
        },
        "attention_runs_flat": {
            "en": "the output has shape {shape}; it works on one row and one head only, (T, E), not on (B, H, T, E)",
            "zh": "输出形状为 {shape}；它只适用于一个样本、一个头，即 (T, E)，不能用于 (B, H, T, E)",
        },
        "attention_runs": {"en": "the output has shape {shape}", "zh": "输出形状为 {shape}"},
        "attention_shape": {
            "en": "the output has shape {got}; it must be {wanted}",
            "zh": "输出形状为 {got}，应为 {wanted}",
        },
        "attention_repeats.name": {
            "en": "the same input gives the same output",
            "zh": "相同输入得到相同输出",
        },
        "attention_repeats.why": {
            "en": "what is used after training must not be random",
            "zh": "训练结束后的使用不应带随机性",
        },
        "attention_repeats.look": {
            "en": "dropout: only while training (F.dropout(x, p, self.training))",
            "zh": "dropout 只在训练时生效（F.dropout(x, p, self.training)）",
        },
        "repeats_good": {"en": "two calls agree to the last bit", "zh": "两次调用逐位相同"},
        "dropout_on": {
            "en": "two calls differ by {change}: dropout is on although nothing is being trained",
            "zh": "两次调用相差 {change}：没有在训练，dropout 却仍然打开",
        },
        "input_changed": {
            "en": "what was handed in was overwritten: a second call with it gives something else",
            "zh": "传入的张量被改写：再用它调用一次，结果就不同了",
        },
        "input_changed.why": {
            "en": "the caller's tensor is not yours to write to, and autograd needs it as it was",
            "zh": "调用者的张量不应被改写，自动求导也需要它原来的值",
        },
        "input_changed.look": {
            "en": "x = x + f(x), not x += f(x); no operation with a trailing underscore on an input",
            "zh": "写 x = x + f(x)，而不是 x += f(x)；不要对输入使用带下划线的原地操作",
        },
        "attention_equation.name": {
            "en": "softmax(q k^T / sqrt(E)) v",
            "zh": "softmax(q k^T / sqrt(E)) v",
        },
        "attention_equation.why": EQUATION_WHY,
        "attention_equation.look": {
            "en": "each line of the function beside the equation",
            "zh": "把函数的每一行与公式对照",
        },
        "equation_good": {"en": "differs by {off} from the reference", "zh": "与参考实现相差 {off}"},
        "equation_causal": {"en": "right, and causal by itself", "zh": "正确，且自带因果掩码"},
        "mask_always": {
            "en": "what comes later is hidden although no mask was given",
            "zh": "没有给掩码，却仍然遮住了后面的位置",
        },
        "mask_always.look": {
            "en": "is_causal=True, or a triangle inside: whether there is one is for the caller to say",
            "zh": "is_causal=True 或内部的三角掩码：是否因果应由调用者决定",
        },
        "mask_other": {
            "en": "with a mask it differs by {off} from the reference: some query is given another one's mask",
            "zh": "带掩码时与参考实现相差 {off}：有的查询用了别人的掩码",
        },
        "argument_ignored": {
            "en": "another {name} changes nothing",
            "zh": "换一个 {name}，结果不变",
        },
        "argument_ignored.why": {
            "en": "in self-attention it does not show; in cross-attention it reads the wrong text",
            "zh": "在自注意力中看不出来；在交叉注意力中就读错了文本",
        },
        "argument_ignored.look": {
            "en": "q = W_q(query), k = W_k(key), v = W_v(value): each from its own argument",
            "zh": "q = W_q(query)，k = W_k(key)，v = W_v(value)：各来自自己的参数",
        },
        "unlisted_first": {
            "en": "it computes with numbers that are not its parameters: that comes first",
            "zh": "它用了不属于自己参数的数：应先解决这个问题",
        },
        "unlisted": {
            "en": "it learns with numbers that are not among its parameters(), of shape {shapes}: no optimizer is "
            "given them, and no file keeps them",
            "zh": "参与计算、需要梯度的数（形状 {shapes}）不在 parameters() 中：优化器得不到它们，保存时也会丢失",
        },
        "unlisted.look": {
            "en": "a plain list or dict of modules: nn.ModuleList, nn.ModuleDict, nn.Sequential, nn.Parameter",
            "zh": "普通的 list 或 dict 里放了模块：应使用 nn.ModuleList、nn.ModuleDict、nn.Sequential、nn.Parameter",
        },
        "heads_placed": {
            "en": "{heads} heads of softmax(scores) v, whose scores know the distance",
            "zh": "{heads} 个头，各为 softmax(分数) v，分数中含有相对位置",
        },
        "heads_know": {"en": "its scores know the distance", "zh": "它的分数中含有相对位置"},
        "heads_cross.name": {"en": "it reads the other sequence that it is given", "zh": "读取给它的另一个序列"},
        "heads_cross.why": {
            "en": "cross-attention asks with one text and looks at another one, which is longer or shorter",
            "zh": "交叉注意力用一段文本查询另一段，两者长度不同",
        },
        "heads_cross.look": {
            "en": "where k and v come from, and lengths that are taken from the query",
            "zh": "k 与 v 来自哪里；是否把查询的长度用在了键上",
        },
        "cross_read": {"en": "{T} queries read {S} keys and values", "zh": "{T} 个查询读取 {S} 个键与值"},
        "cross_crash": {
            "en": "{T} queries and {S} keys and values do not work: {what}",
            "zh": "{T} 个查询配 {S} 个键与值时出错：{what}",
        },
        "cross_unread": {"en": "another {name} changes nothing", "zh": "换一个 {name}，结果不变"},
        "cross_default": {
            "en": "without {name} it gives something else than with the second argument in its place",
            "zh": "省略 {name} 时的结果，与用第二个参数代替它时不同",
        },
        "cross_default.look": {
            "en": "what stands in for it: the second argument, not the query",
            "zh": "省略时用什么代替：应是第二个参数，而不是查询",
        },
        "cross_width": {"en": "the other sequence has another width", "zh": "另一个序列的宽度不同"},
        "no_second": {"en": "it takes one sequence", "zh": "它只接受一个序列"},
        "matrix_idle": {"en": "{name} is not used: that comes first", "zh": "{name} 没有被使用：应先解决这个问题"},
        "equation_other": {
            "en": "differs by {off} from the reference, and no known fault explains it",
            "zh": "与参考实现相差 {off}，已知的错误都不能解释",
        },
        "scale_none": {
            "en": "the scores are not divided by sqrt(E): without the division the result is reproduced exactly",
            "zh": "分数没有除以 sqrt(E)：去掉除法恰好得到同样的结果",
        },
        "scale_none.why": {
            "en": "q.k has variance E; a softmax of such numbers is nearly one-hot, and its gradient is nearly zero",
            "zh": "q·k 的方差是 E；对这么大的数做 softmax 几乎是 one-hot，梯度几乎为零",
        },
        "scale_none.look": {
            "en": "the line with q @ k.transpose(-2, -1)",
            "zh": "q @ k.transpose(-2, -1) 那一行",
        },
        "scale_d_k": {
            "en": "the scores are divided by E, and not by its square root",
            "zh": "分数除以了 E，而不是 E 的平方根",
        },
        "scale_d_k.why": {
            "en": "q.k has standard deviation sqrt(E); divided by E, all keys look alike and attention is an average",
            "zh": "q·k 的标准差是 sqrt(E)；除以 E 后各个键几乎一样，注意力退化成平均",
        },
        "scale_d_k.look": {"en": "math.sqrt is missing", "zh": "缺少 math.sqrt"},
        "scale_d_model": {
            "en": "the scores are divided by sqrt(D), and not by sqrt(E) with E = D / H, the width of one head",
            "zh": "分数除以了 sqrt(D)，而不是 sqrt(E)；E = D / H 是一个头的宽度",
        },
        "scale_d_model.why": {
            "en": "q.k is a sum over the E numbers of one head: this makes attention flatter by sqrt(H)",
            "zh": "q·k 只对一个头的 E 个数求和：这样注意力会被压平 sqrt(H) 倍",
        },
        "scale_d_model.look": {
            "en": "q.size(-1) after the split into heads",
            "zh": "用拆头之后的 q.size(-1)",
        },
        "scale_times": {
            "en": "the scores are multiplied by sqrt(E), and not divided by it",
            "zh": "分数乘以了 sqrt(E)，而不是除以它",
        },
        "scale_times.look": {"en": "* where / belongs", "zh": "该用 / 的地方用了 *"},
        "scale_keys": {
            "en": "the scores are divided by the square root of the number of keys, and not by sqrt(E)",
            "zh": "分数除以了键个数的平方根，而不是 sqrt(E)",
        },
        "scale_keys.look": {"en": "size(-1) and size(-2) confused", "zh": "size(-1) 与 size(-2) 混淆"},
        "scale_other": {
            "en": "the scores are multiplied by {factor}; with E = {d_head} it must be 1/sqrt(E) = {wanted}",
            "zh": "分数乘以了 {factor}；E = {d_head} 时应为 1/sqrt(E) = {wanted}",
        },
        "scale_other.look": {"en": "the scale", "zh": "缩放因子"},
        "axis_queries": {
            "en": "the softmax goes over the queries, and not over the keys: columns sum to one, rows do not",
            "zh": "softmax 沿查询而不是沿键进行：列和为一，行和不为一",
        },
        "axis_queries.why": {
            "en": "what one position receives then depends on all other queries, also on those that come later",
            "zh": "一个位置得到的内容会依赖所有其他查询，包括后面的查询",
        },
        "axis_queries.look": {"en": "softmax(dim=-1)", "zh": "softmax(dim=-1)"},
        "axis_heads": {
            "en": "the softmax goes over the heads, and not over the keys",
            "zh": "softmax 沿头而不是沿键进行",
        },
        "axis_heads.look": {"en": "softmax(dim=-1)", "zh": "softmax(dim=-1)"},
        "axis_batch": {
            "en": "the softmax goes over the batch: each row depends on the others",
            "zh": "softmax 沿批次进行：每条样本都依赖其他样本",
        },
        "axis_batch.look": {"en": "softmax(dim=-1)", "zh": "softmax(dim=-1)"},
        "axis_nothing": {
            "en": "there is no softmax: the scores themselves weigh the values",
            "zh": "没有 softmax：直接用分数给值加权",
        },
        "axis_nothing.look": {"en": "softmax(dim=-1) before @ v", "zh": "在 @ v 之前做 softmax(dim=-1)"},
        "axis_twice": {
            "en": "there are two softmaxes, one behind the other: all keys look nearly alike",
            "zh": "连续做了两次 softmax：所有键看起来几乎一样",
        },
        "axis_twice.look": {"en": "softmax(dim=-1), once", "zh": "softmax(dim=-1) 只做一次"},
        "keys_unread": {
            "en": "no query reads key {at} of {keys}: another key and value there change nothing",
            "zh": "没有任何查询读到第 {at} 个键（共 {keys} 个）：换掉那里的键和值，结果不变",
        },
        "keys_unread.look": {
            "en": "which keys are left out: a last block that is not full, a slice that ends too early, a mask",
            "zh": "漏掉了哪些键：不满的最后一块、结束过早的切片、掩码",
        },
        "axis_parts": {
            "en": "the softmax goes over parts of the keys: a key that fits better takes nothing "
            "from those of other parts",
            "zh": "softmax 只在部分键上进行：一个更匹配的键不会从其他部分的键那里取走权重",
        },
        "axis_parts.look": {
            "en": "blocks of keys must share one sum: rescale what was gathered before by "
            "exp(old maximum - new maximum)",
            "zh": "各块的键必须共用一个总和：先前的累积要乘以 exp(旧最大值 - 新最大值)",
        },
        "axis_sums": {
            "en": "the weights of a query do not sum to one, but to {low} ... {high}",
            "zh": "一个查询的权重之和不是 1，而是 {low} ... {high}",
        },
        "axis_sums.why": {
            "en": "the output is then no mean of the values: its size depends on the other queries or on the length",
            "zh": "这样输出就不是值的平均，大小还会随其他查询或长度变化",
        },
        "axis_sums.look": {
            "en": "what the exponentials are divided by: their sum over the keys, one for each query",
            "zh": "指数除以什么：应为每个查询各自沿键的总和",
        },
        "values_k": {
            "en": "what is averaged is k, and not v",
            "zh": "被加权平均的是 k，而不是 v",
        },
        "values_k.why": {
            "en": "what a position is found by and what it says are then the same thing; the value matrix is not used",
            "zh": "“被查到的依据”与“给出的内容”成了同一个东西；值的矩阵没有用上",
        },
        "values_k.look": {
            "en": "V must be made with W_v, and averaged",
            "zh": "V 应由 W_v 得到，并被加权平均",
        },
        "values_q": {
            "en": "what is averaged is q, and not v",
            "zh": "被加权平均的是 q，而不是 v",
        },
        "values_q.look": {
            "en": "V must be made with W_v, and averaged",
            "zh": "V 应由 W_v 得到，并被加权平均",
        },
        "keys_q": {
            "en": "queries and keys are made with one matrix",
            "zh": "查询和键由同一个矩阵得到",
        },
        "keys_q.why": {
            "en": "every position then likes itself best, and who looks at whom is the same in both directions",
            "zh": "每个位置最关注自己，而且谁看谁变成对称的",
        },
        "keys_q.look": {"en": "W_q and W_k", "zh": "W_q 与 W_k"},
        "sides_swapped": {
            "en": "queries and keys are swapped: k q^T, and not q k^T",
            "zh": "查询与键互换了：算的是 k q^T，而不是 q k^T",
        },
        "sides_reshaped": {
            "en": "the keys are reshaped to (E, S) where they must be transposed: numbers of several keys are mixed",
            "zh": "键被 reshape 成 (E, S)，而应当转置：不同键的数值混在了一起",
        },
        "sides_reshaped.look": {
            "en": "k.transpose(-2, -1) in place of view or reshape",
            "zh": "用 k.transpose(-2, -1)，而不是 view 或 reshape",
        },
        "sides_swapped.look": {"en": "rows of the scores are queries", "zh": "分数的行应对应查询"},
        "attention_lengths.name": {
            "en": "as many queries as you like, for any number of keys",
            "zh": "查询数与键数可以不同",
        },
        "attention_lengths.why": {
            "en": "cross-attention and a cached step have fewer queries than keys",
            "zh": "交叉注意力和带缓存的一步里，查询数与键数不同",
        },
        "attention_lengths.look": {
            "en": "a length that is taken from q where that of k is meant",
            "zh": "该取 k 的长度时取了 q 的长度",
        },
        "lengths_good": {
            "en": "{T} queries and {S} keys work",
            "zh": "{T} 个查询、{S} 个键没有问题",
        },
        "attention_mask.name": {"en": "hidden keys have no say", "zh": "被掩蔽的键不起作用"},
        "attention_mask.why": {
            "en": "what a model sees while it is trained and must not see, it does without when it is used",
            "zh": "训练时偷看到的内容，使用时并不存在",
        },
        "attention_mask.look": {
            "en": "the mask belongs between the scores and the softmax, with -inf for what is hidden",
            "zh": "掩码应在分数之后、softmax 之前，把被掩蔽处填成 -inf",
        },
        **for_each_meaning(
            "mask_good",
            "hidden keys change nothing; the mask: {meaning}, {shape}",
            "被掩蔽的键不影响结果；掩码：{meaning}，{shape}",
        ),
        "mask_after": {
            "en": "the mask comes after the softmax: rows do not sum to one",
            "zh": "掩码用在 softmax 之后：每行之和不为一",
        },
        "mask_after.why": {
            "en": "hidden keys still take their share in the sum below the line, so the output depends on them",
            "zh": "被掩蔽的键仍在分母里占份额，输出仍依赖它们",
        },
        "mask_transposed": {
            "en": "the mask is transposed: what a query may see and by whom it may be seen are confused",
            "zh": "掩码被转置了：“能看谁”与“能被谁看”弄反了",
        },
        "mask_transposed.look": {
            "en": "rows of a mask are queries, columns are keys",
            "zh": "掩码的行是查询，列是键",
        },
        "mask_row": {
            "en": "rows of the batch are given each other's masks",
            "zh": "批次里的样本用了彼此的掩码",
        },
        "mask_row.look": {
            "en": "batch and heads in one axis: repeat_interleave(H, dim=0) repeats each row's mask for its own heads, "
            "repeat(H, 1, 1) does not",
            "zh": "批次与头合成一维时：repeat_interleave(H, dim=0) 才把每个样本的掩码给它自己的各个头，"
            "repeat(H, 1, 1) 不行",
        },
        "mask_times": {
            "en": "the scores are multiplied by the mask: a score of 0 is not hidden",
            "zh": "分数被乘以掩码：分数为 0 并不等于被遮住",
        },
        "mask_times.look": {
            "en": "masked_fill(~mask, -inf) before the softmax",
            "zh": "在 softmax 之前 masked_fill(~mask, -inf)",
        },
        "mask_plus": {
            "en": "the mask is added to the scores as 1 and 0: nothing is hidden by that",
            "zh": "掩码以 1 和 0 加到分数上：这样什么都遮不住",
        },
        "mask_plus.look": {
            "en": "add 0 and -inf, or masked_fill before the softmax",
            "zh": "应加 0 和 -inf，或在 softmax 之前 masked_fill",
        },
        "mask_inverted": {
            "en": "the mask is inverted: what may be seen is hidden, and the other way round",
            "zh": "掩码弄反了：该看的被遮住，该遮的能看到",
        },
        "mask_ignored": {"en": "the mask has no effect", "zh": "掩码没有任何作用"},
        "mask_ignored.look": {
            "en": "masked_fill returns a new tensor; scores = scores.masked_fill(...)",
            "zh": "masked_fill 返回新张量；应写 scores = scores.masked_fill(...)",
        },
        "mask_first_head": {
            "en": "the mask reaches the first head only; the others see everything",
            "zh": "掩码只作用于第一个头，其余的头什么都能看到",
        },
        "mask_first_head.look": {
            "en": "mask[:, None] spreads over the heads",
            "zh": "用 mask[:, None] 广播到各个头",
        },
        "mask_weak": {
            "en": "hidden keys that match well come through (the output moves by {leak}): what is filled in or added "
            "is not small enough",
            "zh": "匹配得很好的被掩蔽键会漏过来（输出变化 {leak}）：填入或加上的数不够小",
        },
        "mask_weak.why": {
            "en": "a finite number is one score among others; scaled, or beside large scores, it hides nothing",
            "zh": "有限的数只是一个普通的分数；被缩放后，或与大分数相比时，什么也遮不住",
        },
        "mask_weak.look": {
            "en": "-inf, filled in after the scores are scaled",
            "zh": "缩放之后再填 -inf",
        },
        "mask_leaks": {
            "en": "hidden keys move the output by {leak}",
            "zh": "被掩蔽的键使输出变化 {leak}",
        },
        "mask_leaks_at": {
            "en": "under a causal mask, position {query} still depends on position {other}",
            "zh": "在因果掩码下，位置 {query} 仍依赖位置 {other}",
        },
        "mask_closes": {
            "en": "under a causal mask, position {query} does not see position {other}, which it may see",
            "zh": "在因果掩码下，位置 {query} 看不到本该能看到的位置 {other}",
        },
        "mask_rows": {
            "en": "with as many rows as heads, what one row's mask hides still moves its output ({change})",
            "zh": "样本数等于头数时，某一样本掩码遮住的内容仍使输出变化（{change}）",
        },
        "mask_rows.look": {
            "en": "a mask (B, T, S) beside scores (B, H, T, S) is read as one mask per head; it wants [:, None]",
            "zh": "(B, T, S) 的掩码与 (B, H, T, S) 的分数相遇时会被当成每头一个；需要 [:, None]",
        },
        "no_mask": {"en": "it takes no mask", "zh": "它不接受掩码"},
        "mask_unknown": {
            "en": "no form of a mask for {name} was accepted "
            "(bool, numbers or additive; (B, 1, T, S), (B, T, S), (T, S))",
            "zh": "参数 {name} 不接受任何形式的掩码（布尔、数字或加性；(B, 1, T, S)、(B, T, S)、(T, S)）",
        },
        "attention_blind.name": {
            "en": "a query that may see nothing gives no NaN",
            "zh": "什么都看不到的查询不产生 NaN",
        },
        "attention_blind.why": {
            "en": "one NaN spreads to every parameter with the next update; a padded row is enough",
            "zh": "一个 NaN 在下一次更新就会扩散到所有参数；一条填充的行就足够",
        },
        "attention_blind.look": {
            "en": "softmax over a row of -inf is 0/0; set such rows to 0 behind it",
            "zh": "全为 -inf 的行做 softmax 是 0/0；之后把这些行置 0",
        },
        "blind_nan": {"en": "its output is NaN", "zh": "它的输出是 NaN"},
        "blind_unsaid": {
            "en": "its output is NaN, as softmax over nothing is; --expect safe asks for numbers there",
            "zh": "它的输出是 NaN，空的 softmax 就是如此；--expect safe 可要求此处为有限数",
        },
        "blind_zero": {"en": "its output is zero", "zh": "它的输出为零"},
        "blind_finite": {
            "en": "its output is finite (an average of all values)",
            "zh": "它的输出有限（所有值的平均）",
        },
        "attention_large.name": {"en": "large scores stay finite", "zh": "分数很大时仍有限"},
        "attention_large.why": {
            "en": "exp(89) is more than float32 holds; scores of that size do occur",
            "zh": "exp(89) 已超出 float32；这么大的分数确实会出现",
        },
        "attention_large.look": {
            "en": "subtract the largest score of each row before exp, as torch.softmax does",
            "zh": "先减去每行最大的分数再取 exp，torch.softmax 就是这样做的",
        },
        "large_good": {
            "en": "scores up to {top} give finite numbers",
            "zh": "分数到 {top} 时结果仍有限",
        },
        "large_nan": {
            "en": "scores of {top} give NaN or infinity",
            "zh": "分数为 {top} 时得到 NaN 或无穷",
        },
        "attention_weights.name": {
            "en": "the weights that come back are those that were used",
            "zh": "返回的权重就是用到的权重",
        },
        "attention_weights.why": {
            "en": "whoever looks at them would be looking at something else",
            "zh": "否则看到的就不是真正用到的权重",
        },
        "attention_weights.look": {
            "en": "what is returned beside the output",
            "zh": "与输出一起返回的内容",
        },
        "weights_good": {
            "en": "shape {shape}, rows sum to one",
            "zh": "形状 {shape}，每行之和为一",
        },
        "weights_averaged": {
            "en": "shape {shape}, rows sum to one (an average over the heads)",
            "zh": "形状 {shape}，每行之和为一（各头的平均）",
        },
        "weights_shape": {
            "en": "they have shape {got}; it must be {wanted}",
            "zh": "形状为 {got}，应为 {wanted}",
        },
        "weights_sum": {"en": "their rows miss one by {off}", "zh": "每行之和与一相差 {off}"},
        "weights_other": {"en": "weights @ v is not the output", "zh": "weights @ v 不等于输出"},
        "no_weights": {"en": "it returns no weights", "zh": "它不返回权重"},
        "heads_run.name": {"en": "it runs", "zh": "能运行"},
        "heads_run.why": {
            "en": "nothing else can be asked of it",
            "zh": "否则其他性质都无从检查",
        },
        "heads_run.look": {
            "en": "the way of the shapes: (B, T, D) -> (B, H, T, E) -> (B, H, T, S) -> (B, H, T, E) -> (B, T, D)",
            "zh": "形状的变化：(B, T, D) → (B, H, T, E) → (B, H, T, S) → (B, H, T, E) → (B, T, D)",
        },
        "heads_runs": {"en": "output {shape}, read as {order}", "zh": "输出 {shape}，按 {order} 解读"},
        "heads_shape": {
            "en": "the output has shape {got}; it must be {wanted}",
            "zh": "输出形状为 {got}，应为 {wanted}",
        },
        "not_made": {"en": "it cannot be made: {why}", "zh": "无法构造：{why}"},
        "not_made.why": {"en": "nothing else can be asked of it", "zh": "否则其他性质都无从检查"},
        "not_made.look": {
            "en": "name the arguments d_model, n_heads, d_ff, dropout, max_len, or name a function without arguments "
            "that returns the part",
            "zh": "把参数命名为 d_model、n_heads、d_ff、dropout、max_len，或者给出一个返回该部件的无参函数",
        },
        "heads_repeat.name": {
            "en": "in eval mode the same input gives the same output",
            "zh": "eval 模式下结果确定",
        },
        "heads_repeat.why": {
            "en": "what is used after training must not be random",
            "zh": "训练结束后的使用不应带随机性",
        },
        "heads_repeat.look": {
            "en": "dropout: nn.Dropout, or F.dropout(x, p, self.training)",
            "zh": "使用 nn.Dropout，或 F.dropout(x, p, self.training)",
        },
        "heads_equation.name": {
            "en": "every head attends over its own columns, and the heads are joined in order",
            "zh": "每个头只在自己的列上做注意力，各头按顺序拼接",
        },
        "heads_equation.why": EQUATION_WHY,
        "heads_equation.look": {
            "en": "split: view(B, T, H, E).transpose(1, 2); join: transpose(1, 2).reshape(B, T, D)",
            "zh": "拆分：view(B, T, H, E).transpose(1, 2)；合并：transpose(1, 2).reshape(B, T, D)",
        },
        "heads_good": {
            "en": "{heads} heads; what reaches the last matrix is reproduced from q, k and v",
            "zh": "{heads} 个头；由 q、k、v 可重现进入最后一个矩阵的内容",
        },
        "rows_first": {
            "en": "it mixes the rows of a batch: that comes first",
            "zh": "它把同一批的样本混在一起：应先解决这个问题",
        },
        "heads_other": {
            "en": "what reaches the last matrix is no attention over the q, k and v that were made, and no known fault "
            "explains it",
            "zh": "进入最后一个矩阵的内容不是所得 q、k、v 的注意力，已知的错误也不能解释",
        },
        "split_view": {
            "en": "the split into heads has no transpose: view(B, H, T, E) mixes positions and heads",
            "zh": "拆头时缺少转置：view(B, H, T, E) 把位置和头混在一起",
        },
        "split_view.why": {
            "en": "a 'position' of a head is then made of pieces of several tokens",
            "zh": "一个头的“位置”由多个词元的碎片拼成",
        },
        "split_strided": {
            "en": "the heads take every H-th column, but are joined side by side",
            "zh": "拆头时隔 H 列取一列，合并时却是并排拼接",
        },
        "merge_view": {
            "en": "the heads are joined without a transpose: positions and heads are mixed",
            "zh": "合并头时缺少转置：位置和头混在一起",
        },
        "merge_view.why": {
            "en": "a position then gets what another position was told",
            "zh": "一个位置得到的是另一个位置的结果",
        },
        "merge_strided": {
            "en": "the columns of the heads are interleaved, and not side by side: head h must fill the columns "
            "h E .. (h+1) E",
            "zh": "各头的列交错排列，而不是并排：第 h 个头应占第 h E 到 (h+1) E 列",
        },
        "merge_strided.why": {
            "en": "a fresh model learns around it, but weights of another implementation do not fit",
            "zh": "从头训练可以绕过去，但与其他实现的权重对不上",
        },
        "inside_hidden": {
            "en": "no three projections and an output projection were seen inside",
            "zh": "没有看到三个投影和一个输出投影",
        },
        "heads_order.name": {
            "en": "without a mask, order means nothing to it",
            "zh": "没有掩码时与顺序无关",
        },
        "heads_order.why": {
            "en": "attention looks at all pairs alike; if it does not, positions were mixed on the way",
            "zh": "注意力平等对待所有位置对；否则说明途中把位置弄混了",
        },
        "heads_order.look": {
            "en": "view without transpose, at the split or where the heads are joined",
            "zh": "拆头或合并时只有 view 没有 transpose",
        },
        "order_good": {
            "en": "shuffled inputs give shuffled outputs (to {off})",
            "zh": "打乱输入，输出同样打乱（误差 {off}）",
        },
        "positions_mixed": {
            "en": "shuffling the positions changes what they get, by {off}",
            "zh": "打乱位置后，各位置得到的内容变化 {off}",
        },
        "is_causal": {"en": "it hides what comes later by itself", "zh": "它自带因果掩码"},
        "heads_rows.name": {
            "en": "rows of a batch do not see each other",
            "zh": "批次中的样本互不影响",
        },
        "heads_rows.why": {
            "en": "a sentence's result would depend on what it is batched with",
            "zh": "否则一句话的结果会取决于同批的其他句子",
        },
        "heads_rows.look": {
            "en": "the order of the dimensions: (B, T, D), or batch_first=True",
            "zh": "维度顺序：(B, T, D)，或 batch_first=True",
        },
        "rows_good": {"en": "another row changes nothing", "zh": "改变其他样本没有影响"},
        "rows_mixed": {
            "en": "another row moves this one by {change}",
            "zh": "改变其他样本使本样本变化 {change}",
        },
        "heads_learn.name": {"en": "every matrix gets a gradient", "zh": "每个矩阵都有梯度"},
        "heads_learn.why": {
            "en": "what gets none never learns",
            "zh": "没有梯度的参数永远学不到东西",
        },
        "heads_learn.look": {
            "en": "a matrix that is made and not used",
            "zh": "建立了却没有使用的矩阵",
        },
        "gradient_good": {
            "en": "{matrices} matrices, each with its own",
            "zh": "{matrices} 个矩阵都有自己的梯度",
        },
        "padding_counts": {
            "en": "with padding given through {name}, real positions differ by {off} from the row without padding:"
            " its content is gone, but it still takes part",
            "zh": "通过 {name} 给出填充后，真实位置与不带填充的同一行相差 {off}：填充的内容没了，却仍参与计算",
        },
        "padding_counts.look": {
            "en": "the mask belongs on the scores, before the softmax; a key of zeros still has a weight",
            "zh": "掩码应作用在 softmax 之前的分数上；全零的键仍有权重",
        },
        "no_gradient_back": {
            "en": "none goes back to {names}: nothing that stands before this part can learn",
            "zh": "没有梯度传回 {names}：它之前的部分无法学习",
        },
        "no_gradient_back.look": {"en": "detach(), no_grad(), .data", "zh": "detach()、no_grad()、.data"},
        "no_gradient": {"en": "none for {names}", "zh": "{names} 没有梯度"},
        "heads_mask.name": {
            "en": "the mask hides what it says, in every head",
            "zh": "掩码在每个头里都起作用",
        },
        "heads_mask.why": {
            "en": "what a model sees while it is trained and must not see, it does without when it is used",
            "zh": "训练时偷看到的内容，使用时并不存在",
        },
        "heads_mask.look": {
            "en": "where the mask meets the scores, and its shape there: (.., 1, T, S) for (B, H, T, S)",
            "zh": "掩码与分数相遇的地方及其形状：对 (B, H, T, S) 应为 (.., 1, T, S)",
        },
        "heads_padding.name": {
            "en": "each row has its own padding",
            "zh": "每个样本用自己的填充掩码",
        },
        "heads_padding.why": {
            "en": "sentences of a batch have different lengths",
            "zh": "同一批里的句子长度不同",
        },
        "heads_padding.look": {
            "en": "the shape of the mask beside the scores (B, H, T, S)",
            "zh": "掩码相对于分数 (B, H, T, S) 的形状",
        },
        **for_each_meaning(
            "padding_good",
            "padding changes nothing; {name}: {meaning}, {shape}",
            "填充内容不影响结果；{name}：{meaning}，{shape}",
        ),
        "heads_weights.name": {
            "en": "the weights come back one matrix a head",
            "zh": "返回每个头的权重矩阵",
        },
        "heads_weights.why": {
            "en": "an average over heads cannot be undone",
            "zh": "各头平均之后无法还原",
        },
        "heads_weights.look": {
            "en": "what is returned beside the output",
            "zh": "与输出一起返回的内容",
        },
        "heads_divide.name": {
            "en": "a width that the heads do not divide is refused at once",
            "zh": "D 不能被头数整除时立即报错",
        },
        "heads_divide.why": {
            "en": "it would lose columns silently, or crash far from the cause",
            "zh": "否则会悄悄丢掉几列，或在远离原因的地方崩溃",
        },
        "heads_divide.look": {
            "en": "the constructor: if d_model % n_heads: raise",
            "zh": "构造函数：if d_model % n_heads: raise",
        },
        "head_given": {"en": "the width of a head is given by itself", "zh": "每个头的宽度是单独给出的"},
        "divides_at_call": {
            "en": "made with 5 heads, the first call refuses: {message}",
            "zh": "用 5 个头可以构造，但第一次调用时拒绝：{message}",
        },
        "divides_good": {"en": "refused: {message}", "zh": "报错：{message}"},
        "divides_late": {
            "en": "d_model = {d_model} with 5 heads was accepted; a call then gives {then}",
            "zh": "d_model = {d_model}、5 个头被接受了；调用时得到 {then}",
        },
        "not_a_class": {"en": "it was handed over ready-made", "zh": "给的是现成的对象"},
    }
)
"""By key and language."""
