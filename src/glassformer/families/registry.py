"""All families, and their presets by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glassformer.core.errors import ConfigError, UnsupportedError, did_you_mean
from glassformer.families import bert, gpt2, gpt_neox, llama, marian, mistral, palm, qwen, roberta, t5, vaswani
from glassformer.families.family import Family, Preset
from glassformer.models.arguments import ModelArguments

FAMILIES: tuple[Family, ...] = (
    vaswani.VASWANI,
    bert.BERT,
    roberta.ROBERTA,
    gpt2.GPT2,
    marian.MARIAN,
    t5.T5,
    palm.PALM,
    llama.LLAMA,
    mistral.MISTRAL,
    qwen.QWEN_2,
    qwen.QWEN_3,
    gpt_neox.GPT_NEOX,
)  # fmt: skip
"""Every family; a new one is added in one line."""

PUBLISHED: Mapping[str, Preset] = {name: preset for family in FAMILIES for name, preset in family.presets.items()}
"""The presets of all families, with what is known of each."""

PRESETS: Mapping[str, ModelArguments] = {name: size.arguments for name, size in PUBLISHED.items()}
"""The architecture of every preset."""


def family_of(settings: Mapping[str, Any]) -> Family:
    """Return the family of a checkpoint by the `model_type` of its config.json.

    Raises:
        UnsupportedError: It is of none that is known here.
    """
    kind = settings.get("model_type")
    known = {family.model_type: family for family in FAMILIES if family.model_type}
    if kind in known:
        return known[kind]
    named = [name for name in settings.get("architectures") or () if isinstance(name, str)]
    for family in FAMILIES:
        if kind is None and {architecture.name for architecture in family.architectures} & set(named):
            return family
    what = f"of model_type {kind!r}" if kind else f"of architecture {', '.join(named)}"
    raise UnsupportedError(f"a checkpoint {what} cannot be loaded; known here are {', '.join(known)}")


def family_named(name: str) -> Family:
    """Return a family by its own name.

    Raises:
        ConfigError: There is none of that name.
    """
    known = {family.name: family for family in FAMILIES}
    if name not in known:
        raise ConfigError(f"unknown family {name!r}{did_you_mean(name, known)}; known are {', '.join(known)}")
    return known[name]


def preset(name: str) -> ModelArguments:
    """Return the architecture that goes by a name.

    Raises:
        ConfigError: There is no preset of that name.
    """
    return published(name).arguments


def published(name: str) -> Preset:
    """Return a preset with its size and its source.

    Raises:
        ConfigError: There is no preset of that name.
    """
    if name not in PUBLISHED:
        raise ConfigError(f"unknown preset {name!r}{did_you_mean(name, PUBLISHED)}")
    return PUBLISHED[name]
