"""Of each property of a whole model its name, why it matters and where to look."""

from __future__ import annotations

PROPERTIES = {
    "shapes": (
        ("outputs have the right shape and are finite", "输出形状正确且数值有限"),
        (
            "Nothing can be trained or decoded from an output that has no score for every token.",
            "如果不是每个词元都有输出，就无法训练或解码。",
        ),
        ("the last layers: how heads are merged, what the head returns", "最后几层：多头如何合并，输出头返回什么"),
    ),
    "determinism": (
        ("two runs in eval mode are equal", "评估模式下两次运行结果相同"),
        (
            "Dropout that stays on in eval mode makes every answer a matter of chance.",
            "评估模式下仍然打开的 dropout 会让每次输出都带有随机性。",
        ),
        (
            "F.dropout(x, p) without training=self.training; an nn.Dropout that is made inside forward",
            "没有写 training=self.training 的 F.dropout(x, p)；在 forward 里临时创建的 nn.Dropout",
        ),
    ),
    "dropout": (
        ("dropout acts while training", "训练时 dropout 生效"),
        (
            "A dropout that is configured and never called does not regularise anything.",
            "配置了却从未调用的 dropout 起不到任何正则化作用。",
        ),
        (
            "whether forward calls the dropout modules that __init__ makes",
            "forward 是否真的调用了 __init__ 里创建的 dropout",
        ),
    ),
    "position_wise": (
        ("feed-forward and norm work on each position alone", "前馈网络与归一化逐位置独立"),
        (
            "Only attention may move information between positions. What mixes them elsewhere sees the future and the "
            "padding, and no mask can stop it.",
            "只有注意力可以在位置之间传递信息。其他部分若混合位置，就会看到未来和填充，而任何掩码都拦不住。",
        ),
        (
            "a convolution wider than 1, a linear layer over time, a norm over the wrong dimension",
            "核宽大于 1 的卷积、沿时间维的线性层、归一化的维度写错",
        ),
    ),
    "heads": (
        ("splitting and merging heads keeps positions apart", "拆分与合并多头不会混淆位置"),
        (
            "A reshape without the transpose deals pieces of several tokens to one position.",
            "缺少转置的 reshape 会把几个词元的片段拼到同一个位置上。",
        ),
        (
            "(B, T, D) -> view(B, T, H, E) -> transpose(1, 2), and back in the opposite order",
            "(B, T, D) -> view(B, T, H, E) -> transpose(1, 2)，合并时按相反顺序",
        ),
    ),
    "softmax_axis": (
        ("attention weights sum to one over the keys", "注意力权重沿键的维度之和为 1"),
        (
            "Over another axis the weights are no mixture: queries compete with each other instead of keys, and each "
            "query sees how many others there are, also later ones.",
            "沿其他维度求 softmax 就不是加权平均：是查询之间在竞争，而且每个查询都会看到其他查询，包括后面的。",
        ),
        ("softmax(dim=-1) on scores of shape (B, H, T, S)", "形状为 (B, H, T, S) 的分数应使用 softmax(dim=-1)"),
    ),
    "finite": (
        ("extreme texts give finite outputs", "极端文本的输出也有限"),
        (
            "One number that is not finite makes a whole batch's gradient NaN.",
            "一个非有限数就会让整批的梯度变成 NaN。",
        ),
        (
            "a softmax over a row of -inf, a division by zero, scores that overflow",
            "整行都是 -inf 的 softmax、除以零、溢出的分数",
        ),
    ),
    "scale": (
        ("scores are divided by sqrt(d_head)", "分数除以 sqrt(d_head)"),
        (
            "The variance of q.k grows with d_head. Undivided, the softmax saturates and its gradient dies; divided by "
            "too much, all keys look alike.",
            "q·k 的方差随 d_head 增大。不缩放会使 softmax 饱和、梯度消失；缩放过度则所有键看起来都一样。",
        ),
        (
            "the factor of q @ k.transpose(-2, -1): 1 / sqrt(d_head), once",
            "q @ k.transpose(-2, -1) 的系数：1 / sqrt(d_head)，且只乘一次",
        ),
    ),
    "own_values": (
        ("q, k and v come from matrices of their own", "q、k、v 各有自己的矩阵"),
        (
            "With V made by W_k a token can only give what it is found by.",
            "若用 W_k 计算 V，词元只能给出它被检索时用的内容。",
        ),
        ("the three projections: q = W_q x, k = W_k x, v = W_v x", "三个投影：q = W_q x，k = W_k x，v = W_v x"),
    ),
    "causality": (
        ("no token changes an output before it", "后面的词元不影响前面的输出"),
        (
            "A decoder that sees the token it is to predict has a wonderful loss and writes nonsense.",
            "解码器若能看到要预测的词元，损失会非常低，生成却是胡言乱语。",
        ),
        (
            "the mask of the layer that is named: True below and on the diagonal, added or filled before the softmax",
            "所指层的掩码：对角线及以下可见，且在 softmax 之前加入",
        ),
    ),
    "padding": (
        ("padding changes no output of a token", "填充不影响真实词元的输出"),
        (
            "Otherwise the answer for a sentence depends on how long the others in its batch are.",
            "否则一个句子的结果会取决于同一批中其他句子的长度。",
        ),
        (
            "whether the mask reaches every layer, hides keys (the last axis of the scores) and has the right polarity",
            "掩码是否传到每一层、遮住的是键（分数的最后一维）、真假方向是否正确",
        ),
    ),
    "position": (
        ("the order of the tokens can be seen", "能够区分词序"),
        (
            "Attention alone sees a set: without positions a sentence and its words shuffled are one.",
            "注意力本身看到的是集合：没有位置信息，打乱词序的句子与原句没有区别。",
        ),
        (
            "whether positions are added to every token, one row of the table for each step in time",
            "位置编码是否加到了每个词元上，时间上的每一步对应表中的一行",
        ),
    ),
    "batch_mates": (
        ("a row does not depend on the other rows", "每一行不受同批其他行影响"),
        (
            "Rows that mix give other answers in training than alone.",
            "行与行混在一起，训练与单独使用时的结果就会不同。",
        ),
        (
            "reshapes that fold the batch into another axis; norms over the batch; dim=0",
            "把批维并入其他维的 reshape；跨批的归一化；dim=0",
        ),
    ),
    "cross_attention": (
        ("the target reads the source through cross-attention", "目标序列通过交叉注意力读取源序列"),
        (
            "Queries come from the decoder, keys and values from the encoder's output, and its padding is hidden; else "
            "the decoder writes without having read, or reads padding.",
            "查询来自解码器，键和值来自编码器输出，并遮住其中的填充；否则解码器没有读到源文，或读到了填充。",
        ),
        (
            "the call of the cross-attention: attention(x, memory, memory, source_mask)",
            "交叉注意力的调用：attention(x, memory, memory, source_mask)",
        ),
    ),
    "cache": (
        ("step by step with a cache equals all at once", "用缓存逐步计算与一次算完相同"),
        (
            "A cache that is off by one writes fluent text that the model did not mean.",
            "错一位的缓存会写出通顺却不是模型本意的文字。",
        ),
        (
            "the position of the new token (length so far, not 0 or "
            "1 more), the order of old and new keys, the mask of a "
            "single query",
            "新词元的位置（等于已有长度，不是 0，也不多 1）、新旧键的先后顺序、单个查询时的掩码",
        ),
    ),
    "feed_forward": (
        ("an activation stands in every feed-forward network", "每个前馈网络中都有激活函数"),
        (
            "Two matrices with nothing between them are one matrix: the network adds nothing that attention cannot.",
            "中间什么都没有的两个矩阵等于一个矩阵：前馈网络就白费了。",
        ),
        ("an activation between the two: w_2(relu(w_1(x)))", "两个矩阵之间的激活函数：w_2(relu(w_1(x)))"),
    ),
    "residual": (
        ("every layer adds to the stream", "每一层都加在残差流上"),
        ("Without the residual a deep stack hardly trains.", "没有残差连接，深层网络几乎训不动。"),
        (
            "x = x + sublayer(norm(x)), or x = norm(x + sublayer(x))",
            "x = x + sublayer(norm(x))，或 x = norm(x + sublayer(x))",
        ),
    ),
    "norm": (
        ("the norm is on the side it is said to be", "归一化的位置与声明一致"),
        (
            "Pre-norm trains without warm-up, post-norm hardly; weights of the one make no sense in the other.",
            "Pre-LN 不需要预热也能训练，Post-LN 很难；两者的权重不能互换。",
        ),
        ("pre: x + f(norm(x)); post: norm(x + f(x))", "pre：x + f(norm(x))；post：norm(x + f(x))"),
    ),
    "layers": (
        ("the output depends on every layer", "输出依赖于每一层"),
        (
            "A layer that changes nothing costs time and memory and learns nothing.",
            "不起作用的层白费时间和内存，也学不到东西。",
        ),
        (
            "the loop over the layers: x = layer(x), each layer made anew",
            "遍历各层的循环：x = layer(x)，且每层都要新建",
        ),
    ),
    "gradient": (
        ("every parameter gets a gradient", "每个参数都有梯度"),
        ("What gets no gradient keeps its first random value for ever.", "没有梯度的参数会永远停在随机初值。"),
        (
            "detach(), no_grad(), a layer that is made and not called, modules in a plain list",
            "detach()、no_grad()、创建了却没有调用的层、放在普通列表里的模块",
        ),
    ),
    "tied": (
        ("tied weights are one tensor", "共享的权重是同一个张量"),
        (
            "A copy has the same values once; after the first update the two go their own ways.",
            "副本只在开始时相同；第一次更新后两者就分道扬镳。",
        ),
        (
            "head.weight = embedding.weight (the parameter, not its data or a clone)",
            "head.weight = embedding.weight（赋参数本身，而不是 data 或 clone）",
        ),
    ),
    "label_shift": (
        ("labels are shifted once", "标签只移动一次"),
        (
            "Not shifted, the model learns to copy its input; shifted twice, to predict the token after the next.",
            "不移动，模型学会照抄输入；移动两次，模型学的是预测下下个词元。",
        ),
        (
            "who shifts: the data (targets[t] = tokens[t + 1]) or "
            "the loss (logits[:, :-1] with labels[:, 1:]), not both",
            "由谁移动：数据（targets[t] = tokens[t + 1]）或损失（logits[:, :-1] 对 labels[:, 1:]），不能都移",
        ),
    ),
    "loss_padding": (
        ("padding does not reach the loss", "填充不进入损失"),
        (
            "Else the model is graded on predicting padding, and short sentences count less.",
            "否则模型会因为预测填充而被打分，短句的权重也会变小。",
        ),
        ("ignore_index of the cross-entropy; what the sum is divided by", "交叉熵的 ignore_index；总和除以什么"),
    ),
    "accumulation": (
        ("the loss is a mean over labels", "损失是按标签数取的平均"),
        (
            "A mean of means gives short rows extra weight: "
            "accumulating two small batches is then not one large batch.",
            "平均的平均会让短句权重偏大：两个小批的累积不再等于一个大批。",
        ),
        ("divide the sum over all labels once, by their number", "对所有标签求和后，只除一次标签总数"),
    ),
    "initial_loss": (
        ("the first loss is near ln V", "初始损失接近 ln V"),
        (
            "A fresh model should know nothing. Much more than ln V says that its first weights are too large, and the "
            "first updates only repair that.",
            "新建的模型应当一无所知。远大于 ln V 说明初始权重过大，最初的更新都花在修补这一点上。",
        ),
        (
            "how the embedding and the head are drawn (std about 0.02, or D**-0.5); a scale that is applied twice",
            "词嵌入和输出头的初始化（标准差约 0.02 或 D**-0.5）；被乘了两次的缩放",
        ),
    ),
    "memorise": (
        ("it can learn one small batch by heart", "能记住一个小批"),
        ("A model that cannot learn four rows by heart will not learn a corpus.", "记不住四行文本的模型也学不会语料。"),
        (
            "the failures above; else the gradient on its way back: saturated softmax, missing residuals, a norm that "
            "erases the signal",
            "先看上面的失败项；否则检查梯度回传：饱和的 softmax、缺失的残差、抹掉信号的归一化",
        ),
    ),
}
"""Name, why, look; each in English and Chinese."""

