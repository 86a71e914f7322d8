"""What the library knows of a Unigram model but shows only in its file."""

from __future__ import annotations

import json
from dataclasses import dataclass

import tokenizers
from tokenizers import models

DIGITS = 15
"""Digits of a score that the library reads back exactly as it wrote them; more may come back changed in the last."""


@dataclass(frozen=True)
class Unigram:
    """The model, as its file has it.

    Attributes:
        vocabulary: Each token and its score, by id.
        unknown: The id of what is unknown, or None.
        byte_fallback: What has no token is written in bytes.
    """

    vocabulary: list[tuple[str, float]]
    unknown: int | None
    byte_fallback: bool


def unigram(model: models.Unigram) -> Unigram:
    """Return what a model holds."""
    state = json.loads(model.__getstate__())
    return Unigram([(token, score) for token, score in state["vocab"]], state["unk_id"], bool(state["byte_fallback"]))


def settle_scores(backend: tokenizers.Tokenizer) -> None:
    """Round the scores of a Unigram so that a saved tokenizer is the same tokenizer; leave other models as they are."""
    if not isinstance(backend.model, models.Unigram):
        return
    found = unigram(backend.model)
    settled = [(token, float(f"{score:.{DIGITS}g}")) for token, score in found.vocabulary]
    if settled != found.vocabulary:
        backend.model = models.Unigram(settled, found.unknown, found.byte_fallback)
