"""The words of the sections that say what was found out about heads, layers and changes."""

from __future__ import annotations

from glassformer.core.wording import Catalogue

TEXTS = Catalogue(
    {
        "overview": {"en": "All heads", "zh": "全部头一览"},
        "overview_hint": {
            "en": "Every head of every layer, one row a layer. Click or tap a picture to open it.",
            "zh": "每一层的每一个头，一行为一层。点击图片可打开该头。",
        },
        "colour_by": {"en": "Frame", "zh": "边框"},
        "by_role": {"en": "role", "zh": "作用"},
        "by_spread": {"en": "entropy", "zh": "熵"},
        "by_effect": {"en": "effect", "zh": "影响"},
        "layer_head": {"en": "layer.head", "zh": "层.头"},
        "layer_short": {"en": "layer {layer}", "zh": "{layer} 层"},
        "head_at": {"en": "layer {layer}, head {head}", "zh": "第 {layer} 层第 {head} 头"},
        "roles": {"en": "What the heads do", "zh": "各头的作用"},
        "roles_hint": {
            "en": "The share of a head's attention that goes to a place, as a mean over this text. A head is called "
            "after the place that gets at least half of it. Click a heading to sort.",
            "zh": "头的注意力中流向某处的份额，取本文本上的平均。至少一半流向某处时，该头以此命名。点击表头可排序。",
        },
        "role": {"en": "role", "zh": "作用"},
        "role_previous": {"en": "previous token", "zh": "前一词元"},
        "role_next": {"en": "next token", "zh": "后一词元"},
        "role_itself": {"en": "itself", "zh": "自身"},
        "role_diagonal": {"en": "diagonal", "zh": "对角线"},
        "role_first": {"en": "first token", "zh": "首词元"},
        "role_last": {"en": "last token", "zh": "末词元"},
        "role_same": {"en": "same token", "zh": "相同词元"},
        "role_induction": {"en": "induction", "zh": "归纳"},
        "role_broad": {"en": "broad", "zh": "分散"},
        "role_mixed": {"en": "mixed", "zh": "混合"},
        "repeats": {"en": "induction, random text", "zh": "归纳（随机文本）"},
        "repeats_hint": {
            "en": "This text repeats no token, so induction was measured on a random sequence that is read twice.",
            "zh": "本文本没有重复的词元，因此归纳是在一段读两遍的随机序列上测量的。",
        },
        "distance": {"en": "distance", "zh": "距离"},
        "entropy": {"en": "entropy, nats", "zh": "熵（nat）"},
        "spread": {"en": "entropy, of the most", "zh": "熵（占最大值）"},
        "effect": {"en": "effect", "zh": "影响"},
        "effect_next": {
            "en": "Effect: how much the loss of this text rises when the head's output is set to {value}: nats for "
            "each token, -log p of the next one; with all heads {loss}.",
            "zh": "影响：将该头的输出设为{value}后，本文本的损失上升多少（每词元 nat，即下一词元的 -log p）；"
            "全部头在时为 {loss}。",
        },
        "effect_same": {
            "en": "Effect: how much worse the model knows the tokens it sees, when the head's output is set to "
            "{value}: nats for each token; with all heads {loss}.",
            "zh": "影响：将该头的输出设为{value}后，模型对所见词元的把握变差多少（每词元 nat）；全部头在时为 {loss}。",
        },
        "effect_label": {
            "en": "Effect: how much -log p of the label rises when the head's output is set to {value}, in nats; "
            "with all heads {loss}.",
            "zh": "影响：将该头的输出设为{value}后，标签的 -log p 上升多少（nat）；全部头在时为 {loss}。",
        },
        "effect_vector": {
            "en": "Effect: how far the text's vector turns when the head's output is set to {value}: 1 - cosine.",
            "zh": "影响：将该头的输出设为{value}后，文本向量转动多少：1 - 余弦。",
        },
        "effect_none": {
            "en": "No effects: a text of one token has nothing to predict.",
            "zh": "没有影响值：只有一个词元的文本没有可预测的内容。",
        },
        "zero": {"en": "zero", "zh": "零"},
        "mean": {"en": "its mean over the positions", "zh": "其在各位置上的平均"},
        "effect_budget": {
            "en": "{exact} of {all} heads were taken away one by one, those with the largest estimates; of the others, "
            "marked ~, the effect is estimated from one backward pass. All of them: --ablate-heads {all}.",
            "zh": "{all} 个头中，估计影响最大的 {exact} 个被逐一去除；其余标有 ~ 的由一次反向传播估计。"
            "要全部去除：--ablate-heads {all}。",
        },
        "effect_some": {
            "en": "Of {all} heads the first {exact} were taken away; more of them: --ablate-heads {all}.",
            "zh": "{all} 个头中去除了前 {exact} 个；要更多：--ablate-heads {all}。",
        },
        "lens": {"en": "Guesses of every layer", "zh": "各层的猜测"},
        "lens_hint_next": {
            "en": "What the model would say comes next if it ended after that layer. Columns: what is read. The last "
            "row is what it does say. The brighter, the surer.",
            "zh": "若模型在该层结束，它会认为接下来是什么。列：读入的词元。最后一行是模型实际的输出。越亮越有把握。",
        },
        "lens_hint_same": {
            "en": "What the model would take each token for if it ended after that layer. Columns: what is read. "
            "The last row is what it does say. The brighter, the surer.",
            "zh": "若模型在该层结束，它会认为该处是什么词元。列：读入的词元。最后一行是模型实际的输出。越亮越有把握。",
        },
        "lens_none": {
            "en": "This model says something of a text as a whole and nothing of its tokens, so there are no guesses.",
            "zh": "本模型只对整段文本作出判断，不对各词元作出判断，因此没有逐层猜测。",
        },
        "lens_own": {
            "en": "This is a model of your own: what it makes of a state after each layer is not known here.",
            "zh": "这是你自己写的模型：这里不知道它怎样由各层之后的状态得出答案，因此没有逐层猜测。",
        },
        "lens_from": {
            "en": "The first {number} positions are left out, for it would take too long.",
            "zh": "前 {number} 个位置因耗时过长而略去。",
        },
        "lens_table": {"en": "Guesses; arrow keys choose a cell", "zh": "猜测；用方向键选择单元格"},
        "lens_start": {"en": "Point at a guess to see the next ones.", "zh": "将指针移到某个猜测上，可见其余候选。"},
        "lens_settled": {"en": "the final guess from layer {layer} on", "zh": "自第 {layer} 层起即为最终猜测"},
        "after": {"en": "after", "zh": "之后"},
        "steps": {"en": "While it is written", "zh": "逐词写出"},
        "steps_hint": {
            "en": "Each row was made when its token was read, with all that was written before. Move the slider, or "
            "use the arrow keys on it.",
            "zh": "每一行都是在读入该词元时产生的，只依据此前写出的内容。拖动滑块，或在滑块上使用方向键。",
        },
        "step_said": {
            "en": "Step {step} of {steps}: it read {read} and wrote {written}.",
            "zh": "第 {step} 步，共 {steps} 步：读入 {read}，写出 {written}。",
        },
        "step": {"en": "Step", "zh": "步"},
        "map_steps": {
            "en": "Attention up to this step; arrow keys choose a square",
            "zh": "到此步为止的注意力；用方向键选择方格",
        },
        "contrast": {"en": "Two texts", "zh": "两段文本"},
        "contrast_hint": {
            "en": "The same head on both texts. Ranked by how much of a token's attention moves among the tokens that "
            "both texts have.",
            "zh": "同一个头看两段文本。按某词元的注意力在两段文本共有的词元之间移动了多少来排序。",
        },
        "contrast_rows_named": {"en": "Compared at: {tokens}.", "zh": "比较的词元：{tokens}。"},
        "contrast_rows_found": {
            "en": "Compared at the tokens whose attention changes most: {tokens}. Another one: --token.",
            "zh": "比较的是注意力变化最大的词元：{tokens}。可用 --token 指定。",
        },
        "text_1": {"en": "First text", "zh": "第一段文本"},
        "text_2": {"en": "Second text", "zh": "第二段文本"},
        "from_token": {"en": "token", "zh": "词元"},
        "change": {"en": "change", "zh": "变化"},
        "loses": {"en": "loses most", "zh": "减少最多"},
        "wins": {"en": "gains most", "zh": "增加最多"},
        "turns": {"en": "turns", "zh": "转向"},
        "turns_yes": {"en": "yes", "zh": "是"},
        "turns_hint": {
            "en": "“Turns”: in the first text it looks more at the one, in the second more at the other.",
            "zh": "“转向”：在第一段文本中更多看前者，在第二段文本中更多看后者。",
        },
        "ranking": {"en": "Heads that notice the difference", "zh": "察觉差别的头"},
        "patched": {"en": "What was changed", "zh": "所作的改动"},
        "patched_hint": {
            "en": "The values inside the model that were replaced, and what became of its answer.",
            "zh": "模型内部被替换的值，以及答案因此发生的变化。",
        },
        "patches": {"en": "patch", "zh": "改动"},
        "sites": {"en": "values changed", "zh": "改动的值"},
        "loss_before": {"en": "loss before", "zh": "改动前损失"},
        "loss_after": {"en": "loss after", "zh": "改动后损失"},
        "divergence": {"en": "mean KL, nats", "zh": "平均 KL（nat）"},
        "divergence_vector": {"en": "1 - cosine", "zh": "1 - 余弦"},
        "other_answers": {"en": "other answers", "zh": "答案改变数"},
        "position": {"en": "at", "zh": "位置"},
        "before": {"en": "before", "zh": "改动前"},
        "afterwards": {"en": "after", "zh": "改动后"},
        "moved_attention": {"en": "Attention that moved", "zh": "移动的注意力"},
        "moved_axis": {"en": "share of a row, mean over heads and rows", "zh": "占一行的份额，按头和行平均"},
        "moved_left_out": {
            "en": "The attention before and after was not compared: the text is too long to keep both.",
            "zh": "文本过长，无法同时保存改动前后的注意力，因此未作比较。",
        },
        "most_changed": {
            "en": "The {number} positions where the answer moved most, of {all}.",
            "zh": "共 {all} 个位置，列出答案变化最大的 {number} 个。",
        },
        "left_out_views": {
            "en": "Left out, to keep this page below {limit} MB: some layers of the sections below; name some "
            "(--layers).",
            "zh": "为使本页不超过 {limit} MB，下方各节略去了部分层。可用 --layers 指定要看的层。",
        },
        "frame": {"en": "The page of this inspection", "zh": "本次查看的页面"},
    }
)
"""By key and language."""

SCRIPT = (
    *("by_spread", "layer_head", "layer_short", "head_at", "role", "distance", "entropy", "spread", "effect"),
    *("role_previous", "role_next", "role_itself", "role_diagonal", "role_first", "role_last", "role_same"),
    *("role_induction", "role_broad", "role_mixed", "repeats", "lens_table", "lens_start", "lens_settled"),
    *("after", "step_said", "map_steps", "text_1", "text_2", "from_token", "change", "loses", "wins"),
    *("turns", "turns_yes"),
)
"""Those that the script shows."""
