"""Marian: the original Transformer as a thousand published translation models have it (OPUS-MT).

It differs from the original Transformer in these: SiLU in place of ReLU; all sines of a position stand before all
cosines; the head has an offset.

Source: Junczys-Dowmunt et al. 2018, arXiv:1804.00344; Tiedemann and Thottingal 2020 (OPUS-MT), EAMT.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from glassformer.core.config import BlockConfig, TransformerConfig
from glassformer.core.errors import CheckpointError
from glassformer.families.entries import ACTIVATION_WORDS, Alike, Fixed, Foreign, Key, Values
from glassformer.families.family import Architecture, Family, Preset
from glassformer.families.weights import Joined, Row, Rule, Weights, linear
from glassformer.models.arguments import ModelArguments


@dataclass(frozen=True)
class Vocabularies:
    """How many tokens are read and written, and whether both are one table."""

    names: tuple[str, ...] = field(
        default=("vocab_size", "decoder_vocab_size", "share_encoder_decoder_embeddings"), init=False
    )

    def read(self, foreign: Foreign) -> Values:
        """Return all three."""
        if "vocab_size" not in foreign:
            raise CheckpointError("vocab_size is missing")
        source = foreign["vocab_size"]
        target = foreign.get("decoder_vocab_size") or source
        shared = foreign.get("share_encoder_decoder_embeddings", True)
        if shared and source != target:
            raise CheckpointError(
                f"vocab_size is {source} and decoder_vocab_size {target}, but encoder and decoder share their table "
                "(share_encoder_decoder_embeddings)"
            )
        return {"source_vocab_size": source, "vocab_size": target, "share_embeddings": shared}

    def write(self, values: Values) -> dict[str, Any]:
        """Return all three, and the id that Marian pads and begins with, its last: the other library has no model
        without one. Whoever writes a tokenizer beside it says which they really are."""
        ours = ("source_vocab_size", "vocab_size", "share_embeddings")
        last = min(values["source_vocab_size"], values["vocab_size"]) - 1
        said = {theirs: values[name] for theirs, name in zip(self.names, ours, strict=True)}
        return said | {"pad_token_id": last, "decoder_start_token_id": last}


def weights(config: TransformerConfig) -> Weights:
    """Return where each parameter is; the tables of sines, where they are stored, are computed here."""
    tied = config.head is not None and config.head.tied
    tables = [f"model.{name}.embed_tokens.weight" for name in ("encoder", "decoder")]
    copies = {}
    if config.share_embeddings:
        rules = [Rule("decoder.input.embedding.weight", ("model.shared.weight",))]
        copies = dict.fromkeys(tables, "model.shared.weight")
    else:
        rules = [
            Rule(f"{name}.input.embedding.weight", (table,))
            for name, table in zip(("encoder", "decoder"), tables, strict=True)
        ]
    for name, stack in (("encoder", config.encoder), ("decoder", config.decoder)):
        for i, block in enumerate(stack.blocks if stack is not None else ()):
            rules += _block(block, f"{name}.blocks.{i}", f"model.{name}.layers.{i}")
    rules.append(Rule("head.bias", ("final_logits_bias",), Row()))
    # where the head has a matrix of its own, the other library ties nothing at all and needs all three tables
    repeated = frozenset(() if tied else copies)
    if tied:
        copies["lm_head.weight"] = "model.shared.weight" if config.share_embeddings else tables[1]
    else:
        rules.append(Rule("head.weight", ("lm_head.weight",)))
    return Weights(tuple(rules), copies, derived=("embed_positions.weight",), repeated=repeated)


def _block(block: BlockConfig, ours: str, theirs: str) -> Iterator[Rule]:
    size = block.attention.n_heads * block.attention.d_head
    q, k, v = (f"{theirs}.self_attn.{name}_proj" for name in "qkv")
    yield from linear(f"{ours}.attention.qkv", q, k, v, bias=True, layout=Joined((size, size, size)))
    yield from linear(f"{ours}.attention.output", f"{theirs}.self_attn.out_proj", bias=True)
    yield from linear(f"{ours}.attention_norm", f"{theirs}.self_attn_layer_norm", bias=True)
    if block.cross_attention is not None:
        q, k, v = (f"{theirs}.encoder_attn.{name}_proj" for name in "qkv")
        yield from linear(f"{ours}.cross_attention.q", q, bias=True)
        yield from linear(f"{ours}.cross_attention.kv", k, v, bias=True, layout=Joined((size, size)))
        yield from linear(f"{ours}.cross_attention.output", f"{theirs}.encoder_attn.out_proj", bias=True)
        yield from linear(f"{ours}.cross_attention_norm", f"{theirs}.encoder_attn_layer_norm", bias=True)
    yield from linear(f"{ours}.feed_forward.inner", f"{theirs}.fc1", bias=True)
    yield from linear(f"{ours}.feed_forward.output", f"{theirs}.fc2", bias=True)
    yield from linear(f"{ours}.feed_forward_norm", f"{theirs}.final_layer_norm", bias=True)


def _size(d_model: int, n_layers: int, n_heads: int, d_ff: int) -> ModelArguments:
    return ModelArguments(
        kind="encoder_decoder", d_model=d_model, n_layers=n_layers, n_heads=n_heads, d_ff=d_ff, dropout=0.1,
        positions="sinusoidal", position_layout="halves", max_positions=512, activation="silu", norm_place="post",
        head_bias=True,
    )  # fmt: skip


MARIAN = Family(
    name="marian",
    model_type="marian",
    architectures=(Architecture("MarianMTModel"),),
    entries=(
        Vocabularies(),
        Key("d_model", "d_model"),
        Alike(("encoder_layers",), "n_layers", aliases=("num_hidden_layers",)),
        Key("decoder_layers", "n_decoder_layers"),
        Alike(("encoder_attention_heads", "decoder_attention_heads"), "n_heads"),
        Alike(("encoder_ffn_dim", "decoder_ffn_dim"), "d_ff"),
        Key("activation_function", "activation", default="gelu", words=ACTIVATION_WORDS),
        Key("dropout", "dropout", default=0.1),
        Key("attention_dropout", "attention.dropout", default=0.0),
        Key("activation_dropout", "inner_dropout", default=0.0),
        Key("max_position_embeddings", "max_positions", default=1024),
        Key("scale_embedding", "embedding_scale", default=False),
        Key("tie_word_embeddings", "tied", default=True),
        Fixed("is_encoder_decoder", True),
        Fixed("static_position_embeddings", True, written=False),
        *(
            Fixed(name, False, written=False)
            for name in ("normalize_before", "normalize_embedding", "add_final_layer_norm")
        ),
        *(Fixed(f"{name}_layerdrop", 0.0, written=False) for name in ("encoder", "decoder")),
    ),
    constants={
        "kind": "encoder_decoder",
        "positions": "sinusoidal",
        "position_layout": "halves",
        "norm": "layer",
        "norm_eps": 1e-5,
        "norm_place": "post",
        "head_bias": True,
    },
    weights=weights,
    no_effect=frozenset(("add_bias_logits", "classif_dropout", "classifier_dropout", "extra_pos_embeddings")),
    presets={
        "marian-tiny": Preset(_size(64, 2, 4, 256)),
        "opus-mt": Preset(_size(512, 6, 8, 2048), 58_101, None, "Helsinki-NLP/opus-mt-en-de, config.json"),
    },
)
