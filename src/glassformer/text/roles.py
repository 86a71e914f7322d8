"""Which token of a vocabulary plays which role, and the files that say so."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers

from glassformer.core.errors import CheckpointError, ConfigError, did_you_mean
from glassformer.core.files import write_json
from glassformer.text.pieces import special_ids

PAD, BOS, EOS, UNK, MASK = "<pad>", "<bos>", "<eos>", "<unk>", "<mask>"
SPECIALS = (PAD, BOS, EOS, UNK, MASK)
"""Every special token this project gives a meaning to."""

ROLES = ("pad", "bos", "eos", "unk", "mask", "cls", "sep")
"""What a token can be: padding, begin, end, unknown, masked; in front of a text and between two, as BERT has them."""

CONFIG_FILE = "tokenizer_config.json"
MAP_FILE = "special_tokens_map.json"
MORE_ENDS = "more_eos_tokens"
"""Ours alone: tokens that end what is written, besides the one of the role."""


def own_roles(backend: tokenizers.Tokenizer) -> dict[str, str]:
    """Return the roles of a tokenizer of this project, whose special tokens are called by what they are."""
    special = special_ids(backend)
    return {role: name for role, name in zip(ROLES, SPECIALS, strict=False) if name in special}


def check_roles(backend: tokenizers.Tokenizer, roles: Mapping[str, str], more_ends: Sequence[str] = ()) -> None:
    """Make sure that every role is known and its token in the vocabulary, and that of every further end.

    Raises:
        ConfigError: One is not.
    """
    for role, name in [*roles.items(), *(("eos", name) for name in more_ends)]:
        if role not in ROLES:
            raise ConfigError(f"unknown role {role!r} of token {name!r}{did_you_mean(role, ROLES)}")
        if backend.token_to_id(name) is None:
            raise ConfigError(f"the vocabulary has no token {name!r} to play {role!r}; name one that it has")


def read_object(path: Path) -> dict[str, Any] | None:
    """Return the content of a JSON file that need not be there, or None.

    Raises:
        CheckpointError: It is there and is damaged.
    """
    try:
        content = json.loads(path.read_bytes().decode())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CheckpointError(f"cannot read {path} ({error.strerror}); make it readable or remove it") from error
    except ValueError as error:  # no JSON, or no UTF-8
        raise CheckpointError(f"{path} is not whole JSON ({error}); restore it") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} holds no JSON object but a {type(content).__name__}; restore it")
    return content


def named_roles(content: Mapping[str, Any], path: Path) -> dict[str, str]:
    """Return the roles that a file names as `pad_token` and so on, by a string or an object with `content`.

    Raises:
        CheckpointError: A name is neither.
    """
    found = {role: content.get(f"{role}_token") for role in ROLES}
    return {role: token_name(value, path) for role, value in found.items() if value is not None}


def token_name(value: Any, path: Path) -> str:
    """Return the name of a token that a file gives as a string or as an object with `content`.

    Raises:
        CheckpointError: It is neither.
    """
    name = value.get("content") if isinstance(value, dict) else value
    if not isinstance(name, str):
        raise CheckpointError(f"{path} names a token by {value!r}; it needs a string, or an object with 'content'")
    return name


def known_roles(backend: tokenizers.Tokenizer, roles: Mapping[str, str]) -> dict[str, str]:
    """Return the roles whose token has an id; a file may name others, for which a model has no embedding."""
    return {role: name for role, name in roles.items() if backend.token_to_id(name) is not None}


def read_roles(backend: tokenizers.Tokenizer, folder: Path) -> tuple[dict[str, str] | None, list[str]]:
    """Return the roles that the folder of a tokenizer.json names, or None if no file does, and further ends.

    Raises:
        CheckpointError: The file is damaged.
    """
    path = folder / CONFIG_FILE
    content = read_object(path)
    if content is None:
        return None, []
    return known_roles(backend, named_roles(content, path)), [token_name(n, path) for n in content.get(MORE_ENDS, [])]


def write_roles(roles: Mapping[str, str] | None, folder: Path, more_ends: Sequence[str] = ()) -> None:
    """Write the roles of a tokenizer beside it; None: none are needed, and those of a former one are removed.

    Raises:
        CheckpointError: The disk is full or the folder cannot be written.
    """
    path = folder / CONFIG_FILE
    if roles is None:
        path.unlink(missing_ok=True)
    else:
        named: dict[str, Any] = {f"{role}_token": roles[role] for role in ROLES if role in roles}
        write_json(path, named | ({MORE_ENDS: list(more_ends)} if more_ends else {}))
