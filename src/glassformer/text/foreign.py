"""The tokenizer of somebody else's checkpoint: whatever files its folder holds, one `TextTokenizer` comes out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers

from glassformer.core.errors import CheckpointError, ConfigError, UnsupportedError, did_you_mean
from glassformer.text.framing import template_of, write_template
from glassformer.text.pieces import special_ids
from glassformer.text.roles import (
    CONFIG_FILE,
    MAP_FILE,
    ROLES,
    known_roles,
    named_roles,
    read_object,
    token_name,
)
from glassformer.text.sentencepiece import read_sentencepiece, sentencepiece_backend
from glassformer.text.spelling import unknown_token
from glassformer.text.tokenizer import TextTokenizer, read_backend
from glassformer.text.vocabulary_files import BERT_ROLES, bert_backend, gpt2_backend, read_ids

TOKENIZER_FILE = "tokenizer.json"
ADDED_FILE = "added_tokens.json"
VOCABULARIES = (TOKENIZER_FILE, "vocab.json", "vocab.txt", "spiece.model", "tokenizer.model")
TOKENIZER_FILES = (*VOCABULARIES, "merges.txt", ADDED_FILE, CONFIG_FILE, MAP_FILE)
"""All that is read of a tokenizer."""

LOOKED_FOR = (TOKENIZER_FILE, "vocab.json with merges.txt", "vocab.txt", "spiece.model", "tokenizer.model")

Role = str | int | Sequence[int]


@dataclass(frozen=True)
class Named:
    """What the files beside a vocabulary say of its tokens.

    Attributes:
        settings: tokenizer_config.json.
        roles: Names by role, of tokenizer_config.json and, where that is silent, of special_tokens_map.json.
        special: Names of further special tokens.
        added: Tokens beside the vocabulary by their id, and whether each is special.
    """

    settings: Mapping[str, Any]
    roles: dict[str, str]
    special: tuple[str, ...]
    added: dict[int, tuple[str, bool]]


def load_tokenizer(
    folder: str | Path, roles: Mapping[str, Role | None] | None = None, *, extra_ids: int = 0
) -> TextTokenizer:
    """Return the tokenizer of a folder of the Hugging Face kind.

    Read is the first that is there of tokenizer.json, vocab.json with merges.txt (byte-level BPE, split as GPT-2
    does), vocab.txt (WordPiece of BERT), spiece.model and tokenizer.model (SentencePiece). What stands around a text
    is what tokenizer.json says; for the others: of vocab.json `cls a sep sep b sep` if its folder names both tokens,
    of vocab.txt `cls a sep b sep`, of spiece.model the same if both are named, else `a eos`. tokenizer.model, and
    whatever else has no frame, gets the begin or end token that add_bos_token and add_eos_token ask for
    (tokenizer.model: begin, if they are silent).

    Args:
        folder: The folder.
        roles: Which token plays which of `ROLES`, by name or id (of a list the first counts, and all of them for "eos";
            None or a negative id is no token), as a model's config.json has it. They win over those of
            tokenizer_config.json and special_tokens_map.json.
        extra_ids: How many `<extra_id_N>` follow the vocabulary of a spiece.model, the last of them first, where
            tokenizer_config.json does not say it (`extra_ids`). 100 for T5.

    Raises:
        CheckpointError: There is no tokenizer, or a file is missing or damaged, or does not fit the others.
        UnsupportedError: A tokenizer is of a kind that cannot be used.
        ConfigError: A role is unknown.
    """
    folder = Path(folder)
    for role in roles or ():
        if role not in ROLES:
            raise ConfigError(f"unknown role {role!r}{did_you_mean(role, ROLES)}")
    named = _read_named(folder)
    try:
        backend, own, file = _backend(folder, named, extra_ids)
        if file != TOKENIZER_FILE:
            _add(backend, named.added, folder)
        playing = known_roles(backend, own | named.roles)
        playing |= _given(backend, roles or {})
        _mark_special(backend, [*playing.values(), *named.special])
        _frame(backend, file, playing, named.settings)
        return TextTokenizer(backend, playing, _more_ends(backend, (roles or {}).get("eos")))
    except (CheckpointError, UnsupportedError) as error:
        message = str(error)
        raise type(error)(message if str(folder) in message else f"{folder}: {message}") from error


def holds_tokenizer(folder: Path) -> bool:
    """Return whether there is a file in a folder that a tokenizer can be read from."""
    return any((folder / name).exists() for name in VOCABULARIES)


def _read_named(folder: Path) -> Named:
    config, special_map = folder / CONFIG_FILE, folder / MAP_FILE
    settings, others = read_object(config) or {}, read_object(special_map) or {}
    roles = named_roles(others, special_map) | named_roles(settings, config)
    special = [
        token_name(token, path)
        for content, path in ((settings, config), (others, special_map))
        for key in ("additional_special_tokens", "extra_special_tokens")
        for token in _listed(content.get(key))
    ]
    added: dict[int, tuple[str, bool]] = {}
    if (folder / ADDED_FILE).exists():
        added = {index: (name, False) for name, index in read_ids(folder / ADDED_FILE).items()}
    for key, token in _object(settings.get("added_tokens_decoder"), config).items():
        if not key.isdecimal():
            raise CheckpointError(f"{config} has the id {key!r} in added_tokens_decoder; it needs a whole number")
        added[int(key)] = (token_name(token, config), isinstance(token, dict) and token.get("special") is True)
    return Named(settings, roles, tuple(special), added)


def _backend(folder: Path, named: Named, extra_ids: int) -> tuple[tokenizers.Tokenizer, dict[str, str], str]:
    """Return the library's tokenizer, the roles that follow from the kind of its file, and the name of that file."""
    if (folder / TOKENIZER_FILE).exists():
        backend = read_backend(folder / TOKENIZER_FILE)
        unknown = unknown_token(backend)
        return backend, {} if unknown is None else {"unk": unknown}, TOKENIZER_FILE
    if (folder / "source.spm").exists():
        raise UnsupportedError(
            f"{folder} holds two SentencePiece models, one of each language (source.spm, target.spm), which are not"
            " read; add a tokenizer.json, or load the model without a tokenizer (gf.load_transformer)"
        )
    vocabulary, merges = folder / "vocab.json", folder / "merges.txt"
    if vocabulary.exists():
        return gpt2_backend(vocabulary, merges, named.settings), {}, vocabulary.name
    if (folder / "vocab.txt").exists():
        own = BERT_ROLES | named.roles
        return bert_backend(folder / "vocab.txt", own["unk"], named.settings), own, "vocab.txt"
    path = next((folder / name for name in ("spiece.model", "tokenizer.model") if (folder / name).exists()), None)
    if path is None:
        half = "; merges.txt is half of one, and its vocab.json is missing" if merges.exists() else ""
        raise CheckpointError(
            f"{folder} holds no tokenizer: there is none of {', '.join(LOOKED_FOR)}{half}; copy the files of the"
            " tokenizer into it, or name the folder that has them"
        )
    model = read_sentencepiece(path)
    backend = sentencepiece_backend(model, path)
    if path.name == "spiece.model":
        number = named.settings.get("extra_ids", extra_ids)
        if type(number) is not int or number < 0:
            raise CheckpointError(f"extra_ids in {folder / CONFIG_FILE} is {number!r}; it is a whole number from 0")
        backend.add_special_tokens([f"<extra_id_{index}>" for index in reversed(range(number))])
    return backend, model.roles, path.name


