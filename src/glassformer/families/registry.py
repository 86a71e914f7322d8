"""The presets of all families by name."""

from __future__ import annotations

from collections.abc import Mapping

from glassformer.core.errors import ConfigError, did_you_mean
from glassformer.families import vaswani
from glassformer.models.arguments import ModelArguments

PRESETS: Mapping[str, ModelArguments] = {**vaswani.PRESETS}
"""Every preset; a family adds its own in one line."""


def preset(name: str) -> ModelArguments:
    """Return the architecture that goes by a name.

    Raises:
        ConfigError: There is no preset of that name.
    """
    if name not in PRESETS:
        raise ConfigError(f"unknown preset {name!r}{did_you_mean(name, PRESETS)}")
    return PRESETS[name]
