"""The original Transformer, and small models of its kind.

Nobody has published weights of it in another library's format; Marian's are the nearest (`families/marian.py`), and
torch's own modules are of this build (`checkpoint/torch_modules.py`).

Source: Vaswani et al. 2017, arXiv:1706.03762, table 3.
"""

from __future__ import annotations

from glassformer.core.config import InitConfig, InitRule
from glassformer.families.family import Family, Preset
from glassformer.models.arguments import ModelArguments

PAPER_BASE = ModelArguments(
    kind="encoder_decoder",
    n_layers=6,
    d_model=512,
    n_heads=8,
    d_ff=2048,
    dropout=0.1,
    positions="sinusoidal",
    norm_place="post",
    activation="relu",
)

PAPER_BIG = PAPER_BASE.model_copy(update={"d_model": 1024, "n_heads": 16, "d_ff": 4096, "dropout": 0.3})

SMALL = PAPER_BASE.model_copy(update={"n_layers": 2, "d_model": 128, "n_heads": 4, "d_ff": 512})

TINY_PAPER = PAPER_BASE.model_copy(update={"n_layers": 2, "d_model": 64, "n_heads": 4, "d_ff": 256})

GPT_LIKE_INIT = InitConfig(
    embedding=InitRule(kind="normal", std=0.02),
    linear=InitRule(kind="normal", std=0.02),
    residual=InitRule(kind="normal", std=0.02, depth_scaled=True),
    head=InitRule(kind="normal", std=0.02),
)

TINY = ModelArguments(
    kind="decoder",
    n_layers=2,
    d_model=64,
    n_heads=4,
    d_ff=256,
    dropout=0.0,
    positions="learned",
    max_positions=256,
    embedding_scale=False,
    norm_place="pre",
    activation="gelu",
    init=GPT_LIKE_INIT,
)

TABLE_3 = "arXiv:1706.03762, table 3"

VASWANI = Family(
    name="vaswani",
    presets={
        # With 37,000 tokens, as the paper says, these are 63.1 and 214.2 million; it prints 65 and 213, and does not
        # say how many rows its tables had.
        "paper-base": Preset(PAPER_BASE, 37_000, 63_082_496, f"{TABLE_3}: 65 million"),
        "paper-big": Preset(PAPER_BIG, 37_000, 214_245_376, f"{TABLE_3}: 213 million"),
        "small": Preset(SMALL),
        "vaswani-tiny": Preset(TINY_PAPER),
        "tiny": Preset(TINY),
    },
)
"""`paper-base` and `paper-big`; `small` and `vaswani-tiny`: the same with 2 layers of 128 and of 64, to start with;
`tiny`: a decoder alone, of 2 layers of 64."""
