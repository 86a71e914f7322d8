"""Several short documents in one row, for language modelling without padding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glassformer.core.errors import ConfigError, DataError
from glassformer.core.places import IGNORED
from glassformer.data.batch import Batch, padded


def pack(documents: Sequence[Sequence[int]], width: int) -> list[list[int]]:
    """Return which documents share each row: each goes to the first row that still has room for it.

    Args:
        documents: Token ids of each document.
        width: Tokens of a row. From 1.

    Raises:
        ConfigError: The width is not possible.
        DataError: A document is empty or longer than a row.
    """
    if width < 1:
        raise ConfigError(f"width is {width}; a row holds at least 1 token")
    rows: list[list[int]] = []
    room = np.full(len(documents), width)  # of the rows, most of them still to be opened
    for index, document in enumerate(documents):
        if not 1 <= len(document) <= width:
            raise DataError(
                f"document {index} has {len(document)} tokens, outside 1..{width} (the width of a row);"
                " split it, leave it out, or widen the rows"
            )
        row = int(np.argmax(room[: len(rows) + 1] >= len(document)))
        if row == len(rows):
            rows.append([])
        rows[row].append(index)
        room[row] -= len(document)
    return rows


class PackedSource:
    """Rows of several documents, each of which sees and predicts only itself.

        documents [5, 6, 7] and [8, 9]:   inputs 5 6 7 8 9     labels 6 7 - 9 -      (with an eos: 6 7 e 9 e)

    Labels are shifted within a document. Its last token predicts the eos if there is one, else nothing; the
    eos itself is read by nobody and takes no slot.

    Args:
        documents: Token ids of each document.
        width: Tokens of a row. From 1.
        bos: The id that begins each document, if any.
        eos: The id that ends each document, if any.
        pad: The id that stands in empty slots; 0 if None.

    Raises:
        ConfigError: The width is not possible.
        DataError: There are no documents, or one is empty or (with its bos) longer than a row.
    """

    def __init__(
        self,
        documents: Sequence[Sequence[int]],
        width: int,
        *,
        bos: int | None = None,
        eos: int | None = None,
        pad: int | None = None,
    ) -> None:
        if not documents:
            raise DataError("there are 0 documents to learn from; give at least 1")
        begin = [] if bos is None else [bos]
        self._documents = [[*begin, *document] for document in documents]
        self._rows = pack(self._documents, width)
        self._last_label = IGNORED if eos is None else eos
        self._fill = 0 if pad is None else pad
        self._fullest = max(sum(len(self._documents[index]) for index in row) for row in self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def batch(self, items: Sequence[int], epoch: int) -> Batch:
        """Return the batch of some rows; the epoch makes no difference."""
        rows = [[self._documents[index] for index in self._rows[item]] for item in items]
        inputs = [[token for document in row for token in document] for row in rows]
        labels = [[label for document in row for label in (*document[1:], self._last_label)] for row in rows]
        return Batch(
            inputs=padded(inputs, self._fill),
            lengths=tuple(map(len, inputs)),
            labels=padded(labels, IGNORED),
            items=tuple(items),
            documents=tuple(tuple(map(len, row)) for row in rows),
        )

    @property
    def longest(self) -> tuple[int, int]:
        """No source, and the fullest row."""
        return 0, self._fullest

    @property
    def lengths(self) -> list[tuple[int, int]]:
        """No source, and the tokens of each row."""
        return [(0, sum(len(self._documents[index]) for index in row)) for row in self._rows]
