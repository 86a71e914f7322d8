"""The words about whole models: of each property its name, why it matters and where to look; and what was seen."""

from __future__ import annotations

from glassformer.core.wording import Catalogue

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
            "the position of the new token (length so far, not 0 or 1 more), the order of old and new keys, the mask of a "
            "single query",
            "新词元的位置（等于已有长度，不是 0，也不多 1）、新旧键的先后顺序、单个查询时的掩码",
        ),
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
            "who shifts: the data (targets[t] = tokens[t + 1]) or the loss (logits[:, :-1] with labels[:, 1:]), not both",
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
            "A mean of means gives short rows extra weight: accumulating two small batches is then not one large batch.",
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
    "shapes.changed": (
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
            "cross_entropy takes logits and does the softmax itself: twice, the gradient is weak and the loss stays high.",
            "cross_entropy 接受 logits 并自己做 softmax：做两次会使梯度变弱，损失降不下去。",
        ),
        ("the softmax at the end of forward", "forward 末尾的 softmax"),
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
            "Masked after the softmax, the hidden keys still take their share of the sum: the rest no longer sums to one "
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
    "label_shift.never": (
        (
            "Nobody shifts: with labels = tokens the model learns to copy its input.",
            "没有人移动：labels = tokens 时模型学会照抄输入。",
        ),
        ("logits[:, :-1] against labels[:, 1:]", "logits[:, :-1] 对 labels[:, 1:]"),
    ),
    "loss_padding.counted": (
        (
            "Ignored positions are counted in the divisor: batches with much padding get a small gradient.",
            "被忽略的位置仍计入除数：填充多的批梯度偏小。",
        ),
        ("divide by (labels != ignored).sum()", "除以 (labels != ignored).sum()"),
    ),
}
"""Why, look; where a fault is known better than its property."""

