"""The settings of rotary positions in a foreign config.json: `rope_theta`, `rope_scaling`, `rope_parameters`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from glassformer.core.config import LinearScaling, Llama3Scaling, RotaryConfig, ScalingConfig, YarnScaling
from glassformer.core.errors import CheckpointError, UnsupportedError, did_you_mean
from glassformer.families.entries import Foreign, Values

KINDS = ("default", "linear", "llama3", "yarn")

YARN_WORDS = {
    "beta_fast": "fast",
    "beta_slow": "slow",
    "attention_factor": "attention_factor",
    "mscale": "mscale",
    "mscale_all_dim": "mscale_all",
    "truncate": "truncate",
}
"""What YaRN may say, theirs and ours."""


@dataclass(frozen=True)
class Rope:
    """All settings of rotary positions, in the spellings of the reference library before and since version 5.

    Attributes:
        theta: Base where none is named.
        share: Share of a head that turns, where none is named.
        theta_name: Old name of the base.
        share_name: Old name of the share.
    """

    theta: float = 10_000.0
    share: float = 1.0
    theta_name: str = "rope_theta"
    share_name: str = "partial_rotary_factor"

    @property
    def names(self) -> tuple[str, ...]:
        """Both spellings."""
        return (self.theta_name, self.share_name, "rope_scaling", "rope_parameters")

    def read(self, foreign: Foreign) -> Values:
        """Return `rotary`; what is said twice must be said alike."""
        said: dict[str, Any] = {}
        for name in ("rope_scaling", "rope_parameters"):
            said |= foreign.get(name) or {}
        kind = said.pop("rope_type", None) or said.pop("type", None) or "default"
        said.pop("type", None)
        if kind not in KINDS:
            raise UnsupportedError(
                f"rope type {kind!r} is not known here{did_you_mean(kind, KINDS)}; known are {', '.join(KINDS)}"
            )
        theta = said.pop("rope_theta", None) or foreign.get(self.theta_name, self.theta)
        share = said.pop("partial_rotary_factor", None) or foreign.get(self.share_name, self.share)
        scaling = _scaling(kind, said, foreign)
        if said:
            raise CheckpointError(f"of rope type {kind!r} the settings {', '.join(sorted(said))} are not known here")
        return {"rotary": RotaryConfig(theta=float(theta), share=float(share), scaling=scaling)}

    def write(self, values: Values) -> dict[str, Any]:
        """Return `rope_parameters`, the spelling since version 5, which says all."""
        rotary: RotaryConfig = values["rotary"]
        if rotary.pairing != "halves":
            raise UnsupportedError(f"rotary.pairing is {rotary.pairing}; checkpoints of this kind have halves")
        parameters: dict[str, Any] = {"rope_type": "default", "rope_theta": rotary.theta}
        if rotary.share != self.share:
            parameters["partial_rotary_factor"] = rotary.share
        return {"rope_parameters": parameters | _written(rotary.scaling)}


def _scaling(kind: str, said: dict[str, Any], foreign: Foreign) -> ScalingConfig | None:
    """Take what belongs to one kind out of what is said."""
    longest = foreign.get("max_position_embeddings")
    if kind == "default":
        said.pop("factor", None)
        said.pop("original_max_position_embeddings", None)
        return None
    if said.get("factor") is None and kind != "yarn":
        raise CheckpointError(f"rope type {kind!r} needs a factor")
    factor = said.pop("factor", None)
    if kind == "linear":
        said.pop("original_max_position_embeddings", None)
        return LinearScaling(factor=float(factor))
    original = said.pop("original_max_position_embeddings", None)
    original = foreign.get("original_max_position_embeddings") or original or longest
    if original is None:
        raise CheckpointError(f"rope type {kind!r} needs original_max_position_embeddings")
    if kind == "llama3":
        low, high = said.pop("low_freq_factor", 1.0), said.pop("high_freq_factor", 4.0)
        return Llama3Scaling(factor=float(factor), low=float(low), high=float(high), original_positions=original)
    if factor is None:
        factor = (longest or original) / original
    elif longest is not None and original * factor != longest:
        warnings.warn(
            f"YaRN stretches {original} positions by {factor}, which are not the max_position_embeddings of {longest}; "
            "the factor is what counts",
            stacklevel=2,
        )
    words = {ours: said.pop(theirs) for theirs, ours in YARN_WORDS.items() if said.get(theirs) is not None}
    for theirs in YARN_WORDS:
        said.pop(theirs, None)
    return YarnScaling(factor=float(factor), original_positions=original, **_floats(words))


def _floats(words: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value if isinstance(value, bool) else float(value) for name, value in words.items()}


def _written(scaling: ScalingConfig | None) -> dict[str, Any]:
    if scaling is None:
        return {}
    said: dict[str, Any] = {"rope_type": scaling.kind, "factor": scaling.factor}
    if isinstance(scaling, LinearScaling):
        return said
    said["original_max_position_embeddings"] = scaling.original_positions
    if isinstance(scaling, Llama3Scaling):
        return said | {"low_freq_factor": scaling.low, "high_freq_factor": scaling.high}
    stated = {theirs: scaling.__dict__[ours] for theirs, ours in YARN_WORDS.items()}
    return said | {name: value for name, value in stated.items() if value is not None}