def _add(backend: tokenizers.Tokenizer, added: Mapping[int, tuple[str, bool]], folder: Path) -> None:
    """Give tokens beside the vocabulary the ids that a file says, which have to follow it without a gap."""
    for index, (name, special) in sorted(added.items()):
        if backend.token_to_id(name) is None:
            backend.add_tokens([tokenizers.AddedToken(name, normalized=False, special=special)])
        if backend.token_to_id(name) != index:
            raise CheckpointError(
                f"{folder}: {CONFIG_FILE} or {ADDED_FILE} gives {name!r} the id {index}, but after its vocabulary it"
                f" has {backend.token_to_id(name)}; copy all files of the tokenizer from the same place"
            )


def _given(backend: tokenizers.Tokenizer, roles: Mapping[str, Role | None]) -> dict[str, str]:
    """Return the names of the tokens that a caller gives by name or id."""
    found: dict[str, str] = {}
    for role, value in roles.items():
        first = value if isinstance(value, (str, int)) or not value else value[0]
        if isinstance(first, str):
            name = first if backend.token_to_id(first) is not None else None
        elif isinstance(first, int) and first >= 0:
            name = backend.id_to_token(first)
        else:  # no token plays it
            continue
        if name is None:
            size = backend.get_vocab_size(with_added_tokens=True)
            raise CheckpointError(
                f"{role!r} is the token {first!r}, which the vocabulary of {size} lacks; copy all files of the"
                " tokenizer, or give a token that it has"
            )
        found[role] = name
    return found


def _more_ends(backend: tokenizers.Tokenizer, ends: Role | None) -> list[str]:
    """Return the names of all but the first of several end tokens."""
    if not isinstance(ends, list | tuple):
        return []
    names = [end if isinstance(end, str) else backend.id_to_token(end) for end in ends[1:]]
    return [name for name in names if name is not None]


def _mark_special(backend: tokenizers.Tokenizer, names: Iterable[str]) -> None:
    """Make tokens special that no text leads to; a line break that ends a text stays a line break."""
    backend.encode_special_tokens = True
    added = {token.content for token in backend.get_added_tokens_decoder().values()}
    for name in dict.fromkeys(names):
        index = backend.token_to_id(name)
        if index is None or name in special_ids(backend):
            continue
        text = backend.decode([index], skip_special_tokens=False)
        if name in added or backend.encode(text, add_special_tokens=False).ids != [index]:
            backend.add_special_tokens([tokenizers.AddedToken(name, normalized=False)])


def _frame(backend: tokenizers.Tokenizer, file: str, roles: Mapping[str, str], settings: Mapping[str, Any]) -> None:
    """Put around a text what the kind of file says, unless the tokenizer has a template."""
    if template_of(backend) is not None:
        return
    bos, eos, cls, sep = (roles.get(role) for role in ("bos", "eos", "cls", "sep"))
    if cls and sep and file == "vocab.json":
        write_template(backend, f"{cls} $A {sep}", f"{cls} $A {sep} {sep} $B {sep}")
    elif cls and sep and file in ("vocab.txt", "spiece.model"):
        write_template(backend, f"{cls} $A {sep}", f"{cls} $A {sep} $B {sep}", second_type=1)
    elif eos and file == "spiece.model":
        write_template(backend, f"$A {eos}", f"$A {eos} $B {eos}")
    else:
        begins = settings.get("add_bos_token", file == "tokenizer.model") is True
        before = f"{bos} " if bos and begins else ""
        after = f" {eos}" if eos and settings.get("add_eos_token") is True else ""
        if before or after or file != TOKENIZER_FILE:
            write_template(backend, f"{before}$A{after}", f"{before}$A{after} {before}$B{after}", second_type=1)


def _listed(value: Any) -> list[Any]:
    """A list of tokens; some files give each a name of its own."""
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _object(value: Any, path: Path) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise CheckpointError(f"added_tokens_decoder in {path} is no object but {value!r}; restore it")
    return value
