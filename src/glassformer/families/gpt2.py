"""GPT-2: a decoder alone that was trained on nothing but the next token.

It differs from the original Transformer in these: a decoder alone; layer norm before each sublayer and after the last
block; learned positions; GELU (its tanh approximation) in place of ReLU; no sqrt(D) at the embedding.

Source: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.3, and the released code.
"""

from __future__ import annotations

from collections.abc import Iterator

from glassformer.core.config import TransformerConfig
from glassformer.families.entries import ACTIVATION_WORDS, Fixed, Key
from glassformer.families.family import Architecture, Family, Preset
from glassformer.families.vaswani import GPT_LIKE_INIT
from glassformer.families.weights import Rule, Same, Transposed, Weights, linear
from glassformer.models.arguments import AttentionArguments, ModelArguments

BODY = "transformer."

ENTRIES = (
    Key("vocab_size", "vocab_size"),
    Key("n_positions", "max_positions"),
    Key("n_embd", "d_model"),
    Key("n_layer", "n_layers"),
    Key("n_head", "n_heads"),
    Key("n_inner", "d_ff", default=None),
    Key("activation_function", "activation", default="gelu_new", words=ACTIVATION_WORDS),
    Key("resid_pdrop", "dropout", default=0.1),
    Key("embd_pdrop", "input_dropout", default=0.1),
    Key("attn_pdrop", "attention.dropout", default=0.1),
    Key("layer_norm_epsilon", "norm_eps", default=1e-5),
    Key("scale_attn_weights", "attention.scale", default=True, words={True: "sqrt", False: "none"}),
    Key("tie_word_embeddings", "tied", default=True),
    Fixed("scale_attn_by_inverse_layer_idx", False),
    Fixed("reorder_and_upcast_attn", False),
    Fixed("add_cross_attention", False),
)


def weights(config: TransformerConfig) -> Weights:
    """Return where each parameter is; all matrices but the tables stand (in, out)."""
    rules = [
        Rule("decoder.input.embedding.weight", (f"{BODY}wte.weight",)),
        Rule("decoder.input.positions.weight", (f"{BODY}wpe.weight",)),
        *(rule for i in range(len(config.output_stack.blocks)) for rule in _block(i)),
        *_norm("decoder.final_norm", f"{BODY}ln_f"),
    ]
    copies = {}
    if config.head is not None and config.head.tied:
        copies["lm_head.weight"] = f"{BODY}wte.weight"
    elif config.head is not None:
        rules.append(Rule("head.weight", ("lm_head.weight",)))
    return Weights(tuple(rules), copies, derived=(".attn.bias", ".attn.masked_bias"))


def _block(i: int) -> Iterator[Rule]:
    ours, theirs = f"decoder.blocks.{i}", f"{BODY}h.{i}"
    yield from _norm(f"{ours}.attention_norm", f"{theirs}.ln_1")
    yield from _turned(f"{ours}.attention.qkv", f"{theirs}.attn.c_attn")
    yield from _turned(f"{ours}.attention.output", f"{theirs}.attn.c_proj")
    yield from _norm(f"{ours}.feed_forward_norm", f"{theirs}.ln_2")
    yield from _turned(f"{ours}.feed_forward.inner", f"{theirs}.mlp.c_fc")
    yield from _turned(f"{ours}.feed_forward.output", f"{theirs}.mlp.c_proj")


def _norm(ours: str, theirs: str) -> Iterator[Rule]:
    return linear(ours, theirs, bias=True)


def _turned(ours: str, theirs: str) -> Iterator[Rule]:
    return linear(ours, theirs, bias=True, layout=Transposed(), bias_layout=Same())


def _size(d_model: int, n_layers: int, n_heads: int, max_positions: int = 1024, dropout: float = 0.1) -> ModelArguments:
    return ModelArguments(
        kind="decoder", d_model=d_model, n_layers=n_layers, n_heads=n_heads, dropout=dropout, positions="learned",
        max_positions=max_positions, embedding_scale=False, activation="gelu_tanh", norm_place="pre",
        attention=AttentionArguments(dropout=dropout), init=GPT_LIKE_INIT,
    )  # fmt: skip


README = "README of openai/gpt-2, which corrects the paper's table 2"

GPT2 = Family(
    name="gpt2",
    model_type="gpt2",
    architectures=(Architecture("GPT2LMHeadModel"), Architecture("GPT2Model", "states")),
    entries=ENTRIES,
    constants={
        "kind": "decoder",
        "positions": "learned",
        "embedding_scale": False,
        "norm_place": "pre",
    },
    weights=weights,
    prefix=BODY,
    no_effect=frozenset(
        (
            *("n_ctx", "summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels"),
            "summary_first_dropout",
        )
    ),
    presets={
        "gpt2-tiny": Preset(_size(64, 2, 4, 256, 0.0)),
        "gpt2": Preset(_size(768, 12, 12), 50_257, 124_439_808, f"124M: {README}"),
        "gpt2-medium": Preset(_size(1024, 24, 16), 50_257, 354_823_168, f"355M: {README}"),
        "gpt2-large": Preset(_size(1280, 36, 20), 50_257, 774_030_080, f"774M: {README}"),
        "gpt2-xl": Preset(_size(1600, 48, 25), 50_257, 1_557_611_200, f"1.5B: {README}"),
    },
)
