"""What users name as FILE.py:NAME: whole models, and parts of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from glassformer.core.errors import ConfigError
from glassformer.diagnosis.check import KINDS, check, model_kind
from glassformer.diagnosis.parts.examine import examine_part
from glassformer.diagnosis.parts.making import required_of, thing_of
from glassformer.diagnosis.plan import looks_up_tokens
from glassformer.diagnosis.report import Report
from glassformer.diagnosis.structure import layer_groups
from glassformer.models.transformer import Transformer

STACKS = (Transformer, nn.Transformer, nn.TransformerEncoder)


def examine_named(
    value: Any,
    name: str,
    *,
    kind: str | None = None,
    expect: str | None = None,
    only: Sequence[str] | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
    advanced: Callable[[int, int], None] = lambda done, total: None,
) -> Report:
    """Examine what a user named: as a whole model if it is one, else as a part.

    Args:
        value: A module, a class, a function, or a factory of one.
        name: What to call it.
        kind: A kind of whole model or of part; found by trying when None.
        expect: What is said of a part besides.
        only: Keys of the properties to test; None = all.
        seed: Of everything random.
        device: Where a whole model is examined.
        advanced: Told (done, total) properties.

    Raises:
        ConfigError: It cannot be made, is not of that kind, or there is no such kind, property or expectation.
        UnsupportedError: Nobody can tell what it is.
    """
    whole = model_kind(kind) if kind in KINDS else None
    if kind is None or whole is not None:
        made = module_of(value, name)
        if made is not None and (whole is not None or is_whole(made)):
            return check(made.to(device), name=name, kind=whole, only=only, seed=seed, advanced=advanced)
        if whole is not None:
            raise ConfigError(f"{name} is no nn.Module, nor does it return one; it cannot be a {kind}")
    if not callable(value):
        raise ConfigError(f"{name} is of type {type(value).__name__}; name a function, a class or a module")
    return examine_part(value, name, kind=kind, expect=expect, only=only, seed=seed, advanced=advanced)


def module_of(value: Any, name: str) -> nn.Module | None:
    """Return the module that a user named, made if it is a class or a factory; None if it is none.

    Args:
        value: A module, a class, or a function that returns a module.
        name: What to call it.

    Raises:
        ConfigError: It cannot be made.
    """
    if isinstance(value, nn.Module):
        return value
    is_class = inspect.isclass(value) and issubclass(value, nn.Module)
    if not is_class and (inspect.isclass(value) or not callable(value)):
        return None
    if required_of(value):
        thing = thing_of(value, name)
        if is_class and thing.instance is None:
            raise ConfigError(
                f"{name} cannot be made: {thing.refused}; write a function without arguments that returns it, "
                "and check that"
            )
        return thing.module
    try:
        made = value()
    except Exception as error:  # of the user's own code
        raise ConfigError(f"{name}() cannot be made: {type(error).__name__}: {error}") from error
    return made if isinstance(made, nn.Module) else None


def is_whole(model: nn.Module) -> bool:
    """Return whether a module is a whole model and no part: it looks tokens up, or is one of the known stacks."""
    if isinstance(model, STACKS):
        return True
    tables = [part for part in model.modules() if isinstance(part, nn.Embedding)]
    if not tables:
        return looks_up_tokens(model)
    if len(list(model.parameters())) == len(tables):
        return False  # tables alone are embeddings, or positions
    return bool(layer_groups(model)) or looks_up_tokens(model)
