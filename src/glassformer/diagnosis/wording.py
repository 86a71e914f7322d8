"""The words of the examiner's report, and of what every subject can do wrong."""

from __future__ import annotations

from glassformer.core.wording import Catalogue

MESSAGES = Catalogue(
    {
        "pass": {"en": "pass", "zh": "通过"},
        "fail": {"en": "FAIL", "zh": "不通过"},
        "error": {"en": "CRASH", "zh": "崩溃"},
        "not_applicable": {"en": "n/a", "zh": "不适用"},
        "line": {"en": "{name}: {seen}", "zh": "{name}：{seen}"},
        "seen": {"en": "seen", "zh": "现象"},
        "why": {"en": "why", "zh": "后果"},
        "look": {"en": "look", "zh": "查看"},
        "at": {"en": "at", "zh": "位置"},
        "follows": {"en": "probably follows from: {name}", "zh": "很可能由此引起：{name}"},
        "sum_good": {
            "en": "properties that hold: {passed}; that do not apply: {skipped}. Nothing wrong was found.",
            "zh": "{passed} 项性质成立，{skipped} 项不适用：没有发现问题。",
        },
        "sum_bad": {
            "en": "properties that fail: {failed} of {asked}; begin with the first: {name}.",
            "zh": "{asked} 项性质中有 {failed} 项不成立；请先看第一项：{name}。",
        },
        "crash": {
            "en": "{error} at {line}: {message}; tensors there: {shapes}",
            "zh": "{line} 处出现 {error}：{message}；该处的张量：{shapes}",
        },
        "crash_plain": {"en": "{error} at {line}: {message}", "zh": "{line} 处出现 {error}：{message}"},
        "crash_outside": {"en": "{error}: {message}", "zh": "{error}：{message}"},
        "heads_unmerged": {
            "en": "the heads were never merged: shape {shape} reached {where}, which wants a last dimension of "
            "{wanted} = {heads} heads x {width} ({line})",
            "zh": "多头没有合并：形状 {shape} 到了 {where}，它要求最后一维是 {wanted} = {heads} 头 × {width}（{line}）",
        },
        "wrong_width": {
            "en": "shape {shape} reached {where}, which wants a last dimension of {wanted} ({line})",
            "zh": "形状 {shape} 到了 {where}，而它要求最后一维是 {wanted}（{line}）",
        },
    }
)
"""By key and language."""
