"""The kinds of attention, and of positions, that are compared: each is one edit of the same small model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from glassformer.core.errors import ConfigError, did_you_mean
from glassformer.models.arguments import ModelArguments

Group = Literal["attention", "positions"]

BASE: Mapping[str, object] = {
    "kind": "decoder",
    "n_layers": 2,
    "n_heads": 2,
    "dropout": 0.0,
    "norm": "rms",
    "norm_place": "pre",
    "activation": "gelu",
    "bias": False,
    "tied": False,
    "positions": "rotary",
}
"""What all have in common, but for what a variant sets."""


@dataclass(frozen=True)
class Variant:
    """One edit of the model that all share.

    Attributes:
        name: Of the row in the table.
        group: What it is compared with: other kinds of attention, with rotary positions, or other positions, with
            full attention. `full` is there in both.
        edit: What it sets, as `--set model.KEY=VALUE` would.
        widen: Share by which the feed-forward network is wider, to have as many parameters as the others.
        beyond: Whether it can read more tokens than it was trained with.
    """

    name: str
    group: Group
    edit: Mapping[str, object]
    widen: float = 0.0
    beyond: bool = True

    def arguments(self, d_model: int, max_positions: int, extra: Mapping[str, object]) -> ModelArguments:
        """Return the model's settings.

        Args:
            d_model: Width of the residual stream, D.
            max_positions: Tokens of the longest row of training; a table of learned positions has as many rows.
            extra: What the task needs.
        """
        limit = {} if self.beyond else {"max_positions": max_positions}
        size = {"d_model": d_model, "d_ff": round(4 * d_model * (1 + self.widen))}
        return ModelArguments.model_validate({**BASE, **size, **limit, **extra, **self.edit})


WINDOW = 64

VARIANTS = (
    Variant("full", "attention", {}),
    Variant("window", "attention", {"attention": {"window": WINDOW}}),
    Variant("alternating", "attention", {"attention": {"window": WINDOW, "window_layers": (0,)}}),
    Variant(
        "blocks", "attention", {"attention": {"pattern": {"block": WINDOW // 4, "near": 1, "first": 1, "random": 2}}}
    ),
    Variant("linear", "attention", {"attention": {"type": "linear"}}),
    # One key/value head saves 2 D (D - E) numbers, E = D / 2: a feed-forward network of 4.5 D has them.
    Variant("multi-query", "attention", {"n_kv_heads": 1}, widen=0.125),
    Variant("sinusoidal", "positions", {"positions": "sinusoidal"}),
    Variant("learned", "positions", {"positions": "learned"}, beyond=False),
    Variant("relative", "positions", {"positions": "relative"}),
    Variant("alibi", "positions", {"positions": "alibi"}),
    Variant("shaw", "positions", {"positions": "none", "attention": {"type": "shaw", "max_distance": 16}}),
    Variant("none", "positions", {"positions": "none"}),
)
"""`full` is full attention, rotary positions; a window has 64 tokens, and a query of `blocks` sees at least as many."""


def chosen(names: Sequence[str]) -> tuple[Variant, ...]:
    """Return the variants of these names, in the order of the table; all for none.

    Raises:
        ConfigError: A name is none of them.
    """
    known = [variant.name for variant in VARIANTS]
    for name in names:
        if name not in known:
            raise ConfigError(f"there is no variant {name!r}{did_you_mean(name, known)}")
    return tuple(variant for variant in VARIANTS if not names or variant.name in names)
