"""What is asked for can be known: it stood one period before."""

from __future__ import annotations

import pytest
import torch

from glassformer.bench.copying import LENGTH, Copying, repeated
from glassformer.bench.next_character import CONTEXT, NextCharacter
from glassformer.core.errors import DataError


def test_labels_are_the_next_token_of_the_copy_and_never_of_the_first_time() -> None:
    rows = repeated(5, 12, 3, torch.Generator().manual_seed(0))
    assert rows.tokens.shape == (3, 12)
    assert (rows.labels[:, :5] == -100).all()
    assert torch.equal(rows.labels[:, 5:11], rows.tokens[:, 6:])
    assert torch.equal(rows.labels[:, 5:], rows.tokens[:, 1:8])


def test_rows_of_training_have_texts_of_their_own_lengths() -> None:
    rows = Copying().rows(1, torch.Generator().manual_seed(0))
    assert rows.tokens.shape == (16, LENGTH)
    asked = (rows.labels >= 0).sum(1)
    assert len(set(asked.tolist())) > 4
    assert asked.min() >= LENGTH - 24


def test_next_character_is_the_next_character() -> None:
    task = NextCharacter("".join(chr(97 + i % 26) for i in range(8000)))
    rows = task.rows(1, torch.Generator().manual_seed(0))
    assert rows.tokens.shape == (16, CONTEXT)
    assert torch.equal(rows.labels, (rows.tokens + 1) % 26)


def test_a_text_that_is_too_short_is_refused() -> None:
    with pytest.raises(DataError, match=r"300 characters.*at least 5,140"):
        NextCharacter("abc" * 100)
