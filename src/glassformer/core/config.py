"""Frozen, strict settings: the whole architecture as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from glassformer.core.errors import ConfigError, GlassformerError, did_you_mean

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)  # the same class, by its public way


class _Explaining(ModelMetaclass):
    """Makes `SomeConfig(...)` raise this project's ConfigError in place of pydantic's own error."""

    def __call__(cls, *args: Any, **settings: Any) -> Any:  # noqa: N805 - a class is what it makes
        try:
            return super().__call__(*args, **settings)
        except ValidationError as error:
            raise _explained(cls, error) from None  # type: ignore[arg-type]


class Config(BaseModel, metaclass=_Explaining):
    """Base of all settings: frozen, no unknown key, no silent conversion.

    Made from Python, types are strict (`"3"` is no number). Made from a file or from `--set`, every value is
    text and the field's type decides what it means: `1e-3` is a number, `no` is a word where a word is
    expected.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @classmethod
    def parse(cls, settings: Mapping[str, Any], where: str = "") -> Self:
        """Return the settings that a file or a command line spells out as text.

        Args:
            settings: Nested names and texts.
            where: Prefix of the names in error messages, such as "training".

        Raises:
            ConfigError: An unknown name (with the nearest known one), or a value of the wrong kind.
        """
        try:
            return cls.model_validate(settings, strict=False)
        except ValidationError as error:
            raise _explained(cls, error, where) from None

    @field_validator("*", mode="before")
    @classmethod
    def _none_from_text(cls, value: Any, info: Any) -> Any:
        """The texts `none` and `null` mean None where None is possible and "none" is not a choice itself."""
        if value in ("none", "null"):
            annotation = cls.model_fields[info.field_name].annotation
            if type(None) in _alternatives(annotation) and "none" not in _words(annotation):
                return None
        return value


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


def _words(annotation: Any) -> tuple[Any, ...]:
    literals = [alternative for alternative in _alternatives(annotation) if get_origin(alternative) is Literal]
    return tuple(word for literal in literals for word in get_args(literal))


def _located(schema: type[BaseModel], path: Sequence[int | str]) -> tuple[list[str], list[str]]:
    """The names that lead to a setting, and the names that may stand where the last one does.

    pydantic also puts the alternative of a union that it tried ("float") in the path; no user wrote that.
    """
    names: list[str] = []
    known = list(schema.model_fields)
    inside: type[BaseModel] | None = schema
    for step in path:
        if isinstance(step, int):
            names.append(str(step))
        elif inside is not None:
            names.append(step)
            known = list(inside.model_fields)
            field = inside.model_fields.get(step)
            inside = None if field is None else _schema_in(field.annotation)
    return names, known


def _schema_in(annotation: Any) -> type[BaseModel] | None:
    """The settings that a field holds, also in a tuple or beside None."""
    for option in (annotation, *get_args(annotation)):
        if isinstance(option, type) and issubclass(option, BaseModel):
            return option
    return None


def _explained(schema: type[BaseModel], error: ValidationError, where: str = "") -> GlassformerError:
    """One ConfigError that lists everything pydantic found, in words for a user."""
    lines = []
    for problem in error.errors():
        cause = problem.get("ctx", {}).get("error")
        path, known = _located(schema, problem["loc"])
        name = ".".join([where, *path] if where else path)
        if problem["type"] == "extra_forbidden":
            lines.append(f"{name} is not a setting{did_you_mean(path[-1], known)}")
        elif isinstance(cause, GlassformerError):
            lines.append(f"{name}: {cause}" if name else str(cause))
        elif problem["type"] == "missing":
            lines.append(f"{name} is missing")
        elif problem["type"] == "model_type" and name:
            lines.append(f"{name} is {problem['input']!r}, but it holds settings of its own: set {name}.KEY")
        else:
            lines.append(f"{name or schema.__name__} is {problem['input']!r}: {_lower_first(problem['msg'])}")
    return ConfigError("\n".join(dict.fromkeys(lines)))


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


class RotaryConfig(Config):
    """Rotary positions: pairs of a query's or key's numbers are turned by an angle that grows with position.

    Attributes:
        theta: Base of the geometric series of angles.
        pairing: Which numbers form a pair: "halves" (i and i + d/2) or "interleaved" (2i and 2i + 1).
    """

    theta: float = Field(10_000.0, gt=0)
    pairing: Literal["halves", "interleaved"] = "halves"


class PositionConfig(Config):
    """Positions that are added to the embedding.

    Attributes:
        kind: "sinusoidal" (the paper's formula), "learned" (a table) or "none".
        max_positions: Positions a sequence may have; None = as many as you like, which a table cannot offer.
    """

    kind: Literal["sinusoidal", "learned", "none"] = "sinusoidal"
    max_positions: int | None = Field(None, ge=1)

    @model_validator(mode="after")
    def _table_has_a_size(self) -> Self:
        if self.kind == "learned" and self.max_positions is None:
            raise ConfigError("learned positions are a table and need max_positions")
        return self


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


