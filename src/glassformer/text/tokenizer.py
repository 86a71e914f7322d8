"""The tokenizer: text to ids and back, kept in a tokenizer.json."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import tokenizers

from glassformer.core.errors import CheckpointError, DataError, UnsupportedError
from glassformer.core.files import write_text
from glassformer.text.framing import Framed, Template, template_of
from glassformer.text.groups import whole_characters
from glassformer.text.guard import guarded
from glassformer.text.pieces import alphabet, special_ids, symbols_stand_alone, token_pieces, words_stand_alone
from glassformer.text.roles import BOS as BOS
from glassformer.text.roles import EOS as EOS
from glassformer.text.roles import MASK as MASK
from glassformer.text.roles import PAD as PAD
from glassformer.text.roles import SPECIALS as SPECIALS
from glassformer.text.roles import UNK as UNK
from glassformer.text.roles import check_roles, own_roles, read_roles, write_roles
from glassformer.text.spelling import BYTE_NAMES, spelling_of
from glassformer.text.stream import TextStream, piece_of, without_lead
from glassformer.text.unigram import settle_scores
from glassformer.text.words import first_surrogate, parts

ENCODED_AT_ONCE = 100_000
"""Characters given to the library in one call where the cut cannot show; each takes it some 200 bytes."""


class TextTokenizer:
    """Text to ids and back, over a tokenizer of the `tokenizers` library.

    Nothing in user text is ever a special token: `'<eos>'` typed by a person is five ordinary characters.
    Those built here have no normaliser: `decode(encode(text)) == text` wherever no character is unknown. Of others
    it holds as far as their normaliser changes nothing: byte-level ones (GPT-2) keep every text, byte fallback
    (LLaMA) all but '▁', which it takes for a space. SentencePiece without it loses what is unknown; WordPiece also
    the spaces, and puts one between any two words or signs, so that decoding is never exact there.

    Args:
        backend: A tokenizer with a BPE, Unigram or WordPiece model and the decoder that belongs to it, or with the
            words of `word_tokenizer`; it is taken over, its truncation and padding are switched off.
        roles: Names of the tokens that play the `ROLES`; None: those of `SPECIALS` that the vocabulary has.
        more_ends: Names of further tokens that end what is written, besides that of the role "eos".

    Raises:
        UnsupportedError: The library's tokenizer is of another kind.
        CheckpointError: Its vocabulary has a gap, so that some text would vanish.
        ConfigError: A role is unknown, or the vocabulary lacks its token.
    """

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        roles: Mapping[str, str] | None = None,
        more_ends: Sequence[str] = (),
    ) -> None:
        backend.no_truncation()
        backend.no_padding()
        settle_scores(backend)
        backend.encode_special_tokens = True  # not kept in tokenizer.json, nor by pickling the backend
        own = own_roles(backend)
        self._roles = dict(own if roles is None else roles)
        self._roles_are_own = self._roles == own
        self._more_ends = tuple(more_ends)
        check_roles(backend, self._roles, self._more_ends)
        self._backend = backend
        self._pieces = token_pieces(backend)
        spelling = spelling_of(backend)
        self._lead = spelling.lead
        self._encoder = guarded(backend, special_ids(backend), spelling)
        self._unwritten = spelling.unwritten
        self._byte_ids = [index for index in map(backend.token_to_id, BYTE_NAMES) if index is not None]
        self._template = template_of(backend)
        self._alphabet = alphabet(backend)
        self._symbols_stand_alone = symbols_stand_alone(backend)
        self._words_stand_alone = words_stand_alone(backend)

    def __reduce__(
        self,
    ) -> tuple[type[TextTokenizer], tuple[tokenizers.Tokenizer, dict[str, str], tuple[str, ...]]]:
        return TextTokenizer, (self._backend, self._roles, self._more_ends)

    @property
    def vocab_size(self) -> int:
        """One more than the largest id."""
        return len(self._pieces)

    @property
    def roles(self) -> Mapping[str, str]:
        """The names of the tokens that play a role ("bos", "eos" ..)."""
        return dict(self._roles)

    @property
    def pad_id(self) -> int | None:
        """The id that fills up short rows, or None."""
        return self._id("pad")

    @property
    def bos_id(self) -> int | None:
        """The id that begins a sequence, or None."""
        return self._id("bos")

    @property
    def eos_id(self) -> int | None:
        """The id that ends a sequence, or None."""
        return self._id("eos")

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """Every id that ends what is written: `eos_id` first, and others where a model has several."""
        ends = [self.eos_id, *map(self._backend.token_to_id, self._more_ends)]
        return tuple(dict.fromkeys(index for index in ends if index is not None))

    @property
    def unk_id(self) -> int | None:
        """The id of every character (or word) without its own, or None."""
        return self._id("unk")

    @property
    def mask_id(self) -> int | None:
        """The id that stands where a token is to be guessed, or None."""
        return self._id("mask")

    @property
    def has_frame(self) -> bool:
        """Whether `framed` puts anything around a text."""
        return self._template is not None

    @property
    def prefix(self) -> tuple[int, ...]:
        """The ids that stand before every text: of this project's own tokenizers the begin token, if there is one,
        of others what their template puts there. GPT-2 has a begin token and puts none."""
        if self._template is not None:
            return self._template.prefix
        return (self.bos_id,) if self._roles_are_own and self.bos_id is not None else ()

    @property
    def around(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The ids before and after a text that is read as a whole: those of the template, or begin and end token."""
        if self._template is not None:
            return self._template.prefix, self._template.suffix
        begin, end = self.bos_id, self.eos_id
        return () if begin is None else (begin,), () if end is None else (end,)

    def encode(self, text: str) -> list[int]:
        """Return the ids of `text`, without special tokens (except the unknown one, where there is one).

        Raises:
            DataError: A character has no id and there is no '<unk>'.
        """
        self._refuse_unknown(text)
        ids: list[int] = []
        for part in self._parts(text):
            ids += self._ids(part)
        return ids

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """Return the ids of each text.

        One after the other: the library's own threads would not survive the forks of data-loading workers.

        Raises:
            DataError: A character has no id and there is no '<unk>'.
        """
        return [self.encode(text) for text in texts]

    def framed(self, text: str, pair: str | None = None) -> Framed:
        """Return the ids of a text, or of two, in the frame that the tokenizer's template puts around them.

        `[CLS] a [SEP] b [SEP]` of BERT, `a </s>` of T5; no more than the ids where there is no template, as in the
        tokenizers of this project, whose tasks frame their texts themselves.

        Raises:
            DataError: A character has no id and there is no unknown token.
        """
        return self.frame(self.encode(text), None if pair is None else self.encode(pair))

    def frame(self, ids: Sequence[int], pair: Sequence[int] | None = None) -> Framed:
        """Return the ids of a text, or of two, that are encoded already, in their frame; see `framed`."""
        return (Template() if self._template is None else self._template).frame(ids, pair)

    def n_unknown(self, ids: Sequence[int]) -> int:
        """Return how many of some ids stand for something without an id of its own."""
        return 0 if self.unk_id is None else ids.count(self.unk_id)

    def decode(self, ids: Sequence[int], *, after: Sequence[int] = ()) -> str:
        """Return the text of `ids`, special tokens left out; bytes that are no UTF-8 become U+FFFD.

        Args:
            ids: The tokens of one sequence.
            after: What stands before them. If it holds text, a space that begins `ids` is kept; a tokenizer that
                puts a space before every text leaves it out elsewhere.

        Raises:
            DataError: An id is not of this vocabulary.
        """
        data = b"".join(piece_of(self._pieces, token) for token in ids)
        return without_lead(data, self._lead_after(after)).decode("utf-8", errors="replace")

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

    def stream(self, *, after: Sequence[int] = ()) -> TextStream:
        """Return a fresh incremental decoder, one for each sequence.

        Args:
            after: What stands before the sequence, as in `decode`.

        Raises:
            DataError: An id is not of this vocabulary.
        """
        return TextStream(self._pieces, self._lead_after(after))

    def save(self, path: str | Path) -> None:
        """Write the tokenizer as a tokenizer.json, never leaving half a file.

        The roles of its tokens go to a tokenizer_config.json beside it, unless they are those of `SPECIALS`.

        Raises:
            CheckpointError: The disk is full or the folder cannot be written.
        """
        write_text(Path(path), self._backend.to_str(pretty=True))
        own = self._roles_are_own and not self._more_ends
        write_roles(None if own else self._roles, Path(path).parent, self._more_ends)

    @classmethod
    def load(cls, path: str | Path) -> TextTokenizer:
        """Return the tokenizer of a tokenizer.json, with the roles of a tokenizer_config.json beside it.

        Raises:
            CheckpointError: A file is missing or damaged.
            UnsupportedError: The file holds a tokenizer of another kind.
        """
        backend = read_backend(Path(path))
        try:
            return cls(backend, *read_roles(backend, Path(path).parent))
        except (CheckpointError, UnsupportedError) as error:
            raise type(error)(f"{path}: {error}") from error

    def _id(self, role: str) -> int | None:
        name = self._roles.get(role)
        return None if name is None else self._backend.token_to_id(name)

    def _lead_after(self, before: Sequence[int]) -> bytes:
        return b"" if self._lead and any(piece_of(self._pieces, token) for token in before) else self._lead

    def _ids(self, text: str) -> list[int]:
        encoding = self._encoder.encode(text, add_special_tokens=False)
        ids: list[int] = encoding.ids
        if self._unwritten is None:
            return ids
        spelled: list[int] = []
        for token, name in zip(ids, encoding.tokens, strict=True):
            if token == self._unwritten:  # the name is then the text
                spelled += [self._byte_ids[byte] for byte in name.encode()]
            else:
                spelled.append(token)
        return spelled

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


def read_backend(path: Path) -> tokenizers.Tokenizer:
    """Return the library's tokenizer of a tokenizer.json.

    Raises:
        CheckpointError: The file is missing or damaged.
    """
    try:
        return tokenizers.Tokenizer.from_str(path.read_bytes().decode())
    except OSError as error:
        raise CheckpointError(
            f"cannot read the tokenizer {path} ({error.strerror}); name a tokenizer.json that exists"
        ) from error
    except Exception as error:  # the library knows no narrower kind
        raise CheckpointError(
            f"{path} is not a whole tokenizer.json ({error}); restore it or save the tokenizer again"
        ) from error


def _readable(piece: bytes) -> str:
    return "".join(map(_visible, piece.decode("utf-8", errors="surrogateescape")))


def _visible(character: str) -> str:
    if "\udc80" <= character <= "\udcff":  # surrogateescape's form of a byte that is no character
        return f"<0x{ord(character) - 0xDC00:02X}>"
    if character == " ":
        return "␣"
    return character if character.isprintable() else repr(character)[1:-1]
