"""What is said of a bias of the scores by position."""

from __future__ import annotations

from glassformer.core.wording import Catalogue

WORDS = Catalogue(
    {
        "bias_moves.name": {"en": "the bias tells keys apart", "zh": "偏置能区分不同的键"},
        "bias_moves.why": {
            "en": "a softmax does not notice what is the same for all keys of a query: there are no positions then",
            "zh": "对一个查询的所有键都相同的偏置，softmax 察觉不到：等于没有位置信息",
        },
        "bias_moves.look": {
            "en": "along which dimension it runs: (H, queries, keys), by key minus query",
            "zh": "偏置沿哪一维变化：(H, 查询, 键)，按键减查询",
        },
        "bias_moves": {"en": "it has shape {shape}, and differs from key to key", "zh": "形状 {shape}，各键不同"},
        "bias_none": {"en": "it is the same for all keys", "zh": "它对所有键都相同"},
        "bias_queries": {
            "en": "it depends on the query alone, and is the same for all its keys",
            "zh": "它只依赖查询，对该查询的所有键都相同",
        },
        "bias_nan": {"en": "it is not finite where nothing is hidden", "zh": "在没有遮挡的地方不是有限数"},
        "bias_alike.name": {"en": "the bias depends on the distance alone", "zh": "偏置只依赖距离"},
        "bias_alike.why": {
            "en": "only then is what was learned at one place right at every other one",
            "zh": "只有这样，在一处学到的才适用于别处",
        },
        "bias_alike.look": {
            "en": "place[None, :] - place[:, None], and nothing that is divided by the length",
            "zh": "place[None, :] - place[:, None]，不要除以长度",
        },
        "bias_alike": {"en": "it is the same along every diagonal", "zh": "沿每条对角线都相同"},
        "bias_absolute": {
            "en": "the same distance gets another bias elsewhere, by {off}",
            "zh": "同样的距离在别处得到不同的偏置，相差 {off}",
        },
        "bias_falls.name": {"en": "what is near counts more than what is far", "zh": "近处比远处更受重视"},
        "bias_falls.why": {
            "en": "a fixed bias is there to favour what is near, each head in its own measure",
            "zh": "固定偏置的作用就是偏向近处，每个头的程度不同",
        },
        "bias_falls.look": {
            "en": "the sign: -slope * distance; and the slopes, 2^(-8 h / H) for head h = 1 .. H",
            "zh": "符号：-斜率 * 距离；以及各头的斜率，第 h 头（h = 1 .. H）为 2^(-8 h / H)",
        },
        "bias_falls": {
            "en": "it falls with the distance, in each head at its own speed",
            "zh": "随距离下降，各头速度不同",
        },
        "bias_far": {"en": "a key that is farther away gets more", "zh": "更远的键得到更大的偏置"},
        "bias_one_slope": {"en": "all heads have the same bias", "zh": "所有头的偏置相同"},
        "no_bias": {"en": "it is asked of a bias of the scores", "zh": "此项只适用于分数的偏置"},
        "bias_learned": {"en": "its bias is learned", "zh": "它的偏置是学习得到的"},
    }
)
"""By key and language."""
