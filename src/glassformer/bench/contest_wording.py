"""The words of a contest of speed, in every language."""

from __future__ import annotations

from glassformer.core.wording import Catalogue

WORDS = Catalogue(
    {
        "contestant": {"en": "contestant", "zh": "参赛者"},
        "setting": {"en": "setting", "zh": "设置"},
        "speed": {"en": "tokens/s (quartiles)", "zh": "词元/秒（四分位数）"},
        "ahead": {"en": "glassformer is", "zh": "glassformer 的速度是其"},
        "times": {"en": "{times:.2f} ×", "zh": "{times:.2f} 倍"},
        "share": {"en": "of the peak", "zh": "占峰值"},
        "ready": {"en": "ready after", "zh": "准备用时"},
        "seconds": {"en": "{seconds:.1f} s", "zh": "{seconds:.1f} 秒"},
        "same": {"en": "same texts", "zh": "相同输出"},
        "all": {"en": "all", "zh": "全部"},
        "some": {"en": "{same} of {of}", "zh": "{same}/{of}"},
        "absent": {"en": "not there: {who}: {reason}", "zh": "未参赛：{who}：{reason}"},
        "nobody": {"en": "Nobody took part.", "zh": "无人参赛。"},
        "size": {
            "en": "{layers} layers of {width}, vocabulary {vocabulary:,}, {parameters:,} parameters",
            "zh": "{layers} 层，宽 {width}，词表 {vocabulary:,}，参数量 {parameters:,}",
        },
        "train": {
            "en": "Train a decoder, {size}: batches of {rows} × {length} tokens",
            "zh": "训练解码器，{size}：每批 {rows} × {length} 个词元",
        },
        "pairs": {
            "en": "Train an encoder-decoder, {size}: batches of {tokens:,} tokens a side, source and target counted",
            "zh": "训练编码器-解码器，{size}：每批每侧 {tokens:,} 个词元，源与目标都计数",
        },
        "decode": {
            "en": "Decode, {size}: {rows} at a time, {new} new tokens after {prompt}",
            "zh": "解码，{size}：同时 {rows} 条，读 {prompt} 个词元后写 {new} 个",
        },
        "prefill": {
            "en": "Prefill, {size}: {rows} at a time, {prompt} tokens read",
            "zh": "预填充，{size}：同时 {rows} 条，读 {prompt} 个词元",
        },
        "translate": {
            "en": "Translate, {size}: {sentences} sentences of {length} tokens, beam {beam}, target tokens counted",
            "zh": "翻译，{size}：{sentences} 个句子，每句 {length} 个词元，束宽 {beam}，按目标词元计数",
        },
        "machine": {
            "en": "The machine in the same rounds, threads: {threads}; matrix products {float32:,.0f} GFLOP/s in "
            "float32 and {bf16:,.0f} in bf16; memory read at {read:,.1f} GB/s. Medians of {turns} turns; who is "
            "compared with whom ran in the same round.",
            "zh": "同一轮中的机器，{threads} 线程：矩阵乘法 float32 {float32:,.0f} GFLOP/s，bf16 {bf16:,.0f} GFLOP/s；"
            "内存读取 {read:,.1f} GB/s。取 {turns} 轮的中位数；相比较的双方在同一轮中运行。",
        },
        "program": {"en": "program", "zh": "程序"},
        "start": {"en": "starts in (quartiles)", "zh": "启动用时（四分位数）"},
        "over": {"en": "over bare Python", "zh": "比裸 Python 多"},
        "starts": {"en": "{seconds} s", "zh": "{seconds} 秒"},
        "longer": {"en": "{seconds:+.2f} s", "zh": "{seconds:+.2f} 秒"},
        "started": {"en": "Medians of {turns} turns, one after the other.", "zh": "轮流运行 {turns} 轮，取中位数。"},
    }
)
