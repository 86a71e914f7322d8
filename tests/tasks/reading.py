"""Reading batches back into text, for the tests of this room."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Sequence
from pathlib import Path

from glassformer.core.places import IGNORED
from glassformer.data.batch import Batch
from glassformer.data.source import Source
from glassformer.tasks.task import Split
from glassformer.text.tokenizer import TextTokenizer


def write(path: Path, lines: Iterable[str], *, encoding: str = "utf-8", final: str = "\n") -> Path:
    """Write lines, packed if the file's name says so."""
    path.parent.mkdir(exist_ok=True, parents=True)
    data = ("\n".join(lines) + final).encode(encoding)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def pair_texts(tokenizer: TextTokenizer, batch: Batch) -> list[tuple[str, str]]:
    """Sources and targets as text; special tokens are left out."""
    assert batch.source is not None
    sources = [
        tokenizer.decode(row[:length].tolist()) for row, length in zip(batch.source, batch.source_lengths, strict=True)
    ]
    labels = [tokenizer.decode([token for token in row.tolist() if token != IGNORED]) for row in batch.labels]
    return list(zip(sources, labels, strict=True))


def all_pairs(tokenizer: TextTokenizer, source: Source) -> list[tuple[str, str]]:
    """Everything that a source of pairs holds, in its order."""
    return pair_texts(tokenizer, source.batch(range(len(source)), 0))


def pairs_of(split: Split | None) -> list[tuple[str, str]]:
    assert split is not None
    return list(split.pairs)


def numbered(n: int, *, of: Sequence[str] = ("ein Satz", "a line")) -> list[tuple[str, str]]:
    """n pairs, all different on both sides."""
    return [(f"{of[0]} {number}", f"{of[1]} {number}") for number in range(n)]
