"""Qwen 2, 2.5 and 3: LLaMA with offsets of q, k and v, or, since 3, with norms of q and k in their place.

Heads of Qwen 3 have a width of their own, d_head, whatever d_model is. Some layers may see a window only; published
models leave that off.

Source: Yang et al. 2024, arXiv:2407.10671 (Qwen 2) and arXiv:2412.15115 (2.5); Yang et al. 2025, arXiv:2505.09388 (3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from glassformer.core.errors import CheckpointError, UnsupportedError
from glassformer.core.position_config import RotaryConfig
from glassformer.families.entries import Fixed, Foreign, Key, Values
from glassformer.families.family import Architecture, Family, Preset
from glassformer.families.llama import BUILD, CONSTANTS, entries, size, weights
from glassformer.models.arguments import AttentionArguments

FULL, NEAR = "full_attention", "sliding_attention"


@dataclass(frozen=True)
class Windows:
    """Which layers see a window: those that `layer_types` names, or, without it, all from `max_window_layers` on."""

    names: tuple[str, ...] = ("use_sliding_window", "sliding_window", "max_window_layers", "layer_types")

    def read(self, foreign: Foreign) -> Values:
        """Return the window, and the layers that have it."""
        window = foreign.get("sliding_window", 4096) if foreign.get("use_sliding_window", False) else None
        n_layers, first = foreign.get("num_hidden_layers"), foreign.get("max_window_layers", 28)
        types = foreign.get("layer_types")
        if not isinstance(n_layers, int) or not isinstance(first, int):
            raise CheckpointError(f"num_hidden_layers is {n_layers!r} and max_window_layers {first!r}")
        if types is None:
            types = [NEAR if window is not None and layer >= first else FULL for layer in range(n_layers)]
        if not isinstance(types, list) or len(types) != n_layers:
            raise CheckpointError(f"layer_types is {types!r}; it must name the kind of each of {n_layers} layers")
        unknown = [word for word in types if word not in (FULL, NEAR)]
        if unknown:
            raise UnsupportedError(f"layer_types has {unknown[0]!r}; known here are {FULL!r} and {NEAR!r}")
        layers = tuple(layer for layer, word in enumerate(types) if word == NEAR)
        if layers and window is None:
            raise CheckpointError(f"layer_types has {NEAR!r}, but there is no window: see use_sliding_window")
        return {
            "attention.window": window if layers else None,
            "attention.window_layers": layers if 0 < len(layers) < n_layers else None,
        }

    def write(self, values: Values) -> dict[str, Any]:
        """Return all of them; `max_window_layers` too, for readers that know no `layer_types`."""
        n_layers, window = values["n_layers"], values["attention.window"]
        layers = values["attention.window_layers"] or (range(n_layers) if window is not None else ())
        types = [NEAR if layer in layers else FULL for layer in range(n_layers)]
        return {
            "use_sliding_window": window is not None,
            "sliding_window": window,
            "max_window_layers": min(layers, default=n_layers),
            "layer_types": types,
        }


BUILD_2 = BUILD.model_copy(
    update={
        "norm_eps": 1e-6,
        "max_positions": 32_768,
        "rotary": RotaryConfig(theta=1_000_000.0),
        "attention": AttentionArguments(bias=True, out_bias=False),
    }
)
TIED_2 = BUILD_2.model_copy(update={"tied": True})
LONG_2 = BUILD_2.model_copy(update={"max_positions": 131_072})
BUILD_3 = BUILD_2.model_copy(
    update={"d_head": 128, "max_positions": 40_960, "attention": AttentionArguments(qk_norm=True)}
)
TIED_3 = BUILD_3.model_copy(update={"tied": True})
TINY_3 = TIED_3.model_copy(update={"d_head": 24})

PAPER_2 = "arXiv:2407.10671, table 1"
CARD_25 = "model card of Qwen2.5"
CARD_3 = "model card of Qwen3"

QWEN_2 = Family(
    name="qwen2",
    model_type="qwen2",
    architectures=(Architecture("Qwen2ForCausalLM"), Architecture("Qwen2Model", "states")),
    entries=(
        *entries(max_positions=32_768, n_kv_heads=32),
        Windows(),
        Fixed("use_mrope", False, written=False),
    ),
    constants=CONSTANTS | {"attention.bias": True, "attention.out_bias": False},
    weights=weights,
    prefix="model.",
    presets={
        "qwen2-tiny": Preset(size(TIED_2, 64, 2, 4, 2, 172)),
        "qwen2-0.5b": Preset(size(TIED_2, 896, 24, 14, 2, 4864), 151_936, 494_032_768, f"{PAPER_2}: 0.5B"),
        "qwen2-1.5b": Preset(size(TIED_2, 1536, 28, 12, 2, 8960), 151_936, 1_543_714_304, f"{PAPER_2}: 1.5B"),
        "qwen2-7b": Preset(size(LONG_2, 3584, 28, 28, 4, 18_944), 152_064, 7_615_616_512, f"{PAPER_2}: 7B"),
        "qwen2-72b": Preset(size(LONG_2, 8192, 80, 64, 8, 29_568), 152_064, 72_706_203_648, f"{PAPER_2}: 72B"),
        "qwen2.5-0.5b": Preset(size(TIED_2, 896, 24, 14, 2, 4864), 151_936, 494_032_768, f"{CARD_25}: 0.49B"),
        "qwen2.5-1.5b": Preset(size(TIED_2, 1536, 28, 12, 2, 8960), 151_936, 1_543_714_304, f"{CARD_25}: 1.54B"),
        "qwen2.5-3b": Preset(size(TIED_2, 2048, 36, 16, 2, 11_008), 151_936, 3_085_938_688, f"{CARD_25}: 3.09B"),
        "qwen2.5-7b": Preset(size(LONG_2, 3584, 28, 28, 4, 18_944), 152_064, 7_615_616_512, f"{CARD_25}: 7.61B"),
        "qwen2.5-14b": Preset(size(LONG_2, 5120, 48, 40, 8, 13_824), 152_064, 14_770_033_664, f"{CARD_25}: 14.7B"),
        "qwen2.5-32b": Preset(size(LONG_2, 5120, 64, 40, 8, 27_648), 152_064, 32_763_876_352, f"{CARD_25}: 32.5B"),
        "qwen2.5-72b": Preset(size(LONG_2, 8192, 80, 64, 8, 29_568), 152_064, 72_706_203_648, f"{CARD_25}: 72.7B"),
    },
)

QWEN_3 = Family(
    name="qwen3",
    model_type="qwen3",
    architectures=(Architecture("Qwen3ForCausalLM"), Architecture("Qwen3Model", "states")),
    entries=(
        *entries(max_positions=32_768, n_kv_heads=32, d_head=128),
        Key("attention_bias", ("attention.bias", "attention.out_bias"), default=False),
        Windows(),
    ),
    constants=CONSTANTS | {"attention.qk_norm": True},
    weights=weights,
    prefix="model.",
    presets={
        "qwen3-tiny": Preset(size(TINY_3, 64, 2, 4, 2, 172)),
        "qwen3-0.6b": Preset(size(TIED_3, 1024, 28, 16, 8, 3072), 151_936, 596_049_920, f"{CARD_3}: 0.6B"),
        "qwen3-1.7b": Preset(size(TIED_3, 2048, 28, 16, 8, 6144), 151_936, 1_720_574_976, f"{CARD_3}: 1.7B"),
        "qwen3-4b": Preset(size(TIED_3, 2560, 36, 32, 8, 9728), 151_936, 4_022_468_096, f"{CARD_3}: 4.0B"),
        "qwen3-8b": Preset(size(BUILD_3, 4096, 36, 32, 8, 12_288), 151_936, 8_190_735_360, f"{CARD_3}: 8.2B"),
        "qwen3-14b": Preset(size(BUILD_3, 5120, 40, 40, 8, 17_408), 151_936, 14_768_307_200, f"{CARD_3}: 14.8B"),
        "qwen3-32b": Preset(size(BUILD_3, 5120, 64, 64, 8, 25_600), 151_936, 32_762_123_264, f"{CARD_3}: 32.8B"),
    },
)
