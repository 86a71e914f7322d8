"""PaLM: attention and feed-forward side by side, on one norm of the stream.

It differs from the original Transformer in these: a decoder alone; a parallel block; all query heads share one key and
one value head; rotary positions; a SwiGLU feed-forward network of 4 D; no offsets, also in layer norm; the scores, of a
head tied to an embedding that is drawn with a standard deviation of 1, are divided by sqrt(D). Google published no
weights, so there are presets alone.

The paper leaves open: which numbers of a head rotary positions pair and with which base (here halves and 10,000, as
the released code of its reference, RoFormer, has the base), the epsilon of layer norm (1e-6), and whether a norm
follows the last block (here it does: without one the stream would reach the head unnormed).

Source: Chowdhery et al. 2022, arXiv:2204.02311, sections 2, 5 and table 1.
"""

from __future__ import annotations

from glassformer.core.config import InitConfig, InitRule
from glassformer.families.family import Family, Preset
from glassformer.models.arguments import ModelArguments

FAN_IN = InitRule(kind="normal", std="fan_in")


def _size(d_model: int, n_layers: int, n_heads: int, d_head: int = 256) -> ModelArguments:
    return ModelArguments(
        kind="decoder",
        d_model=d_model,
        n_layers=n_layers,
        n_heads=n_heads,
        n_kv_heads=1,
        d_head=d_head,
        d_ff=4 * d_model,
        dropout=0.0,
        positions="rotary",
        max_positions=2048,
        embedding_scale=False,
        activation="silu",
        gated=True,
        bias=False,
        norm="layer",
        norm_eps=1e-6,
        norm_place="pre",
        parallel=True,
        tied=True,
        head_scaled=True,
        init=InitConfig(embedding=InitRule(kind="normal", std=1.0), linear=FAN_IN, residual=FAN_IN),
    )


# The table's numbers are these to all digits, if the gains of layer norm are left out: 540.35 of 540.36.
TABLE_1 = "arXiv:2204.02311, table 1"

PALM = Family(
    name="palm",
    presets={
        "palm-tiny": Preset(_size(64, 2, 4, 16)),
        "palm-8b": Preset(_size(4096, 32, 16), 256_000, 8_632_012_800, f"{TABLE_1}: 8.63B"),
        "palm-62b": Preset(_size(8192, 64, 32), 256_000, 62_495_662_080, f"{TABLE_1}: 62.50B"),
        "palm-540b": Preset(_size(18_432, 118, 48), 256_000, 540_356_474_880, f"{TABLE_1}: 540.35B"),
    },
)
