"""What to do with rows that are too long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar, get_args

from glassformer.core.errors import ConfigError, DataError, did_you_mean
from glassformer.data.pairs import Pair
from glassformer.data.read import line_numbers

Policy = Literal["error", "cut", "skip"]
"""Refuse a row that is too long, keep its first tokens, or leave it out."""

Row = TypeVar("Row")


@dataclass(frozen=True)
class Limited(Generic[Row]):
    """Rows of which none is too long.

    Attributes:
        rows: What is left.
        kept: Which of the given rows they are, for all that belongs to them.
        notes: What was cut or left out.
    """

    rows: list[Row]
    kept: list[int]
    notes: tuple[str, ...]


def limit_lengths(
    pairs: Sequence[Pair], longest: int | tuple[int, int], policy: Policy, *, lines: Sequence[int] | None = None
) -> Limited[Pair]:
    """Return pairs of which neither side is longer than its limit.

    Args:
        pairs: Source and target ids, without special tokens.
        longest: Most tokens of a side, or of the source and of the target; without special tokens. From 1.
        policy: What happens to a pair that has a longer side.
        lines: The line of its file in which each pair stands, for the messages.

    Raises:
        ConfigError: A limit is not possible, or there is no such policy.
        DataError: A side is too long and the policy is "error", or nothing is left.
    """
    limits = (longest, longest) if isinstance(longest, int) else longest
    sizes = [(len(source), len(target)) for source, target in pairs]
    names = ("the source has ", "the target has ")
    return _limited(
        pairs, sizes, limits, names, lambda pair: (pair[0][: limits[0]], pair[1][: limits[1]]), policy, lines
    )


def limit_rows(
    rows: Sequence[Sequence[int]], longest: int, policy: Policy, *, lines: Sequence[int] | None = None
) -> Limited[Sequence[int]]:
    """Return rows of which none is longer than a limit.

    Args:
        rows: Ids, without special tokens.
        longest: Most tokens of a row, without special tokens. From 1.
        policy: What happens to a row that is longer.
        lines: The line of its file in which each row stands, for the messages.

    Raises:
        ConfigError: The limit is not possible, or there is no such policy.
        DataError: A row is too long and the policy is "error", or nothing is left.
    """
    return _limited(rows, [(len(row),) for row in rows], (longest,), ("",), lambda row: row[:longest], policy, lines)


def _limited(
    rows: Sequence[Row],
    sizes: Sequence[tuple[int, ...]],
    limits: tuple[int, ...],
    names: tuple[str, ...],
    cut: Callable[[Row], Row],
    policy: Policy,
    lines: Sequence[int] | None,
) -> Limited[Row]:
    if min(limits) < 1:
        raise ConfigError(f"longest is {min(limits)}; a row holds at least 1 token beside its special tokens")
    if policy not in get_args(Policy):
        raise ConfigError(f"policy {policy!r} for long rows is not known{did_you_mean(policy, get_args(Policy))}")
    over = [index for index, size in enumerate(sizes) if any(map(int.__gt__, size, limits))]
    if not over:
        return Limited(list(rows), list(range(len(rows))), ())
    if policy == "error":
        row = over[0]
        name, size, limit = next(side for side in zip(names, sizes[row], limits, strict=True) if side[1] > side[2])
        where = f"row {row}" if lines is None else f"line {lines[row]}"
        raise DataError(
            f"{where}: {name}{size} tokens, more than the limit of {limit}; raise the limit (task.longest), shorten the"
            f" text, or have long rows cut or skipped (in all {len(over)} of {len(rows)} are too long):"
            " task.over_long=cut or skip"
        )
    most = " and ".join(str(limit) for limit in dict.fromkeys(limits))
    named = f", {line_numbers([lines[row] for row in over])}" if lines is not None else ""
    if policy == "cut":
        long = frozenset(over)
        shortened = [cut(row) if index in long else row for index, row in enumerate(rows)]
        note = f"{len(over)} of {len(rows)} rows cut to {most} tokens{named}"
        return Limited(shortened, list(range(len(rows))), (note,))
    kept = sorted(set(range(len(rows))).difference(over))
    if not kept:
        raise DataError(
            f"all {len(rows)} rows have more than {most} tokens and are skipped; raise the limit or cut them"
            " (task.longest, task.over_long=cut)"
        )
    note = f"{len(over)} of {len(rows)} rows skipped, over {most} tokens{named}"
    return Limited([rows[index] for index in kept], kept, (note,))
