"""The whole architecture as data."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from glassformer.core.attention_config import AttentionConfig as AttentionConfig
from glassformer.core.errors import ConfigError
from glassformer.core.norm_config import NormConfig
from glassformer.core.position_config import PositionBiasConfig, PositionConfig
from glassformer.core.settings import Config


class InputConfig(Config):
    """From token ids to the residual stream.

    Attributes:
        vocab_size: Number of token ids, V.
        d_model: Width of the residual stream, D.
        scale: Multiply the embedding by sqrt(D), as the paper does.
        positions: What is added for the place of a token.
        n_types: Number of token types (BERT's segments); 0 = none.
        norm: Applied to the sum (BERT); None = not.
        dropout: Share of the sum's numbers that training sets to zero.
    """

    vocab_size: int = Field(ge=1)
    d_model: int = Field(ge=1)
    scale: bool = False
    positions: PositionConfig = PositionConfig()
    n_types: int = Field(0, ge=0)
    norm: NormConfig | None = None
    dropout: float = Field(0.0, ge=0, lt=1)


class FeedForwardConfig(Config):
    """The position-wise network.

    Attributes:
        d_ff: Its inner width, F.
        activation: "relu", "gelu", "gelu_tanh" or "silu".
        gated: Multiply the activation with a second projection (GLU variants).
        bias: Whether its projections have offsets.
        dropout: Share of the inner numbers that training sets to zero.
    """

    d_ff: int = Field(ge=1)
    activation: Literal["relu", "gelu", "gelu_tanh", "silu"] = "relu"
    gated: bool = False
    bias: bool = True
    dropout: float = Field(0.0, ge=0, lt=1)


class BlockConfig(Config):
    """One layer: attention, cross-attention in a decoder, feed-forward, each with its residual and norm.

    Attributes:
        attention: Self-attention.
        cross_attention: Attention on the encoder's output; None = this layer has none.
        feed_forward: The position-wise network.
        norm: Which norm.
        norm_place: "post" norm(x + f(x)), as in the paper, or "pre" x + f(norm(x)).
        residual: Whether x is added at all (switch it off to see what it is for).
        parallel: Attention and feed-forward read the same stream and are added to it together (PaLM).
        parallel_norms: Whether both read 1 norm of it (PaLM), or 2, each its own (GPT-NeoX).
        dropout: Share of each sublayer's output that training sets to zero.
    """

    attention: AttentionConfig
    cross_attention: AttentionConfig | None = None
    feed_forward: FeedForwardConfig
    norm: NormConfig = NormConfig()
    norm_place: Literal["pre", "post"] = "post"
    residual: bool = True
    parallel: bool = False
    parallel_norms: int = Field(1, ge=1, le=2)
    dropout: float = Field(0.0, ge=0, lt=1)

    @model_validator(mode="after")
    def _parallel_is_pre(self) -> Self:
        if self.parallel and (self.norm_place == "post" or self.cross_attention is not None):
            raise ConfigError(
                f"parallel is true with norm_place={self.norm_place} and "
                f"{'no' if self.cross_attention is None else 'a'} cross-attention: a parallel block has "
                "its norms before both of its sublayers; it needs norm_place=pre and no cross-attention"
            )
        if self.parallel_norms == 2 and not self.parallel:
            raise ConfigError("parallel_norms is 2 in a block that is not parallel, where it has no effect")
        return self


class StackConfig(Config):
    """An encoder or a decoder: input, blocks, final norm.

    Attributes:
        input: From token ids to the residual stream.
        blocks: The layers from first to last; each says all about itself, so "layer 5 differs" needs no flag.
        final_norm: Norm after the last block; None = not.
        causal: Whether a token sees only itself and what stands before it.
        position_bias: What the distance of query and key adds to the scores of every layer; None = nothing.
    """

    input: InputConfig
    blocks: tuple[BlockConfig, ...]
    final_norm: NormConfig | None = None
    causal: bool = False
    position_bias: PositionBiasConfig | None = None

    @model_validator(mode="after")
    def _has_a_block(self) -> Self:
        if not self.blocks:
            raise ConfigError("blocks is empty; a stack needs at least one")
        heads = {block.attention.n_heads for block in self.blocks}
        if self.position_bias is not None and len(heads) > 1:
            raise ConfigError(
                f"n_heads is {sorted(heads)} by layer: a position bias is shared by all layers of a stack"
            )
        if self.position_bias is not None and any(block.attention.type == "linear" for block in self.blocks):
            raise ConfigError(
                f"position_bias is {self.position_bias.kind} in a stack with linear attention, which has no scores to "
                "add it to; choose other positions"
            )
        return self


class TransformConfig(Config):
    """What a head does to a vector before it scores it: y = norm(act(W x + b)).

    Attributes:
        activation: "tanh" (BERT's pooler), "gelu" (its masked-token head), or another.
        norm: Which norm; None = none.
    """

    activation: Literal["tanh", "relu", "gelu", "gelu_tanh", "silu"] = "tanh"
    norm: NormConfig | None = None


class HeadConfig(Config):
    """From the residual stream to scores: of every token at every position, or of every class for a whole row.

    Attributes:
        vocab_size: Number of scores: V tokens, or C classes where it pools; None = it scores nothing and hands out the
            vector that it pools and transforms (BERT's pooler).
        tied: Use the input embedding of the stack it reads as its weight.
        bias: Whether it adds an offset.
        pooling: How the states of a row become the one vector that is scored: their "mean", or that of the
            "first" or the "last" token; None = every position is scored.
        transform: What is done to a vector before it is scored; None = nothing.
        scaled: Divide the states by sqrt(D) (T5's tied head).
        dropout: Share of the pooled vector's numbers that training sets to zero.
        classes: What each class is called, where it pools; empty = nobody said.
    """

    vocab_size: int | None = Field(ge=1)
    tied: bool = True
    bias: bool = False
    pooling: Literal["mean", "first", "last"] | None = None
    transform: TransformConfig | None = None
    scaled: bool = False
    dropout: float = Field(0.0, ge=0, lt=1)
    classes: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _names_are_of_classes(self) -> Self:
        if self.classes and (self.pooling is None or len(self.classes) != self.vocab_size):
            scores = "tokens" if self.pooling is None else f"{self.vocab_size} classes"
            raise ConfigError(f"there are {len(self.classes)} names of classes for a head that scores {scores}")
        return self

    @model_validator(mode="after")
    def _something_comes_out(self) -> Self:
        if self.vocab_size is None and (self.pooling is None or self.transform is None or self.tied or self.bias):
            raise ConfigError(
                "vocab_size is none: a head that scores nothing pools and transforms; set pooling and transform, "
                "tied=false and bias=false"
            )
        return self

    @model_validator(mode="after")
    def _classes_are_no_tokens(self) -> Self:
        if self.pooling is not None and self.tied:
            raise ConfigError(
                f"pooling is {self.pooling} in a tied head: it scores classes, and the embedding it would share "
                "has a row for every token; set tied=false"
            )
        if self.pooling is None and self.dropout:
            raise ConfigError(
                f"dropout is {self.dropout} in a head that does not pool: the states it reads have been through that "
                "of the last block; set it there, or set pooling"
            )
        return self


class InitRule(Config):
    """How one kind of matrix is drawn.

    Attributes:
        kind: "xavier" U(-a, a) with a = gain sqrt(6 / (fan_in + fan_out)); "xavier_normal" the same variance,
            normal; "normal" N(0, std^2); "truncated_normal" the same cut at two std; "zeros".
        std: Standard deviation of the normal kinds (before the cut, when truncated); "d_model" = D^-1/2, "fan_in" =
            N^-1/2 with N numbers that go in.
        gain: Factor of the Xavier kinds.
        depth_scaled: Divide by sqrt(number of residual additions in the stack), so that the sum keeps its
            size.
    """

    kind: Literal["xavier", "xavier_normal", "normal", "truncated_normal", "zeros"] = "xavier"
    std: Literal["d_model", "fan_in"] | Annotated[float, Field(ge=0)] = 0.02
    gain: float = Field(1.0, gt=0)
    depth_scaled: bool = False


class InitConfig(Config):
    """The table of initial values, by the role of a matrix; norms start at 1, offsets at 0.

    Attributes:
        embedding: Token, type and learned position tables.
        linear: Projections inside a sublayer (q, k, v, feed-forward in).
        residual: Projections that write to the residual stream (attention out, feed-forward out).
        head: The output head, when it is not tied.
    """

    embedding: InitRule = InitRule(kind="normal")
    linear: InitRule = InitRule()
    residual: InitRule = InitRule()
    head: InitRule = InitRule(kind="normal")

    @model_validator(mode="after")
    def _depth_belongs_to_sublayers(self) -> Self:
        if self.embedding.depth_scaled or self.head.depth_scaled:
            raise ConfigError(
                "depth_scaled is for the projections that are added up layer by layer: set it in linear or "
                "residual, not in embedding or head"
            )
        return self


class TransformerConfig(Config):
    """A whole model: an encoder, a decoder, or both, and a head.

    Attributes:
        encoder: Reads the source; alone, it is the model.
        decoder: Writes; alone, it is the model.
        head: Scores for every token, or for every class; None = the model returns hidden states.
        share_embeddings: Encoder and decoder use one token table.
        init: How the parameters are drawn.
    """

    encoder: StackConfig | None = None
    decoder: StackConfig | None = None
    head: HeadConfig | None = None
    share_embeddings: bool = False
    init: InitConfig = InitConfig()

    @model_validator(mode="after")
    def _stacks_fit(self) -> Self:
        stacks = [stack for stack in (self.encoder, self.decoder) if stack is not None]
        if not stacks:
            raise ConfigError("a Transformer needs an encoder, a decoder, or both")
        crossed = self.decoder is not None and any(b.cross_attention is not None for b in self.decoder.blocks)
        if self.decoder is not None and crossed != (self.encoder is not None):
            raise ConfigError("a decoder has cross-attention if and only if there is an encoder to look at")
        if self.encoder is not None and any(b.cross_attention is not None for b in self.encoder.blocks):
            raise ConfigError("an encoder has no cross-attention")
        if len({stack.input.d_model for stack in stacks}) > 1:
            widths = [stack.input.d_model for stack in stacks]
            raise ConfigError(f"the encoder's d_model is {widths[0]}, the decoder's {widths[1]}: they must be equal")
        if self.share_embeddings and len({stack.input.vocab_size for stack in stacks}) > 1:
            sizes = [stack.input.vocab_size for stack in stacks]
            raise ConfigError(
                f"the encoder's vocab_size is {sizes[0]}, the decoder's {sizes[1]}: they can share a token "
                "table only if it is equal; set share_embeddings=false"
            )
        if self.head is not None and self.head.tied and self.head.vocab_size != stacks[-1].input.vocab_size:
            raise ConfigError(
                f"the head's vocab_size is {self.head.vocab_size}, its embedding's "
                f"{stacks[-1].input.vocab_size}: a tied head needs them equal; set tied=false"
            )
        if self.head is not None and self.head.pooling == "first" and stacks[-1].causal and not crossed:
            raise ConfigError(
                "pooling is first in a causal stack: its first token has seen nothing but itself; set "
                "pooling=last, the only token that has seen the whole text, or mean"
            )
        return self

    @property
    def kind(self) -> Literal["encoder_decoder", "encoder", "decoder"]:
        """Which stacks there are."""
        if self.decoder is None:
            return "encoder"
        return "decoder" if self.encoder is None else "encoder_decoder"

    @property
    def pools(self) -> bool:
        """Whether the head gives one answer a row, as a classifier does, and not one for every token."""
        return self.head is not None and self.head.pooling is not None

    @property
    def output_stack(self) -> StackConfig:
        """The stack whose states the head reads: the decoder, if there is one."""
        stack = self.decoder or self.encoder
        assert stack is not None, "checked when the config was made"
        return stack