SEEN = {
    "shapes.seen": ("{shape}, also for one token", "{shape}，单个词元亦可"),
    "shapes.wrong": (
        "the output has shape {shape} for {rows} rows of {length} tokens; expected ({rows}, {length}, V)",
        "{rows} 行、每行 {length} 个词元，输出形状却是 {shape}；应为 ({rows}, {length}, V)",
    ),
    "shapes.changed": ("the input was overwritten", "输入被改写"),
    "shapes.one": ("a text of one token crashes: {error}", "只有一个词元的文本会崩溃：{error}"),
    "shapes.infinite": ("outputs are not finite ({what})", "输出不是有限数（{what}）"),
    "shapes.softmaxed": ("the outputs are probabilities: every row sums to 1", "输出是概率：每行之和为 1"),
    "determinism.seen": ("no difference between two runs", "两次运行没有差别"),
    "determinism.differs": ("two runs differ by {gap:.2g} of the outputs' size", "两次运行相差为输出大小的 {gap:.2g}"),
    "dropout.none": ("no dropout is configured", "没有配置 dropout"),
    "dropout.seen": ("share {share:g}", "比例 {share:g}"),
    "dropout.idle": (
        "dropout of {share:g} is configured, and two training passes are equal",
        "配置了 {share:g} 的 dropout，但两次训练前向的结果相同",
    ),
    "batch_mates.seen": ("alone and beside other rows", "单独一行与放在批中相同"),
    "batch_mates.alone": (
        "a row alone differs from the same row in a batch by {gap:.2g}",
        "单独一行与放在批中相差 {gap:.2g}",
    ),
    "batch_mates.mates": ("other rows' content changes a row by {gap:.2g}", "其他行的内容使本行改变 {gap:.2g}"),
    "causality.encoder": ("an encoder may see both sides", "编码器可以看到两侧"),
    "causality.seen": ("{length} positions tried", "试了 {length} 个位置"),
    "causality.leak": (
        "token {token} changes earlier outputs by {gap:.2g} of their size",
        "第 {token} 个词元使更早的输出改变了 {gap:.2g}",
    ),
    "causality.strict": ("in attention {layers} a token does not see itself", "在第 {layers} 个注意力中词元看不到自己"),
    "padding.no_way": ("the model cannot be told where padding is", "无法告诉模型哪里是填充"),
    "padding.seen": ("neither its content nor its presence", "填充的内容和有无都不影响"),
    "padding.no_left": (
        "padding on the right; on the left the model gives no numbers",
        "右侧填充；左侧填充时模型没有有效输出",
    ),
    "padding.source": (
        "padding in the source changes the encoder's states, and the output by {gap:.2g}",
        "源文的填充改变了编码器状态，输出改变 {gap:.2g}",
    ),
    "padding.content": (
        "what stands at padding changes tokens' outputs by {gap:.2g}",
        "填充处的内容使词元输出改变 {gap:.2g}",
    ),
    "padding.presence": (
        "a padded row differs from the same row without padding by {gap:.2g}",
        "带填充的行与不带填充的同一行相差 {gap:.2g}",
    ),
    "padding.left": ("padding on the left changes tokens' outputs by {gap:.2g}", "左侧填充使词元输出改变 {gap:.2g}"),
    "position.embeddings": (
        "embeddings go in, with positions of the caller's making",
        "输入是词向量，位置由调用者加入",
    ),
    "position.rows": ("equal rows of a batch differ by {gap:.2g}", "同批中相同的行相差 {gap:.2g}"),
    "position.none": ("shuffled tokens give the same outputs, shuffled", "打乱词元，输出只是同样被打乱"),
    "position.seen": ("another order changes the outputs by {gap:.2g}", "改变顺序使输出改变 {gap:.2g}"),
    "position.source": (
        "the source in another order changes nothing ({gap:.2g})",
        "改变源文顺序没有任何影响（{gap:.2g}）",
    ),
    "position.twice": (
        "the table of positions is in the first layer's input {times} times",
        "位置表在第一层输入中出现了 {times} 次",
    ),
    "position.causal": (
        "for the last token, the first attention gives the same in whatever order the others stand",
        "对最后一个词元来说，无论其他词元怎样排列，第一个注意力的结果都相同",
    ),
    "position.first": ("the first attention, {where}, tells order", "第一个注意力 {where} 能区分顺序"),
    "position.inline": ("attention is no module of its own; outputs are causal", "注意力不是单独的模块；输出是因果的"),
    "cross_attention.none": ("there is no source", "没有源文"),
    "cross_attention.lengths": (
        "the model runs only if source and target are equally long",
        "只有源文与目标等长时模型才能运行",
    ),
    "cross_attention.deaf": ("another source changes nothing", "换一个源文没有任何变化"),
    "cross_attention.roles": ("in the first layer {name} comes from the {came}", "第一层中 {name} 来自 {came}"),
    "cross_attention.unpadded": (
        "the source is read; the model cannot be told where its padding is",
        "读到了源文；无法告诉模型源文的填充在哪里",
    ),
    "cross_attention.padding": (
        "padding of the source changes the output by {gap:.2g}",
        "源文的填充使输出改变 {gap:.2g}",
    ),
    "cross_attention.seen": ("the source is read, its padding is not", "读到了源文，没有读到填充"),
    "attention.torch": (
        "torch's own nn.MultiheadAttention, known to be right",
        "使用 torch 自带的 nn.MultiheadAttention，已知正确",
    ),
    "attention.unseen": ("no softmax of products of queries and keys was seen", "没有看到查询与键之积的 softmax"),
    "softmax_axis.seen": ("{count} attentions", "{count} 个注意力"),
    "softmax_axis.other": (
        "in attention {number} the weights of a query sum to {low:.2f} ... {high:.2f}",
        "第 {number} 个注意力中，一个查询的权重之和为 {low:.2f} ... {high:.2f}",
    ),
    "scale.unknown": ("the factor of the scores could not be followed", "无法追踪分数的系数"),
    "scale.seen": ("{factor:.4g} for heads of width {width}", "头宽 {width}，系数 {factor:.4g}"),
    "scale.other": (
        "attention {number} multiplies scores by {factor:.4g}; heads are {width} wide, so {wanted:.4g}",
        "第 {number} 个注意力把分数乘以 {factor:.4g}；头宽为 {width}，应为 {wanted:.4g}",
    ),
    "own_values.seen": ("in {count} attentions", "{count} 个注意力"),
    "own_values.same": (
        "in attention {number}, {one} and {other} are the same vectors",
        "第 {number} 个注意力中 {one} 与 {other} 是同样的向量",
    ),
    "heads.seen": ("a position stays a position", "各位置互不混淆"),
    "heads.split": (
        "token {token} is in {name} at positions {touched}",
        "第 {token} 个词元出现在 {name} 的位置 {touched}",
    ),
    "heads.join": (
        "position {token} of the heads comes out at positions {touched}",
        "多头的第 {token} 个位置出现在输出位置 {touched}",
    ),
    "layers.unseen": ("no list of layers was found", "没有找到层的列表"),
    "layers.seen": ("{count} layers", "{count} 层"),
    "layers.same": ("{count} entries are fewer modules", "{count} 个条目中有重复的模块"),
    "layers.idle": ("leaving the layer out changes nothing", "去掉该层没有任何变化"),
    "position_wise.unseen": ("no feed-forward network or norm was found", "没有找到前馈网络或归一化"),
    "position_wise.seen": (
        "{count} feed-forward networks, {norms} norms and the like",
        "{count} 个前馈网络，{norms} 个归一化等",
    ),
    "position_wise.positions": ("one position changes the others", "一个位置会改变其他位置"),
    "position_wise.rows": ("one row changes the others while training", "训练时一行会改变其他行"),
    "residual.pre": ("{count} layers hand on what came in (pre-norm)", "{count} 层原样传递输入（Pre-LN）"),
    "residual.post": (
        "{count} layers hand on what came in, normed (post-norm)",
        "{count} 层传递归一化后的输入（Post-LN）",
    ),
    "residual.mixed": ("{count} layers hand on what came in, normed or not", "{count} 层传递输入，有的经过归一化"),
    "residual.none": ("with its matrices at zero the layer hands on nothing", "矩阵置零后该层什么也不传递"),
    "residual.normed": (
        "the layer hands on the normed input, but does not norm its output",
        "该层传递的是归一化后的输入，输出却没有归一化",
    ),
    "norm.unstated": ("nothing says where the norms are to be; found: {found}", "没有声明归一化的位置；测得：{found}"),
    "norm.other": ("said to be {wanted}, found {found}", "声明为 {wanted}，测得 {found}"),
    "norm.seen": ("{found}", "{found}"),
    "gradient.seen": ("{count} parameters", "{count} 个参数"),
    "gradient.dead": ("no gradient reaches {names} ({count:,} numbers)", "没有梯度到达 {names}（{count:,} 个数）"),
    "gradient.none": ("no gradient reaches any parameter", "没有梯度到达任何参数"),
    "gradient.unregistered": ("modules in a plain list: {names}", "普通列表中的模块：{names}"),
    "tied.seen": ("{names}", "{names}"),
    "tied.none": ("no weights are shared, none are equal", "没有共享的权重，也没有相等的权重"),
    "tied.copy": ("{one} and {other} hold equal values in two tensors", "{one} 与 {other} 数值相同，却是两个张量"),
    "loss.none": ("the model computes no loss", "模型不计算损失"),
    "loss.unknown": ("the loss is not the plain cross-entropy of the logits", "损失不是 logits 的普通交叉熵"),
    "loss.no_label": ("no label says that there is nothing to predict", "没有表示“不预测”的标签"),
    "label_shift.other": (
        "loss {loss:.4f}, the cross-entropy of the logits is {expected:.4f}",
        "损失 {loss:.4f}，logits 的交叉熵为 {expected:.4f}",
    ),
    "label_shift.by_0": ("labels[t] belongs to position t", "labels[t] 对应位置 t"),
    "label_shift.by_1": ("the loss compares position t with labels[t + 1]", "损失把位置 t 与 labels[t + 1] 相比"),
    "label_shift.wrong": (
        "the loss compares position t with labels[t + {found}]; it should be labels[t + {wanted}]",
        "损失把位置 t 与 labels[t + {found}] 相比；应为 labels[t + {wanted}]",
    ),
    "loss_padding.seen": ("label {ignored} is left out", "标签 {ignored} 不计入"),
    "loss_padding.mask": ("labels at padding change nothing", "填充处的标签不影响损失"),
    "loss_padding.counted": (
        "loss {loss:.4f} instead of {right:.4f}: the sum is divided by all positions",
        "损失 {loss:.4f}，应为 {right:.4f}：总和除以了所有位置",
    ),
    "loss_padding.reached": ("loss {loss:.4f} instead of {right:.4f}", "损失 {loss:.4f}，应为 {right:.4f}"),
    "accumulation.seen": ("parts weighed by their labels make up the whole", "各部分按标签数加权等于整体"),
    "accumulation.other": (
        "the batch {whole:.4f}; its rows by labels {by_label:.4f}, by rows {by_row:.4f}",
        "整批 {whole:.4f}；按标签加权 {by_label:.4f}，按行平均 {by_row:.4f}",
    ),
    "initial_loss.states": ("the outputs are no scores of tokens", "输出不是词元的分数"),
    "initial_loss.trained": ("the model is trained, or cannot be told from one that is", "模型已训练过，或无法判断"),
    "initial_loss.high": (
        "{loss:.2f}, while guessing gives {guess:.2f}; logits spread by {spread:.2g}",
        "{loss:.2f}，而随机猜测为 {guess:.2f}；logits 的标准差为 {spread:.2g}",
    ),
    "initial_loss.seen": ("{loss:.2f}; ln V is {guess:.2f}", "{loss:.2f}；ln V 为 {guess:.2f}"),
    "memorise.seen": (
        "loss {first:.2f} -> {loss:.3f} in {steps} updates",
        "{steps} 次更新，损失 {first:.2f} -> {loss:.3f}",
    ),
    "memorise.stuck": (
        "loss {first:.2f} -> {loss:.2f} in {steps} updates",
        "{steps} 次更新，损失 {first:.2f} -> {loss:.2f}",
    ),
    "memorise.infinite": ("the loss is not finite after {step} updates", "{step} 次更新后损失不是有限数"),
    "cache.none": ("there is no cache that could be handed on", "没有可以传递的缓存"),
    "cache.seen": ("{length} tokens, a text at once and one by one", "{length} 个词元，先整段后逐个"),
    "cache.prefill": (
        "already the first tokens differ by {gap:.2g} when a cache is handed in",
        "传入缓存时，最初的词元就相差 {gap:.2g}",
    ),
    "cache.step": ("token {token} differs by {gap:.2g}", "第 {token} 个词元相差 {gap:.2g}"),
    "cache.position": (
        "token {token} was given position {found}; outputs differ by {gap:.2g}",
        "第 {token} 个词元的位置成了 {found}；输出相差 {gap:.2g}",
    ),
}
"""What was measured."""

