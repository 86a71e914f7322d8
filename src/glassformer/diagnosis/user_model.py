"""Whole models among what users name as FILE.py:NAME."""

from __future__ import annotations

import inspect
from typing import Any

from torch import nn

from glassformer.core.errors import ConfigError
from glassformer.diagnosis.parts.making import required_of, thing_of
from glassformer.diagnosis.plan import looks_up_tokens
from glassformer.diagnosis.structure import layer_groups
from glassformer.models.transformer import Transformer

STACKS = (Transformer, nn.Transformer, nn.TransformerEncoder)


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
    if not any(isinstance(part, nn.Embedding) for part in model.modules()):
        return looks_up_tokens(model)
    return bool(layer_groups(model)) or looks_up_tokens(model)
