"""The words of a comparison, in every language."""

from __future__ import annotations

from glassformer.core.wording import Catalogue

WORDS = Catalogue(
    {
        "variant": {"en": "variant", "zh": "变体"},
        "parameters": {"en": "parameters", "zh": "参数量"},
        "recall": {
            "en": "Recall: share of right values, by the distance of the key in tokens (chance 0.06)",
            "zh": "回忆：答对的值所占比例，按键的距离（词元数）分列（随机猜测为 0.06）",
        },
        "copying": {
            "en": "Copying: share of right tokens, by the length of the text; rows of training have 64 tokens",
            "zh": "复制：答对的词元所占比例，按文本长度分列；训练时每行 64 个词元",
        },
        "text": {
            "en": "Next character: loss in nats; training has 128, longer rows are judged by their last 64 characters",
            "zh": "下一个字符：损失（nat）；训练长度为 128，更长的行按最后 64 个字符评判",
        },
        "steps": {"en": "{steps} updates, {seeds} seeds", "zh": "{steps} 次更新，{seeds} 个种子"},
        "directions": {
            "en": "What was reported, written down before these runs",
            "zh": "文献中的结论（在这些训练之前写下）",
        },
        "expected": {"en": "expected", "zh": "预期"},
        "difference": {"en": "difference, paired by seed", "zh": "差值（按种子配对）"},
        "verdict": {"en": "verdict", "zh": "结论"},
        "source": {"en": "source", "zh": "来源"},
        "higher": {"en": "{measured}: {variant} above {other}", "zh": "{measured}：{variant} 高于 {other}"},
        "lower": {"en": "{measured}: {variant} below {other}", "zh": "{measured}：{variant} 低于 {other}"},
        "same": {
            "en": "{measured}: {variant} within {margin} of {other}",
            "zh": "{measured}：{variant} 与 {other} 相差不超过 {margin}",
        },
        "confirmed": {"en": "confirmed", "zh": "证实"},
        "refuted": {"en": "refuted", "zh": "推翻"},
        "not decided": {"en": "not decided", "zh": "未定"},
        "interval": {
            "en": "± is half the 95 % interval over seeds (Student); a direction is decided only where the whole "
            "interval of the difference lies on one side.",
            "zh": "± 为种子间 95 % 区间的一半（t 分布）；只有差值的整个区间落在同一侧，才算有结论。",
        },
        "cannot": {"en": "cannot", "zh": "不能"},
        "attention": {"en": "kinds of attention", "zh": "注意力的种类"},
        "positions": {"en": "positions", "zh": "位置方案"},
        "x_recall": {"en": "distance in tokens", "zh": "距离（词元）"},
        "x_copying": {"en": "length of the copied text", "zh": "被复制文本的长度"},
        "x_text": {"en": "characters of a row", "zh": "每行字符数"},
        "y_recall": {"en": "share right", "zh": "正确率"},
        "y_copying": {"en": "share right", "zh": "正确率"},
        "y_text": {"en": "loss, nats", "zh": "损失，nat"},
        "title": {"en": "{task}: {group}", "zh": "{task}：{group}"},
        "short_recall": {"en": "Recall", "zh": "回忆"},
        "short_copying": {"en": "Copying", "zh": "复制"},
        "short_text": {"en": "Next character", "zh": "下一个字符"},
    }
)
