"""How a vocabulary spells text: what its decoder says of the bytes of a token."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import tokenizers
from tokenizers import models

from glassformer.core.errors import CheckpointError, UnsupportedError
from glassformer.text.unigram import unigram

SPACE_MARK = "▁"
"""What SentencePiece writes for a space (U+2581)."""

BYTE_NAMES = tuple(f"<0x{byte:02X}>" for byte in range(256))
"""How a vocabulary with byte fallback calls the token of each byte."""


@dataclass(frozen=True)
class Spelling:
    """How the names of tokens are read.

    Attributes:
        kind: 'characters': a name is the text. 'bytes': each character of a name is a byte symbol. 'words': a name
            begins a word unless it has the `mark` in front, which says that the word goes on.
        mark: In 'characters' what stands for a space, in 'words' what continues one; '' where there is none.
        lead: The space put before every text, left out again in decoding; or no bytes.
        names_bytes: Tokens of `BYTE_NAMES` are bytes.
        unwritten: The id that a Unigram gives to what it then writes in these bytes, or None.
    """

    kind: Literal["characters", "bytes", "words"]
    mark: str = ""
    lead: bytes = b""
    names_bytes: bool = False
    unwritten: int | None = None


def spelling_of(backend: tokenizers.Tokenizer) -> Spelling:
    """Return how a tokenizer spells text, as its decoder has it.

    Raises:
        UnsupportedError: The model and the decoder are not one of the pairs whose text is a concatenation of
            pieces, except for one space in front.
        CheckpointError: The model needs a token for what is unknown and has none.
    """
    name = type(backend.model).__name__
    if not isinstance(backend.model, (models.BPE, models.WordLevel, models.WordPiece, models.Unigram)):
        raise UnsupportedError(f"a tokenizer of model {name} cannot be used; use one of BPE, Unigram or WordPiece")
    steps = _steps(backend)
    kinds = [step["type"] for step in steps]
    spelling: Spelling | None
    if isinstance(backend.model, models.WordPiece):
        mark = backend.model.continuing_subword_prefix
        spelling = Spelling("words", mark, b" ") if kinds == ["WordPiece"] and steps[0]["prefix"] == mark else None
        _refuse_without_unknown(backend.model.token_to_id(backend.model.unk_token), repr(backend.model.unk_token))
    elif kinds == ["ByteLevel"]:
        spelling = Spelling("bytes")
    elif kinds == ["Fuse"] and not isinstance(backend.model, models.Unigram):
        spelling = Spelling("characters")
    else:
        spelling = None if isinstance(backend.model, models.WordLevel) else _marked(backend, steps)
    if spelling is None:
        found = " + ".join(kinds) or "NoneType"
        raise UnsupportedError(
            f"a tokenizer of model {name} with decoder {found} cannot be used; use a BPE with ByteLevel or Fuse, a"
            " WordPiece with WordPiece, or a BPE with an unknown token or a Unigram with Metaspace or with Replace,"
            " ByteFallback, Fuse and Strip"
        )
    return spelling


def unknown_token(backend: tokenizers.Tokenizer) -> str | None:
    """Return the name of what a model writes for what it does not know, or None."""
    model = backend.model
    if not isinstance(model, models.Unigram):
        name: str | None = model.unk_token
        return name
    found = unigram(model)
    return None if found.unknown is None else found.vocabulary[found.unknown][0]


def _steps(backend: tokenizers.Tokenizer) -> list[dict[str, Any]]:
    if backend.decoder is None:
        return []
    state: dict[str, Any] = json.loads(backend.decoder.__getstate__())
    flat = [state]
    while any(step["type"] == "Sequence" for step in flat):
        flat = [inner for step in flat for inner in (step["decoders"] if step["type"] == "Sequence" else [step])]
    return flat


def _marked(backend: tokenizers.Tokenizer, steps: Sequence[dict[str, Any]]) -> Spelling | None:
    """Read decoders in the way of SentencePiece, or return None if they say something else."""
    mark, lead, model = "", b"", backend.model
    if isinstance(model, models.Unigram):
        found = unigram(model)
        falls_back, unknown = found.byte_fallback, found.unknown
        _refuse_without_unknown(unknown, "of its unk_id")
    else:
        falls_back, unknown = bool(model.byte_fallback), None
    names_bytes = falls_back = falls_back and all(model.token_to_id(name) is not None for name in BYTE_NAMES)
    unwritten = unknown if falls_back else None
    for step in steps:
        match step:
            case {"type": "Replace", "pattern": {"String": mark_found}, "content": " "} if not mark:
                mark = mark_found
            case {"type": "Metaspace", "replacement": mark_found, "prepend_scheme": scheme} if not mark:
                mark, lead = mark_found, b"" if scheme == "never" else b" "
            case {"type": "ByteFallback"}:
                names_bytes = True
            case {"type": "Fuse"} | {"type": "Strip", "start": 0, "stop": 0}:
                pass
            case {"type": "Strip", "content": " ", "start": 1, "stop": 0}:
                lead = b" "
            case _:
                return None
    never_lost = not isinstance(model, models.BPE) or falls_back or model.unk_token is not None
    return Spelling("characters", mark, lead, names_bytes, unwritten) if mark and never_lost else None


def _refuse_without_unknown(index: int | None, name: str) -> None:
    if index is None:
        raise CheckpointError(
            f"the vocabulary lacks the token {name} for what is unknown, so that some text would have no ids;"
            " export the tokenizer again"
        )
