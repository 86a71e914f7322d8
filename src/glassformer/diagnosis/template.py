"""A small file in which a user writes down how a model is called, where that cannot be found out."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from string import Template
from typing import Any

from torch import Tensor, nn

from glassformer.core.errors import ConfigError
from glassformer.core.files import write_text
from glassformer.core.user_code import load_user_code, said_with_line
from glassformer.diagnosis.subject import Caller, Given, Kind, ModelSubject

TEXT = Template('''\
"""How to call $name: fill this in, then run  glassformer check $file"""

import sys
from pathlib import Path

sys.path.insert(0, $folder)

KIND = "decoder"  # or "encoder" or "encoder_decoder"
VOCAB = 100  # number of token ids; None if embeddings go in
SOURCE_VOCAB = None  # of the source of an encoder-decoder, if it has another number
WIDTH = None  # of the embeddings, if those go in
LENGTH = 11  # tokens of the texts to try; best a number that is no size of the model


def make():
    """Return a model, freshly made."""
    from $module import $name

    return $name()


def call(model, tokens, keep, source, source_keep):
    """Return the logits, or the states, of every token: (B, T, W).

    tokens (B, T); keep (B, T), True where a token stands, or None; source (B, S) and source_keep (B, S) in an
    encoder-decoder, else None. If the model cannot be told where padding is, set TAKES_KEEP to False.
    """
    return model(tokens)


TAKES_KEEP = False
TAKES_SOURCE_KEEP = False

# Only if the model computes its loss; labels (B, T) may hold -100, which means: nothing to predict.
# def loss(model, tokens, keep, source, source_keep, labels):
#     return model(tokens, labels).loss
# SHIFTS = (0,)  # (1,) if the model moves the labels by one itself

# Only if the model has a cache: tokens are the new ones, state is what the last call returned, None at first.
# def step(model, tokens, source, source_keep, state):
#     logits, state = model(tokens, cache=state)
#     return logits, state
''')
"""What is written."""


def write_template(file: Path, source: str) -> None:
    """Write a template for a model.

    Args:
        file: Where to.
        source: The model, as FILE.py:NAME.

    Raises:
        ConfigError: The file exists already, or `source` names nothing.
    """
    if file.exists():
        raise ConfigError(f"{file} exists already; choose another name, or check it: glassformer check {file}")
    code, _, name = source.rpartition(":")
    if not code.endswith(".py") or not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise ConfigError(f"{source!r} names no model; a template is for FILE.py:NAME")
    load_user_code(source)  # it must be there
    folder = repr(str(Path(code).resolve().parent))
    write_text(file, TEXT.substitute(name=name, file=file, folder=folder, module=Path(code).stem))


def subject_from(file: Path) -> ModelSubject:
    """Return the model of a template with the way it is called.

    Raises:
        ConfigError: The file cannot be imported, or lacks something.
    """
    try:
        call = load_user_code(f"{file}:call").value
    except ConfigError as error:
        if "has no 'call'" not in str(error):
            raise
        raise ConfigError(f"{file} is no template; name what is to be examined in it: {file}:NAME") from error
    told: dict[str, Any] = dict(vars(call).get("__wrapped__", call).__globals__)
    for name in ("make", "KIND"):
        if name not in told:
            raise ConfigError(f"{file} has no {name}; a fresh template says what belongs there: --template FILE")
    kind: Kind = told["KIND"]
    if kind not in ("decoder", "encoder", "encoder_decoder"):
        raise ConfigError(f"KIND in {file} is {kind!r}; it must be 'decoder', 'encoder' or 'encoder_decoder'")
    vocab, width = told.get("VOCAB"), told.get("WIDTH")
    if (vocab is None) == (width is None):
        raise ConfigError(f"{file} must say one of VOCAB, if token ids go in, and WIDTH, if embeddings do")
    try:
        model = told["make"]()
    except Exception as error:  # of the user's own code
        raise ConfigError(f"make() in {file} failed: {said_with_line(error, file)}") from error
    if not isinstance(model, nn.Module):
        raise ConfigError(f"make() in {file} returned a {type(model).__name__}; it must return an nn.Module")
    outputs = _Called(call)
    caller = Caller(
        kind=kind,
        outputs=outputs,
        everything=lambda own, given: [outputs(own, given)],
        takes_keep=bool(told.get("TAKES_KEEP")),
        takes_source_keep=bool(told.get("TAKES_SOURCE_KEEP")),
        loss=_lost(told["loss"]) if "loss" in told else None,
        shifts=tuple(told.get("SHIFTS", ())),
        cached=_stepped(told["step"]) if "step" in told else None,
        vocab=vocab,
        source_vocab=told.get("SOURCE_VOCAB") or vocab,
        width=width or 0,
    )
    return ModelSubject(model, caller, int(told.get("LENGTH", 11)))


class _Called:
    def __init__(self, call: Callable[..., Tensor]) -> None:
        self.call = call

    def __call__(self, model: nn.Module, given: Given) -> Tensor:
        return self.call(model, given.inputs, given.keep, given.source, given.source_keep)


def _lost(loss: Callable[..., Tensor]) -> Callable[[nn.Module, Given, Tensor], Tensor]:
    return lambda model, given, labels: loss(model, given.inputs, given.keep, given.source, given.source_keep, labels)


def _stepped(step: Callable[..., tuple[Tensor, Any]]) -> Callable[[nn.Module, Given, Any], tuple[Tensor, Any]]:
    return lambda model, given, state: step(model, given.inputs, given.source, given.source_keep, state)
