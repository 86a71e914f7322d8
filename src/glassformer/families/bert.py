"""BERT: an encoder alone, trained to name tokens that were hidden from it.

It differs from the original Transformer in these: an encoder alone; learned positions and token types, and a layer norm
on the sum of all three; GELU in place of ReLU; no sqrt(D) at the embedding; a transform before tokens are scored, and a
pooler (tanh of a projection of the first token) before texts are.

Source: Devlin et al. 2018, arXiv:1810.04805, and the released code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from glassformer.core.config import BlockConfig, InitConfig, InitRule, TransformConfig, TransformerConfig
from glassformer.core.norm_config import NormConfig
from glassformer.families.entries import ACTIVATION_WORDS, Fixed, Foreign, Key, Values
from glassformer.families.family import Architecture, Family, Preset
from glassformer.families.weights import Joined, Rule, Weights, linear
from glassformer.models.arguments import AttentionArguments, ModelArguments

BODY = "bert."

CONSTANTS = {
    "kind": "encoder",
    "positions": "learned",
    "embedding_scale": False,
    "input_norm": True,
    "norm_place": "post",
}
"""What BERT and RoBERTa share."""

ENTRIES = (
    Key("vocab_size", "vocab_size"),
    Key("hidden_size", "d_model"),
    Key("num_hidden_layers", "n_layers"),
    Key("num_attention_heads", "n_heads"),
    Key("intermediate_size", "d_ff"),
    Key("hidden_act", "activation", default="gelu", words=ACTIVATION_WORDS),
    Key("hidden_dropout_prob", "dropout", default=0.1),
    Key("attention_probs_dropout_prob", "attention.dropout", default=0.1),
    Key("type_vocab_size", "n_types", default=2),
    Key("layer_norm_eps", "norm_eps", default=1e-12),
    Fixed("position_embedding_type", "absolute", written=False),
    Fixed("is_decoder", False),
    Fixed("add_cross_attention", False),
)
"""The settings that both have."""

POOLER = {"pooling": "first", "transform": TransformConfig(activation="tanh")}
"""The vector of a text: y = tanh(W x + b) of its first token."""


@dataclass(frozen=True)
class TokenTransform:
    """What is done to a state before it is scored: it has the norm, and may have the activation, of the layers.

    Attributes:
        activation: Always this one; None = that of the layers.
    """

    activation: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The settings it goes by."""
        return ("hidden_act", "layer_norm_eps")

    def read(self, foreign: Foreign) -> Values:
        """Return `transform`."""
        word = self.activation or foreign.get("hidden_act", "gelu")
        known: Any = ACTIVATION_WORDS[word if word in tuple(ACTIVATION_WORDS) else "gelu"]  # the layers refuse others
        norm = NormConfig(eps=foreign.get("layer_norm_eps", 1e-12))
        return {"transform": TransformConfig(activation=known, norm=norm)}

    def write(self, values: Values) -> dict[str, Any]:
        """Return nothing: the layers have said it."""
        return {}


@dataclass(frozen=True)
class Pooler:
    """The pooler of a body alone, which no setting names: it is there if its tensors are."""

    @property
    def names(self) -> tuple[str, ...]:
        """None."""
        return ()

    def read(self, foreign: Foreign) -> Values:
        """Return `transform` and `pooling`."""
        there = not foreign.tensors or any(name.endswith("pooler.dense.weight") for name in foreign.tensors)
        return dict(POOLER) if there else {}

    def write(self, values: Values) -> dict[str, Any]:
        """Return nothing."""
        return {}


CLASSIFIER_DROPOUT = Key("classifier_dropout", "head_dropout", default=None)


def weights(config: TransformerConfig) -> Weights:
    """Return where each parameter is."""
    rules, copies, unused = list(body(config, BODY)), {}, set[str]()
    head, predictions = config.head, "cls.predictions"
    if head is not None and head.pooling is None:
        rules += linear("head.transform.linear", f"{predictions}.transform.dense", bias=True)
        rules += linear("head.transform.norm", f"{predictions}.transform.LayerNorm", bias=True)
        rules.append(Rule("head.bias", (f"{predictions}.bias",)))
        copies = {
            f"{predictions}.decoder.weight": f"{BODY}embeddings.word_embeddings.weight",
            f"{predictions}.decoder.bias": f"{predictions}.bias",
        }
        unused = {f"{name}.{kind}" for name in (f"{BODY}pooler.dense", "cls.seq_relationship") for kind in PARTS}
    elif head is not None:
        rules += linear("head.transform.linear", f"{BODY}pooler.dense", bias=True)
        if head.vocab_size is not None:
            rules += linear("head", "classifier", bias=True)
    old_ends = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
    return Weights(tuple(rules), copies, ("embeddings.position_ids",), frozenset(unused), old_ends)


