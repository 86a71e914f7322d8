"""Parameters, arithmetic and memory of a model, part by part, and how each matrix is drawn."""

from __future__ import annotations

import textwrap
from collections.abc import Container, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from torch import nn

from glassformer.core.errors import DataError
from glassformer.models.quantise import steps_of
from glassformer.models.transformer import Transformer
from glassformer.parts.attention import Attention
from glassformer.parts.embedding import Embedding
from glassformer.parts.feed_forward import FeedForward
from glassformer.parts.head import Head
from glassformer.parts.init import init_table
from glassformer.parts.norm import LayerNorm, NoNorm, RMSNorm
from glassformer.parts.position import Learned, Sinusoidal
from glassformer.parts.position_bias import Alibi, RelativeBias
from glassformer.parts.stack import Stack

KINDS = ("embedding", "attention", "cross-attention", "feed-forward", "norm", "head")

LENGTH = 128
"""Tokens of the forward pass whose arithmetic is counted, where the model can take as many."""


@dataclass(frozen=True)
class Row:
    """What a part, or all parts of a kind, take.

    Attributes:
        name: Path of the part ("decoder.blocks.0"), or the kind.
        parameters: Number of parameters that no earlier row has counted; of a matrix in 8 bits, those it stands for.
        flops: Floating-point operations of one forward pass.
        bytes: Memory of those parameters in their own type, and of the steps of matrices in 8 bits.
        shared: Parameters it uses that an earlier row has counted, by the names they have there.
    """

    name: str
    parameters: int
    flops: int
    bytes: int
    shared: tuple[str, ...] = ()


@dataclass(frozen=True)
class InitialValue:
    """How one matrix is drawn, and what it looks like.

    Attributes:
        name: Its full name.
        rule: The rule in words ("normal / sqrt(4)").
        expected_std: Standard deviation after drawing.
        measured_std: Standard deviation now; None on the meta device and in 8 bits, where there are none.
    """

    name: str
    rule: str
    expected_std: float
    measured_std: float | None