REMARKS = {
    "kind.decoder": ("decoder-only model", "仅解码器模型"),
    "kind.encoder": ("encoder-only model", "仅编码器模型"),
    "kind.encoder_decoder": ("encoder-decoder model", "编码器-解码器模型"),
    "kind.unknown": ("model", "模型"),
    "bare": ("bare {name}: embeddings go in, masks are the caller's", "裸 {name}：输入是词向量，掩码由调用者给出"),
    "kind_said": ("examined as you said", "按指定的类型检查"),
    "kind_cache": ("examined as a decoder: it takes a cache", "按解码器检查：它接受缓存"),
    "kind_targets": (
        "examined as a decoder: it takes targets and returns a loss",
        "按解码器检查：它接受 targets 并返回损失",
    ),
    "kind_mask": ("examined as a decoder: it takes a mask of the future", "按解码器检查：它接受遮住未来的掩码"),
    "kind_triangle": ("examined as a decoder: it holds a mask of the future", "按解码器检查：它含有遮住未来的掩码"),
    "kind_causal": (
        "examined as a decoder: what is before and behind a token counts differently",
        "按解码器检查：词元前后的影响不同",
    ),
    "kind_guess": (
        "examined as a decoder, as it scores tokens and takes no padding; --as encoder says otherwise",
        "按解码器检查（对词元打分且不接受填充）；可用 --as encoder 改变",
    ),
    "kind_both": (
        "examined as an encoder: it sees both sides; --as decoder says otherwise",
        "按编码器检查：它能看到两侧；可用 --as decoder 改变",
    ),
    "mask_hides": ("{name}: True hides", "{name}：True 表示遮住"),
    "mask_shows": ("{name}: True shows", "{name}：True 表示可见"),
    "mask_added": ("{name}: -inf is added where it hides", "{name}：在要遮住处加 -inf"),
    "pad_id": ("token {id} is padding", "词元 {id} 是填充"),
    "float32": (
        "computed in float32, as the code does not run in float64",
        "以 float32 计算，因为代码不能在 float64 下运行",
    ),
}
"""What the examiner assumed."""


def _pair(texts: tuple[str, str]) -> dict[str, str]:
    return {"en": texts[0], "zh": texts[1]}


MESSAGES = Catalogue(
    {key: _pair(texts) for key, texts in (SEEN | REMARKS).items()}
    | {
        f"{key}.{what}": _pair(t)
        for key, all_ in PROPERTIES.items()
        for what, t in zip(("name", "why", "look"), all_, strict=True)
    }
    | {f"{key}.{what}": _pair(t) for key, both in FAULTS.items() for what, t in zip(("why", "look"), both, strict=True)}
)
"""By key and language."""
