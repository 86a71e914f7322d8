"""The architecture in a handful of numbers and words, as recipes and presets give it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field, model_validator

from glassformer.core.config import (
    AttentionConfig,
    BlockConfig,
    Config,
    FeedForwardConfig,
    HeadConfig,
    InitConfig,
    InputConfig,
    NormConfig,
    PositionConfig,
    RotaryConfig,
    StackConfig,
    TransformerConfig,
)
from glassformer.core.errors import ConfigError


class AttentionArguments(Config):
    """What can be chosen of every attention of a model; see `AttentionConfig`."""

    scale: Literal["sqrt", "d_k", "none"] | float = "sqrt"
    bias: bool = True
    dropout: float = Field(0.0, ge=0, lt=1)
    window: int | None = Field(None, ge=1)
    kernel: str = "auto"


class ModelArguments(Config):
    """A Transformer of equal layers, said briefly; `resolve` spells it out as a `TransformerConfig`.

    Attributes:
        kind: "encoder_decoder", "encoder" or "decoder".
        d_model: Width of the residual stream, D.
        n_layers: Number of layers of each stack.
        n_heads: Number of query heads, H.
        n_kv_heads: Number of key/value heads; None = H.
        d_head: Width of a head; None = D / H.
        d_ff: Inner width of the feed-forward network; None = 4 D.
        dropout: Share set to zero at the input, at each sublayer's output and before a head that pools.
        positions: "sinusoidal", "learned", "rotary" or "none".
        max_positions: Tokens a row may have; None = no limit, which learned positions cannot offer.
        rotary_theta: Base of rotary angles.
        embedding_scale: Multiply the embedding by sqrt(D).
        activation: Of the feed-forward network.
        gated: Whether the feed-forward network has a gate.
        bias: Whether projections and layer norms have offsets.
        norm: "layer", "rms" or "none".
        norm_eps: Added to the variance.
        norm_place: "post" (the paper) or "pre"; pre gets a final norm after the last layer.
        residual: Whether sublayers are added to the stream; off to see what that is for.
        parallel: Attention and feed-forward side by side (PaLM).
        causal: Whether the decoder hides what stands after a token; off to see what that is for.
        tied: Head and embedding are one matrix; those of a classifier never are.
        share_embeddings: Encoder and decoder use one token table.
        head_bias: Whether the head has an offset; that of a classifier always has.
        pooling: What a classifier's head reads: the "mean" of the states, or that of the "first" or "last"
            token; "auto" = mean in an encoder, last in a decoder.
        attention: What can be chosen of every attention.
        init: How the parameters are drawn.
    """

    kind: Literal["encoder_decoder", "encoder", "decoder"] = "encoder_decoder"
    d_model: int = Field(512, ge=1)
    n_layers: int = Field(6, ge=1)
    n_heads: int = Field(8, ge=1)
    n_kv_heads: int | None = Field(None, ge=1)
    d_head: int | None = Field(None, ge=1)
    d_ff: int | None = Field(None, ge=1)
    dropout: float = Field(0.1, ge=0, lt=1)
    positions: Literal["sinusoidal", "learned", "rotary", "none"] = "sinusoidal"
    max_positions: int | None = Field(None, ge=1)
    rotary_theta: float = Field(10_000.0, gt=0)
    embedding_scale: bool = True
    activation: Literal["relu", "gelu", "gelu_tanh", "silu"] = "relu"
    gated: bool = False
    bias: bool = True
    norm: Literal["layer", "rms", "none"] = "layer"
    norm_eps: float = Field(1e-5, gt=0)
    norm_place: Literal["pre", "post"] = "post"
    residual: bool = True
    parallel: bool = False
    causal: bool = True
    tied: bool = True
    share_embeddings: bool = True
    head_bias: bool = False
    pooling: Literal["mean", "first", "last", "auto"] = "auto"
    attention: AttentionArguments = AttentionArguments()
    init: InitConfig = InitConfig()

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        if self.d_head is None and self.d_model % self.n_heads:
            fitting = [n for n in range(1, min(self.d_model, 256) + 1) if self.d_model % n == 0]
            raise ConfigError(
                f"d_model {self.d_model} cannot be shared out to n_heads {self.n_heads}: choose n_heads from "
                f"{fitting}, or give d_head"
            )
        return self

    def resolve(
        self, vocab_size: int, source_vocab_size: int | None = None, classes: Sequence[str] | None = None
    ) -> TransformerConfig:
        """Return the whole architecture, layer by layer.

        Args:
            vocab_size: Number of token ids that are written (and read, without an encoder-decoder).
            source_vocab_size: Number of token ids that are read; None = as many.
            classes: What a whole text is labelled with, at least two names; None = tokens are scored.

        Raises:
            ConfigError: The pieces do not fit, or `pooling` is set for a model that scores tokens.
        """
        source = vocab_size if source_vocab_size is None else source_vocab_size
        head = self._head(vocab_size, classes)
        if self.kind == "encoder":
            return TransformerConfig(encoder=self._stack(vocab_size, causal=False), head=head, init=self.init)
        if self.kind == "decoder":
            return TransformerConfig(decoder=self._stack(vocab_size, causal=self.causal), head=head, init=self.init)
        return TransformerConfig(
            encoder=self._stack(source, causal=False),
            decoder=self._stack(vocab_size, causal=self.causal, cross=True),
            head=head,
            share_embeddings=self.share_embeddings and source == vocab_size,
            init=self.init,
        )

    def _head(self, vocab_size: int, classes: Sequence[str] | None) -> HeadConfig:
        """In a causal stack only the last token has seen everything; in an encoder-decoder it is the start token,
        the only one that a classifier's decoder reads."""
        if classes is None:
            if self.pooling != "auto":
                raise ConfigError(
                    f"pooling is {self.pooling}, but this model scores every token and pools none: set "
                    "pooling=auto, or give classes for a model that labels texts"
                )
            return HeadConfig(vocab_size=vocab_size, tied=self.tied, bias=self.head_bias)
        if len(classes) < 2:
            raise ConfigError(f"there are {len(classes)} classes; there must be at least 2 to tell apart")
        auto: Literal["mean", "last"] = "mean" if self.kind == "encoder" else "last"
        pooling = auto if self.pooling == "auto" else self.pooling
        return HeadConfig(
            vocab_size=len(classes),
            tied=False,
            bias=True,
            pooling=pooling,
            dropout=self.dropout,
            classes=tuple(classes),
        )

    def _stack(self, vocab_size: int, *, causal: bool, cross: bool = False) -> StackConfig:
        norm = NormConfig(kind=self.norm, eps=self.norm_eps, bias=self.bias)
        block = BlockConfig(
            attention=self._attention(cross=False),
            cross_attention=self._attention(cross=True) if cross else None,
            feed_forward=FeedForwardConfig(
                d_ff=self.d_ff or 4 * self.d_model,
                activation=self.activation,
                gated=self.gated,
                bias=self.bias,
            ),
            norm=norm,
            norm_place=self.norm_place,
            residual=self.residual,
            parallel=self.parallel,
            dropout=self.dropout,
        )
        added = "none" if self.positions == "rotary" else self.positions
        return StackConfig(
            input=InputConfig(
                vocab_size=vocab_size,
                d_model=self.d_model,
                scale=self.embedding_scale,
                positions=PositionConfig(kind=added, max_positions=self.max_positions),
                dropout=self.dropout,
            ),
            blocks=(block,) * self.n_layers,
            final_norm=norm if self.norm_place == "pre" and self.norm != "none" else None,
            causal=causal,
        )

    def _attention(self, *, cross: bool) -> AttentionConfig:
        """Cross-attention has neither rotation nor window: distances between two different texts mean nothing."""
        rotary = RotaryConfig(theta=self.rotary_theta) if self.positions == "rotary" else None
        return AttentionConfig(
            n_heads=self.n_heads,
            n_kv_heads=self.n_kv_heads or self.n_heads,
            d_head=self.d_head or self.d_model // self.n_heads,
            scale=self.attention.scale,
            bias=self.bias and self.attention.bias,
            out_bias=self.bias,
            dropout=self.attention.dropout,
            rotary=None if cross else rotary,
            window=None if cross else self.attention.window,
            kernel=self.attention.kernel,
        )
