"""The words about whole models: what was seen, and what was assumed."""

from __future__ import annotations

from glassformer.core.wording import Catalogue
from glassformer.diagnosis.model.explanations import FAULTS, PROPERTIES

SEEN = {
    "shapes.seen": ("{shape}, also for one token", "{shape}，单个词元亦可"),
    "shapes.wrong": (
        "the output has shape {shape} for {rows} rows of {length} tokens; expected ({rows}, {length}, V)",
        "{rows} 行、每行 {length} 个词元，输出形状却是 {shape}；应为 ({rows}, {length}, V)",
    ),
    "determinism.changed": ("the input was overwritten", "输入被改写"),
    "shapes.one": ("a text of one token crashes: {error}", "只有一个词元的文本会崩溃：{error}"),
    "shapes.infinite": ("outputs are not finite", "输出不是有限数"),
    "finite.infinite": ("outputs are not finite ({what})", "输出不是有限数（{what}）"),
    "finite.seen": ("one token; nothing but one id", "单个词元；全为同一编号的文本"),
    "feed_forward.seen": ("between the matrices of each", "在两个矩阵之间"),
    "feed_forward.straight": (
        "what comes out of a matrix to width {width} goes into the next one as it is",
        "宽为 {width} 的矩阵输出原样进入下一个矩阵",
    ),
    "residual.twice": (
        "with its matrices at zero the layer has 2 x where x should be",
        "矩阵置零后，该层中本该是 x 的地方是 2 x",
    ),
    "residual.dropped": (
        "nothing of this attention is in what the layer hands on",
        "该层传递的结果中没有这个注意力的任何内容",
    ),
    "label_shift.inside": (
        "a token changes later outputs, but not the one at its own place",
        "一个词元会改变后面的输出，却不改变自己位置上的输出",
    ),
    "label_shift.own": ("position t reads token t", "位置 t 读到词元 t"),
    "label_shift.unread": ("other labels give the same loss", "换掉标签，损失不变"),
    "label_shift.few": ("label {label} changes nothing in the loss", "第 {label} 个标签不影响损失"),
    "label_shift.scrambled": (
        "the label at {label} changes the gradient of the scores at {score}",
        "{label} 处的标签改变的是 {score} 处分数的梯度",
    ),
    "label_shift.fed": (
        "the label at {label} first changes the scores at {first}, and not those at the place behind it",
        "{label} 处的标签最早改变的是 {first} 处的分数，而不是它后一个位置的分数",
    ),
    "label_shift.read": (
        "each score is compared with the token that was just read",
        "每个分数与刚刚读到的词元相比",
    ),
    "label_shift.viewed": (
        "the loss is that of scores (B, T, V) read as (B, V, T)",
        "损失是把分数 (B, T, V) 当作 (B, V, T) 读出来的",
    ),
    "label_shift.rows": (
        "the same texts with the same labels, in another order of rows, give another loss",
        "同样的文本与标签，只换行的次序，损失就不同",
    ),
    "label_shift.raw": ("no score but the label's has a gradient", "除标签对应的分数外都没有梯度"),
    "label_shift.softmaxed": ("it is the cross-entropy of softmax(logits)", "它是 softmax(logits) 的交叉熵"),
    "shapes.row": ("for one text alone the output has shape {shape}", "只有一段文本时输出的形状是 {shape}"),
    "shapes.softmaxed": ("the outputs are probabilities: every row sums to 1", "输出是概率：每行之和为 1"),
    "determinism.labels": (
        "the labels that were handed in are overwritten: a second call gets others",
        "传入的标签被改写：第二次调用得到的是别的标签",
    ),
    "determinism.seen": ("no difference between two runs", "两次运行没有差别"),
    "determinism.differs": ("two runs differ by {gap:.2g} of the outputs' size", "两次运行相差为输出大小的 {gap:.2g}"),
    "dropout.none": ("no dropout is configured", "没有配置 dropout"),
    "dropout.modes": (
        "with every dropout at zero, training and evaluation give different outputs",
        "所有 dropout 设为零后，训练与评估的输出仍然不同",
    ),
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
    "causality.one_sided": ("no token changes an output before it", "任何词元都不影响它之前的输出"),
    "causality.training": (
        "while training, token {token} changes earlier outputs by {gap:.2g} of their size",
        "训练时，第 {token} 个词元使更早的输出改变了 {gap:.2g}",
    ),
    "causality.masked": (
        "given a mask of padding, token {token} changes earlier outputs by {gap:.2g} of their size",
        "给出填充掩码时，第 {token} 个词元使更早的输出改变了 {gap:.2g}",
    ),
    "causality.leak": (
        "token {token} changes earlier outputs by {gap:.2g} of their size",
        "第 {token} 个词元使更早的输出改变了 {gap:.2g}",
    ),
    "causality.strict": ("in attention {layers} a token does not see itself", "在第 {layers} 个注意力中词元看不到自己"),
    "padding.no_way": ("the model cannot be told where padding is", "无法告诉模型哪里是填充"),
    "rows": ("rows of a batch change each other: that comes first", "批中各行相互影响：应先解决这个问题"),
    "misread": ("the source is not read as it should be: that comes first", "源文的读取方式有误：应先解决这个问题"),
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
    "position.same": ("tokens {one} and {other} stand at the same place", "第 {one} 个与第 {other} 个词元处在同一位置"),
    "position.unregistered": (
        "the table of positions is a plain tensor of random numbers",
        "位置表是普通的随机张量",
    ),
    "position.values": ("values differ by position where all tokens are the same", "词元全相同时，值仍随位置变化"),
    "position.absolute": (
        "products of turned queries and keys differ by {off:.2g} at one distance",
        "距离相同的旋转后查询与键之积相差 {off:.2g}",
    ),
    "position.one_sided": (
        "in the first attention, what stands on one side is all at one distance",
        "在第一个注意力中，一侧的所有位置都被当作同一距离",
    ),
    "position.prefix": (
        "the first {length} tokens alone give outputs that differ by {gap:.2g} from those in the whole text",
        "只给前 {length} 个词元时，输出与全文中的相差 {gap:.2g}",
    ),
    "position.far": (
        "in every head of the first attention, a token counts the more the farther away it stands",
        "在第一个注意力的每个头中，越远的词元权重越大",
    ),
    "position.masked": (
        "given a mask that hides nothing, shuffled tokens give the same outputs, shuffled",
        "给出不遮住任何词元的掩码时，打乱词元，输出只是同样被打乱",
    ),
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
    "cross_attention.hidden": (
        "token {query} of the target cannot see token {at} of the source",
        "目标的第 {query} 个词元看不到源文的第 {at} 个词元",
    ),
    "cross_attention.one_sided": (
        "a state of the encoder does not depend on what stands behind it",
        "编码器的状态不依赖其后的内容",
    ),
    "attention.torch": (
        "torch's own nn.MultiheadAttention, known to be right",
        "使用 torch 自带的 nn.MultiheadAttention，已知正确",
    ),
    "attention.unseen": ("no softmax of products of queries and keys was seen", "没有看到查询与键之积的 softmax"),
    "softmax_axis.added": (
        "in attention {number} something is added to the weights, after the softmax",
        "第 {number} 个注意力在 softmax 之后又给权重加上了别的数",
    ),
    "softmax_axis.scaled": (
        "in attention {number} the weights are divided by the square root of the width, after the softmax",
        "第 {number} 个注意力在 softmax 之后才除以宽度的平方根",
    ),
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
    "heads.mixed": ("positions are mixed before any attention", "在注意力之前位置就已混合"),
    "heads.copied": (
        "what goes into a matrix is one piece of width {width}, repeated",
        "进入某个矩阵的是同一段宽为 {width} 的向量的重复",
    ),
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
        "feed-forward networks: {count}; norms and the like: {norms}",
        "{count} 个前馈网络，{norms} 个归一化等",
    ),
    "position_wise.positions": ("one position changes the others", "一个位置会改变其他位置"),
    "position_wise.before": (
        "before any attention, a token has already changed every position",
        "在任何注意力之前，一个词元就已改变所有位置",
    ),
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
    "norm.none": (
        "an input {times:g} times as large gives another output: nothing is normalised",
        "输入放大 {times:g} 倍，输出就不同：没有起到归一化作用",
    ),
    "norm.uneven": (
        "with gains of one, vectors come out with sizes from {low:.2g} to {high:.2g}",
        "增益为一时，各向量的大小从 {low:.2g} 到 {high:.2g} 不等",
    ),
    "norm.silent": ("its gains begin at zero: nothing passes", "增益从零开始：什么也通不过"),
    "norm.sum": (
        "with gains of one, what comes out has size {size:.2g}, not 1",
        "增益为一时，输出的大小是 {size:.2g} 而不是 1",
    ),
    "norm.query": (
        "queries come from the norm, keys and values from what stands in front of it",
        "查询来自归一化之后，键和值却来自归一化之前",
    ),
    "norm.other": ("said to be {wanted}, found {found}", "声明为 {wanted}，测得 {found}"),
    "norm.seen": ("{found}", "{found}"),
    "gradient.seen": ("{count} in all", "共 {count} 个"),
    "gradient.whole": (
        "{count} in all; matrices of whole numbers, which do not learn: {whole}",
        "共 {count} 个；另有 {whole} 个整数矩阵，不能学习",
    ),
    "gradient.dead": ("no gradient reaches {names} ({count:,} numbers)", "没有梯度到达 {names}（{count:,} 个数）"),
    "gradient.detached": (
        "its numbers are used in a product that no gradient leads back from",
        "它的数值参与了乘法，梯度却无法传回",
    ),
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
    "accumulation.sum": (
        "the loss is {times} times the mean over labels",
        "损失是各标签平均损失的 {times} 倍",
    ),
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
    "memorise.whole": ("its matrices are whole numbers, which do not learn", "矩阵为整数，不能学习"),
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
    "cache.chunk": (
        "one by one it is right; {count} tokens at once behind a cache differ by {gap:.2g}",
        "逐个处理正确；缓存之后一次处理 {count} 个词元则相差 {gap:.2g}",
    ),
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
    "pooled": (
        "each text gets one row of numbers: what is asked of every token is left out",
        "每段文本只得到一行数：针对每个词元的检查从略",
    ),
    "cuts": (
        "the last token of each text is left out inside: one more is given",
        "模型内部去掉了每段文本的最后一个词元：因此多给一个",
    ),
    "asks": (
        "without {name} only the last token is scored, so {name} are always given",
        "不给 {name} 时只对最后一个词元打分，因此总是给出 {name}",
    ),
    "kind_segments": (
        "examined as an encoder: it takes token types and sees both sides; --as decoder says otherwise",
        "按编码器检查：它接受词元类型，且能看到两侧；可用 --as decoder 改变",
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
