"""A model that cannot make a reserved token out of text."""

from __future__ import annotations

import json
from typing import Any

import tokenizers
from tokenizers import models

from glassformer.text.spelling import BYTE_NAMES, Spelling

NEVER = " "
"""Put before a name, it makes one that no text reaches: a model of words or marked spaces is given no space."""


def guarded(backend: tokenizers.Tokenizer, special: dict[str, int], spelling: Spelling) -> tokenizers.Tokenizer:
    """Return a tokenizer with the same ids whose model has no way from text to a reserved token.

    The library skips the names of special tokens while it looks for added ones, but the model's own vocabulary
    often holds them too: a Unigram takes a typed `'</s>'` for its end token, a BPE may have merges that lead there.
    Here such names are changed and such merges left out. The same is done for the names of bytes, for a typed
    `'<0x41>'` is six characters and not 'A'.

    Args:
        backend: Any tokenizer; it stays as it is, and is returned itself where nothing is to be done.
        special: The id of each special token by its name.
        spelling: How the vocabulary spells text.
    """
    names = {*special, *(BYTE_NAMES if spelling.names_bytes else ())}
    if isinstance(backend.model, models.BPE):
        names = {name for name in names if _is_merged(backend.model, name)}
        if not names:
            return backend
    elif isinstance(backend.model, models.WordLevel):  # its texts are split between the signs and letters of a name
        return backend
    content = json.loads(backend.to_str())
    _hide(content, names)
    hidden = tokenizers.Tokenizer.from_str(json.dumps(content))
    hidden.encode_special_tokens = True
    return hidden


def _is_merged(model: models.BPE, name: str) -> bool:
    """Return whether the text of a name leads to the token: merges within it are the same wherever it stands."""
    index = model.token_to_id(name)
    if index is None:
        return False
    return [token.id for token in model.tokenize(name)] == [index]


def _hide(content: dict[str, Any], names: set[str]) -> None:
    model = content["model"]
    if model["type"] == "BPE":
        model["merges"] = [[a, b] for a, b in model["merges"] if names.isdisjoint((a, b, a + b))]
        names = names.difference(BYTE_NAMES)  # the library looks them up by these names

    def rename(name: str) -> str:
        return NEVER + name if name in names else name

    content["post_processor"] = None
    for token in content["added_tokens"]:  # their ids come from their names in the model's vocabulary
        if token["special"]:
            token["content"] = rename(token["content"])
    if model["type"] == "Unigram":
        model["vocab"] = [[rename(name), score] for name, score in model["vocab"]]
        model["byte_fallback"] = False  # done from what the unknown token stands for
        return
    model["vocab"] = {rename(name): index for name, index in model["vocab"].items()}
    if model["unk_token"] is not None:
        model["unk_token"] = rename(model["unk_token"])