FAULTS = {
    "finite.one": (
        (
            "A text of one token is where generation begins; a variance over a single position is 0 or undefined.",
            "生成正是从一个词元开始的；单个位置上的方差为 0 或没有定义。",
        ),
        (
            "statistics over time (a norm over the wrong dimension), std() of one number",
            "沿时间的统计量（归一化的维度写错）、对单个数求 std()",
        ),
    ),
    "determinism.changed": (
        ("The caller's tokens are not yours to write to.", "调用者的词元不应被改写。"),
        (
            "operations with a trailing underscore, and assignments into the input",
            "带下划线的原地操作，以及对输入的赋值",
        ),
    ),
    "shapes.infinite": (
        ("One number that is not finite makes a whole batch's gradient NaN.", "一个非有限数就会让整批的梯度变成 NaN。"),
        (
            "a softmax over a row of -inf, a division by zero, scores that overflow",
            "整行都是 -inf 的 softmax、除以零、溢出的分数",
        ),
    ),
    "shapes.softmaxed": (
        (
            "cross_entropy takes logits and does the softmax itself:"
            " twice, the gradient is weak and the loss stays high.",
            "cross_entropy 接受 logits 并自己做 softmax：做两次会使梯度变弱，损失降不下去。",
        ),
        ("the softmax at the end of forward", "forward 末尾的 softmax"),
    ),
    "position_wise.norm": (
        (
            "A norm over time takes mean and deviation from other positions, also from later ones and from padding.",
            "沿时间做归一化，均值和方差就来自其他位置，包括后面的和填充。",
        ),
        ("the dimension of the norm: the last one, D", "归一化的维度：应为最后一维 D"),
    ),
    "position_wise.rows": (
        (
            "Statistics over the batch make a sentence depend on its neighbours, and differ between training and use.",
            "跨批统计会使一个句子依赖同批的其他句子，而且训练和使用时不一致。",
        ),
        ("BatchNorm in the place of LayerNorm", "用 BatchNorm 代替了 LayerNorm"),
    ),
    "heads.join": (
        (
            "Merged without the transpose back, an output holds pieces of several tokens.",
            "合并时没有转置回来，一个输出会混有多个词元的片段。",
        ),
        ("out.transpose(1, 2).reshape(B, T, D) in front of W_o", "W_o 之前的 out.transpose(1, 2).reshape(B, T, D)"),
    ),
    "heads_unmerged": (
        (
            "The heads are H answers of width E for each token; W_o wants them side by side, D = H E.",
            "每个词元有 H 个宽为 E 的结果；W_o 要求它们并排成 D = H E。",
        ),
        ("out.transpose(1, 2).reshape(B, T, D) in front of W_o", "W_o 之前的 out.transpose(1, 2).reshape(B, T, D)"),
    ),
    "scale.none": (
        (
            "Scores are not divided at all: their spread grows with sqrt(d_head), the softmax saturates, its gradient "
            "dies.",
            "分数完全没有缩放：其幅度随 sqrt(d_head) 增大，softmax 饱和，梯度消失。",
        ),
        ("scores = q @ k.transpose(-2, -1) / sqrt(d_head)", "scores = q @ k.transpose(-2, -1) / sqrt(d_head)"),
    ),
    "scale.by_d_k": (
        (
            "Scores are divided by d_head, not by its root: all keys look nearly alike, and attention averages.",
            "分数除以了 d_head 而不是它的平方根：所有键几乎没有区别，注意力变成平均。",
        ),
        (
            "scores = q @ k.transpose(-2, -1) / sqrt(d_head); whether q was scaled before",
            "scores = q @ k.transpose(-2, -1) / sqrt(d_head)；q 之前是否已缩放过",
        ),
    ),
    "scale.by_d_model": (
        (
            "Scores are divided by the root of the model's width, not of a head's.",
            "分数除以了模型宽度的平方根，而不是单个头宽度的平方根。",
        ),
        ("d_head = d_model // n_heads in the root", "平方根里应是 d_head = d_model // n_heads"),
    ),
    "causality.late": (
        (
            "Masked after the softmax, the hidden keys still take "
            "their share of the sum: the rest no longer sums to one "
            "and depends on the future.",
            "在 softmax 之后才加掩码，被遮住的键仍然占了分母：剩下的权重之和不为 1，并且依赖未来。",
        ),
        ("fill the scores with -inf, then softmax", "先把分数填成 -inf，再做 softmax"),
    ),
    "causality.transposed": (
        (
            "The mask is transposed: every token sees the future and not the past.",
            "掩码转置了：每个词元看到的是未来而不是过去。",
        ),
        ("tril, not triu; rows are queries, columns keys", "用 tril 而不是 triu；行是查询，列是键"),
    ),
    "causality.one_ahead": (
        (
            "The mask is off by one: every token sees the one that it is to predict.",
            "掩码错了一位：每个词元都能看到要预测的那个词元。",
        ),
        ("tril(diagonal=0)", "tril(diagonal=0)"),
    ),
    "causality.strict": (
        (
            "The mask is off by one: a token does not see itself, and the first one sees nothing.",
            "掩码错了一位：词元看不到自己，第一个词元什么也看不到。",
        ),
        ("tril(diagonal=0): the diagonal belongs to what is seen", "tril(diagonal=0)：对角线应当可见"),
    ),
    "padding.inverted": (
        (
            "The mask is inverted: padding is looked at, tokens are hidden.",
            "掩码的真假反了：看到的是填充，遮住的是词元。",
        ),
        (
            "what True means: masked_fill wants True where it hides, scaled_dot_product_attention True where it shows",
            "True 的含义：masked_fill 中 True 表示遮住，scaled_dot_product_attention 中 True 表示可见",
        ),
    ),
    "padding.late": (
        (
            "Masked after the softmax, padding still takes its share of the sum.",
            "在 softmax 之后才加掩码，填充仍占了分母。",
        ),
        ("fill the scores with -inf, then softmax", "先把分数填成 -inf，再做 softmax"),
    ),
    "padding.queries": (
        (
            "The mask lies on the queries: padded rows look at nothing, while every token looks at padding.",
            "掩码加在了查询上：填充行什么也不看，而所有词元仍在看填充。",
        ),
        (
            "keep[:, None, None, :] hides keys; keep[:, None, :, None] hides queries",
            "keep[:, None, None, :] 遮住键；keep[:, None, :, None] 遮住查询",
        ),
    ),
    "position.rows": (
        (
            "Equal rows give different outputs: positions go down the batch, not along the text.",
            "相同的行得到不同的输出：位置沿着批维变化，而不是沿着文本。",
        ),
        (
            "positions of shape (1, T, D), not (B, 1, D); batch_first",
            "位置的形状应为 (1, T, D)，而不是 (B, 1, D)；batch_first",
        ),
    ),
    "position.twice": (
        ("Added twice, positions drown the words from the start.", "加了两次的位置编码从一开始就盖过词向量。"),
        (
            "a module that adds its input, and a caller that adds the result again",
            "模块内部已经加了输入，调用处又加了一次",
        ),
    ),
    "position.source": (
        (
            "The source can be shuffled and nothing changes: the encoder has no positions.",
            "源文打乱后结果不变：编码器没有位置信息。",
        ),
        ("the encoder's input: positions are added there too", "编码器的输入：那里也要加位置编码"),
    ),
    "cross_attention.deaf": (
        ("The decoder writes without having read the source.", "解码器没有读到源文。"),
        ("whether memory reaches the cross-attention of every layer", "memory 是否传到了每层的交叉注意力"),
    ),
    "cross_attention.padding": (
        (
            "The source's padding is hidden in the encoder and looked at across.",
            "编码器中遮住了源文的填充，交叉注意力却仍在看。",
        ),
        ("the source's mask belongs to the cross-attention too", "源文掩码也要传给交叉注意力"),
    ),
    "cross_attention.roles": (
        (
            "q asks and comes from the decoder; k and v answer and come from the encoder's output.",
            "q 提问，来自解码器；k、v 应答，来自编码器的输出。",
        ),
        ("the arguments of the cross-attention: (x, memory, memory)", "交叉注意力的参数：(x, memory, memory)"),
    ),
    "cache.position": (
        ("The new token's position is wrong while the cache is used.", "使用缓存时，新词元的位置不对。"),
        (
            "its position is the number of tokens in the cache, counted from 0",
            "它的位置等于缓存中已有的词元数，从 0 开始",
        ),
    ),
    "residual.normed": (
        (
            "The residual carries the normed value, so that the stream is rescaled at every layer.",
            "残差传的是归一化之后的值，残差流在每一层都被重新缩放。",
        ),
        ("x + f(norm(x)), not n = norm(x); n + f(n)", "x + f(norm(x))，而不是 n = norm(x)；n + f(n)"),
    ),
    "residual.twice": (
        (
            "What comes in is added twice, so that each sublayer counts half and the stream grows.",
            "输入被加了两次：每个子层的作用减半，残差流越来越大。",
        ),
        (
            "a sublayer that adds its input itself, and a layer that adds it again",
            "子层自己加了一次输入，外层又加了一次",
        ),
    ),
    "residual.dropped": (
        (
            "A later sum goes back to an older x: what attention found is not handed on.",
            "后面的加法用了旧的 x：注意力的结果没有传下去。",
        ),
        ("x = x + f(x), each x the newest one", "x = x + f(x)，每次都用最新的 x"),
    ),
    "layers.same": (
        (
            "The list holds one layer several times: depth costs time and adds no parameters.",
            "列表里是同一个层对象重复多次：深度只增加时间，不增加参数。",
        ),
        ("[Layer() for _ in range(n)], not [Layer()] * n", "[Layer() for _ in range(n)]，而不是 [Layer()] * n"),
    ),
    "gradient.unregistered": (
        (
            "Modules in a plain list are not parameters of the model: they are neither trained, moved nor saved.",
            "普通列表里的模块不算模型参数：不会被训练、移动或保存。",
        ),
        ("nn.ModuleList or nn.ModuleDict", "nn.ModuleList 或 nn.ModuleDict"),
    ),
    "gradient.cut": (
        ("Nothing at all can be learned.", "什么也学不到。"),
        ("torch.no_grad() or detach() around the whole forward", "包住整个 forward 的 torch.no_grad() 或 detach()"),
    ),
    "label_shift.twice": (
        (
            "Shifted by the caller and again by the model: it learns to predict the token after the next.",
            "调用者移了一次，模型又移了一次：学的是预测下下个词元。",
        ),
        ("shift in one place only", "只在一处移动"),
    ),
    "label_shift.inside": (
        (
            "The model moves its input although the caller does: it predicts from everything but the last token.",
            "调用者已经移动，模型内部又移动一次输入：预测时看不到最后一个词元。",
        ),
        (
            "a start token that is put in front inside forward, inputs[:, :-1]",
            "在 forward 里再次加上起始词元、inputs[:, :-1]",
        ),
    ),
    "label_shift.never": (
        (
            "Nobody shifts: with labels = tokens the model learns to copy its input.",
            "没有人移动：labels = tokens 时模型学会照抄输入。",
        ),
        ("logits[:, :-1] against labels[:, 1:]", "logits[:, :-1] 对 labels[:, 1:]"),
    ),
    "label_shift.unread": (
        (
            "The loss compares with something else than the labels: whatever is learned, it is not what they say.",
            "损失比较的不是标签：学到的不是标签所要求的内容。",
        ),
        ("which tensor the loss is given: labels, not inputs", "传给损失的是哪个张量：应是标签而不是输入"),
    ),
    "label_shift.few": (
        ("Most positions teach nothing.", "大多数位置没有产生任何学习信号。"),
        ("logits[:, -1] where all logits were meant", "本应使用全部 logits，却写成 logits[:, -1]"),
    ),
    "label_shift.scrambled": (
        (
            "Scores are compared with labels of other places, or of several: the numbers fit, the places do not.",
            "分数与其他位置（或多个位置）的标签相比：形状对得上，位置对不上。",
        ),
        (
            "view(B, V, T) where transpose(1, 2) was meant; logits and labels flattened in different orders; a softmax "
            "over time",
            "本应 transpose(1, 2) 却写成 view(B, V, T)；logits 与标签展平的顺序不同；沿时间维的 softmax",
        ),
    ),
    "label_shift.raw": (
        (
            "Nothing pushes the other scores down: the loss falls without end and nothing is learned.",
            "没有什么压低其他分数：损失无限下降，却什么也学不到。",
        ),
        ("nll_loss wants log_softmax; or use cross_entropy", "nll_loss 需要 log_softmax；或改用 cross_entropy"),
    ),
    "label_shift.softmaxed": (
        (
            "cross_entropy takes the softmax itself: twice, it leaves hardly a gradient.",
            "cross_entropy 自带 softmax：做两次就几乎没有梯度了。",
        ),
        ("give cross_entropy the raw logits", "把原始 logits 交给 cross_entropy"),
    ),
    "causality.one_sided": (
        (
            "An encoder that cannot look ahead reads every word without what follows it.",
            "编码器看不到后文，每个词都缺了后面的信息。",
        ),
        (
            "a triangle in an encoder; if it is to write, say --as decoder",
            "编码器里的三角掩码；若它用于生成，请用 --as decoder",
        ),
    ),
    "causality.training": (
        (
            "The mask is there in evaluation and not in training: the model learns to look at the answer.",
            "评估时有掩码而训练时没有：模型学会了偷看答案。",
        ),
        ("if not self.training around the mask", "掩码外面的 if not self.training"),
    ),
    "dropout.modes": (
        (
            "What is trained is not what is used: more than dropout depends on the mode.",
            "训练的与使用的不是同一个模型：除 dropout 外还有东西取决于模式。",
        ),
        ("self.training in forward", "forward 里的 self.training"),
    ),
    "cross_attention.hidden": (
        (
            "A translation may need any word of the source at any time; a triangle has no meaning between two texts.",
            "翻译随时可能需要源文的任何一个词；两段文本之间的三角掩码没有意义。",
        ),
        (
            "the mask of the second attention: the source's padding, no triangle",
            "第二个注意力的掩码：只含源文的填充，没有三角",
        ),
    ),
    "cross_attention.one_sided": (
        ("The encoder reads each word without what follows it.", "编码器读每个词时都看不到后文。"),
        ("the target's mask, or a triangle, in the encoder", "编码器里用了目标的掩码或三角掩码"),
    ),
    "heads.copied": (
        (
            "The heads say the same: one is repeated, or their mean is, where all should stand side by side.",
            "各头内容相同：重复的是某一个头或各头的平均，而它们本应并排。",
        ),
        ("torch.cat([head(x) for head in heads], dim=-1)", "torch.cat([head(x) for head in heads], dim=-1)"),
    ),
    "position_wise.before": (
        (
            "Something in front of the first attention mixes all positions, the future and the padding among them.",
            "第一个注意力之前就有东西混合了所有位置，包括未来和填充。",
        ),
        (
            "F.layer_norm(x, x.shape[1:]), a mean over dim=1: norms go over the last dimension alone",
            "F.layer_norm(x, x.shape[1:])、沿 dim=1 的均值：归一化只应沿最后一维",
        ),
    ),
    "position.same": (
        ("Two places cannot be told apart: their words could change places.", "有两个位置无法区分：上面的词可以互换。"),
        ("// , %, clamp or integers where the index is made", "生成下标时的 //、%、clamp 或整数运算"),
    ),
    "position.unregistered": (
        ("No optimizer, no checkpoint and no .to() knows it.", "优化器、检查点和 .to() 都不知道它。"),
        ("nn.Parameter(torch.randn(max_len, d_model))", "nn.Parameter(torch.randn(max_len, d_model))"),
    ),
    "position.values": (
        (
            "Rotation is for queries and keys, whose product keeps the distance; values keep the place itself.",
            "旋转只用于查询和键，它们的积只保留距离；对值旋转则带入了绝对位置。",
        ),
        ("rotate q and k, not v", "只旋转 q 和 k，不旋转 v"),
    ),
    "position.absolute": (
        (
            "Queries and keys are not turned by the same angles: what a token finds depends on where the text begins.",
            "查询和键旋转的角度不同：词元找到的内容取决于文本从哪里开始。",
        ),
        (
            "both through the same function: base, pairing of columns, positions, signs",
            "两者用同一个函数：底数、列的配对、位置、符号",
        ),
    ),
    "cache.chunk": (
        (
            "Several new tokens behind a cache must not see each other's future; a second prompt or a draft needs it.",
            "缓存之后的多个新词元不能互相看到未来；追加提示或投机解码都需要这一点。",
        ),
        (
            "the mask of T queries over S keys: ones(T, S).tril(S - T), and none only for T = 1",
            "T 个查询对 S 个键的掩码：ones(T, S).tril(S - T)；只有 T = 1 时可以没有",
        ),
    ),
    "loss_padding.counted": (
        (
            "Ignored positions are counted in the divisor: batches with much padding get a small gradient.",
            "被忽略的位置仍计入除数：填充多的批梯度偏小。",
        ),
        ("divide by (labels != ignored).sum()", "除以 (labels != ignored).sum()"),
    ),
    "shapes.row": (
        ("A single text loses its axis: serving one request breaks.", "单独一段文本丢掉了批这一维：单条请求会出错。"),
        ("squeeze() without an axis", "没有写维度的 squeeze()"),
    ),
    "norm.none": (
        ("What should be brought to one size is not: depth and learning rate decide.", "本应归一的大小没有归一。"),
        (
            "(x - mean) / sqrt(var + eps): the brackets, the square root, the axis",
            "(x - mean) / sqrt(var + eps)：括号、开方、维度",
        ),
    ),
    "norm.sum": (
        (
            "Everything behind the norm is smaller by the square root of the width.",
            "归一化之后的一切都小了宽度的平方根倍。",
        ),
        ("x.pow(2).mean(-1, keepdim=True), not sum", "x.pow(2).mean(-1, keepdim=True)，而不是 sum"),
    ),
    "norm.query": (
        ("Keys and values grow with the residual stream.", "键和值会随残差流增大。"),
        ("y = norm(x); attention(y, y, y)", "y = norm(x); attention(y, y, y)"),
    ),
    "label_shift.fed": (
        (
            "The decoder must read, at each place, the label of the place before, behind a start token.",
            "解码器在每个位置应读到前一个位置的标签，最前面是开始符。",
        ),
        (
            "shifted[:, 1:] = labels[:, :-1]; shifted[:, 0] = start; no roll, no shift to the left",
            "shifted[:, 1:] = labels[:, :-1]; shifted[:, 0] = start；不是 roll，也不是左移",
        ),
    ),
    "accumulation.sum": (
        (
            "A sum grows with batch and length: gradients of batches of unequal size do not add up, and no number can "
            "be compared with another.",
            "总和随批大小和长度增长：大小不同的批梯度无法合并，数值也无法互相比较。",
        ),
        (
            'reduction="mean", or the sum divided by the number of labels that count',
            'reduction="mean"，或用总和除以有效标签数',
        ),
    ),
    "position.one_sided": (
        ("Half of the order is invisible.", "一半的次序信息不可见。"),
        (
            "buckets or a bias made for a decoder in an encoder: bidirectional=True, abs() of the distance",
            "编码器用了解码器的分桶或偏置：bidirectional=True，距离取 abs()",
        ),
    ),
    "position.far": (
        ("The bias is there to favour what is near.", "偏置的作用是偏向近处。"),
        ("the minus of the bias: -slope * distance", "偏置的负号：-slope * distance"),
    ),
    "position.masked": (
        ("As soon as a mask is given, order is lost.", "一旦给出掩码，次序信息就丢失了。"),
        ("bias = mask where bias = bias + mask was meant", "本应 bias = bias + mask 却写成 bias = mask"),
    ),
    "softmax_axis.added": (
        ("Weights no longer sum to one, and may be negative.", "权重之和不再为一，还可能为负。"),
        (
            "masks and position biases are added to the scores, before the softmax",
            "掩码和位置偏置应在 softmax 之前加到分数上",
        ),
    ),
    "softmax_axis.scaled": (
        (
            "Scores are as large as without a scale, and what attention returns is too small.",
            "分数仍像没有缩放一样大，注意力的输出则过小。",
        ),
        (
            "softmax(scores / sqrt(d)), not softmax(scores) / sqrt(d)",
            "softmax(scores / sqrt(d))，而不是 softmax(scores) / sqrt(d)",
        ),
    ),
    "norm.silent": (
        ("Every output begins at zero, and so do most gradients.", "所有输出从零开始，大部分梯度也是。"),
        ("gains of zero belong to x * (1 + weight); else ones", "零增益只用于 x * (1 + weight)；否则应为一"),
    ),
    "position.prefix": (
        (
            "What is written token by token is not what was trained: every step moves the positions.",
            "逐词生成与训练时不同：每一步位置都会变。",
        ),
        (
            "positions or distances counted from the end; a relative table that is not skewed, or its wrong rows",
            "从末尾数的位置或距离；没有做 skew 的相对位置表，或取错了行",
        ),
    ),
    "causality.masked": (
        ("As soon as a batch is padded, the future is visible.", "批中一有填充，未来就可见。"),
        (
            "mask = triangle & padding, not padding in the place of the triangle",
            "mask = 三角掩码 & 填充掩码，而不是用填充掩码代替三角掩码",
        ),
    ),
}
"""Why, look; where a fault is known better than its property."""
