"""The words that a look into a model, or a trace, prints in a terminal."""

from __future__ import annotations

from glassformer.core.wording import Catalogue

LINES = Catalogue(
    {
        "moves": {
            "en": "heads whose attention from {rows} changes most (weight in the first text -> in the second):",
            "zh": "从 {rows} 出发的注意力变化最大的头（第一段文本中的权重 -> 第二段中的）：",
        },
        "turning": {
            "en": "heads that turn from one token to another:",
            "zh": "从一个词元转向另一个词元的头：",
        },
        "move": {
            "en": "  layer {layer} head {head}  {row}: {parts}",
            "zh": "  第 {layer} 层第 {head} 头  {row}：{parts}",
        },
        "change": {"en": "change {change:.3f}", "zh": "变化 {change:.3f}"},
        "changed_one": {"en": "{what}: 1 value changed", "zh": "{what}：改动了 1 处"},
        "changed": {"en": "{what}: {number} values changed", "zh": "{what}：改动了 {number} 处"},
        "vector": {
            "en": "  the text's vector turned by {turned:.4g} (1 - cosine)",
            "zh": "  文本向量转动了 {turned:.4g}（1 - 余弦）",
        },
        "loss": {
            "en": "  loss {before:.4f} -> {after:.4f} nats, mean KL {divergence:.4f} nats, {others} of {all} answers "
            "changed",
            "zh": "  损失 {before:.4f} -> {after:.4f} nat，平均 KL {divergence:.4f} nat，"
            "{all} 个答案中有 {others} 个改变",
        },
        "position": {"en": "  at {position} {token}: ", "zh": "  位置 {position} {token}："},
        "moved": {"en": "  attention moved most in {sites}", "zh": "  注意力变动最大之处：{sites}"},
        "labelled": {"en": "labelled {label}, {share:.1f} %", "zh": "判为 {label}，{share:.1f} %"},
        "own_output": {
            "en": "The output is the model's own, as no --target was given: {output}",
            "zh": "未给出 --target，输出由模型自己写出：{output}",
        },
        "undrawn": {
            "en": "no installed font has all of {characters}; the pictures show □ there, the HTML page all",
            "zh": "已安装的字体都不全含 {characters}；图片在该处显示 □，HTML 页面则完整显示",
        },
        "left_out": {
            "en": "too large for the page and left out: {layers}; name some layers with --layers",
            "zh": "页面放不下而省略：{layers}；请用 --layers 指定若干层",
        },
    }
)
"""By key and language."""
