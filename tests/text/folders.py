"""Folders of small tokenizers of every kind, made by hand, for the tests of this room."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from glassformer.text.pieces import byte_symbols
from glassformer.text.spelling import BYTE_NAMES

DATA = os.environ.get("GLASSFORMER_TEST_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason="GLASSFORMER_TEST_DATA names no folder of data")

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s", "sat", "[", "]", "cls", "你", "Cat", ".")


def varint(number: int) -> bytes:
    rest, byte = number >> 7, number & 0x7F
    return bytes([byte | 0x80]) + varint(rest) if rest else bytes([byte])


def message(*fields: tuple[int, int | float | bytes]) -> bytes:
    """A message of integers, floats of four bytes, and bytes."""
    written = b""
    for number, value in fields:
        if isinstance(value, bytes):
            written += varint(number << 3 | 2) + varint(len(value)) + value
        elif isinstance(value, float):
            written += varint(number << 3 | 5) + struct.pack("<f", value)
        else:
            written += varint(number << 3) + varint(value % (1 << 64))
    return written


def sentencepiece(
    pieces: Sequence[tuple[str, float, int]],
    trainer: Sequence[tuple[int, int | float | bytes]] = (),
    normaliser: Sequence[tuple[int, int | float | bytes]] = (),
) -> bytes:
    entries = [(1, message((1, text.encode()), (2, score), (3, kind))) for text, score, kind in pieces]
    return message(*entries, (2, message(*trainer)), (3, message(*normaliser)))


def unigram_pieces() -> list[tuple[str, float, int]]:
    """Ids: pad 0, eos 1, unk 2, then pieces."""
    control = [("<pad>", 0.0, CONTROL), ("</s>", 0.0, CONTROL), ("<unk>", 0.0, UNKNOWN)]
    normal = ["▁", "▁the", "▁cat", "s", "a", "<", ">", "/", "_"]
    return [*control, *((text, -2.0 - index / 8, NORMAL) for index, text in enumerate(normal))]


def bpe_pieces() -> list[tuple[str, float, int]]:
    """Ids: unk 0, bos 1, eos 2, the bytes, then pieces; 's>' is there so that merges could lead to '<s>'."""
    control = [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)]
    normal = ["▁t", "he", "▁the", "s>", "/s>", "▁", "t", "h", "e", "<", "s", ">", "/", "a", "0", "x"]
    merged = [(text, float(-index), NORMAL) for index, text in enumerate(normal)]
    return [*control, *((name, 0.0, BYTE) for name in BYTE_NAMES), *merged]


def write(folder: Path, files: Mapping[str, Any]) -> Path:
    """Write files: bytes as they are, lists as lines, all else as JSON."""
    folder.mkdir(exist_ok=True, parents=True)
    for name, content in files.items():
        if isinstance(content, list):
            content = "".join(f"{line}\n" for line in content).encode()
        (folder / name).write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return folder


def bert(folder: Path, **files: Any) -> Path:
    return write(folder, {"vocab.txt": list(WORDS), **files})


def gpt2(folder: Path, **files: Any) -> Path:
    vocabulary = {symbol: index for index, symbol in enumerate(byte_symbols())}
    for token in ("th", "the", "Ġthe", "<|endoftext|>", "<s>", "</s>", "<mask>"):
        vocabulary[token] = len(vocabulary)
    merges = ["#version: 0.2", "t h", "th e", "Ġ the"]
    return write(folder, {"vocab.json": vocabulary, "merges.txt": merges, **files})


def t5(folder: Path, **files: Any) -> Path:
    return write(folder, {"spiece.model": sentencepiece(unigram_pieces()), **files})


def llama(folder: Path, **files: Any) -> Path:
    model = sentencepiece(bpe_pieces(), [(3, 2), (35, 1)], [(4, 0)])
    return write(folder, {"tokenizer.model": model, **files})