@dataclass(frozen=True)
class Summary:
    """What `summarise` found out.

    Attributes:
        length: Tokens of the forward pass that `flops` are for; of source and target each.
        rows: Part by part, in the order of the forward pass.
        kinds: The same by kind: embedding, attention, cross-attention, feed-forward, norm, head.
        total: The sum.
        init: How each matrix is drawn.
    """

    length: int
    rows: tuple[Row, ...]
    kinds: tuple[Row, ...]
    total: Row
    init: tuple[InitialValue, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it as numbers, texts, lists and dicts, for JSON."""
        return asdict(self)


def summarise(model: Transformer, length: int | None = None) -> Summary:
    """Return what each part of a model takes; nothing is run, so the meta device will do.

    Counted are the multiplications and additions of the matrix products of one forward pass over one sample
    of T tokens (and S = T source tokens), 2 for each multiply-add:

        attention      2 T D (H E + 2 K E) + 2 T H E D + 4 H T S E      projections, output, scores and mixing
        cross          2 T D H E + 2 S D 2 K E + 2 T H E D + 4 H T S E
        feed-forward   2 T D F n                                        n = 2 matrices, 3 with a gate
        head           2 T D V                                          2 D C where it pools

    A causal mask or a window saves nothing in this count, as it saves nothing in the reference kernel.
    Embeddings are looked up and norms are no products: 0. A backward pass takes about twice as much again.

    Args:
        model: Any Transformer.
        length: T; None = 128, or the model's limit if that is smaller.

    Raises:
        DataError: `length` is no length, or more than the model can take.
    """
    length = _checked_length(model, length)
    seen: dict[nn.Parameter, str] = {}
    steps = steps_of(model)
    rows = tuple(_row(name, part, name, length, seen, steps) for name, part in _parts(model))
    return Summary(length, rows, _kinds(model, length, steps), _total("total", rows), tuple(_initial_values(model)))


def table(summary: Summary, width: int | None = None) -> str:
    """Return a summary as plain text in columns.

    Args:
        summary: From `summarise`.
        width: Where lines end: what does not fit beside a name stands below it; None = nowhere.
    """
    head = ("part", "parameters", "FLOPs", "bytes", "")
    parts = [_cells(row) for row in summary.rows]
    kinds = [_cells(row) for row in summary.kinds]
    draws = [
        (
            value.name,
            value.rule,
            f"{value.expected_std:.4f}",
            "-" if value.measured_std is None else f"{value.measured_std:.4f}",
        )
        for value in summary.init
    ]
    return "\n\n".join(
        (
            f"FLOPs of one forward pass over {summary.length} tokens",
            _aligned([head, *parts, _cells(summary.total)], width),
            _aligned([("kind", *head[1:]), *kinds], width),
            textwrap.fill("Standard deviation of each matrix: by its rule, and as it is now", width or 80),
            _aligned([("matrix", "rule", "expected", "measured"), *draws], width, left=2),
        )
    )


def _checked_length(model: Transformer, length: int | None) -> int:
    stacks = [stack for stack in (model.config.encoder, model.config.decoder) if stack is not None]
    limits = [stack.input.positions.max_positions for stack in stacks]
    limit = min((each for each in limits if each is not None), default=None)
    if length is None:
        return LENGTH if limit is None else min(LENGTH, limit)
    if length < 1 or (limit is not None and length > limit):
        raise DataError(f"length is {length}; choose from 1 to {limit or 'as many tokens as you like'}")
    return length


def _parts(model: Transformer) -> Iterator[tuple[str, nn.Module]]:
    """The rows of the table: what a stack is made of, each block by itself, and the head."""
    for name, child in model.named_children():
        if not isinstance(child, Stack):
            yield name, child
            continue
        for inner, part in child.named_children():
            if isinstance(part, nn.ModuleList):
                yield from ((f"{name}.{inner}.{index}", block) for index, block in enumerate(part))
            else:
                yield f"{name}.{inner}", part


def _row(
    name: str, part: nn.Module, path: str, length: int, seen: dict[nn.Parameter, str], steps: Container[nn.Parameter]
) -> Row:
    """Count a part and all inside it; each parameter counts where it is met first."""
    new, shared = [], []
    for parameter_name, parameter in part.named_parameters():
        if parameter in seen:
            shared += [] if parameter in steps else [seen[parameter]]
        else:
            seen[parameter] = f"{path}.{parameter_name}"
            new.append(parameter)
    return Row(
        name,
        sum(parameter.numel() for parameter in new if parameter not in steps),
        sum(_flops(module, length) for module in part.modules()),
        sum(parameter.numel() * parameter.element_size() for parameter in new),
        tuple(shared),
    )


def _kinds(model: Transformer, length: int, steps: Container[nn.Parameter]) -> tuple[Row, ...]:
    seen: dict[nn.Parameter, str] = {}
    found: dict[str, list[Row]] = {kind: [] for kind in KINDS}
    for path, module in model.named_modules():
        kind = _kind(module)
        if kind is not None:
            found[kind].append(_row(kind, module, path, length, seen, steps))
    return tuple(_total(kind, rows) for kind, rows in found.items() if rows)


def _total(name: str, rows: Sequence[Row]) -> Row:
    parameters, flops = sum(row.parameters for row in rows), sum(row.flops for row in rows)
    return Row(name, parameters, flops, sum(row.bytes for row in rows))


def _initial_values(model: Transformer) -> Iterator[InitialValue]:
    for row in init_table(model, model.config.init):
        valued = row.tensor.is_floating_point() and not row.tensor.is_meta
        measured = None if not valued else float(row.tensor.detach().float().std(correction=0))
        yield InitialValue(row.name, row.words, row.expected_std, measured)


def _kind(module: nn.Module) -> str | None:
    if isinstance(module, Attention):
        return "cross-attention" if module.cross else "attention"
    if isinstance(module, FeedForward):
        return "feed-forward"
    if isinstance(module, Embedding | Learned | Sinusoidal | RelativeBias | Alibi):
        return "embedding"
    if isinstance(module, LayerNorm | RMSNorm | NoNorm):
        return "norm"
    return "head" if isinstance(module, Head) else None


def _flops(module: nn.Module, length: int) -> int:
    """Of one module by itself, without those inside it; source and target are equally long."""
    if isinstance(module, Head):
        rows = 1 if module.pooling is not None else length
        return 0 if module.weight is None else 2 * rows * module.weight.numel()
    if isinstance(module, nn.Linear):
        return 2 * length * module.weight.numel()
    if isinstance(module, Attention):
        return 4 * module.config.n_heads * length * length * module.config.d_head
    return 0


def _cells(row: Row) -> tuple[str, ...]:
    shared = f"+ {', '.join(row.shared)}, counted above" if row.shared else ""
    return row.name, f"{row.parameters:,}", f"{row.flops:,}", f"{row.bytes:,}", shared


def _aligned(rows: Sequence[Sequence[str]], width: int | None = None, left: int = 1) -> str:
    """Columns of equal width; the first `left` of them, and a last column of remarks, start at the left.

    Where a line is too long its remark goes below it, and, if that is not enough, all but the name.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    remarks = not rows[0][-1]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if column < left or not rows[0][column] else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        whole = "  ".join(cells).rstrip()
        if width is None or len(whole) <= width:
            lines.append(whole)
            continue
        beside, below = (cells[:-1], row[-1]) if remarks else (cells, "")
        if len("  ".join(beside).rstrip()) > width:
            lines.append(row[0])
            beside = ["", *beside[1:]]
        lines.append("  ".join(beside).rstrip())
        lines += textwrap.wrap(below, max(20, width - 2), initial_indent="  ", subsequent_indent="  ") if below else []
    return "\n".join(lines)
