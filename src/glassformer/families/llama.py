"""LLaMA: what most open models since 2023 are built like.

It differs from the original Transformer in these: a decoder alone; RMS norm before each sublayer; rotary positions in
place of added ones; a SwiGLU feed-forward network; no offsets; since LLaMA 2 70B fewer key/value heads than query heads.

Source: Touvron et al. 2023, arXiv:2302.13971 and arXiv:2307.09288; Grattafiori et al. 2024, arXiv:2407.21783.
"""

from __future__ import annotations

from collections.abc import Iterator

from glassformer.core.config import TransformerConfig
from glassformer.families.entries import ACTIVATION_WORDS, Key
from glassformer.families.family import Architecture, Family, Preset
from glassformer.families.rope import Rope
from glassformer.families.weights import Joined, Rule, Weights, linear
from glassformer.models.arguments import ModelArguments

CONSTANTS = {
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

ENTRIES = (
    Key("vocab_size", "vocab_size"),
    Key("hidden_size", "d_model"),
    Key("intermediate_size", "d_ff"),
    Key("num_hidden_layers", "n_layers"),
    Key("num_attention_heads", "n_heads"),
    Key("num_key_value_heads", "n_kv_heads", default=None),
    Key("head_dim", "d_head", default=None),
    Key("hidden_act", "activation", default="silu", words=ACTIVATION_WORDS),
    Key("max_position_embeddings", "max_positions", default=2048),
    Key("rms_norm_eps", "norm_eps", default=1e-6),
    Key("attention_dropout", "attention.dropout", default=0.0),
    Key("tie_word_embeddings", "tied", default=False),
    Rope(),
)
"""The settings that all of them have."""


def weights(config: TransformerConfig) -> Weights:
    """Return where each parameter is; also of Mistral and Qwen, which differ in offsets and norms of q and k."""
    stack, head = config.output_stack, config.head
    rules = [Rule("decoder.input.embedding.weight", ("model.embed_tokens.weight",))]
    for i in range(len(stack.blocks)):
        rules += _block(config, i)
    rules.append(Rule("decoder.final_norm.weight", ("model.norm.weight",)))
    tied = head is not None and head.tied
    if not tied:
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


def _size(d_model: int, n_layers: int, n_heads: int, d_ff: int, n_kv_heads: int | None = None) -> ModelArguments:
    return ModelArguments(
        kind="decoder", d_model=d_model, n_layers=n_layers, n_heads=n_heads, n_kv_heads=n_kv_heads, d_ff=d_ff,
        dropout=0.0, positions="rotary", max_positions=4096, embedding_scale=False, activation="silu", gated=True,
        bias=False, norm="rms", norm_eps=1e-5, norm_place="pre", tied=False,
    )  # fmt: skip


LLAMA = Family(
    name="llama",
    model_type="llama",
    architectures=(Architecture("LlamaForCausalLM"),),
    entries=(
        *ENTRIES,
        Key("attention_bias", ("attention.bias", "attention.out_bias"), default=False),
        Key("mlp_bias", "feed_forward_bias", default=False),
    ),
    constants=CONSTANTS,
    weights=weights,
    prefix="model.",
    no_effect=frozenset(("pretraining_tp",)),
    presets={
        "llama-tiny": Preset(_size(64, 2, 4, 172, 2)),
        "llama-7b": Preset(_size(4096, 32, 32, 11008), 32_000, "6.74B", "arXiv:2302.13971, table 2: 6.7B"),
    },
)
