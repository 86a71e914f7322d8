"""The words of a report in every language it is offered in."""

from __future__ import annotations

from glassformer.core.wording import Catalogue

MESSAGES = Catalogue(
    {
        "result": {"en": "Result", "zh": "结果"},
        "examples": {"en": "Examples", "zh": "样例"},
        "examples_hint": {
            "en": "What went in, and what the model made of it.",
            "zh": "输入是什么，模型又给出了什么。",
        },
        "input": {"en": "Input", "zh": "输入"},
        "output": {"en": "Output", "zh": "输出"},
        "expected": {"en": "Expected", "zh": "期望"},
        "right": {"en": "right", "zh": "对"},
        "wrong": {"en": "wrong", "zh": "错"},
        "learning": {"en": "Learning", "zh": "学习过程"},
        "learning_hint": {
            "en": "The loss is the model's mean surprise at the right answer: lower is better. Where the training loss "
            "falls and the validation loss rises, the model learns its examples by heart.",
            "zh": "损失是模型对正确答案的平均意外程度，越低越好。训练损失下降而验证损失上升，说明模型在死记训练样本。",
        },
        "loss_curve": {"en": "Loss", "zh": "损失"},
        "loss_axis": {"en": "nats", "zh": "nat"},
        "lr_curve": {"en": "Learning rate", "zh": "学习率"},
        "lr_axis": {"en": "step size of an update", "zh": "每次更新的步长"},
        "step": {"en": "step", "zh": "步数"},
        "train": {"en": "training", "zh": "训练"},
        "valid": {"en": "validation", "zh": "验证"},
        "norms": {"en": "Layers", "zh": "各层"},
        "norms_hint": {
            "en": "How large the residual stream is after every block. Growth early on is normal; growth that "
            "does not stop usually ends in NaN.",
            "zh": "每一层之后残差流的大小。训练初期增大是正常的；一直增大往往以 NaN 告终。",
        },
        "norms_curve": {"en": "During training", "zh": "训练过程中"},
        "norms_last": {"en": "At the end", "zh": "训练结束时"},
        "norms_axis": {"en": "root mean square", "zh": "均方根"},
        "attention": {"en": "Attention", "zh": "注意力"},
        "attention_hint": {
            "en": "Each row shows where that token looks: the brighter, the more. A row sums to 1.",
            "zh": "每一行表示该词元在看哪里：越亮，看得越多。每一行之和为 1。",
        },
        "attention_chosen": {
            "en": "Shown are the heads that are surest of where to look, the surest first.",
            "zh": "这里列出最确定该看哪里的几个头，最确定的排在最前。",
        },
        "site_head": {"en": "{site}, head {head}", "zh": "{site}，第 {head} 头"},
        "part": {"en": "Stack", "zh": "部分"},
        "layer": {"en": "Layer", "zh": "层"},
        "head": {"en": "Head", "zh": "头"},
        "model": {"en": "Model", "zh": "模型"},
        "part_encoder": {"en": "Encoder", "zh": "编码器"},
        "part_decoder": {"en": "Decoder", "zh": "解码器"},
        "part_cross": {"en": "Cross-attention", "zh": "交叉注意力"},
        "axes_encoder": {
            "en": "Row: the token that looks. Column: the token it looks at.",
            "zh": "行：正在看的词元。列：被看的词元。",
        },
        "axes_decoder": {
            "en": "Row: a token that the decoder reads, looking. Column: the token it looks at.",
            "zh": "行：解码器读入的、正在看的词元。列：被看的词元。",
        },
        "axes_cross": {
            "en": "Row: the token that is written at that step. Column: the token of the source that is looked at.",
            "zh": "行：该步写出的词元。列：被看的源文词元。",
        },
        "all_heads": {"en": "All heads", "zh": "全部头"},
        "head_number": {"en": "Head {head}", "zh": "第 {head} 头"},
        "layer_number": {"en": "Layer {layer}", "zh": "第 {layer} 层"},
        "part_layer": {"en": "{part}, layer {layer}", "zh": "{part}，第 {layer} 层"},
        "open_head": {"en": "Show this head alone", "zh": "单独查看此头"},
        "looks_at": {"en": "looks most at", "zh": "看得最多的是"},
        "looks_at_nothing": {"en": "looks at nothing", "zh": "什么也看不到"},
        "hover": {
            "en": "Point at a square, or tap it, to read its value; choose a head to see it alone and move by arrow "
            "keys.",
            "zh": "将指针移到方格上或点按方格，即可读出数值；选择一个头可单独查看，并可用方向键移动。",
        },
        "hover_sizes": {"en": "Point at a square to read its value.", "zh": "将指针移到方格上即可读出数值。"},
        "map": {"en": "Attention weights; arrow keys choose a square", "zh": "注意力权重；用方向键选择方格"},
        "map_sizes": {
            "en": "Size of each token after each layer; arrow keys choose a square",
            "zh": "每一层之后各词元的大小；用方向键选择方格",
        },
        "sizes_hint": {
            "en": "How large the residual stream is after every block, in all and token by token.",
            "zh": "每一层之后残差流的大小：整体，以及逐个词元。",
        },
        "norms_sample": {"en": "Residual stream, all tokens", "zh": "残差流，全部词元"},
        "zoom": {"en": "Size of the picture", "zh": "图的大小"},
        "smaller": {"en": "smaller", "zh": "缩小"},
        "larger": {"en": "larger", "zh": "放大"},
        "fit": {"en": "Fit", "zh": "适应窗口"},
        "no_script": {"en": "This page needs JavaScript to be shown.", "zh": "本页需要 JavaScript 才能显示。"},
        "old_browser": {
            "en": "This browser is too old to unpack the page; use one of 2023 or later.",
            "zh": "此浏览器版本过旧，无法解开本页；请使用 2023 年及以后的版本。",
        },
        "left_out_layers": {
            "en": "Left out, to keep this page below {limit} MB: {layers}. Name some layers (--layers) to see them.",
            "zh": "为使本页不超过 {limit} MB，未收入：{layers}。可用 --layers 指定要看的层。",
        },
        "decision": {"en": "Label", "zh": "标签"},
        "decision_hint": {
            "en": "What the model says of this text: the probability of each label, the most probable first.",
            "zh": "模型对这段文本的判断：各标签的概率，从高到低。",
        },
        "left_out_labels": {
            "en": "{number} less probable labels are not shown.",
            "zh": "另有 {number} 个概率更低的标签未列出。",
        },
        "own_output": {
            "en": "The output is the model's own, as no --target was given.",
            "zh": "未给出 --target，输出由模型自己写出。",
        },
        "cut_input": {
            "en": "Of the input only the first {read} of {all} tokens were read (--max-tokens).",
            "zh": "输入的 {all} 个词元只读取了前 {read} 个（--max-tokens）。",
        },
        "cut_output": {
            "en": "Of the output only the first {read} of {all} tokens were read (--max-tokens).",
            "zh": "输出的 {all} 个词元只读取了前 {read} 个（--max-tokens）。",
        },
        "next": {"en": "What to do next", "zh": "接下来可以做什么"},
        "left_out_pictures": {
            "en": "{number} more pictures were left out, to keep this page below {limit} MB.",
            "zh": "为使本页不超过 {limit} MB，另有 {number} 幅图未收入。",
        },
        "left_out_examples": {
            "en": "{number} more examples were left out.",
            "zh": "另有 {number} 个样例未收入。",
        },
        "footer": {
            "en": "Made by glassformer. This page is one file and loads nothing from the network.",
            "zh": "由 glassformer 生成。本页是单个文件，不从网络加载任何内容。",
        },
        "task": {"en": "task", "zh": "任务"},
        "loss": {"en": "loss (nats)", "zh": "损失（nat）"},
        "perplexity": {"en": "perplexity", "zh": "困惑度"},
        "tokens": {"en": "tokens", "zh": "词元数"},
        "texts": {"en": "texts", "zh": "文本数"},
        "pairs": {"en": "answers judged", "zh": "评判的回答数"},
        "remark": {"en": "{name}: {text}", "zh": "{name}：{text}"},
        "measured_on": {"en": "Measured on", "zh": "评测数据"},
        "test_data": {"en": "the test data, once, at the end", "zh": "测试数据，仅在训练结束时评测一次"},
        "valid_data": {"en": "the validation data, for there is no test data", "zh": "验证数据，因为没有测试数据"},
        "bleu_signature": {"en": "How BLEU was computed", "zh": "BLEU 的计算方式"},
        "exact_match": {"en": "exact match", "zh": "完全匹配率"},
        "accuracy": {"en": "accuracy", "zh": "准确率"},
        "f1_macro": {"en": "macro F1", "zh": "宏平均 F1"},
        "bleu": {"en": "BLEU", "zh": "BLEU"},
        "chrf": {"en": "chrF", "zh": "chrF"},
        "parameters": {"en": "parameters", "zh": "参数量"},
        "steps": {"en": "steps", "zh": "步数"},
        "best_step": {"en": "best step", "zh": "最佳步数"},
        "train_seconds": {"en": "seconds of training", "zh": "训练秒数"},
        "tokens_per_second": {"en": "tokens per second", "zh": "每秒词元数"},
        "texts_per_second": {"en": "texts per second", "zh": "每秒文本数"},
        "precision": {"en": "precision", "zh": "数值精度"},
        "threads": {"en": "threads", "zh": "线程数"},
        "selected": {"en": "selected model", "zh": "所选模型"},
    }
)
"""By key and language; `word` looks them up."""


def word(key: str, language: str) -> str:
    """Return a message; a key that is none (the name of a number nobody foresaw) is its own message.

    Args:
        key: Name of the message.
        language: One of `LANGUAGES`.
    """
    return MESSAGES[key][language] if key in MESSAGES else key
