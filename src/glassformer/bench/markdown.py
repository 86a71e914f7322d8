"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table.

    Args:
        head: Of each column.
        rows: Their cells.
    """
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield f"| {' | '.join(row)} |"
