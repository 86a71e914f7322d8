"""The tokenizer: text to ids and back, kept in a tokenizer.json."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import tokenizers

from glassformer.core.errors import CheckpointError, DataError, UnsupportedError
from glassformer.core.files import write_text
from glassformer.text.groups import whole_characters
from glassformer.text.pieces import alphabet, special_ids, symbols_stand_alone, token_pieces, words_stand_alone
from glassformer.text.stream import TextStream, piece_of
from glassformer.text.words import first_surrogate, parts

PAD, BOS, EOS, UNK, MASK = "<pad>", "<bos>", "<eos>", "<unk>", "<mask>"
SPECIALS = (PAD, BOS, EOS, UNK, MASK)
"""Every special token this project gives a meaning to."""

ENCODED_AT_ONCE = 100_000
"""Characters given to the library in one call where the cut cannot show; each takes it some 200 bytes."""


class TextTokenizer:
    """Text to ids and back, over a tokenizer of the `tokenizers` library.

    Nothing in user text is ever a special token: `'<eos>'` typed by a person is five ordinary characters.
    Those built here have no normaliser: `decode(encode(text)) == text` wherever no character is unknown.

    Args:
        backend: A tokenizer with a BPE model (without merges: single characters or bytes), or with the words
            of `word_tokenizer`; it is taken over, its truncation and padding are switched off.

    Raises:
        UnsupportedError: The library's tokenizer is of another kind.
    """

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        backend.no_truncation()
        backend.no_padding()
        backend.encode_special_tokens = True  # not kept in tokenizer.json, nor by pickling the backend
        self._backend = backend
        self._pieces = token_pieces(backend)
        self._special: dict[str, int] = special_ids(backend)
        self._alphabet = alphabet(backend)
        self._symbols_stand_alone = symbols_stand_alone(backend)
        self._words_stand_alone = words_stand_alone(backend)

    def __reduce__(self) -> tuple[type[TextTokenizer], tuple[tokenizers.Tokenizer]]:
        return TextTokenizer, (self._backend,)

    @property
    def vocab_size(self) -> int:
        """One more than the largest id."""
        return len(self._pieces)

    @property
    def pad_id(self) -> int | None:
        """The id that fills up short rows, or None."""
        return self._special.get(PAD)

    @property
    def bos_id(self) -> int | None:
        """The id that begins a sequence, or None."""
        return self._special.get(BOS)

    @property
    def eos_id(self) -> int | None:
        """The id that ends a sequence, or None."""
        return self._special.get(EOS)

    @property
    def unk_id(self) -> int | None:
        """The id of every character (or word) without its own, or None."""
        return self._special.get(UNK)

    @property
    def mask_id(self) -> int | None:
        """The id that stands where a token is to be guessed, or None."""
        return self._special.get(MASK)

    def encode(self, text: str) -> list[int]:
        """Return the ids of `text`, without special tokens (except '<unk>', where there is one).

        Raises:
            DataError: A character has no id and there is no '<unk>'.
        """
        self._refuse_unknown(text)
        ids: list[int] = []
        for part in self._parts(text):
            ids += self._backend.encode(part, add_special_tokens=False).ids
        return ids

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """Return the ids of each text.

        One after the other: the library's own threads would not survive the forks of data-loading workers.

        Raises:
            DataError: A character has no id and there is no '<unk>'.
        """
        return [self.encode(text) for text in texts]

    def n_unknown(self, ids: Sequence[int]) -> int:
        """Return how many of some ids stand for something without an id of its own."""
        return 0 if self.unk_id is None else ids.count(self.unk_id)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of `ids`, special tokens left out; bytes that are no UTF-8 become U+FFFD.

        Raises:
            DataError: An id is not of this vocabulary.
        """
        return b"".join(piece_of(self._pieces, token) for token in ids).decode("utf-8", errors="replace")

    def label(self, token: int) -> str:
        r"""Return one token as a person should read it.

        A special token is its name, a space `␣`, any other character without a shape its escape (`\n`), a
        byte that is no character `<0xE9>`.

        Raises:
            DataError: The id is not of this vocabulary.
        """
        piece = piece_of(self._pieces, token)
        if not piece:
            return self._backend.id_to_token(token) or f"<unused {token}>"
        return _readable(piece)

    def label_groups(self, ids: Sequence[int]) -> list[tuple[range, str]]:
        """Return the smallest groups of tokens that are whole characters, each as a person should read it.

        Args:
            ids: The tokens of one sequence.

        Returns:
            For each group, from the first to the last: its places in `ids`, and what `label` would say of its
            tokens taken together.

        Raises:
            DataError: An id is not of this vocabulary.
        """
        pieces = [piece_of(self._pieces, token) for token in ids]
        groups = whole_characters(pieces)
        return [
            (group, _readable(b"".join(pieces[group.start : group.stop])) or self.label(ids[group.start]))
            for group in groups
        ]

    def stream(self) -> TextStream:
        """Return a fresh incremental decoder, one for each sequence."""
        return TextStream(self._pieces)

    def save(self, path: str | Path) -> None:
        """Write the tokenizer as a tokenizer.json, never leaving half a file.

        Raises:
            CheckpointError: The disk is full or the folder cannot be written.
        """
        write_text(Path(path), self._backend.to_str(pretty=True))

    @classmethod
    def load(cls, path: str | Path) -> TextTokenizer:
        """Return the tokenizer of a tokenizer.json.

        Raises:
            CheckpointError: The file is missing or damaged.
            UnsupportedError: The file holds a tokenizer of another kind.
        """
        try:
            backend = tokenizers.Tokenizer.from_str(Path(path).read_bytes().decode())
        except OSError as error:
            raise CheckpointError(
                f"cannot read the tokenizer {path} ({error.strerror}); name a tokenizer.json that exists"
            ) from error
        except Exception as error:  # the library knows no narrower kind
            raise CheckpointError(
                f"{path} is not a whole tokenizer.json ({error}); restore it or save the tokenizer again"
            ) from error
        try:
            return cls(backend)
        except (CheckpointError, UnsupportedError) as error:
            raise type(error)(f"{path}: {error}") from error

    def _parts(self, text: str) -> Iterator[str]:
        if self._symbols_stand_alone:
            return (text[start : start + ENCODED_AT_ONCE] for start in range(0, len(text), ENCODED_AT_ONCE))
        if self._words_stand_alone:
            return parts(text, ENCODED_AT_ONCE)
        return iter([text])

    def _refuse_unknown(self, text: str) -> None:
        if self._alphabet is None:
            offset = first_surrogate(text)
        elif self._alphabet.issuperset(text):
            offset = None
        else:
            offset = next(i for i, character in enumerate(text) if character not in self._alphabet)
        if offset is None:
            return
        if "\ud800" <= text[offset] <= "\udfff":
            problem = "is half of a surrogate pair, which no text can hold; remove it"
        else:
            problem = (
                f"has no id in this vocabulary of {self.vocab_size}, which knows {self._known()}; leave it out, or"
                f" use a vocabulary made from text that holds it (or with {UNK!r})"
            )
        found = text[offset]
        raise DataError(f"character {found!r} (U+{ord(found):04X}) at offset {offset} {problem}")

    def _known(self) -> str:
        characters = sorted(self._alphabet or ())
        return repr("".join(characters[:40])) + (f" and {len(characters) - 40} more" if len(characters) > 40 else "")


def _readable(piece: bytes) -> str:
    return "".join(map(_visible, piece.decode("utf-8", errors="surrogateescape")))


def _visible(character: str) -> str:
    if "\udc80" <= character <= "\udcff":  # surrogateescape's form of a byte that is no character
        return f"<0x{ord(character) - 0xDC00:02X}>"
    if character == " ":
        return "␣"
    return character if character.isprintable() else repr(character)[1:-1]
