"""What a vocabulary says: the bytes of each token, and which characters it can encode."""

from __future__ import annotations

from collections.abc import Mapping

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from glassformer.core.errors import CheckpointError, UnsupportedError
from glassformer.text.spelling import BYTE_NAMES, Spelling, spelling_of
from glassformer.text.words import byte_word_splitter, word_splitter


def byte_symbols() -> tuple[str, ...]:
    """Return the printable character that a byte-level vocabulary writes for each of the 256 bytes.

    A vocabulary file holds text, not bytes, so every byte gets a character: printable ones of Latin-1 stand
    for themselves, the others are moved to U+0100 and up (a space is written as 'Ġ').

    Source: Radford et al. 2019 (GPT-2), `bytes_to_unicode` of the released code.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    moved = [byte for byte in range(256) if byte not in printable]
    return tuple(chr(byte if byte in printable else 0x100 + moved.index(byte)) for byte in range(256))


def special_ids(backend: tokenizers.Tokenizer) -> dict[str, int]:
    """Return the id of each special token by its name."""
    added = backend.get_added_tokens_decoder()
    return {token.content: index for index, token in added.items() if token.special}


def token_pieces(backend: tokenizers.Tokenizer) -> tuple[bytes, ...]:
    """Return the UTF-8 bytes of each token, by id; special tokens and unused ids stand for none.

    Text is the concatenation of pieces, whatever their order, so decoding at once and decoding as ids arrive
    cannot differ. Where a tokenizer puts a space before every text (`Spelling.lead`), a text begins without it:
    in a vocabulary of WordPiece each word has its space in front.

    Raises:
        UnsupportedError: The model and its decoder have no spelling of this property.
        CheckpointError: A byte-level vocabulary lacks a byte or a model its unknown token, so that some text would
            vanish.
    """
    if isinstance(backend.model, models.WordLevel) and not _keeps_every_word(backend):
        raise UnsupportedError(
            "a tokenizer of model WordLevel that drops spaces or has no unknown word cannot be used; build it"
            " with word_tokenizer, or use one whose model is a BPE"
        )
    spelling = spelling_of(backend)
    byte_of = _byte_values(backend) if spelling.kind == "bytes" else {}
    if spelling.names_bytes:
        byte_of = {name: byte for byte, name in enumerate(BYTE_NAMES)}
    vocabulary = backend.get_vocab(with_added_tokens=True)
    added = backend.get_added_tokens_decoder()
    pieces = [b""] * (max(vocabulary.values(), default=-1) + 1)
    for token, index in vocabulary.items():
        if index not in added:
            pieces[index] = _piece(token, spelling, byte_of)
        elif not added[index].special:  # written as it is, never in byte symbols
            pieces[index] = token.encode() if spelling.kind == "bytes" else _piece(token, spelling, byte_of)
    return tuple(pieces)


def alphabet(backend: tokenizers.Tokenizer) -> frozenset[str] | None:
    """Return the only characters that can be encoded, or None if all can."""
    if not isinstance(backend.model, models.BPE) or not isinstance(backend.decoder, decoders.Fuse):
        return None
    if backend.model.unk_token is not None:
        return None
    special = special_ids(backend)
    return frozenset(token for token in backend.get_vocab() if len(token) == 1 and token not in special)


def symbols_stand_alone(backend: tokenizers.Tokenizer) -> bool:
    """Return whether every symbol of a text gets its id regardless of its neighbours.

    Only then may a long text be cut anywhere and encoded in parts. A token of two symbols, a normaliser, or a
    space put before every text would make the cut show, and so would unknown symbols that share one id.
    """
    if not isinstance(backend.model, models.BPE) or backend.model.fuse_unk:
        return False
    splitter = backend.pre_tokenizer
    if isinstance(splitter, pre_tokenizers.ByteLevel):
        splits_only = not splitter.add_prefix_space
    else:
        splits_only = splitter is None
    special = special_ids(backend)
    one_symbol = all(len(token) == 1 for token in backend.get_vocab() if token not in special)
    return one_symbol and splits_only and backend.normalizer is None


def words_stand_alone(backend: tokenizers.Tokenizer) -> bool:
    """Return whether a text is split by `WORD_PATTERN` first, so that it may be cut between words."""
    only_specials_added = len(special_ids(backend)) == len(backend.get_added_tokens_decoder())
    ours = _splits_like(backend, word_splitter()) or _splits_like(backend, byte_word_splitter())
    return ours and only_specials_added and backend.normalizer is None


def _splits_like(backend: tokenizers.Tokenizer, splitter: pre_tokenizers.PreTokenizer) -> bool:
    found = backend.pre_tokenizer  # the library compares no splitters; what it pickles says all about one
    return found is not None and bool(found.__getstate__() == splitter.__getstate__())


def _keeps_every_word(backend: tokenizers.Tokenizer) -> bool:
    concatenates = isinstance(backend.decoder, decoders.Fuse) and _splits_like(backend, word_splitter())
    return concatenates and backend.model.unk_token in special_ids(backend)


def _byte_values(backend: tokenizers.Tokenizer) -> dict[str, int]:
    """Return the byte of each symbol, having made sure that the vocabulary holds all 256."""
    values = {symbol: byte for byte, symbol in enumerate(byte_symbols())}
    for symbol, byte in values.items():
        if backend.token_to_id(symbol) is None:
            raise CheckpointError(
                f"the byte-level vocabulary lacks the byte 0x{byte:02X} (written {symbol!r}) of all 256;"
                " build or export the tokenizer again"
            )
    return values


def _piece(token: str, spelling: Spelling, byte_of: Mapping[str, int]) -> bytes:
    if spelling.kind == "bytes":
        known = all(symbol in byte_of for symbol in token)
        return bytes(byte_of[symbol] for symbol in token) if known else token.encode()
    if spelling.kind == "words":
        goes_on = token.startswith(spelling.mark)
        return token.removeprefix(spelling.mark).encode() if goes_on else f" {token}".encode()
    if token in byte_of:
        return bytes([byte_of[token]])
    return (token.replace(spelling.mark, " ") if spelling.mark else token).encode()
