"""What is said of layers and feed-forward networks: their properties, and what can be wrong with them."""

from __future__ import annotations

from glassformer.core.wording import Catalogue
from glassformer.diagnosis.parts.attention_wording import WORDS as ATTENTION
from glassformer.diagnosis.parts.attention_wording import for_each_meaning

WORDS = Catalogue(
    {
        **ATTENTION,
        "layer_run.name": {"en": "it runs", "zh": "能运行"},
        "layer_run.why": {"en": "nothing else can be asked of it", "zh": "否则其他性质都无从检查"},
        "layer_run.look": {
            "en": "the shapes: (B, T, D) in, (B, T, D) out; the memory (B, S, D) has a length of its own",
            "zh": "形状：输入 (B, T, D)，输出 (B, T, D)；memory (B, S, D) 的长度可以不同",
        },
        "layer_runs": {"en": "output {shape}, read as {order}", "zh": "输出 {shape}，按 {order} 解读"},
        "layer_shape": {
            "en": "the output has shape {got}; it must be {wanted}",
            "zh": "输出形状为 {got}，应为 {wanted}",
        },
        "layer_repeat.name": {"en": "in eval mode the same input gives the same output", "zh": "eval 模式下结果确定"},
        "layer_repeat.why": {
            "en": "what is used after training must not be random",
            "zh": "训练结束后的使用不应带随机性",
        },
        "layer_repeat.look": {
            "en": "dropout: nn.Dropout, or F.dropout(x, p, self.training)",
            "zh": "使用 nn.Dropout，或 F.dropout(x, p, self.training)",
        },
        "layer_residual.name": {"en": "every sublayer is added to the stream", "zh": "每个子层都有残差连接"},
        "layer_residual.why": {
            "en": "without it the input is lost where a sublayer is still useless, and a deep stack hardly learns",
            "zh": "没有残差，子层还没学好时输入就丢了，深层网络几乎训不动",
        },
        "layer_residual.look": {"en": "x = x + dropout(sublayer(x))", "zh": "x = x + dropout(sublayer(x))"},
        "residual_good": {
            "en": "with all matrices at zero the input comes through",
            "zh": "所有矩阵置零后，输入仍能通过",
        },
        "residual_none": {
            "en": "with all matrices at zero nothing of the input is left: no residual",
            "zh": "所有矩阵置零后，输入完全消失：没有残差",
        },
        "residual_attention": {
            "en": "with the matrices of attention at zero nothing of the input is left: its residual is missing",
            "zh": "注意力的矩阵置零后，输入完全消失：注意力缺少残差",
        },
        "residual_twice": {
            "en": "what comes in is in the stream twice: with all matrices at zero, 2 x stands where x should",
            "zh": "输入在残差流中出现两次：矩阵全为零时，本该是 x 的地方是 2 x",
        },
        "residual_twice.look": {
            "en": "a sublayer that adds its input itself, and a layer that adds it again",
            "zh": "子层自己加了一次输入，外层又加了一次",
        },
        "residual_dropped": {
            "en": "what an attention found is not in the stream: without what later sublayers add, it is gone",
            "zh": "注意力的结果没有进入残差流：去掉后面子层加上的内容，它就完全消失了",
        },
        "residual_dropped.look": {
            "en": "which x a later sum adds to: x = x + f(x), each x the newest one",
            "zh": "后面的加法加在哪个 x 上：x = x + f(x)，每次都用最新的 x",
        },
        "residual_feed_forward": {
            "en": "with the matrices of the feed-forward network at zero nothing of the input is left: its residual is "
            "missing",
            "zh": "前馈网络的矩阵置零后，输入完全消失：前馈网络缺少残差",
        },
        "layer_norm.name": {
            "en": "the norms are all before the sublayers, or all behind",
            "zh": "归一化位置一致：全在前或全在后",
        },
        "layer_norm.why": {
            "en": "pre-norm leaves the stream free, post-norm norms it after every sum; a mixture does neither",
            "zh": "Pre-LN 保持残差流畅通，Post-LN 在每次相加后归一化；混用则两样都做不到",
        },
        "layer_norm.look": {
            "en": "pre: x = x + f(norm(x)); post: x = norm(x + f(x))",
            "zh": "Pre：x = x + f(norm(x))；Post：x = norm(x + f(x))",
        },
        "norm_good": {"en": "{place}-norm, found by measuring", "zh": "测得为 {place}-norm"},
        "residual_lost": {
            "en": "a sublayer runs, and nothing reads what it found: {names} change nothing",
            "zh": "有一个子层在计算，但没有人读取它的结果：{names} 对输出毫无影响",
        },
        "residual_lost.look": {
            "en": "which x each later line begins with: x = x + f(x), each x the newest one",
            "zh": "后面每一行从哪个 x 开始：x = x + f(x)，每次都用最新的 x",
        },
        "norm_twice": {
            "en": "{name} norms what goes into a sublayer, and the sum behind it once more",
            "zh": "{name} 既归一化了子层的输入，又归一化了其后的和",
        },
        "norm_twice.look": {
            "en": "x = x + f(norm(x)), or x = norm(x + f(x)): one of the two, each norm once",
            "zh": "x = x + f(norm(x)) 或 x = norm(x + f(x))：二者取一，每个归一化只用一次",
        },
        "lost_first": {
            "en": "nothing reads what a sublayer found: that comes first",
            "zh": "有子层的结果没有人读取：应先解决这个问题",
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
        "norm_both": {
            "en": "what goes into the sublayers is normed, and what comes out too",
            "zh": "子层的输入和层的输出都做了归一化",
        },
        "norm_other_side": {
            "en": "it is {place}-norm, and was to be {expected}-norm",
            "zh": "实际是 {place}-norm，而要求是 {expected}-norm",
        },
        "norm_missing": {
            "en": "neither what goes into the sublayers nor what comes out of the layer is normed",
            "zh": "子层的输入和层的输出都没有归一化",
        },
        "norm_attention": {
            "en": "the norm of attention is missing ({place}-norm otherwise)",
            "zh": "注意力缺少归一化（其余为 {place}-norm）",
        },
        "norm_feed_forward": {
            "en": "the norm of the feed-forward network is missing ({place}-norm otherwise)",
            "zh": "前馈网络缺少归一化（其余为 {place}-norm）",
        },
        "norm_stream": {
            "en": "the stream itself is normed before a sublayer is added to it: x = norm(x); x = x + f(x)",
            "zh": "残差流本身被归一化后再加上子层：x = norm(x); x = x + f(x)",
        },
        "layer_attention.name": {"en": "its attention is attention", "zh": "其中的注意力正确"},
        "layer_attention.why": ATTENTION["heads_equation.why"],
        "layer_attention.look": {
            "en": "examine the attention by itself: --as multi_head",
            "zh": "单独检查注意力：--as multi_head",
        },
        "layer_feed_forward.name": {
            "en": "the feed-forward network treats each position by itself",
            "zh": "前馈网络逐位置处理",
        },
        "layer_feed_forward.why": {
            "en": "positions are to speak to each other through attention only, where masks hold",
            "zh": "位置之间只应通过注意力交流，那里才有掩码",
        },
        "layer_feed_forward.look": {"en": "a layer over the wrong dimension", "zh": "作用在错误维度上的层"},
        "feed_forward_good": {"en": "no position moves another one", "zh": "任何位置都不影响其他位置"},
        "feed_forward_mixes": {
            "en": "position {to} depends on position {source}",
            "zh": "位置 {to} 依赖位置 {source}",
        },
        "no_feed_forward": {
            "en": "no matrices from D to another width and back were found",
            "zh": "没有找到从 D 到另一宽度再回来的矩阵",
        },
        "layer_mixes.name": {"en": "positions see each other", "zh": "位置之间能互相看到"},
        "layer_mixes.why": {"en": "this is what attention is for", "zh": "这正是注意力的作用"},
        "layer_mixes.look": {"en": "the mask, or which input attention gets", "zh": "掩码，或注意力的输入"},
        "mixes_good": {"en": "another position moves this one", "zh": "其他位置会影响本位置"},
        "mixes_nothing": {"en": "no position depends on another one", "zh": "没有任何位置依赖其他位置"},
        "mixes_past": {
            "en": "it was said to be a layer of an encoder, and takes a mask for padding ({name}); it hides the future "
            "all the same, from every position",
            "zh": "它被说成是编码器层，并接受填充掩码（{name}），却对每个位置都遮住了未来",
        },
        "mixes_past.look": {
            "en": "a causal mask that was left in; of a decoder without cross-attention, leave --as out",
            "zh": "是否残留了因果掩码；若是没有交叉注意力的解码器层，请不要写 --as",
        },
        "layer_shared.name": {"en": "each sublayer has weights of its own", "zh": "每个子层都有自己的权重"},
        "layer_shared.why": {
            "en": "what is used twice learns one thing for two places",
            "zh": "同一组权重用在两处，只能学到一种东西",
        },
        "layer_shared.look": {
            "en": "[Module()] * n is one module n times; [Module() for _ in range(n)] makes n",
            "zh": "[Module()] * n 是同一个模块的 n 个引用；[Module() for _ in range(n)] 才是 n 个",
        },
        "shared_good": {"en": "none is used again on what came of it", "zh": "没有权重再次作用于自己的结果"},
        "weights_again": {
            "en": "{name} is used {times} times in one pass, and later on what came of it before",
            "zh": "{name} 在一次前向中用了 {times} 次，后一次作用于前一次的结果",
        },
        "cross_own_mask": {
            "en": "{name}, the mask of the sequence itself, also hides states of the memory",
            "zh": "序列自身的掩码 {name} 也遮住了 memory 的状态",
        },
        "layer_order.name": {
            "en": "without positions and masks, order means nothing",
            "zh": "没有位置和掩码时与顺序无关",
        },
        "layer_order.why": {
            "en": "if it does, positions were mixed on the way",
            "zh": "否则说明途中把位置弄混了",
        },
        "layer_order.look": {
            "en": "view without transpose, where heads are split or joined",
            "zh": "拆头或合并时只有 view 没有 transpose",
        },
        "layer_rows.name": {"en": "rows of a batch do not see each other", "zh": "批次中的样本互不影响"},
        "layer_rows.why": {
            "en": "a sentence's result would depend on what it is batched with",
            "zh": "否则一句话的结果会取决于同批的其他句子",
        },
        "layer_rows.look": {
            "en": "the order of the dimensions: (B, T, D), or batch_first=True; a norm over the batch",
            "zh": "维度顺序：(B, T, D)，或 batch_first=True；是否在批次上做了归一化",
        },
        "layer_padding.name": {"en": "padding changes nothing", "zh": "填充内容不影响结果"},
        "layer_padding.why": {
            "en": "a sentence's result would depend on how far it is padded",
            "zh": "否则一句话的结果会取决于填充了多少",
        },
        "layer_padding.look": {
            "en": "whether the mask reaches attention, and which of True and False hides",
            "zh": "掩码是否传到了注意力，True 和 False 哪个表示遮住",
        },
        "padding_seen": {
            "en": "padding given through {name} still changes real positions, or hides them ({wrong} places)",
            "zh": "通过 {name} 给出的填充仍影响真实位置，或遮住了它们（{wrong} 处）",
        },
        "layer_learns.name": {"en": "every matrix gets a gradient", "zh": "每个矩阵都有梯度"},
        "layer_learns.why": {"en": "what gets none never learns", "zh": "没有梯度的参数永远学不到东西"},
        "layer_learns.look": {"en": "a matrix that is made and not used", "zh": "建立了却没有使用的矩阵"},
        "layer_causal.name": {"en": "no position sees a later one", "zh": "任何位置都看不到后面的位置"},
        "layer_causal.why": {
            "en": "while it is trained it would read the answer; when it writes there is none to read",
            "zh": "训练时能读到答案，生成时却没有答案可读",
        },
        "layer_causal.look": {
            "en": "the causal mask of self-attention: rows are queries, torch.tril",
            "zh": "自注意力的因果掩码：行是查询，torch.tril",
        },
        **for_each_meaning(
            "causal_good",
            "given through {name}: {meaning}",
            "通过 {name} 给出：{meaning}",
        ),
        "causal_own": {"en": "it hides the future by itself", "zh": "它自带因果掩码"},
        "future_seen": {
            "en": "with a causal mask through {name}, position {query} still depends on position {other}",
            "zh": "通过 {name} 给出因果掩码后，位置 {query} 仍依赖位置 {other}",
        },
        "future_with_padding": {
            "en": "once a mask of padding is given through {name}, position {query} depends on position {other}",
            "zh": "一旦通过 {name} 给出填充掩码，位置 {query} 就依赖位置 {other}",
        },
        "future_with_padding.look": {
            "en": "how the two masks are joined: what may be seen is causal and no padding, with &",
            "zh": "两个掩码怎样合并：可以看的 = 因果 且 非填充，用 &",
        },
        "future_unmasked": {
            "en": "it takes no mask and hides nothing by itself: position {query} depends on position {other}",
            "zh": "它不接受掩码，自己也不遮挡：位置 {query} 依赖位置 {other}",
        },
        "past_hidden": {
            "en": "position {query} does not see position {other}, which stands before it",
            "zh": "位置 {query} 看不到它前面的位置 {other}",
        },
        "layer_cross.name": {
            "en": "cross-attention asks with the decoder's states, and keys and values are the memory's",
            "zh": "交叉注意力：查询来自解码器，键和值来自 memory",
        },
        "layer_cross.why": {
            "en": "else the decoder does not read the source, or reads it at the wrong places",
            "zh": "否则解码器读不到源句，或读错了位置",
        },
        "layer_cross.look": {
            "en": "the call of cross-attention: (q=x, k=memory, v=memory)",
            "zh": "交叉注意力的调用：(q=x, k=memory, v=memory)",
        },
        "cross_good": {
            "en": "the memory counts ({used}), its order does not, and it may have any length",
            "zh": "memory 起作用（{used}），与其顺序无关，长度任意",
        },
        "memory_ignored": {"en": "the memory changes nothing", "zh": "memory 对结果没有影响"},
        "cross_mean": {
            "en": "only the mean of the memory counts: its states are averaged before anything asks for them",
            "zh": "只有 memory 的平均值起作用：在查询之前各状态就被平均了",
        },
        "cross_sides": {
            "en": "another order of the memory's states changes the output by {off}: keys and values do not both come "
            "from it",
            "zh": "打乱 memory 的顺序使输出变化 {off}：键和值不都来自 memory",
        },
        "cross_lengths": {
            "en": "it runs only where the memory is as long as the target",
            "zh": "只有 memory 与目标等长时才能运行",
        },
        "layer_memory_padding.name": {"en": "padding of the source changes nothing", "zh": "源句的填充不影响结果"},
        "layer_memory_padding.why": {
            "en": "the translation of a sentence would depend on how far it is padded",
            "zh": "否则译文会取决于源句填充了多少",
        },
        "layer_memory_padding.look": {
            "en": "whether the mask of the source reaches cross-attention",
            "zh": "源句的掩码是否传到了交叉注意力",
        },
        "memory_padding_length": {
            "en": "{name} works only where both sequences are of one length, and not for {T} and {S}",
            "zh": "{name} 只在两个序列等长时能用，长度为 {T} 和 {S} 时出错",
        },
        "memory_padding_length.look": {
            "en": "which attention gets which mask: self-attention the target's, cross-attention the memory's",
            "zh": "哪个注意力用哪个掩码：自注意力用目标的，交叉注意力用 memory 的",
        },
        "meanings_differ": {
            "en": "True means the contrary in {own} and in {memory}: one of the two is turned round",
            "zh": "{own} 与 {memory} 中 True 的含义相反：其中一个弄反了",
        },
        "meanings_differ.look": {
            "en": "what each mask is compared with before masked_fill: == 0 in both, or in neither",
            "zh": "masked_fill 之前各掩码如何比较：要么都是 == 0，要么都不是",
        },
        "memory_padding_seen": {
            "en": "padding of the memory given through {name} still counts, or real states do not ({wrong} places)",
            "zh": "通过 {name} 给出的 memory 填充仍起作用，或真实状态被遮住（{wrong} 处）",
        },
        "feed_forward_local.name": {"en": "each position is treated by itself", "zh": "逐位置处理"},
        "feed_forward_local.why": {
            "en": "positions are to speak to each other through attention only, where masks hold",
            "zh": "位置之间只应通过注意力交流，那里才有掩码",
        },
        "feed_forward_local.look": {"en": "a layer over the wrong dimension", "zh": "作用在错误维度上的层"},
        "feed_forward_curved.name": {"en": "there is an activation between its layers", "zh": "两层之间有激活函数"},
        "feed_forward_curved.why": {
            "en": "two linear layers without one are a single linear layer",
            "zh": "没有激活函数，两层线性层等于一层",
        },
        "feed_forward_curved.look": {"en": "w_2(relu(w_1(x)))", "zh": "w_2(relu(w_1(x)))"},
        "feed_forward_straight": {
            "en": "what comes out of its first matrix goes into its second as it is: there is no activation",
            "zh": "第一个矩阵的输出原样进入第二个矩阵：没有激活函数",
        },
        "feed_forward_straight.why": {
            "en": "two linear layers without one are a single linear layer",
            "zh": "没有激活函数，两层线性层等于一层",
        },
        "feed_forward_straight.look": {"en": "w_2(relu(w_1(x)))", "zh": "w_2(relu(w_1(x)))"},
        "curved_good": {"en": "not linear; D = {d_model}, F = {width}", "zh": "非线性；D = {d_model}，F = {width}"},
        "feed_forward_linear": {"en": "f(a + b) + f(0) = f(a) + f(b)", "zh": "f(a + b) + f(0) = f(a) + f(b)"},
    }
)
"""By key and language."""
