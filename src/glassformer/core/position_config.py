"""How a model knows where a token stands, as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from glassformer.core.errors import ConfigError
from glassformer.core.settings import Config


def _kind(value: Any) -> Any:
    """Which of several kinds of settings a value is of."""
    settings = value if isinstance(value, Mapping) else value.__dict__ if isinstance(value, Config) else {}
    return settings.get("kind")


class LinearScaling(Config):
    """Rotary angles of positions divided by a factor, so that a longer text takes up no more of them.

    Attributes:
        kind: "linear".
        factor: How many times longer texts may be.

    Source: Chen et al. 2023, arXiv:2306.15595, section 2.3.
    """

    kind: Literal["linear"] = "linear"
    factor: float = Field(gt=0)


class Llama3Scaling(Config):
    """Slow rotary pairs turn `factor` times slower, fast ones as before, those between by a blend.

    Attributes:
        kind: "llama3".
        factor: How many times slower.
        low: A pair that turns fewer than this many times in `original_positions` is slow.
        high: One that turns more often than this is fast.
        original_positions: Length of the texts that the model was first trained on, in tokens.

    Source: Grattafiori et al. 2024, arXiv:2407.21783, and the released code of LLaMA 3.1, `apply_scaling`.
    """

    kind: Literal["llama3"] = "llama3"
    factor: float = Field(gt=0)
    low: float = Field(1.0, gt=0)
    high: float = Field(4.0, gt=0)
    original_positions: int = Field(ge=1)

    @model_validator(mode="after")
    def _low_is_below_high(self) -> Self:
        if self.low >= self.high:
            raise ConfigError(f"low is {self.low} and high {self.high}: slow pairs turn less often than fast ones")
        return self


class YarnScaling(Config):
    """As llama3, blended along the index of the pairs, and scores made larger.

    Attributes:
        kind: "yarn".
        factor: How many times longer texts may be.
        original_positions: Length of the texts that the model was first trained on, in tokens.
        fast: A pair that turns this often in `original_positions`, or more, keeps its speed.
        slow: One that turns this often, or less, turns `factor` times slower.
        attention_factor: Factor of q and k alike; None = from the two below, or 0.1 ln(factor) + 1.
        mscale: With `mscale_all`: the factor is (0.1 mscale ln(factor) + 1) / (0.1 mscale_all ln(factor) + 1).
        mscale_all: See `mscale`.
        truncate: Begin and end the blend at whole pairs.

    Source: Peng et al. 2023, arXiv:2309.00071, sections 3.2 to 3.4.
    """

    kind: Literal["yarn"] = "yarn"
    factor: float = Field(gt=0)
    original_positions: int = Field(ge=1)
    fast: float = Field(32.0, gt=0)
    slow: float = Field(1.0, gt=0)
    attention_factor: float | None = Field(None, gt=0)
    mscale: float | None = None
    mscale_all: float | None = None
    truncate: bool = True


ScalingConfig = Annotated[
    Annotated[LinearScaling, Tag("linear")]
    | Annotated[Llama3Scaling, Tag("llama3")]
    | Annotated[YarnScaling, Tag("yarn")],
    Discriminator(_kind),
]
"""How rotary positions reach beyond the length that a model was first trained on."""


class RotaryConfig(Config):
    """Rotary positions: pairs of a query's or key's numbers are turned by an angle that grows with position.

    Attributes:
        theta: Base of the geometric series of angles.
        pairing: Which numbers form a pair: "halves" (i and i + d/2) or "interleaved" (2i and 2i + 1).
        share: Share of a head's numbers that is turned, its first ones; the others know no position.
        scaling: How a model is taken beyond the length it was first trained on; None = not.
    """

    theta: float = Field(10_000.0, gt=0)
    pairing: Literal["halves", "interleaved"] = "halves"
    share: float = Field(1.0, gt=0, le=1)
    scaling: ScalingConfig | None = None

    def turned(self, d_head: int) -> int:
        """Return how many numbers of a head are turned."""
        return int(d_head * self.share)


class PositionConfig(Config):
    """Positions that are added to the embedding.

    Attributes:
        kind: "sinusoidal" (the paper's formula), "learned" (a table) or "none".
        max_positions: Positions a sequence may have; None = as many as you like, which a table cannot offer.
        layout: How sines and cosines are laid out: "interleaved" (sin, cos, sin, cos ..), as in the paper, or
            "halves" (all sines, then all cosines).
        offset: Rows of a learned table before that of position 0, which are never read (RoBERTa has 2).
    """

    kind: Literal["sinusoidal", "learned", "none"] = "sinusoidal"
    max_positions: int | None = Field(None, ge=1)
    layout: Literal["interleaved", "halves"] = "interleaved"
    offset: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _table_has_a_size(self) -> Self:
        if self.kind == "learned" and self.max_positions is None:
            raise ConfigError("learned positions are a table and need max_positions")
        return self


class RelativeBiasConfig(Config):
    """A learned number for each head and each bucket of distances, added to the scores of a whole stack (T5).

    Attributes:
        kind: "relative".
        n_buckets: Number of buckets; in a stack that is not causal half of them are for keys after the query.
        max_distance: From this distance on, in tokens, all is one bucket.
    """

    kind: Literal["relative"] = "relative"
    n_buckets: int = Field(32, ge=4)
    max_distance: int = Field(128, ge=2)

    @model_validator(mode="after")
    def _far_is_far(self) -> Self:
        if self.n_buckets % 2 or self.max_distance <= self.n_buckets // 2:
            raise ConfigError(
                f"n_buckets is {self.n_buckets} and max_distance {self.max_distance}: n_buckets must be even, and "
                f"max_distance above half of it, for the first half of the buckets holds one distance each"
            )
        return self


class AlibiConfig(Config):
    """A penalty that grows with the distance, at another rate for each head; nothing is learned.

    Attributes:
        kind: "alibi".
    """

    kind: Literal["alibi"] = "alibi"


PositionBiasConfig = Annotated[
    Annotated[RelativeBiasConfig, Tag("relative")] | Annotated[AlibiConfig, Tag("alibi")], Discriminator(_kind)
]
"""What distances add to scores."""
