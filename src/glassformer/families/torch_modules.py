"""Where each parameter of ours stands in the state dict of torch's own modules, and which of ours those cannot be.

`nn.MultiheadAttention` is an `Attention`, `nn.TransformerEncoderLayer` and `nn.TransformerDecoderLayer` are a `Block`,
`nn.TransformerEncoder` and `nn.TransformerDecoder` a `Stack` without its input, `nn.Transformer` a `Transformer`
without inputs and head.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from glassformer.core.attention_config import AttentionConfig
from glassformer.core.config import BlockConfig, StackConfig
from glassformer.core.norm_config import NormConfig
from glassformer.families.weights import Rule, linear


@dataclass(frozen=True)
class Rows:
    """Some rows of a tensor of theirs; the rules of one tensor stand in the order of its rows.

    Attributes:
        begin: The first.
        end: That after the last.
    """

    begin: int
    end: int

    def to_ours(self, theirs: Sequence[Tensor]) -> Tensor:
        """Return the rows."""
        return theirs[0][self.begin : self.end]

    def to_theirs(self, ours: Tensor) -> Sequence[Tensor]:
        """Return what is put below the rows of the rule before it."""
        return (ours,)


def attention_rules(
    config: AttentionConfig, d_model: int, ours: str = "", theirs: str = "", *, cross: bool = False
) -> Iterator[Rule]:
    """Yield the rules of an attention; theirs has one matrix for q, k and v in cross-attention too."""
    for kind in ("weight", "bias") if config.bias else ("weight",):
        joined = (f"{theirs}in_proj_{kind}",)
        if cross:
            yield Rule(f"{ours}q.{kind}", joined, Rows(0, d_model))
            yield Rule(f"{ours}kv.{kind}", joined, Rows(d_model, 3 * d_model))
        else:
            yield Rule(f"{ours}qkv.{kind}", joined)
    yield from linear(f"{ours}output", f"{theirs}out_proj", bias=config.out_bias)


def block_rules(config: BlockConfig, d_model: int, ours: str = "", theirs: str = "") -> Iterator[Rule]:
    """Yield the rules of a layer; theirs numbers its norms in the order of the sublayers."""
    sublayers = ["attention", "feed_forward"]
    yield from attention_rules(config.attention, d_model, f"{ours}attention.", f"{theirs}self_attn.")
    if config.cross_attention is not None:
        sublayers.insert(1, "cross_attention")
        names = f"{ours}cross_attention.", f"{theirs}multihead_attn."
        yield from attention_rules(config.cross_attention, d_model, *names, cross=True)
    for number, sublayer in enumerate(sublayers, start=1):
        yield from linear(f"{ours}{sublayer}_norm", f"{theirs}norm{number}", bias=config.norm.bias)
    yield from linear(f"{ours}feed_forward.inner", f"{theirs}linear1", bias=config.feed_forward.bias)
    yield from linear(f"{ours}feed_forward.output", f"{theirs}linear2", bias=config.feed_forward.bias)


def stack_rules(config: StackConfig, ours: str = "", theirs: str = "") -> Iterator[Rule]:
    """Yield the rules of a stack."""
    for i, block in enumerate(config.blocks):
        yield from block_rules(block, config.input.d_model, f"{ours}blocks.{i}.", f"{theirs}layers.{i}.")
    if config.final_norm is not None:
        yield from linear(f"{ours}final_norm", f"{theirs}norm", bias=config.final_norm.bias)


def attention_faults(config: AttentionConfig, d_model: int, where: str = "") -> Iterator[str]:
    """Yield what torch's attention cannot do of this one."""
    if config.n_heads * config.d_head != d_model:
        yield f"{where}n_heads x d_head is {config.n_heads * config.d_head}, and d_model {d_model}"
    if config.n_kv_heads != config.n_heads:
        yield f"{where}n_kv_heads is {config.n_kv_heads}, and n_heads {config.n_heads}"
    if config.scale not in ("sqrt", config.d_head**-0.5):
        yield f"{where}scale is {config.scale}"
    if config.bias != config.out_bias:
        yield f"{where}bias is {config.bias}, and out_bias {config.out_bias}"
    for name, value in (("rotary", config.rotary), ("qk_norm", config.qk_norm), ("window", config.window)):
        if value is not None:
            yield f"{where}{name} is set"


def block_faults(config: BlockConfig, d_model: int, where: str = "") -> Iterator[str]:
    """Yield what torch's layers cannot do of this one."""
    yield from attention_faults(config.attention, d_model, f"{where}attention.")
    if config.cross_attention is not None:
        yield from attention_faults(config.cross_attention, d_model, f"{where}cross_attention.")
    if config.feed_forward.gated:
        yield f"{where}feed_forward.gated is true"
    yield from _norm_faults(config.norm, f"{where}norm.")
    if not config.residual:
        yield f"{where}residual is false"
    if config.parallel:
        yield f"{where}parallel is true"
    biases = {config.attention.bias, config.feed_forward.bias, config.norm.bias}
    if config.cross_attention is not None:
        biases.add(config.cross_attention.bias)
    if len(biases) > 1:
        yield f"{where}bias differs between attention, feed-forward and norm"


def stack_faults(config: StackConfig, where: str = "") -> Iterator[str]:
    """Yield what torch's stacks cannot do of this one."""
    for i, block in enumerate(config.blocks):
        yield from block_faults(block, config.input.d_model, f"{where}blocks.{i}.")
    if config.final_norm is not None:
        yield from _norm_faults(config.final_norm, f"{where}final_norm.")
    if config.position_bias is not None:
        yield f"{where}position_bias is {config.position_bias.kind}"


def _norm_faults(config: NormConfig, where: str) -> Iterator[str]:
    if config.kind != "layer":
        yield f"{where}kind is {config.kind}"
