"""Mistral: LLaMA with a window: a token sees itself and the 4095 before it, and through the layers far beyond.

Source: Jiang et al. 2023, arXiv:2310.06825, section 2. Later releases gave the window up.
"""

from __future__ import annotations

from glassformer.core.position_config import RotaryConfig
from glassformer.families.entries import Key
from glassformer.families.family import Architecture, Family, Preset
from glassformer.families.llama import BUILD, CONSTANTS, entries, size, weights
from glassformer.models.arguments import AttentionArguments

WINDOW = BUILD.model_copy(update={"max_positions": 32_768, "attention": AttentionArguments(window=4096)})
NO_WINDOW = BUILD.model_copy(update={"max_positions": 32_768, "rotary": RotaryConfig(theta=1_000_000.0)})
TINY = WINDOW.model_copy(update={"max_positions": 256, "attention": AttentionArguments(window=4)})

MISTRAL = Family(
    name="mistral",
    model_type="mistral",
    architectures=(Architecture("MistralForCausalLM"), Architecture("MistralModel", "states")),
    entries=(
        *entries(max_positions=131_072, n_kv_heads=8),
        Key("sliding_window", "attention.window", default=4096),
    ),
    constants=CONSTANTS,
    weights=weights,
    prefix="model.",
    presets={
        "mistral-tiny": Preset(size(TINY, 64, 2, 4, 2, 172)),
        "mistral-7b": Preset(size(WINDOW, 4096, 32, 32, 8, 14_336), 32_000, 7_241_732_096, "arXiv:2310.06825: 7B"),
        "mistral-7b-v0.3": Preset(
            size(NO_WINDOW, 4096, 32, 32, 8, 14_336), 32_768, 7_248_023_552, "model card of Mistral-7B-v0.3: 7.25B"
        ),
    },
)
