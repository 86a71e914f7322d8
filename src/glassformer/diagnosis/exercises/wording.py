"""What is said on the ladder of exercises."""

from __future__ import annotations

from glassformer.core.wording import Catalogue

WORDS = Catalogue(
    {
        "attention": {"en": "softmax(q k^T / sqrt(E)) v", "zh": "softmax(q k^T / sqrt(E)) v"},
        "mask": {"en": "who may see whom: causal, padding", "zh": "谁能看谁：因果、填充"},
        "multi_head": {"en": "several heads side by side", "zh": "多头注意力"},
        "position": {"en": "sines and cosines", "zh": "正弦与余弦位置编码"},
        "encoder_layer": {
            "en": "attention, feed-forward, residuals, norms",
            "zh": "注意力、前馈网络、残差、归一化",
        },
        "decoder_layer": {"en": "the same with cross-attention", "zh": "再加上交叉注意力"},
        "model": {"en": "the whole encoder-decoder", "zh": "完整的编码器-解码器"},
        "schedule": {"en": "warm-up, then the inverse square root", "zh": "预热，再按平方根倒数下降"},
        "cache": {"en": "keys and values that are kept", "zh": "键值缓存"},
        "beam": {"en": "the best text, not the best token", "zh": "找最好的文本，而不是最好的词元"},
        "reverse": {"en": "train your own model", "zh": "训练自己的模型"},
        "done": {"en": "done", "zh": "完成"},
        "begun": {"en": "begun", "zh": "进行中"},
        "open": {"en": "", "zh": ""},
        "title": {"en": "{done} of {all} rungs are done in {folder}", "zh": "{folder} 中已完成 {done}/{all} 级"},
        "next": {"en": "next: {command}", "zh": "下一步：{command}"},
        "all_done": {
            "en": "the whole ladder is done: you have written a Transformer",
            "zh": "全部完成：你写出了一个 Transformer",
        },
        "written": {
            "en": "{file} is written; fill it in, then run the same command again",
            "zh": "已写出 {file}；填好之后再运行同一条命令",
        },
        "unfilled": {
            "en": "{file} is not filled in yet: {what} still raises NotImplementedError",
            "zh": "{file} 还没有填好：{what} 仍抛出 NotImplementedError",
        },
        "passed": {"en": "rung {number} of {all} is done", "zh": "第 {number} 级（共 {all} 级）完成"},
        "not_passed": {
            "en": "not yet: correct {file}, then run the same command again",
            "zh": "还没有通过：修改 {file} 后再运行同一条命令",
        },
        "asked": {"en": "but the file asks for something else", "zh": "但这不是文件所要求的"},
        "asked.hide": {
            "en": "{name}: True hides here; in all exercises True = may be seen, and later rungs rely on it",
            "zh": "{name}：这里 True 表示遮住；所有练习里 True = 可以看，后面各级都依赖这一点",
        },
        "asked.other": {
            "en": "{name}: it is to take True and False; in all exercises True = may be seen",
            "zh": "{name}：应当接受 True 和 False；所有练习里 True = 可以看",
        },
        "asked.weights": {
            "en": "it is to return two things, the output and the weights: return output, weights",
            "zh": "应当返回两样东西，输出和权重：return output, weights",
        },
        "asked.batch": {
            "en": "it works on one row and one head only; q is (B, H, T, E): transpose(-2, -1) in place of .T",
            "zh": "它只适用于一行、一个头；q 是 (B, H, T, E)：用 transpose(-2, -1) 代替 .T",
        },
        "asked.zeros": {
            "en": "a row in which nothing may be seen is to give zeros, and gives an average of all values",
            "zh": "什么都不能看的一行应当得到零，这里却得到所有值的平均",
        },
        "asked.form": {"en": "it returned {got}; asked for is {wanted}", "zh": "返回了 {got}；要求的是 {wanted}"},
        "asked.causal_mask": {
            "en": "causal_mask(3) is {got}; with 1 = may be seen it is to be {wanted}",
            "zh": "causal_mask(3) 是 {got}；以 1 = 可以看，应当是 {wanted}",
        },
        "asked.padding_mask": {
            "en": "padding_mask({tokens}, {pad}) is {got}; with 1 = may be seen it is to be {wanted}",
            "zh": "padding_mask({tokens}, {pad}) 是 {got}；以 1 = 可以看，应当是 {wanted}",
        },
        "train": {
            "en": "train your model (a few minutes on a laptop), then run this command again:",
            "zh": "训练你的模型（笔记本上几分钟），然后再运行本命令：",
        },
        "train_needs": {"en": "this rung trains {file}; climb to it first", "zh": "这一级要训练 {file}；请先完成它"},
        "trained": {
            "en": "your model reverses {share} of sequences that it has never seen",
            "zh": "你的模型能正确翻转 {share} 的未见过的序列",
        },
        "trained_badly": {
            "en": "your model reverses only {share} of the sequences; {wanted} are wanted. Look into it: {command}",
            "zh": "你的模型只能正确翻转 {share} 的序列；要求 {wanted}。看看它的内部：{command}",
        },
    }
)
"""By key and language."""
