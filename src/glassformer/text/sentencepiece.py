"""A SentencePiece model: its file, and the same tokenizer in the `tokenizers` library."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import tokenizers
from tokenizers import decoders, models, normalizers

from glassformer.core.errors import CheckpointError, UnsupportedError
from glassformer.text.protobuf import fields
from glassformer.text.spelling import SPACE_MARK

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
"""Types of pieces."""

KINDS: dict[int, Literal["unigram", "bpe"]] = {1: "unigram", 2: "bpe"}
"""Types of models; those of whole words (3) and of characters (4) are not read."""

ROLE_FIELDS = {45: "unk", 46: "bos", 47: "eos", 48: "pad"}
"""Fields of the trainer's settings that name pieces."""


@dataclass(frozen=True)
class Piece:
    """One entry of the vocabulary; its id is its place.

    Attributes:
        text: What it stands for, '▁' for a space.
        score: Its logarithm of probability (Unigram), or how early it is merged (BPE).
        type: One of the types above.
    """

    text: str
    score: float = 0.0
    type: int = NORMAL


@dataclass
class SentencePieceModel:
    """What a file says.

    Attributes:
        kind: How a text is cut into pieces.
        pieces: The vocabulary.
        names: Names of the pieces for unknown, begin, end and padding; there need be no such piece.
        charsmap: The compiled table of the normaliser; nothing is replaced where it is empty.
        prefix: A space is put before every text.
        squeeze: Spaces at both ends are removed, and of several in a row one is kept.
        byte_fallback: What has no piece is written in bytes.
    """

    kind: Literal["unigram", "bpe"] = "unigram"
    pieces: list[Piece] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=lambda: {"unk": "<unk>", "bos": "<s>", "eos": "</s>", "pad": "<pad>"})
    charsmap: bytes = b""
    prefix: bool = True
    squeeze: bool = True
    byte_fallback: bool = False

    @property
    def roles(self) -> dict[str, str]:
        """The roles that the file names and that a piece plays."""
        playing = {piece.text for piece in self.pieces if piece.type in (UNKNOWN, CONTROL)}
        return {role: name for role, name in self.names.items() if name in playing}


