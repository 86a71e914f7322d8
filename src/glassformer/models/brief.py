"""A whole architecture, said briefly again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from glassformer.core.attention_config import AttentionConfig
from glassformer.core.config import BlockConfig, HeadConfig, StackConfig, TransformerConfig
from glassformer.core.errors import ConfigError
from glassformer.core.position_config import AlibiConfig, RelativeBiasConfig, RotaryConfig
from glassformer.models.arguments import AttentionArguments, ModelArguments


@dataclass(frozen=True)
class Brief:
    """What `ModelArguments` leaves to the data: together they say a whole architecture.

    Attributes:
        arguments: The architecture.
        vocab_size: Number of token ids that are written.
        source_vocab_size: Number of token ids that are read, in an encoder-decoder; None = as many.
        classes: Names of the classes of a model that labels texts.
        scores: Whether there is a head that scores.
    """

    arguments: ModelArguments
    vocab_size: int
    source_vocab_size: int | None = None
    classes: tuple[str, ...] | None = None
    scores: bool = True

    def resolve(self) -> TransformerConfig:
        """Return the whole architecture, layer by layer."""
        return self.arguments.resolve(self.vocab_size, self.source_vocab_size, self.classes, scores=self.scores)

    @staticmethod
    def of(config: TransformerConfig) -> Brief:
        """Return what resolves to an architecture.

        Raises:
            ConfigError: Nothing does: its layers differ, or its stacks.
        """
        stack, head = config.output_stack, config.head
        block = stack.blocks[0]
        other = config.encoder if config.kind == "encoder_decoder" else None
        arguments = ModelArguments(
            kind=config.kind,
            d_model=stack.input.d_model,
            n_layers=len((other or stack).blocks),
            n_decoder_layers=len(stack.blocks) if other is not None else None,
            n_heads=block.attention.n_heads,
            n_kv_heads=block.attention.n_kv_heads,
            d_head=block.attention.d_head,
            d_ff=block.feed_forward.d_ff,
            dropout=block.dropout,
            input_dropout=stack.input.dropout,
            head_dropout=head.dropout if head is not None and head.pooling is not None else None,
            inner_dropout=block.feed_forward.dropout,
            positions=_positions(stack),
            max_positions=stack.input.positions.max_positions,
            position_layout=stack.input.positions.layout,
            position_offset=stack.input.positions.offset,
            rotary=block.attention.rotary or RotaryConfig(),
            relative=stack.position_bias
            if isinstance(stack.position_bias, RelativeBiasConfig)
            else RelativeBiasConfig(),
            embedding_scale=stack.input.scale,
            n_types=stack.input.n_types,
            input_norm=stack.input.norm is not None,
            activation=block.feed_forward.activation,
            gated=block.feed_forward.gated,
            bias=block.attention.bias,
            feed_forward_bias=block.feed_forward.bias,
            norm_bias=block.norm.bias,
            norm=block.norm.kind,
            norm_eps=block.norm.eps,
            norm_place=block.norm_place,
            residual=block.residual,
            parallel=block.parallel,
            parallel_norms=block.parallel_norms,
            causal=stack.causal or config.decoder is None,
            tied=head is not None and head.tied,
            share_embeddings=config.share_embeddings,
            head_bias=head is not None and head.bias and head.pooling is None,
            head_scaled=head is not None and head.scaled,
            transform=None if head is None else head.transform,
            pooling="auto" if head is None or head.pooling is None else head.pooling,
            attention=_attention(stack.blocks),
            init=config.init,
        )
        scores = head is not None and head.vocab_size is not None
        labels = scores and head is not None and head.pooling is not None
        brief = Brief(
            arguments,
            stack.input.vocab_size,
            other.input.vocab_size if other is not None else None,
            _classes(head) if labels and head is not None else None,
            scores,
        )
        _same(brief.resolve(), config)
        return brief


def _positions(stack: StackConfig) -> Any:
    if isinstance(stack.position_bias, AlibiConfig):
        return "alibi"
    if stack.position_bias is not None:
        return "relative"
    return "rotary" if stack.blocks[0].attention.rotary is not None else stack.input.positions.kind


def _attention(blocks: tuple[BlockConfig, ...]) -> AttentionArguments:
    first: AttentionConfig = blocks[0].attention
    near = tuple(
        layer for layer, block in enumerate(blocks) if block.attention.window or block.attention.pattern is not None
    )
    return AttentionArguments(
        type=first.type,
        max_distance=first.max_distance,
        soft_cap=first.soft_cap,
        pattern=blocks[near[0]].attention.pattern if near else None,
        scale=first.scale,
        bias=first.bias,
        out_bias=first.out_bias,
        qk_norm=first.qk_norm is not None,
        dropout=first.dropout,
        window=blocks[near[0]].attention.window if near else None,
        window_layers=None if len(near) in (0, len(blocks)) else near,
        kernel=blocks[near[0]].attention.kernel if near else first.kernel,
    )


def _classes(head: HeadConfig) -> tuple[str, ...]:
    return head.classes or tuple(map(str, range(head.vocab_size or 0)))


def _same(said: TransformerConfig, meant: TransformerConfig) -> None:
    differing = list(differences(said.model_dump(), meant.model_dump()))
    differing = [line for line in differing if not line.startswith("head.classes")]
    if differing:
        raise ConfigError(
            "this architecture cannot be said in a few numbers and words, for its layers or stacks differ:\n  "
            + "\n  ".join(differing[:10])
        )


def differences(one: Any, other: Any, where: str = "") -> list[str]:
    """Return where two trees of settings differ, and how: "decoder.blocks.1.norm.kind is rms, not layer"."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        pairs: list[tuple[Any, Any, Any]] = [(name, one[name], other[name]) for name in one]
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        pairs = [(i, a, b) for i, (a, b) in enumerate(zip(one, other, strict=True))]
    else:
        return [] if one == other else [f"{where} is {other}, not {one}"]
    return [line for name, a, b in pairs for line in differences(a, b, f"{where}.{name}" if where else str(name))]