PARTS = ("weight", "bias")


def body(config: TransformerConfig, theirs: str) -> Iterator[Rule]:
    """Yield where the parameters of the encoder are, under names that begin with `theirs`."""
    stack = config.output_stack
    embeddings = f"{theirs}embeddings"
    yield Rule("encoder.input.embedding.weight", (f"{embeddings}.word_embeddings.weight",))
    yield Rule("encoder.input.positions.weight", (f"{embeddings}.position_embeddings.weight",))
    if stack.input.n_types:
        yield Rule("encoder.input.types.weight", (f"{embeddings}.token_type_embeddings.weight",))
    yield from linear("encoder.input.norm", f"{embeddings}.LayerNorm", bias=True)
    for i, block in enumerate(stack.blocks):
        yield from _block(block, f"encoder.blocks.{i}", f"{theirs}encoder.layer.{i}")


def _block(block: BlockConfig, ours: str, theirs: str) -> Iterator[Rule]:
    width = block.attention.n_heads * block.attention.d_head
    names = [f"{theirs}.attention.self.{name}" for name in ("query", "key", "value")]
    yield from linear(f"{ours}.attention.qkv", *names, bias=True, layout=Joined((width,) * 3))
    yield from linear(f"{ours}.attention.output", f"{theirs}.attention.output.dense", bias=True)
    yield from linear(f"{ours}.attention_norm", f"{theirs}.attention.output.LayerNorm", bias=True)
    yield from linear(f"{ours}.feed_forward.inner", f"{theirs}.intermediate.dense", bias=True)
    yield from linear(f"{ours}.feed_forward.output", f"{theirs}.output.dense", bias=True)
    yield from linear(f"{ours}.feed_forward_norm", f"{theirs}.output.LayerNorm", bias=True)


NARROW = InitRule(kind="truncated_normal", std=0.02)


def size(d_model: int, n_layers: int, n_heads: int, *, norm_eps: float = 1e-12, n_types: int = 2) -> ModelArguments:
    """Return a published size, with the head for hidden tokens."""
    return ModelArguments(
        kind="encoder", d_model=d_model, n_layers=n_layers, n_heads=n_heads, dropout=0.1, positions="learned",
        max_positions=512, embedding_scale=False, n_types=n_types, input_norm=True, activation="gelu",
        norm_eps=norm_eps, head_bias=True, attention=AttentionArguments(dropout=0.1),
        transform=TransformConfig(activation="gelu", norm=NormConfig(eps=norm_eps)),
        init=InitConfig(embedding=NARROW, linear=NARROW, residual=NARROW, head=NARROW),
    )  # fmt: skip


PAPER, README = "arXiv:1810.04805, section 3", "README of google-research/bert"

BERT = Family(
    name="bert",
    model_type="bert",
    architectures=(
        Architecture(
            "BertForMaskedLM",
            constants={"head_bias": True, "tied": True},
            entries=(TokenTransform(), Fixed("tie_word_embeddings", True)),
        ),
        Architecture(
            "BertForPreTraining",
            constants={"head_bias": True, "tied": True},
            entries=(TokenTransform(), Fixed("tie_word_embeddings", True)),
        ),
        Architecture("BertForSequenceClassification", "classes", POOLER, (CLASSIFIER_DROPOUT,)),
        Architecture("BertModel", "states", entries=(Pooler(),)),
    ),
    entries=(*ENTRIES, Key("max_position_embeddings", "max_positions")),
    constants=CONSTANTS,
    weights=weights,
    prefix=BODY,
    no_effect=frozenset(
        (
            *("directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers"),
            *("pooler_size_per_head", "pooler_type"),
        )
    ),
    presets={
        "bert-tiny": Preset(size(128, 2, 2), 30_522, "4.4M", f"{README}, the smaller models of March 2020"),
        "bert-base": Preset(size(768, 12, 12), 30_522, "110M", PAPER),
        "bert-large": Preset(size(1024, 24, 16), 30_522, "340M", PAPER),
        "bert-base-chinese": Preset(size(768, 12, 12), 21_128, 102_290_312, f"{README}: BERT-Base, Chinese"),
    },
)