def read_sentencepiece(path: Path) -> SentencePieceModel:
    """Return the model that a file holds.

    Raises:
        CheckpointError: The file cannot be read or is not whole.
        UnsupportedError: It holds a model of another kind.

    Source: `sentencepiece_model.proto` of Kudo and Richardson 2018 (arXiv:1808.06226).
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"cannot read {path} ({error.strerror}); make it readable") from error
    try:
        model = _read(data)
    except UnsupportedError as error:
        raise UnsupportedError(f"{path}: {error}") from error
    except (ValueError, TypeError, AttributeError) as error:  # no message, or a field of another type than it has
        raise CheckpointError(
            f"{path} is not a whole SentencePiece model ({error}); copy or download it again"
        ) from error
    if len({piece.text for piece in model.pieces}) < len(model.pieces):
        raise CheckpointError(f"{path} holds two pieces of one name; copy or download it again")
    return model


def sentencepiece_backend(model: SentencePieceModel, path: Path) -> tokenizers.Tokenizer:
    """Return a tokenizer of the library that gives the same ids as SentencePiece, without begin or end.

    Unknown characters in a row share one id, as there. Two rare differences remain, as in every tokenizer.json made
    of such a model. The library looks up the normaliser's table by what a person sees as one character: one of
    several code points (a letter and a mark it is not usual with) may come out differently. And where a BPE has two
    ways to the same piece, open at overlapping places, SentencePiece takes the left one, the library the one whose
    left part has the smaller id.

    Raises:
        UnsupportedError: The library has no way to do what the model does.
        CheckpointError: The table of the normaliser is damaged.
    """
    special = [piece.text for piece in model.pieces if piece.type in (UNKNOWN, CONTROL)]
    backend = tokenizers.Tokenizer(_unigram(model) if model.kind == "unigram" else _bpe(model, path))
    backend.add_special_tokens([tokenizers.AddedToken(name, normalized=False) for name in special])
    steps: list[normalizers.Normalizer] = []
    if model.charsmap:
        try:
            steps.append(normalizers.Precompiled(model.charsmap))
        except Exception as error:  # the library knows no narrower kind
            raise CheckpointError(f"the normaliser in {path} is damaged ({error}); copy it again") from error
    if model.squeeze:
        steps.append(normalizers.Replace(tokenizers.Regex(r"\A +"), ""))
        steps.append(normalizers.Replace(tokenizers.Regex(" {2,}"), " "))
    if model.prefix:
        steps.append(normalizers.Prepend(SPACE_MARK))
    steps.append(normalizers.Replace(" ", SPACE_MARK))
    if model.squeeze:
        steps.append(normalizers.Replace(tokenizers.Regex(rf"{SPACE_MARK}+\z"), ""))
    backend.normalizer = normalizers.Sequence(steps)
    fallback = [decoders.ByteFallback()] if model.byte_fallback else []
    strip = [decoders.Strip(" ", 1, 0)] if model.prefix else []
    backend.decoder = decoders.Sequence([decoders.Replace(SPACE_MARK, " "), *fallback, decoders.Fuse(), *strip])
    return backend


def _read(data: bytes) -> SentencePieceModel:
    model = SentencePieceModel()
    found = set()
    for number, value in fields(data):
        found.add(number)
        if number == 1:
            model.pieces.append(_piece(value))
        elif number == 2:
            _read_trainer(value, model)
        elif number == 3:
            _read_normaliser(value, model)
    if not found.issuperset((1, 2, 3)):
        raise ValueError(f"of pieces, settings and normaliser (fields 1, 2, 3) it has {sorted(found & {1, 2, 3})}")
    if sum(piece.type == UNKNOWN for piece in model.pieces) != 1:
        raise ValueError("it has no piece, or more than one, for what is unknown")
    return model


def _piece(message: object) -> Piece:
    text, score, kind = "", 0.0, NORMAL
    for number, value in _fields(message):
        if number == 1 and isinstance(value, bytes):
            text = value.decode()
        elif number == 2:
            score = float(value)
        elif number == 3:
            kind = int(value)
    return Piece(text, score, kind)


def _read_trainer(message: object, model: SentencePieceModel) -> None:
    for number, value in _fields(message):
        if number == 3:
            if value not in KINDS:
                raise UnsupportedError(
                    f"a SentencePiece model of type {value!r} cannot be used; use a Unigram or a BPE"
                )
            model.kind = KINDS[int(value)]
        elif number == 24 and value:
            raise UnsupportedError("a SentencePiece model that puts the space behind a word cannot be used")
        elif number == 35:
            model.byte_fallback = bool(value)
        elif number in ROLE_FIELDS and isinstance(value, bytes):
            model.names[ROLE_FIELDS[number]] = value.decode()


def _read_normaliser(message: object, model: SentencePieceModel) -> None:
    for number, value in _fields(message):
        if number == 2 and isinstance(value, bytes):
            model.charsmap = value
        elif number == 3:
            model.prefix = bool(value)
        elif number == 4:
            model.squeeze = bool(value)
        elif number == 5 and not value:
            raise UnsupportedError("a SentencePiece model that does not write spaces as '▁' cannot be used")


def _fields(message: object) -> Iterable[tuple[int, int | float | bytes]]:
    if not isinstance(message, bytes):
        raise TypeError(f"{message!r} stands where a message should be")
    return fields(message)


def _unigram(model: SentencePieceModel) -> models.Unigram:
    """User-defined pieces win over all others, and unused ones are never found (`Model::EncodeOptimized` there)."""

    def entry(piece: Piece) -> tuple[str, float]:
        text = f"{piece.text} " if piece.type == UNUSED else piece.text  # a space is '▁' when pieces are looked for
        return text, -0.1 if piece.type == USER_DEFINED else piece.score

    unknown = next(index for index, piece in enumerate(model.pieces) if piece.type == UNKNOWN)
    return models.Unigram([entry(piece) for piece in model.pieces], unknown, model.byte_fallback)


def _bpe(model: SentencePieceModel, path: Path) -> models.BPE:
    for kind, name in ((USER_DEFINED, "user-defined"), (UNUSED, "unused")):
        found = next((piece.text for piece in model.pieces if piece.type == kind), None)
        if found is not None:
            raise UnsupportedError(
                f"{path} is a BPE with {name} pieces ({found!r}), which cannot be read from this kind of file; load"
                " the folder with the transformers library and save its fast tokenizer as a tokenizer.json"
            )
    vocabulary = {piece.text: index for index, piece in enumerate(model.pieces)}
    normal = {piece.text: piece.score for piece in model.pieces if piece.type == NORMAL}
    merges: list[tuple[str, str]] = []
    for text in sorted(normal, key=lambda text: -normal[text]):
        pairs = [(text[:at], text[at:]) for at in range(1, len(text))]
        known = [(left, right) for left, right in pairs if left in normal and right in normal]
        merges += sorted(known, key=lambda pair: (vocabulary[pair[0]], vocabulary[pair[1]]))
    unknown = next(piece.text for piece in model.pieces if piece.type == UNKNOWN)
    return models.BPE(vocabulary, merges, unk_token=unknown, fuse_unk=True, byte_fallback=model.byte_fallback)
