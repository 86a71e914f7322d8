"""One attention as data: what is computed, of which sizes, and what it sees."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from glassformer.core.errors import ConfigError
from glassformer.core.norm_config import NormConfig
from glassformer.core.position_config import RotaryConfig
from glassformer.core.settings import Config


class PatternConfig(Config):
    """Sparse attention: which blocks of keys the queries of a block see; see `Blocks`.

    Attributes:
        block: Positions of a block.
        near: Blocks to either side that stay visible, besides a query's own.
        first: Blocks at the beginning of a text that all see and that see all.
        every: Each how-many-th block all see; None = none.
        random: Blocks drawn for each block, among those before it and itself.
        seed: Of the drawing.
    """

    block: int = Field(64, ge=1)
    near: int = Field(1, ge=0)
    first: int = Field(0, ge=0)
    every: int | None = Field(None, ge=1)
    random: int = Field(0, ge=0)
    seed: int = Field(0, ge=0)


class AttentionConfig(Config):
    """Multi-head attention.

    Attributes:
        type: WHAT is computed: "softmax" of products; "shaw": of products and of what q says of the distance, with a
            value for each distance too; "linear": a kernel feature map in place of softmax, in time that grows with
            the length and not its square.
        n_heads: Number of query heads, H.
        n_kv_heads: Number of key/value heads, K; H must be a multiple of it.
        d_head: Width of a head, E; K, E and H are free of d_model.
        scale: Factor of the scores: "sqrt" = 1/sqrt(E), "d_k" = 1/E, "none" = 1, or a number.
        bias: Whether q, k and v have an offset.
        out_bias: Whether the output projection has one.
        dropout: Share of the weights that training sets to zero.
        rotary: Turn q and k by their positions.
        qk_norm: Norm of each query and each key, before they are turned; None = not.
        max_distance: Of type "shaw": distances beyond this count as this.
        soft_cap: Largest size c of a score: c tanh(s / c), before the bias; None = unlimited.
        window: A query sees the keys fewer than this many positions away, itself included; None = all.
        pattern: Which blocks of keys it sees; None = all.
        kernel: HOW it is computed; never changes a result. "auto" takes the first that can and gains by it; one that is
            named is taken for all rows that it can compute.
    """

    type: Literal["softmax", "shaw", "linear"] = "softmax"
    n_heads: int = Field(ge=1)
    n_kv_heads: int = Field(ge=1)
    d_head: int = Field(ge=1)
    scale: Literal["sqrt", "d_k", "none"] | float = "sqrt"
    bias: bool = True
    out_bias: bool = True
    dropout: float = Field(0.0, ge=0, lt=1)
    rotary: RotaryConfig | None = None
    qk_norm: NormConfig | None = None
    max_distance: int | None = Field(None, ge=1)
    soft_cap: float | None = Field(None, gt=0)
    window: int | None = Field(None, ge=1)
    pattern: PatternConfig | None = None
    kernel: str = "auto"

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        if self.n_heads % self.n_kv_heads:
            divisors = [n for n in range(1, self.n_heads + 1) if self.n_heads % n == 0]
            raise ConfigError(
                f"n_heads is {self.n_heads} and n_kv_heads {self.n_kv_heads}: query heads are shared out "
                f"evenly, so n_kv_heads must be one of {divisors}"
            )
        if (self.type == "shaw") != (self.max_distance is not None):
            raise ConfigError(
                f"max_distance is {self.max_distance} in attention of type {self.type}: it belongs to type shaw, which "
                "needs it; set attention.max_distance, such as 16"
                if self.type == "shaw"
                else f"max_distance is {self.max_distance}, but attention.type is {self.type}: only shaw has distances"
            )
        idle = [
            name
            for name, used in (("window", self.window), ("pattern", self.pattern), ("soft_cap", self.soft_cap))
            if used
        ]
        if self.type == "linear" and (idle or self.dropout):
            raise ConfigError(
                f"{', '.join(idle or ['dropout'])} is set in linear attention, which sums over all keys and never has "
                "weights or scores of single ones; leave it out, or take another type"
            )
        turned = 0 if self.rotary is None else self.rotary.turned(self.d_head)
        if self.rotary is not None and (turned % 2 or turned == 0):
            whole = f"d_head is {self.d_head}" if turned == self.d_head else f"{turned} numbers of {self.d_head} turn"
            raise ConfigError(f"{whole}: rotary positions turn pairs of numbers, so it must be even")
        return self
