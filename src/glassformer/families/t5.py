"""T5: every task is text in, text out.

It differs from the original Transformer in these: RMS norm before each sublayer; no positions are added, but a learned
number for each head and bucket of distances is added to the scores, one table for a whole stack; scores are not divided
by sqrt(d_head), and the heads together may be wider or narrower than the stream; no offsets. Version 1.1 has a GEGLU
feed-forward network and a head of its own; version 1.0 ReLU and a tied head that reads the states divided by sqrt(D).

Source: Raffel et al. 2019, arXiv:1910.10683; version 1.1: the authors' `released_checkpoints.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from glassformer.core.config import BlockConfig, TransformerConfig
from glassformer.core.errors import CheckpointError, UnsupportedError
from glassformer.core.position_config import RelativeBiasConfig
from glassformer.families.entries import ACTIVATION_WORDS, Fixed, Foreign, Key, Values
from glassformer.families.family import Architecture, Family, Preset
from glassformer.families.weights import Joined, Rule, Weights, linear
from glassformer.models.arguments import AttentionArguments, ModelArguments


@dataclass(frozen=True)
class Buckets:
    """Both settings of the buckets of distances."""

    names: tuple[str, ...] = field(
        default=("relative_attention_num_buckets", "relative_attention_max_distance"), init=False
    )

    def read(self, foreign: Foreign) -> Values:
        """Return the buckets."""
        count, distance = (foreign.get(name, default) for name, default in zip(self.names, (32, 128), strict=True))
        return {"relative": RelativeBiasConfig(n_buckets=count, max_distance=distance)}

    def write(self, values: Values) -> dict[str, Any]:
        """Return both."""
        relative: RelativeBiasConfig = values["relative"]
        return dict(zip(self.names, (relative.n_buckets, relative.max_distance), strict=True))


@dataclass(frozen=True)
class ForwardWords:
    """The feed-forward network in one word: "relu", "gated-gelu" ..; where the other two are there, they count."""

    names: tuple[str, ...] = field(default=("feed_forward_proj", "dense_act_fn", "is_gated_act"), init=False)

    def read(self, foreign: Foreign) -> Values:
        """Return gate and activation. "gated-gelu" means the tanh approximation, and "gelu" alone does not."""
        said = str(foreign.get("feed_forward_proj", "relu"))
        gate, _, act = said.rpartition("-")
        act = str(foreign.get("dense_act_fn", "gelu_new" if said == "gated-gelu" else act))
        if gate not in ("", "gated"):
            raise CheckpointError(f"feed_forward_proj is {said!r}; it must be an activation, or 'gated-' and one")
        if act not in ACTIVATION_WORDS:
            raise UnsupportedError(f"the activation is {act!r}; known here are {', '.join(ACTIVATION_WORDS)}")
        return {"gated": foreign.get("is_gated_act", gate == "gated"), "activation": ACTIVATION_WORDS[act]}

    def write(self, values: Values) -> dict[str, Any]:
        """Return all three."""
        act = next(theirs for theirs, ours in ACTIVATION_WORDS.items() if ours == values["activation"])
        word = "gelu" if act == "gelu_new" and values["gated"] else act
        said = f"gated-{word}" if values["gated"] else word
        return {"feed_forward_proj": said, "dense_act_fn": act, "is_gated_act": values["gated"]}


@dataclass(frozen=True)
class Tie:
    """Whose matrix the head is, and whether it reads the states divided by sqrt(D).

    Until version 5 of the other library `tie_word_embeddings` said both. Since then it is always true where that
    library writes it, `scale_decoder_outputs` says the second, and the first is whether a matrix is stored.
    """

    names: tuple[str, ...] = field(default=("tie_word_embeddings", "scale_decoder_outputs"), init=False)

    def read(self, foreign: Foreign) -> Values:
        """Return both; without a matrix of its own the head is tied whatever is said."""
        tied = foreign.get("tie_word_embeddings") is not False
        scaled = foreign.get("scale_decoder_outputs", tied)
        if foreign.tensors:
            may_be_a_copy = tied and "scale_decoder_outputs" not in foreign  # as in the published files of 1.0
            tied = may_be_a_copy or "lm_head.weight" not in foreign.tensors
        return {"tied": tied, "head_scaled": scaled}

    def write(self, values: Values) -> dict[str, Any]:
        """Return both."""
        return {"tie_word_embeddings": values["tied"], "scale_decoder_outputs": values["head_scaled"]}


def weights(config: TransformerConfig) -> Weights:
    """Return where each parameter is."""
    rules = [Rule("decoder.input.embedding.weight", ("shared.weight",))]
    copies = dict.fromkeys(("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"), "shared.weight")
    for name, stack in (("encoder", config.encoder), ("decoder", config.decoder)):
        if stack is None:
            continue
        table = f"{name}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        rules.append(Rule(f"{name}.position_bias.weight", (table,)))
        for i, block in enumerate(stack.blocks):
            rules += _block(block, f"{name}.blocks.{i}", f"{name}.block.{i}.layer")
        rules.append(Rule(f"{name}.final_norm.weight", (f"{name}.final_layer_norm.weight",)))
    if config.head is not None and config.head.tied:
        copies["lm_head.weight"] = "shared.weight"
    else:
        rules.append(Rule("head.weight", ("lm_head.weight",)))
    return Weights(tuple(rules), copies, derived=("EncDecAttention.relative_attention_bias.weight",))


def _block(block: BlockConfig, ours: str, theirs: str) -> Iterator[Rule]:
    """Sublayers are numbered: self-attention, cross-attention where there is one, feed-forward."""
    size = block.attention.n_heads * block.attention.d_head
    q, k, v, o = (f"{theirs}.0.SelfAttention.{name}" for name in "qkvo")
    yield Rule(f"{ours}.attention_norm.weight", (f"{theirs}.0.layer_norm.weight",))
    yield from linear(f"{ours}.attention.qkv", q, k, v, bias=False, layout=Joined((size, size, size)))
    yield from linear(f"{ours}.attention.output", o, bias=False)
    last = f"{theirs}.1"
    if block.cross_attention is not None:
        last = f"{theirs}.2"
        q, k, v, o = (f"{theirs}.1.EncDecAttention.{name}" for name in "qkvo")
        yield Rule(f"{ours}.cross_attention_norm.weight", (f"{theirs}.1.layer_norm.weight",))
        yield from linear(f"{ours}.cross_attention.q", q, bias=False)
        yield from linear(f"{ours}.cross_attention.kv", k, v, bias=False, layout=Joined((size, size)))
        yield from linear(f"{ours}.cross_attention.output", o, bias=False)
    yield Rule(f"{ours}.feed_forward_norm.weight", (f"{last}.layer_norm.weight",))
    names = (
        {"gate": "wi_0", "inner": "wi_1", "output": "wo"}
        if block.feed_forward.gated
        else {"inner": "wi", "output": "wo"}
    )
    for mine, name in names.items():
        yield from linear(f"{ours}.feed_forward.{mine}", f"{last}.DenseReluDense.{name}", bias=False)


def _size(
    d_model: int, n_layers: int, n_heads: int, d_ff: int, d_head: int = 64, *, v11: bool = False
) -> ModelArguments:
    return ModelArguments(
        kind="encoder_decoder", d_model=d_model, n_layers=n_layers, n_heads=n_heads, d_head=d_head, d_ff=d_ff,
        dropout=0.1, inner_dropout=0.1, positions="relative", embedding_scale=False,
        activation="gelu_tanh" if v11 else "relu", gated=v11, bias=False, norm="rms", norm_eps=1e-6, norm_place="pre",
        tied=not v11, head_scaled=not v11, attention=AttentionArguments(scale="none", dropout=0.1),
    )  # fmt: skip


PAPER = "arXiv:1910.10683, section 3.7:"
RELEASED = "counted from the released checkpoint"

T5 = Family(
    name="t5",
    model_type="t5",
    architectures=(Architecture("T5ForConditionalGeneration"), Architecture("T5WithLMHeadModel")),
    entries=(
        Key("vocab_size", "vocab_size"),
        Key("d_model", "d_model"),
        Key("d_kv", "d_head"),
        Key("d_ff", "d_ff"),
        Key("num_layers", "n_layers"),
        Key("num_decoder_layers", "n_decoder_layers", default=None),
        Key("num_heads", "n_heads"),
        Buckets(),
        Key("dropout_rate", ("dropout", "attention.dropout", "inner_dropout"), default=0.1),
        Key("layer_norm_epsilon", "norm_eps", default=1e-6),
        ForwardWords(),
        Tie(),
        Fixed("is_encoder_decoder", True),
    ),
    constants={
        "kind": "encoder_decoder",
        "positions": "relative",
        "embedding_scale": False,
        "attention.scale": "none",
        "bias": False,
        "norm": "rms",
        "norm_place": "pre",
    },
    weights=weights,
    no_effect=frozenset(("classifier_dropout", "n_positions")),
    extra_ids=100,
    presets={
        "t5-tiny": Preset(_size(64, 2, 4, 256, 16)),
        "t5-small": Preset(_size(512, 6, 8, 2048), 32_128, 60_506_624, f"{PAPER} 60 million"),
        "t5-base": Preset(_size(768, 12, 12, 3072), 32_128, 222_903_552, f"{PAPER} 220 million"),
        "t5-large": Preset(_size(1024, 24, 16, 4096), 32_128, 737_668_096, f"{PAPER} 770 million"),
        "t5-3b": Preset(_size(1024, 24, 32, 16_384, 128), 32_128, 2_851_598_336, f"{PAPER} 2.8 billion"),
        "t5-11b": Preset(_size(1024, 24, 128, 65_536, 128), 32_128, "11B", f"{PAPER} 11 billion"),
        "t5-v1.1-tiny": Preset(_size(64, 2, 3, 160, 16, v11=True)),
        "t5-v1.1-small": Preset(_size(512, 8, 6, 1024, v11=True), 32_128, 76_961_152, RELEASED),
        "t5-v1.1-base": Preset(_size(768, 12, 12, 2048, v11=True), 32_128, 247_577_856, RELEASED),
    },
)