class AttentionConfig(Config):
    """Multi-head attention.

    Attributes:
        n_heads: Number of query heads, H.
        n_kv_heads: Number of key/value heads, K; H must be a multiple of it.
        d_head: Width of a head, E; K, E and H are free of d_model.
        scale: Factor of the scores: "sqrt" = 1/sqrt(E), "d_k" = 1/E, "none" = 1, or a number.
        bias: Whether q, k and v have an offset.
        out_bias: Whether the output projection has one.
        dropout: Share of the weights that training sets to zero.
        rotary: Turn q and k by their positions.
        window: A query sees the keys fewer than this many positions away, itself included; None = all.
        kernel: HOW it is computed; never changes a result. "auto" takes the first that can.
    """

    n_heads: int = Field(ge=1)
    n_kv_heads: int = Field(ge=1)
    d_head: int = Field(ge=1)
    scale: Literal["sqrt", "d_k", "none"] | float = "sqrt"
    bias: bool = True
    out_bias: bool = True
    dropout: float = Field(0.0, ge=0, lt=1)
    rotary: RotaryConfig | None = None
    window: int | None = Field(None, ge=1)
    kernel: str = "auto"

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        if self.n_heads % self.n_kv_heads:
            divisors = [n for n in range(1, self.n_heads + 1) if self.n_heads % n == 0]
            raise ConfigError(
                f"n_heads is {self.n_heads} and n_kv_heads {self.n_kv_heads}: query heads are shared out "
                f"evenly, so n_kv_heads must be one of {divisors}"
            )
        if self.rotary is not None and self.d_head % 2:
            raise ConfigError(f"d_head is {self.d_head}: rotary positions turn pairs of numbers, so it must be even")
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
        parallel: Attention and feed-forward read the same norm and are added together (PaLM).
        dropout: Share of each sublayer's output that training sets to zero.
    """

    attention: AttentionConfig
    cross_attention: AttentionConfig | None = None
    feed_forward: FeedForwardConfig
    norm: NormConfig = NormConfig()
    norm_place: Literal["pre", "post"] = "post"
    residual: bool = True
    parallel: bool = False
    dropout: float = Field(0.0, ge=0, lt=1)

    @model_validator(mode="after")
    def _parallel_is_pre(self) -> Self:
        if self.parallel and (self.norm_place == "post" or self.cross_attention is not None):
            raise ConfigError(
                f"parallel is true with norm_place={self.norm_place} and "
                f"{'no' if self.cross_attention is None else 'a'} cross-attention: a parallel block has "
                "one norm before both of its sublayers; it needs norm_place=pre and no cross-attention"
            )
        return self


class StackConfig(Config):
    """An encoder or a decoder: input, blocks, final norm.

    Attributes:
        input: From token ids to the residual stream.
        blocks: The layers from first to last; each says all about itself, so "layer 5 differs" needs no flag.
        final_norm: Norm after the last block; None = not.
        causal: Whether a token sees only itself and what stands before it.
    """

    input: InputConfig
    blocks: tuple[BlockConfig, ...]
    final_norm: NormConfig | None = None
    causal: bool = False

    @model_validator(mode="after")
    def _has_a_block(self) -> Self:
        if not self.blocks:
            raise ConfigError("blocks is empty; a stack needs at least one")
        return self


class HeadConfig(Config):
    """From the residual stream to scores: of every token at every position, or of every class for a whole row.

    Attributes:
        vocab_size: Number of scores: V tokens, or C classes where it pools.
        tied: Use the input embedding of the stack it reads as its weight.
        bias: Whether it adds an offset.
        pooling: How the states of a row become the one vector that is scored: their "mean", or that of the
            "first" or the "last" token; None = every position is scored.
        dropout: Share of the pooled vector's numbers that training sets to zero.
        classes: What each class is called, where it pools; empty = nobody said.
    """

    vocab_size: int = Field(ge=1)
    tied: bool = True
    bias: bool = False
    pooling: Literal["mean", "first", "last"] | None = None
    dropout: float = Field(0.0, ge=0, lt=1)
    classes: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _names_are_of_classes(self) -> Self:
        if self.classes and (self.pooling is None or len(self.classes) != self.vocab_size):
            scores = "tokens" if self.pooling is None else f"{self.vocab_size} classes"
            raise ConfigError(f"there are {len(self.classes)} names of classes for a head that scores {scores}")
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
        std: Standard deviation of the normal kinds (before the cut, when truncated); "d_model" = D^-1/2.
        gain: Factor of the Xavier kinds.
        depth_scaled: Divide by sqrt(number of residual additions in the stack), so that the sum keeps its
            size.
    """

    kind: Literal["xavier", "xavier_normal", "normal", "truncated_normal", "zeros"] = "xavier"
    std: Literal["d_model"] | Annotated[float, Field(ge=0)] = 0.02
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
