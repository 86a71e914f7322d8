"""The whole architecture as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from glassformer.core.errors import ConfigError
from glassformer.core.settings import Config


def _kind(value: Any) -> Any:
    """Which of several kinds of settings a value is of."""
    settings = value if isinstance(value, Mapping) else value.__dict__ if isinstance(value, Config) else {}
    return settings.get("kind")


class LinearScaling(Config):
    """Rotary angles of positions divided by a factor, so that a longer text takes up no more of them.

    Attributes:
        kind: "linear".
        factor: How many times longer texts may be.

    Source: Chen et al. 2023, arXiv:2306.15595, section 2.3.
    """

    kind: Literal["linear"] = "linear"
    factor: float = Field(gt=0)


class Llama3Scaling(Config):
    """Slow rotary pairs turn `factor` times slower, fast ones as before, those between by a blend.

    Attributes:
        kind: "llama3".
        factor: How many times slower.
        low: A pair that turns fewer than this many times in `original_positions` is slow.
        high: One that turns more often than this is fast.
        original_positions: Length of the texts that the model was first trained on, in tokens.

    Source: Grattafiori et al. 2024, arXiv:2407.21783, and the released code of LLaMA 3.1, `apply_scaling`.
    """

    kind: Literal["llama3"] = "llama3"
    factor: float = Field(gt=0)
    low: float = Field(1.0, gt=0)
    high: float = Field(4.0, gt=0)
    original_positions: int = Field(ge=1)

    @model_validator(mode="after")
    def _low_is_below_high(self) -> Self:
        if self.low >= self.high:
            raise ConfigError(f"low is {self.low} and high {self.high}: slow pairs turn less often than fast ones")
        return self


class YarnScaling(Config):
    """As llama3, blended along the index of the pairs, and scores made larger.

    Attributes:
        kind: "yarn".
        factor: How many times longer texts may be.
        original_positions: Length of the texts that the model was first trained on, in tokens.
        fast: A pair that turns this often in `original_positions`, or more, keeps its speed.
        slow: One that turns this often, or less, turns `factor` times slower.
        attention_factor: Factor of q and k alike; None = from the two below, or 0.1 ln(factor) + 1.
        mscale: With `mscale_all`: the factor is (0.1 mscale ln(factor) + 1) / (0.1 mscale_all ln(factor) + 1).
        mscale_all: See `mscale`.
        truncate: Begin and end the blend at whole pairs.

    Source: Peng et al. 2023, arXiv:2309.00071, sections 3.2 to 3.4.
    """

    kind: Literal["yarn"] = "yarn"
    factor: float = Field(gt=0)
    original_positions: int = Field(ge=1)
    fast: float = Field(32.0, gt=0)
    slow: float = Field(1.0, gt=0)
    attention_factor: float | None = Field(None, gt=0)
    mscale: float | None = None
    mscale_all: float | None = None
    truncate: bool = True


ScalingConfig = Annotated[
    Annotated[LinearScaling, Tag("linear")]
    | Annotated[Llama3Scaling, Tag("llama3")]
    | Annotated[YarnScaling, Tag("yarn")],
    Discriminator(_kind),
]
"""How rotary positions reach beyond the length that a model was first trained on."""


class RotaryConfig(Config):
    """Rotary positions: pairs of a query's or key's numbers are turned by an angle that grows with position.

    Attributes:
        theta: Base of the geometric series of angles.
        pairing: Which numbers form a pair: "halves" (i and i + d/2) or "interleaved" (2i and 2i + 1).
        share: Share of a head's numbers that is turned, its first ones; the others know no position.
        scaling: How a model is taken beyond the length it was first trained on; None = not.
    """

    theta: float = Field(10_000.0, gt=0)
    pairing: Literal["halves", "interleaved"] = "halves"
    share: float = Field(1.0, gt=0, le=1)
    scaling: ScalingConfig | None = None

    def turned(self, d_head: int) -> int:
        """Return how many numbers of a head are turned."""
        return int(d_head * self.share)


class PositionConfig(Config):
    """Positions that are added to the embedding.

    Attributes:
        kind: "sinusoidal" (the paper's formula), "learned" (a table) or "none".
        max_positions: Positions a sequence may have; None = as many as you like, which a table cannot offer.
        layout: How sines and cosines are laid out: "interleaved" (sin, cos, sin, cos ..), as in the paper, or
            "halves" (all sines, then all cosines).
        offset: Rows of a learned table before that of position 0, which are never read (RoBERTa has 2).
    """

    kind: Literal["sinusoidal", "learned", "none"] = "sinusoidal"
    max_positions: int | None = Field(None, ge=1)
    layout: Literal["interleaved", "halves"] = "interleaved"
    offset: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _table_has_a_size(self) -> Self:
        if self.kind == "learned" and self.max_positions is None:
            raise ConfigError("learned positions are a table and need max_positions")
        return self


class RelativeBiasConfig(Config):
    """A learned number for each head and each bucket of distances, added to the scores of a whole stack (T5).

    Attributes:
        kind: "relative".
        n_buckets: Number of buckets; in a stack that is not causal half of them are for keys after the query.
        max_distance: From this distance on, in tokens, all is one bucket.
    """

    kind: Literal["relative"] = "relative"
    n_buckets: int = Field(32, ge=4)
    max_distance: int = Field(128, ge=2)

    @model_validator(mode="after")
    def _far_is_far(self) -> Self:
        if self.n_buckets % 2 or self.max_distance <= self.n_buckets // 2:
            raise ConfigError(
                f"n_buckets is {self.n_buckets} and max_distance {self.max_distance}: n_buckets must be even, and "
                f"max_distance above half of it, for the first half of the buckets holds one distance each"
            )
        return self


class AlibiConfig(Config):
    """A penalty that grows with the distance, at another rate for each head; nothing is learned.

    Attributes:
        kind: "alibi".
    """

    kind: Literal["alibi"] = "alibi"


PositionBiasConfig = Annotated[
    Annotated[RelativeBiasConfig, Tag("relative")] | Annotated[AlibiConfig, Tag("alibi")], Discriminator(_kind)
]
"""What distances add to scores."""


class NormConfig(Config):
    """Normalisation of a vector: layer norm, root-mean-square norm, or none at all.

    Attributes:
        kind: "layer", "rms" or "none".
        eps: Added to the variance, so that a constant vector does not divide by zero.
        bias: Whether layer norm adds a learned offset.
    """

    kind: Literal["layer", "rms", "none"] = "layer"
    eps: float = Field(1e-5, gt=0)
    bias: bool = True


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


class PatternConfig(Config):
    """Sparse attention: which blocks of keys the queries of a block see; see `Blocks`.

    Attributes:
        block: Positions of a block.
        near: Blocks to either side that stay visible, besides a query's own.
        first: Blocks at the beginning of a text that all see and that see all.
        every: Each how-many-th block all see; None = none.
        random: Blocks drawn for each block, among those before it and itself.
        seed: Of the drawing.
    """

    block: int = Field(64, ge=1)
    near: int = Field(1, ge=0)
    first: int = Field(0, ge=0)
    every: int | None = Field(None, ge=1)
    random: int = Field(0, ge=0)
    seed: int = Field(0, ge=0)


class AttentionConfig(Config):
    """Multi-head attention.

    Attributes:
        type: WHAT is computed: "softmax" of products; "shaw": of products and of what q says of the distance, with a
            value for each distance too; "linear": a kernel feature map in place of softmax, in time that grows with
            the length and not its square.
        n_heads: Number of query heads, H.
        n_kv_heads: Number of key/value heads, K; H must be a multiple of it.
        d_head: Width of a head, E; K, E and H are free of d_model.
        scale: Factor of the scores: "sqrt" = 1/sqrt(E), "d_k" = 1/E, "none" = 1, or a number.
        bias: Whether q, k and v have an offset.
        out_bias: Whether the output projection has one.
        dropout: Share of the weights that training sets to zero.
        rotary: Turn q and k by their positions.
        qk_norm: Norm of each query and each key, before they are turned; None = not.
        max_distance: Of type "shaw": distances beyond this count as this.
        soft_cap: Largest size c of a score: c tanh(s / c), before the bias; None = unlimited.
        window: A query sees the keys fewer than this many positions away, itself included; None = all.
        pattern: Which blocks of keys it sees; None = all.
        kernel: HOW it is computed; never changes a result. "auto" takes the first that can.
    """

    type: Literal["softmax", "shaw", "linear"] = "softmax"
    n_heads: int = Field(ge=1)
    n_kv_heads: int = Field(ge=1)
    d_head: int = Field(ge=1)
    scale: Literal["sqrt", "d_k", "none"] | float = "sqrt"
    bias: bool = True
    out_bias: bool = True
    dropout: float = Field(0.0, ge=0, lt=1)
    rotary: RotaryConfig | None = None
    qk_norm: NormConfig | None = None
    max_distance: int | None = Field(None, ge=1)
    soft_cap: float | None = Field(None, gt=0)
    window: int | None = Field(None, ge=1)
    pattern: PatternConfig | None = None
    kernel: str = "auto"

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        if self.n_heads % self.n_kv_heads:
            divisors = [n for n in range(1, self.n_heads + 1) if self.n_heads % n == 0]
            raise ConfigError(
                f"n_heads is {self.n_heads} and n_kv_heads {self.n_kv_heads}: query heads are shared out "
                f"evenly, so n_kv_heads must be one of {divisors}"
            )
        if (self.type == "shaw") != (self.max_distance is not None):
            raise ConfigError(
                f"max_distance is {self.max_distance} in attention of type {self.type}: it belongs to type shaw, which "
                "needs it; set attention.max_distance, such as 16"
                if self.type == "shaw"
                else f"max_distance is {self.max_distance}, but attention.type is {self.type}: only shaw has distances"
            )
        idle = [
            name
            for name, used in (("window", self.window), ("pattern", self.pattern), ("soft_cap", self.soft_cap))
            if used
        ]
        if self.type == "linear" and (idle or self.dropout):
            raise ConfigError(
                f"{', '.join(idle or ['dropout'])} is set in linear attention, which sums over all keys and never has "
                "weights or scores of single ones; leave it out, or take another type"
            )
        turned = 0 if self.rotary is None else self.rotary.turned(self.d_head)
        if self.rotary is not None and (turned % 2 or turned == 0):
            whole = f"d_head is {self.d_head}" if turned == self.d_head else f"{turned} numbers of {self.d_head} turn"
            raise ConfigError(f"{whole}: rotary positions turn pairs of numbers, so it must be even")
        return self


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
