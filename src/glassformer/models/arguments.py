"""The architecture in a handful of numbers and words, as recipes and presets give it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field, model_validator

from glassformer.core.attention_config import AttentionConfig, PatternConfig
from glassformer.core.config import (
    BlockConfig,
    FeedForwardConfig,
    HeadConfig,
    InitConfig,
    InputConfig,
    StackConfig,
    TransformConfig,
    TransformerConfig,
)
from glassformer.core.errors import ConfigError
from glassformer.core.norm_config import NormConfig
from glassformer.core.position_config import (
    AlibiConfig,
    PositionBiasConfig,
    PositionConfig,
    RelativeBiasConfig,
    RotaryConfig,
)
from glassformer.core.settings import Config
from glassformer.kernels.registry import SPARSE


class AttentionArguments(Config):
    """What can be chosen of every attention of a model; see `AttentionConfig`.

    Attributes:
        type: What is computed: "softmax", "shaw" or "linear"; what looks at another text is never "shaw".
        scale: Factor of the scores.
        bias: Whether q, k and v have an offset; None = as the model's other projections.
        out_bias: Whether the output projection has one; None = as the model's other projections.
        qk_norm: Norm each query and each key, with the model's norm.
        dropout: Share of the weights that training sets to zero.
        window: How near the keys are that a query sees, in tokens, itself included; None = all.
        window_layers: Which layers have the window or the pattern, counted from 0; None = all.
        pattern: Which blocks of keys a query sees; None = all.
        max_distance: Of type "shaw": from here on all distances are one.
        soft_cap: Largest size of a score.
        kernel: How it is computed; what is for a window or a pattern only, in the attentions that have one.
    """

    type: Literal["softmax", "shaw", "linear"] = "softmax"
    scale: Literal["sqrt", "d_k", "none"] | float = "sqrt"
    bias: bool | None = None
    out_bias: bool | None = None
    qk_norm: bool = False
    dropout: float = Field(0.0, ge=0, lt=1)
    window: int | None = Field(None, ge=1)
    window_layers: tuple[int, ...] | None = None
    pattern: PatternConfig | None = None
    max_distance: int | None = Field(None, ge=1)
    soft_cap: float | None = Field(None, gt=0)
    kernel: str = "auto"


class ModelArguments(Config):
    """A Transformer of equal layers, said briefly; `resolve` spells it out as a `TransformerConfig`.

    Attributes:
        kind: "encoder_decoder", "encoder" or "decoder".
        d_model: Width of the residual stream, D.
        n_layers: Number of layers of each stack.
        n_decoder_layers: Number of layers of the decoder of an encoder-decoder; None = `n_layers`.
        n_heads: Number of query heads, H.
        n_kv_heads: Number of key/value heads; None = H.
        d_head: Width of a head; None = D / H.
        d_ff: Inner width of the feed-forward network; None = 4 D.
        dropout: Share set to zero at the input, at each sublayer's output and before a head that pools.
        input_dropout: That at the input; None = `dropout`.
        head_dropout: That before a head that pools; None = `dropout`.
        inner_dropout: That of the feed-forward network's inner numbers.
        positions: "sinusoidal", "learned", "rotary", "relative" (T5's), "alibi" or "none".
        max_positions: Tokens a row may have; None = no limit, which learned positions cannot offer.
        position_layout: How sinusoidal positions are laid out.
        position_offset: Rows of a learned table before that of position 0.
        rotary: Base, pairing, share and scaling of rotary positions.
        relative: Buckets of relative positions.
        embedding_scale: Multiply the embedding by sqrt(D).
        n_types: Number of token types; 0 = none.
        input_norm: Norm what goes into the first layer (BERT).
        activation: Of the feed-forward network.
        gated: Whether the feed-forward network has a gate.
        bias: Whether projections and layer norms have offsets.
        feed_forward_bias: Whether the feed-forward network has; None = as `bias`.
        norm_bias: Whether layer norms have; None = as `bias`.
        norm: "layer", "rms" or "none".
        norm_eps: Added to the variance.
        norm_place: "post" (the paper) or "pre"; pre gets a final norm after the last layer.
        residual: Whether sublayers are added to the stream; off to see what that is for.
        parallel: Attention and feed-forward side by side (PaLM).
        parallel_norms: Whether those read 1 norm of the stream or 2, each its own (GPT-NeoX).
        causal: Whether the decoder hides what stands after a token; off to see what that is for.
        tied: Head and embedding are one matrix; those of a classifier never are.
        share_embeddings: Encoder and decoder use one token table.
        head_bias: Whether the head has an offset; that of a classifier always has.
        head_scaled: Divide the states by sqrt(D) before they are scored (T5).
        transform: What is done to a state, or to a pooled one, before it is scored; None = nothing.
        pooling: What a classifier's head reads: the "mean" of the states, or that of the "first" or "last"
            token; "auto" = mean in an encoder, last in a decoder.
        attention: What can be chosen of every attention.
        init: How the parameters are drawn.
    """

    kind: Literal["encoder_decoder", "encoder", "decoder"] = "encoder_decoder"
    d_model: int = Field(512, ge=1)
    n_layers: int = Field(6, ge=1)
    n_decoder_layers: int | None = Field(None, ge=1)
    n_heads: int = Field(8, ge=1)
    n_kv_heads: int | None = Field(None, ge=1)
    d_head: int | None = Field(None, ge=1)
    d_ff: int | None = Field(None, ge=1)
    dropout: float = Field(0.1, ge=0, lt=1)
    input_dropout: float | None = Field(None, ge=0, lt=1)
    head_dropout: float | None = Field(None, ge=0, lt=1)
    inner_dropout: float = Field(0.0, ge=0, lt=1)
    positions: Literal["sinusoidal", "learned", "rotary", "relative", "alibi", "none"] = "sinusoidal"
    max_positions: int | None = Field(None, ge=1)
    position_layout: Literal["interleaved", "halves"] = "interleaved"
    position_offset: int = Field(0, ge=0)
    rotary: RotaryConfig = RotaryConfig()
    relative: RelativeBiasConfig = RelativeBiasConfig()
    embedding_scale: bool = True
    n_types: int = Field(0, ge=0)
    input_norm: bool = False
    activation: Literal["relu", "gelu", "gelu_tanh", "silu"] = "relu"
    gated: bool = False
    bias: bool = True
    feed_forward_bias: bool | None = None
    norm_bias: bool | None = None
    norm: Literal["layer", "rms", "none"] = "layer"
    norm_eps: float = Field(1e-5, gt=0)
    norm_place: Literal["pre", "post"] = "post"
    residual: bool = True
    parallel: bool = False
    parallel_norms: int = Field(1, ge=1, le=2)
    causal: bool = True
    tied: bool = True
    share_embeddings: bool = True
    head_bias: bool = False
    head_scaled: bool = False
    transform: TransformConfig | None = None
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
        self,
        vocab_size: int,
        source_vocab_size: int | None = None,
        classes: Sequence[str] | None = None,
        *,
        scores: bool = True,
    ) -> TransformerConfig:
        """Return the whole architecture, layer by layer.

        Args:
            vocab_size: Number of token ids that are written (and read, without an encoder-decoder).
            source_vocab_size: Number of token ids that are read; None = as many.
            classes: What a whole text is labelled with, at least two names; None = tokens are scored.
            scores: Whether there is a head that scores; without one a model hands out states, and with `transform` and
                `pooling` one vector a row (BERT's pooler).

        Raises:
            ConfigError: The pieces do not fit, or `pooling` is set for a model that scores tokens.
        """
        source = vocab_size if source_vocab_size is None else source_vocab_size
        head = self._head(vocab_size, classes) if scores else self._pooler()
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
            return HeadConfig(
                vocab_size=vocab_size,
                tied=self.tied,
                bias=self.head_bias,
                transform=self.transform,
                scaled=self.head_scaled,
            )
        if len(classes) < 2:
            raise ConfigError(f"there are {len(classes)} classes; there must be at least 2 to tell apart")
        auto: Literal["mean", "last"] = "mean" if self.kind == "encoder" else "last"
        pooling = auto if self.pooling == "auto" else self.pooling
        return HeadConfig(
            vocab_size=len(classes),
            tied=False,
            bias=True,
            pooling=pooling,
            transform=self.transform,
            dropout=self.dropout if self.head_dropout is None else self.head_dropout,
            classes=tuple(classes),
        )

    def _pooler(self) -> HeadConfig | None:
        if self.transform is None or self.pooling == "auto":
            return None
        return HeadConfig(vocab_size=None, tied=False, pooling=self.pooling, transform=self.transform)

    def _stack(self, vocab_size: int, *, causal: bool, cross: bool = False) -> StackConfig:
        n_layers = self.n_decoder_layers or self.n_layers if cross else self.n_layers
        added = self.positions if self.positions in ("sinusoidal", "learned") else "none"
        return StackConfig(
            input=InputConfig(
                vocab_size=vocab_size,
                d_model=self.d_model,
                scale=self.embedding_scale,
                positions=PositionConfig(
                    kind=added,
                    max_positions=self.max_positions,
                    layout=self.position_layout,
                    offset=self.position_offset,
                ),
                n_types=self.n_types,
                norm=self._norm if self.input_norm else None,
                dropout=self.dropout if self.input_dropout is None else self.input_dropout,
            ),
            blocks=tuple(self._block(layer, cross=cross) for layer in range(n_layers)),
            final_norm=self._norm if self.norm_place == "pre" and self.norm != "none" else None,
            causal=causal,
            position_bias=self._position_bias,
        )

    @property
    def _norm(self) -> NormConfig:
        bias = self.bias if self.norm_bias is None else self.norm_bias
        return NormConfig(kind=self.norm, eps=self.norm_eps, bias=bias)

    @property
    def _position_bias(self) -> PositionBiasConfig | None:
        if self.positions == "alibi":
            return AlibiConfig()
        return self.relative if self.positions == "relative" else None

    def _block(self, layer: int, *, cross: bool) -> BlockConfig:
        return BlockConfig(
            attention=self._attention(layer, cross=False),
            cross_attention=self._attention(layer, cross=True) if cross else None,
            feed_forward=FeedForwardConfig(
                d_ff=self.d_ff or 4 * self.d_model,
                activation=self.activation,
                gated=self.gated,
                bias=self.bias if self.feed_forward_bias is None else self.feed_forward_bias,
                dropout=self.inner_dropout,
            ),
            norm=self._norm,
            norm_place=self.norm_place,
            residual=self.residual,
            parallel=self.parallel,
            parallel_norms=self.parallel_norms,
            dropout=self.dropout,
        )

    def _attention(self, layer: int, *, cross: bool) -> AttentionConfig:
        """Cross-attention has neither rotation nor window: distances between two different texts mean nothing."""
        chosen = self.attention
        own = not cross and (chosen.window_layers is None or layer in chosen.window_layers)
        shaw = chosen.type == "shaw"
        return AttentionConfig(
            type="softmax" if shaw and cross else chosen.type,
            max_distance=None if cross else chosen.max_distance,
            soft_cap=chosen.soft_cap,
            pattern=chosen.pattern if own else None,
            n_heads=self.n_heads,
            n_kv_heads=self.n_kv_heads or self.n_heads,
            d_head=self.d_head or self.d_model // self.n_heads,
            scale=chosen.scale,
            bias=self.bias if chosen.bias is None else chosen.bias,
            out_bias=self.bias if chosen.out_bias is None else chosen.out_bias,
            dropout=chosen.dropout,
            rotary=self.rotary if self.positions == "rotary" and not cross else None,
            qk_norm=self._norm if chosen.qk_norm else None,
            window=chosen.window if own else None,
            kernel=chosen.kernel if own or chosen.kernel not in SPARSE else "auto",
        )
