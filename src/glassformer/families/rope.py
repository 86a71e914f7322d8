"""The settings of rotary positions in a foreign config.json: `rope_theta`, `rope_scaling`, `rope_parameters`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from glassformer.core.errors import CheckpointError, UnsupportedError, did_you_mean
from glassformer.core.position_config import LinearScaling, Llama3Scaling, RotaryConfig, ScalingConfig, YarnScaling
from glassformer.families.entries import Foreign, Values

KINDS = ("default", "linear", "llama3", "yarn")

ORIGINAL = "original_max_position_embeddings"
"""The length before stretching; in some files it stands beside the settings of rotary positions, and counts there."""

YARN_WORDS = {
    "beta_fast": "fast",
    "beta_slow": "slow",
    "attention_factor": "attention_factor",
    "mscale": "mscale",
    "mscale_all_dim": "mscale_all",
}
"""The numbers that YaRN may say, theirs and ours."""

LLAMA3_WORDS = {"low_freq_factor": "low", "high_freq_factor": "high"}
"""Those of llama3."""


@dataclass(frozen=True)
class Rope:
    """All settings of rotary positions, in the spellings of the reference library before and since version 5.

    Attributes:
        theta: Base where none is named.
        share: Share of a head that turns, where none is named.
        partial: Whether another share can be asked for; the reference ignores it elsewhere, or breaks.
        theta_name: Old name of the base.
        share_name: Old name of the share.
    """

    theta: float = 10_000.0
    share: float = 1.0
    partial: bool = False
    theta_name: str = "rope_theta"
    share_name: str = "partial_rotary_factor"

    @property
    def names(self) -> tuple[str, ...]:
        """Both spellings."""
        return (self.theta_name, self.share_name, "rope_scaling", "rope_parameters", ORIGINAL)

    def read(self, foreign: Foreign) -> Values:
        """Return `rotary`; what is said twice must be said alike."""
        said = _said(foreign, {self.theta_name: "rope_theta", self.share_name: "partial_rotary_factor"})
        kind = said.pop("rope_type", "default")
        if kind not in KINDS:
            raise UnsupportedError(f"rope type {kind!r} is not known here{did_you_mean(str(kind), KINDS)}")
        theta = _number("rope_theta", said.pop("rope_theta", self.theta))
        share = _number("partial_rotary_factor", said.pop("partial_rotary_factor", self.share))
        if share != self.share and not self.partial:
            raise UnsupportedError(f"partial_rotary_factor is {share}; in this family whole heads turn")
        scaling = _scaling(kind, said, foreign)
        if said:
            raise CheckpointError(f"of rope type {kind!r} the settings {', '.join(sorted(said))} are not known here")
        return {"rotary": RotaryConfig(theta=theta, share=share, scaling=scaling)}

    def write(self, values: Values) -> dict[str, Any]:
        """Return `rope_parameters`, the spelling since version 5, which says all."""
        rotary: RotaryConfig = values["rotary"]
        if rotary.pairing != "halves":
            raise UnsupportedError(f"rotary.pairing is {rotary.pairing}; checkpoints of this kind have halves")
        parameters: dict[str, Any] = {"rope_type": "default", "rope_theta": rotary.theta}
        if rotary.share != self.share:
            parameters["partial_rotary_factor"] = rotary.share
        return {"rope_parameters": parameters | _written(rotary.scaling)}


def _said(foreign: Foreign, old: Mapping[str, str]) -> dict[str, Any]:
    """All that is said of rotary positions, wherever it stands; what is null is not said."""
    said: dict[str, Any] = {}
    for place in (*old, "rope_scaling", "rope_parameters"):
        value = foreign.get(place)
        found = {old[place]: value} if place in old else {} if value is None else value
        if not isinstance(found, Mapping):
            raise CheckpointError(f"{place} is {value!r}; it must be settings by name")
        for name, stated in found.items():
            ours = "rope_type" if name == "type" else name
            if stated is not None and said.setdefault(ours, stated) != stated:
                raise CheckpointError(f"{ours} is {said[ours]!r} and, in {place}, {stated!r}")
    return said


def _scaling(kind: str, said: dict[str, Any], foreign: Foreign) -> ScalingConfig | None:
    """Take what belongs to one kind out of what is said."""
    factor, original = said.pop("factor", None), said.pop(ORIGINAL, None)
    if kind == "default":
        return None
    if factor is None and kind != "yarn":
        raise CheckpointError(f"rope type {kind!r} needs a factor")
    if kind == "linear":
        return LinearScaling(factor=_number("factor", factor))
    longest = foreign.get("max_position_embeddings")
    original = foreign.get(ORIGINAL) or original or longest
    if not isinstance(original, int):
        raise CheckpointError(f"rope type {kind!r} needs {ORIGINAL}, a number of tokens")
    if kind == "llama3":
        return Llama3Scaling(
            factor=_number("factor", factor), original_positions=original, **_numbers(LLAMA3_WORDS, said)
        )
    stretched = (longest or original) / original
    if factor is not None and stretched != factor:
        warnings.warn(
            f"YaRN stretches {original} positions by {factor}, which are not the max_position_embeddings of {longest}; "
            "the factor is what counts",
            stacklevel=2,
        )
    factor = _number("factor", stretched if factor is None else factor)
    truncate = said.pop("truncate", True)
    return YarnScaling(factor=factor, original_positions=original, truncate=truncate, **_numbers(YARN_WORDS, said))


def _numbers(words: Mapping[str, str], said: dict[str, Any]) -> dict[str, Any]:
    """Take the numbers that go by these words out of what is said."""
    return {ours: _number(theirs, said.pop(theirs)) for theirs, ours in words.items() if theirs in said}


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CheckpointError(f"{name} is {value!r}; it must be a number")
    return float(value)


def _written(scaling: ScalingConfig | None) -> dict[str, Any]:
    if scaling is None:
        return {}
    said: dict[str, Any] = {"rope_type": scaling.kind, "factor": scaling.factor}
    if isinstance(scaling, LinearScaling):
        return said
    said[ORIGINAL] = scaling.original_positions
    words = LLAMA3_WORDS if isinstance(scaling, Llama3Scaling) else YARN_WORDS
    said |= {theirs: scaling.__dict__[ours] for theirs, ours in words.items() if scaling.__dict__[ours] is not None}
    return said | ({"truncate": scaling.truncate} if isinstance(scaling, YarnScaling) else {})
