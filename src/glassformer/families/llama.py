"""LLaMA: what most open models since 2023 are built like.

It differs from the original Transformer in these: a decoder alone; RMS norm before each sublayer; rotary positions in
place of added ones; a SwiGLU feed-forward network; no offsets; since LLaMA 2 70B fewer key/value heads than query
heads; since LLaMA 3.1 rotary positions that are stretched.

Source: Touvron et al. 2023, arXiv:2302.13971 and arXiv:2307.09288; Grattafiori et al. 2024, arXiv:2407.21783; of
3.2 the model card.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from glassformer.core.config import TransformerConfig
from glassformer.core.position_config import Llama3Scaling, RotaryConfig
from glassformer.families.entries import ACTIVATION_WORDS, Entry, Fixed, Key
from glassformer.families.family import Architecture, Family, Preset
from glassformer.families.rope import Rope
from glassformer.families.weights import Joined, Rule, Weights, linear
from glassformer.models.arguments import ModelArguments

CONSTANTS: dict[str, Any] = {
    "kind": "decoder",
    "dropout": 0.0,
    "positions": "rotary",
    "embedding_scale": False,
    "gated": True,
    "bias": False,
    "norm": "rms",
    "norm_place": "pre",
}
"""What all families of this build share."""


def entries(
    *, max_positions: int = 2048, n_kv_heads: int | None = None, d_head: int | None = None
) -> tuple[Entry, ...]:
    """Return the settings that all of them have; given is what is meant where config.json leaves one out."""
    return (
        Key("vocab_size", "vocab_size"),
        Key("hidden_size", "d_model"),
        Key("intermediate_size", "d_ff"),
        Key("num_hidden_layers", "n_layers"),
        Key("num_attention_heads", "n_heads"),
        Key("num_key_value_heads", "n_kv_heads", default=n_kv_heads),
        Key("head_dim", "d_head", default=d_head),
        Key("hidden_act", "activation", default="silu", words=ACTIVATION_WORDS),
        Key("max_position_embeddings", "max_positions", default=max_positions),
        Key("rms_norm_eps", "norm_eps", default=1e-6),
        Key("attention_dropout", "attention.dropout", default=0.0),
        Key("tie_word_embeddings", "tied", default=False),
        Rope(),
    )


def weights(config: TransformerConfig) -> Weights:
    """Return where each parameter is; also of Mistral and Qwen, which differ in offsets and norms of q and k."""
    stack, head = config.output_stack, config.head
    rules = [Rule("decoder.input.embedding.weight", ("model.embed_tokens.weight",))]
    for i in range(len(stack.blocks)):
        rules += _block(config, i)
    rules.append(Rule("decoder.final_norm.weight", ("model.norm.weight",)))
    tied = head is not None and head.tied
    if head is not None and not tied:
        rules.append(Rule("head.weight", ("lm_head.weight",)))
    copies = {"lm_head.weight": "model.embed_tokens.weight"} if tied else {}
    return Weights(tuple(rules), copies, derived=("rotary_emb.inv_freq",))


def _block(config: TransformerConfig, i: int) -> Iterator[Rule]:
    block = config.output_stack.blocks[i]
    ours, theirs = f"decoder.blocks.{i}", f"model.layers.{i}"
    attention, feed_forward = block.attention, block.feed_forward
    q, kv = attention.n_heads * attention.d_head, attention.n_kv_heads * attention.d_head
    names = [f"{theirs}.self_attn.{name}_proj" for name in "qkv"]
    yield Rule(f"{ours}.attention_norm.weight", (f"{theirs}.input_layernorm.weight",))
    yield from linear(f"{ours}.attention.qkv", *names, bias=attention.bias, layout=Joined((q, kv, kv)))
    yield from linear(f"{ours}.attention.output", f"{theirs}.self_attn.o_proj", bias=attention.out_bias)
    if attention.qk_norm is not None:
        yield Rule(f"{ours}.attention.q_norm.weight", (f"{theirs}.self_attn.q_norm.weight",))
        yield Rule(f"{ours}.attention.k_norm.weight", (f"{theirs}.self_attn.k_norm.weight",))
    yield Rule(f"{ours}.feed_forward_norm.weight", (f"{theirs}.post_attention_layernorm.weight",))
    for mine, name in (("gate", "gate_proj"), ("inner", "up_proj"), ("output", "down_proj")):
        yield from linear(f"{ours}.feed_forward.{mine}", f"{theirs}.mlp.{name}", bias=feed_forward.bias)


def size(
    build: ModelArguments, d_model: int, n_layers: int, n_heads: int, n_kv_heads: int, d_ff: int
) -> ModelArguments:
    """Return a build in one size."""
    return build.model_copy(
        update={"d_model": d_model, "n_layers": n_layers, "n_heads": n_heads, "n_kv_heads": n_kv_heads, "d_ff": d_ff}
    )


BUILD = ModelArguments(**CONSTANTS, activation="silu", tied=False, norm_eps=1e-5)
"""What the published models of all families of this build share."""

LLAMA_1 = BUILD.model_copy(update={"max_positions": 2048, "norm_eps": 1e-6})
LLAMA_2 = BUILD.model_copy(update={"max_positions": 4096})
LLAMA_3 = BUILD.model_copy(update={"max_positions": 8192, "rotary": RotaryConfig(theta=500_000.0)})


def _stretched(factor: float) -> RotaryConfig:
    return RotaryConfig(theta=500_000.0, scaling=Llama3Scaling(factor=factor, original_positions=8192))


LLAMA_31 = BUILD.model_copy(update={"max_positions": 131_072, "rotary": _stretched(8.0)})
LLAMA_32 = LLAMA_31.model_copy(update={"rotary": _stretched(32.0), "tied": True})

LLAMA_1_TABLE = "arXiv:2302.13971, table 2"
LLAMA_2_TABLE = "arXiv:2307.09288, table 1"
LLAMA_3_TABLE = "arXiv:2407.21783, table 3"
MODEL_CARD = "model card of Llama 3.2"

LLAMA = Family(
    name="llama",
    model_type="llama",
    architectures=(Architecture("LlamaForCausalLM"), Architecture("LlamaModel", "states")),
    entries=(
        *entries(),
        Key("attention_bias", ("attention.bias", "attention.out_bias"), default=False),
        Key("mlp_bias", "feed_forward_bias", default=False),
        Fixed("rope_interleaved", False, written=False),
    ),
    constants=CONSTANTS,
    weights=weights,
    prefix="model.",
    no_effect=frozenset(("is_llama_config", "pretraining_tp", "max_sequence_length")),
    presets={
        "llama-tiny": Preset(size(LLAMA_1, 64, 2, 4, 2, 172)),
        "llama-7b": Preset(size(LLAMA_1, 4096, 32, 32, 32, 11_008), 32_000, 6_738_415_616, f"{LLAMA_1_TABLE}: 6.7B"),
        "llama-13b": Preset(size(LLAMA_1, 5120, 40, 40, 40, 13_824), 32_000, 13_015_864_320, f"{LLAMA_1_TABLE}: 13.0B"),
        "llama-33b": Preset(size(LLAMA_1, 6656, 60, 52, 52, 17_920), 32_000, 32_528_943_616, f"{LLAMA_1_TABLE}: 32.5B"),
        "llama-65b": Preset(size(LLAMA_1, 8192, 80, 64, 64, 22_016), 32_000, 65_285_660_672, f"{LLAMA_1_TABLE}: 65.2B"),
        "llama-2-7b": Preset(size(LLAMA_2, 4096, 32, 32, 32, 11_008), 32_000, 6_738_415_616, f"{LLAMA_2_TABLE}: 7B"),
        "llama-2-13b": Preset(size(LLAMA_2, 5120, 40, 40, 40, 13_824), 32_000, 13_015_864_320, f"{LLAMA_2_TABLE}: 13B"),
        "llama-2-70b": Preset(size(LLAMA_2, 8192, 80, 64, 8, 28_672), 32_000, 68_976_648_192, f"{LLAMA_2_TABLE}: 70B"),
        "llama-3-8b": Preset(size(LLAMA_3, 4096, 32, 32, 8, 14_336), 128_256, 8_030_261_248, f"{LLAMA_3_TABLE}: 8B"),
        "llama-3-70b": Preset(size(LLAMA_3, 8192, 80, 64, 8, 28_672), 128_256, 70_553_706_496, f"{LLAMA_3_TABLE}: 70B"),
        "llama-3.1-8b": Preset(size(LLAMA_31, 4096, 32, 32, 8, 14_336), 128_256, 8_030_261_248, f"{LLAMA_3_TABLE}: 8B"),
        "llama-3.1-70b": Preset(
            size(LLAMA_31, 8192, 80, 64, 8, 28_672), 128_256, 70_553_706_496, f"{LLAMA_3_TABLE}: 70B"
        ),
        "llama-3.1-405b": Preset(
            size(LLAMA_31, 16_384, 126, 128, 8, 53_248), 128_256, 405_853_388_800, f"{LLAMA_3_TABLE}: 405B"
        ),
        "llama-3.2-1b": Preset(size(LLAMA_32, 2048, 16, 32, 8, 8192), 128_256, 1_235_814_400, f"{MODEL_CARD}: 1.23B"),
        "llama-3.2-3b": Preset(size(LLAMA_32, 3072, 28, 24, 8, 8192), 128_256, 3_212_749_824, f"{MODEL_CARD}: 3.21B"),
    },
)
