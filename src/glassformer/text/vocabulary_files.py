"""Tokenizers kept as plain lists: vocab.txt of BERT, vocab.json and merges.txt of GPT-2."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from glassformer.core.errors import CheckpointError, UnsupportedError
from glassformer.text.roles import CONFIG_FILE

BERT_ROLES = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
"""Roles in a vocab.txt, where nothing says otherwise."""

SPLIT_LIKE_GPT2 = ("GPT2", "Roberta", "Bart", "Longformer", "LED", "Blenderbot", "CodeGen", "GPTNeoX")
"""What `tokenizer_class` begins with where a vocab.json is split as GPT-2 does it."""


def bert_backend(path: Path, unknown: str, settings: Mapping[str, Any]) -> tokenizers.Tokenizer:
    """Return the WordPiece tokenizer of a vocab.txt, one token a line.

    Args:
        path: The file.
        unknown: Its token for words it cannot spell.
        settings: `do_lower_case` (true), `strip_accents` (as `do_lower_case`) and `tokenize_chinese_chars` (true),
            as in tokenizer_config.json.

    Raises:
        CheckpointError: The file is no UTF-8, empty, or lacks the unknown token.

    Source: Devlin et al. 2019 (arXiv:1810.04805), `tokenization.py` of the released code.
    """
    lines = read_text(path).split("\n")
    vocabulary = {line.removesuffix("\r"): index for index, line in enumerate(lines[: -1 if lines[-1] == "" else None])}
    if unknown not in vocabulary:
        raise CheckpointError(
            f"{path} has {len(vocabulary)} tokens but not {unknown!r} for unknown words; copy the whole file again, or"
            f" name the token it has as unk_token in {CONFIG_FILE}"
        )
    backend = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token=unknown, max_input_chars_per_word=100))
    backend.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=_flag(settings, "tokenize_chinese_chars") is not False,
        strip_accents=_flag(settings, "strip_accents"),
        lowercase=_flag(settings, "do_lower_case") is not False,
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##", cleanup=False)
    return backend


def gpt2_backend(vocabulary_path: Path, merges_path: Path, settings: Mapping[str, Any]) -> tokenizers.Tokenizer:
    """Return the byte-level BPE of a vocab.json and a merges.txt, one pair a line.

    Args:
        vocabulary_path: The id of each token.
        merges_path: The merges in their order; a first line `#version` is none.
        settings: `add_prefix_space` (false), as in tokenizer_config.json; `tokenizer_class` may say that texts are
            not split as GPT-2 does it.

    Raises:
        CheckpointError: A file is missing, damaged, or does not fit the other.
        UnsupportedError: Texts are split in another way, which these files do not tell.

    Source: Radford et al. 2019 (GPT-2), `encoder.py` of the released code.
    """
    kind = settings.get("tokenizer_class")
    if isinstance(kind, str) and not kind.startswith(SPLIT_LIKE_GPT2):
        raise UnsupportedError(
            f"{vocabulary_path.parent} holds the vocabulary of a {kind}, which need not split text as GPT-2 does; load"
            " the folder with the transformers library and save its fast tokenizer as a tokenizer.json"
        )
    vocabulary = read_ids(vocabulary_path)
    if not merges_path.exists():
        raise CheckpointError(
            f"{merges_path} is missing, without which {vocabulary_path.name} cannot be used; copy it from where that"
            " file is from, or add a tokenizer.json"
        )
    merges = _merges(merges_path, vocabulary, vocabulary_path)
    backend = tokenizers.Tokenizer(models.BPE(vocabulary, merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=_flag(settings, "add_prefix_space") is True)
    backend.post_processor = processors.ByteLevel(trim_offsets=False)
    backend.decoder = decoders.ByteLevel()
    return backend


def read_ids(path: Path) -> dict[str, int]:
    """Return the id of each token in a JSON file.

    Raises:
        CheckpointError: The file is no JSON object of names and ids.
    """
    try:
        content = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise CheckpointError(f"{path} is not whole JSON ({error}); copy or download it again") from error
    if not isinstance(content, dict) or not all(type(index) is int and index >= 0 for index in content.values()):
        raise CheckpointError(f"{path} is no JSON object of tokens and their ids; copy or download it again")
    return content


def read_text(path: Path) -> str:
    """Return a text file as it is.

    Raises:
        CheckpointError: It cannot be read or is no UTF-8.
    """
    try:
        return path.read_bytes().decode()
    except OSError as error:
        raise CheckpointError(f"cannot read {path} ({error.strerror}); make it readable") from error
    except UnicodeDecodeError as error:
        raise CheckpointError(
            f"{path} is no UTF-8 (byte 0x{error.object[error.start]:02X} at {error.start}); copy or download it again"
        ) from error


def _merges(path: Path, vocabulary: Mapping[str, int], vocabulary_path: Path) -> list[tuple[str, str]]:
    merges = []
    for number, raw in enumerate(read_text(path).split("\n"), 1):
        line = raw.removesuffix("\r")
        if not line or (number == 1 and line.startswith("#version")):
            continue
        parts = line.split(" ")
        if len(parts) != 2 or not all(parts):
            raise CheckpointError(f"line {number} of {path}, {line!r}, is no pair of tokens; copy the whole file again")
        left, right = parts
        unknown = next((token for token in (left, right, left + right) if token not in vocabulary), None)
        if unknown is not None:
            raise CheckpointError(
                f"line {number} of {path} needs the token {unknown!r}, which {vocabulary_path.name} lacks; copy both"
                " files from the same place"
            )
        merges.append((left, right))
    return merges


def _flag(settings: Mapping[str, Any], name: str) -> bool | None:
    value = settings.get(name)
    if value is not None and not isinstance(value, bool):
        raise CheckpointError(f"{name} in {CONFIG_FILE} is {value!r}; it is true, false or null")
    return value
