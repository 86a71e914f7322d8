"""GPT-NeoX and Pythia: attention and feed-forward side by side, each with its own norm of the stream.

It differs from the original Transformer in these: a decoder alone; layer norm before the sublayers, which are added
together; rotary positions that turn a quarter of each head; GELU in place of ReLU; a head that is not tied. A few
models have their sublayers one after the other.

Source: Black et al. 2022, arXiv:2204.06745; Biderman et al. 2023 (Pythia), arXiv:2304.01373.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from glassformer.core.config import BlockConfig, TransformerConfig
from glassformer.core.position_config import RotaryConfig
from glassformer.families.entries import ACTIVATION_WORDS, Foreign, Key, Values
from glassformer.families.family import Architecture, Family, Preset
from glassformer.families.rope import Rope
from glassformer.families.weights import PerHead, Rule, Weights, linear
from glassformer.models.arguments import ModelArguments

BODY = "gpt_neox."


@dataclass(frozen=True)
class Residual:
    """Sublayers side by side, each with its norm, or one after the other."""

    names: tuple[str, ...] = ("use_parallel_residual",)

    def read(self, foreign: Foreign) -> Values:
        """Return `parallel` and `parallel_norms`."""
        parallel = foreign.get("use_parallel_residual", True)
        return {"parallel": parallel, "parallel_norms": 2 if parallel else 1}

    def write(self, values: Values) -> dict[str, Any]:
        """Return `use_parallel_residual`."""
        return {"use_parallel_residual": values["parallel"]}


CONSTANTS: dict[str, Any] = {
    "kind": "decoder",
    "positions": "rotary",
    "embedding_scale": False,
    "norm_place": "pre",
}


def weights(config: TransformerConfig) -> Weights:
    """Return where each parameter is."""
    rules = [Rule("decoder.input.embedding.weight", (f"{BODY}embed_in.weight",))]
    for i, block in enumerate(config.output_stack.blocks):
        rules += _block(block, f"decoder.blocks.{i}", f"{BODY}layers.{i}")
    rules += linear("decoder.final_norm", f"{BODY}final_layer_norm", bias=True)
    tied = config.head is not None and config.head.tied
    if config.head is not None and not tied:
        rules.append(Rule("head.weight", ("embed_out.weight",)))
    copies = {"embed_out.weight": f"{BODY}embed_in.weight"} if tied else {}
    return Weights(tuple(rules), copies, derived=("attention.bias", "attention.masked_bias", "rotary_emb.inv_freq"))


def _block(block: BlockConfig, ours: str, theirs: str) -> Iterator[Rule]:
    attention, heads = block.attention, PerHead(block.attention.n_heads)
    yield from linear(f"{ours}.attention_norm", f"{theirs}.input_layernorm", bias=True)
    yield from linear(f"{ours}.attention.qkv", f"{theirs}.attention.query_key_value", bias=attention.bias, layout=heads)
    yield from linear(f"{ours}.attention.output", f"{theirs}.attention.dense", bias=attention.out_bias)
    yield from linear(f"{ours}.feed_forward_norm", f"{theirs}.post_attention_layernorm", bias=True)
    yield from linear(f"{ours}.feed_forward.inner", f"{theirs}.mlp.dense_h_to_4h", bias=True)
    yield from linear(f"{ours}.feed_forward.output", f"{theirs}.mlp.dense_4h_to_h", bias=True)


BUILD = ModelArguments(
    **CONSTANTS, dropout=0.0, max_positions=2048, rotary=RotaryConfig(share=0.25), activation="gelu", parallel=True,
    parallel_norms=2, tied=False,
)  # fmt: skip


def _size(d_model: int, n_layers: int, n_heads: int) -> ModelArguments:
    return BUILD.model_copy(update={"d_model": d_model, "n_layers": n_layers, "n_heads": n_heads})


NEOX = "arXiv:2204.06745, section 2"
PYTHIA = "arXiv:2304.01373, table 1"

GPT_NEOX = Family(
    name="gpt_neox",
    model_type="gpt_neox",
    architectures=(Architecture("GPTNeoXForCausalLM"), Architecture("GPTNeoXModel", "states")),
    entries=(
        Key("vocab_size", "vocab_size"),
        Key("hidden_size", "d_model"),
        Key("num_hidden_layers", "n_layers"),
        Key("num_attention_heads", "n_heads"),
        Key("intermediate_size", "d_ff"),
        Key("hidden_act", "activation", default="gelu", words=ACTIVATION_WORDS),
        Key("layer_norm_eps", "norm_eps", default=1e-5),
        Key("max_position_embeddings", "max_positions", default=2048),
        Key("attention_dropout", "attention.dropout", default=0.0),
        Key("hidden_dropout", "dropout", default=0.0),
        Key("attention_bias", ("attention.bias", "attention.out_bias"), default=True),
        Key("tie_word_embeddings", "tied", default=False),
        Rope(share=0.25, partial=True, theta_name="rotary_emb_base", share_name="rotary_pct"),
        Residual(),
    ),
    constants=CONSTANTS,
    weights=weights,
    prefix=BODY,
    no_effect=frozenset(("attention_probs_dropout_prob", "hidden_dropout_prob", "classifier_dropout")),
    presets={
        "gpt-neox-tiny": Preset(_size(64, 2, 4)),
        "gpt-neox-20b": Preset(
            _size(6144, 44, 64).model_copy(update={"activation": "gelu_tanh"}), 50_432, 20_554_567_680, f"{NEOX}: 20B"
        ),
        "pythia-70m": Preset(_size(512, 6, 8), 50_304, 70_426_624, f"{PYTHIA}: 70M"),
        "pythia-160m": Preset(_size(768, 12, 12), 50_304, 162_322_944, f"{PYTHIA}: 160M"),
        "pythia-410m": Preset(_size(1024, 24, 16), 50_304, 405_334_016, f"{PYTHIA}: 410M"),
        "pythia-1b": Preset(_size(2048, 16, 8), 50_304, 1_011_781_632, f"{PYTHIA}: 1.0B"),
        "pythia-1.4b": Preset(_size(2048, 24, 16), 50_304, 1_414_647_808, f"{PYTHIA}: 1.4B"),
        "pythia-2.8b": Preset(_size(2560, 32, 32), 50_304, 2_775_208_960, f"{PYTHIA}: 2.8B"),
        "pythia-6.9b": Preset(_size(4096, 32, 32), 50_432, 6_857_302_016, f"{PYTHIA}: 6.9B"),
        "pythia-12b": Preset(_size(5120, 36, 40), 50_688, 11_846_072_320, f"{PYTHIA}: 12B"),
    },
)
