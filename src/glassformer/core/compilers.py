"""What `torch.compile` needs, and what it can be told."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")


def no_compiler() -> str | None:
    """Return that `torch.compile` has no C++ compiler to work with; None if it has."""
    names = (os.environ.get("CXX", "g++"), "clang++", "cl")
    there = any(shutil.which(name) for name in names)
    return None if there else "torch.compile needs a C++ compiler (g++ or clang++), and there is none"


def own_code(function: Callable[P, R], name: str) -> Callable[P, R]:
    """Return the same function with code of its own.

    torch remembers by code, and by its name, how many graphs were made (8 are its limit) and which numbers varied. Of
    one function for all models the width of a model would be such a number, and after four models none is compiled.

    Args:
        function: One of Python's; it may be a closure.
        name: What else has this name shares what varied.
    """
    assert isinstance(function, FunctionType), "only these have code"
    code = function.__code__.replace(co_name=name)
    made = FunctionType(code, function.__globals__, name, function.__defaults__, function.__closure__)
    return cast(Callable[P, R], made)


def is_compiler_error(error: Exception) -> bool:
    """Return whether an error says that no graph was made, and not that a graph went wrong."""
    from torch._dynamo.exc import FailOnRecompileLimitHit, TorchDynamoException  # takes a second to import

    return isinstance(error, TorchDynamoException | FailOnRecompileLimitHit)


def reason_of(error: Exception) -> str:
    """Return in one line why no graph was made."""
    if isinstance(error, OSError):  # of torch's cache folder, without which its compiler cannot even be imported
        return f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")
    from torch._dynamo.exc import FailOnRecompileLimitHit

    if isinstance(error, FailOnRecompileLimitHit):
        return "torch makes no more graphs of this model in this process; a new process makes them"
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return " ".join(lines[:2])  # a compiler's second line says what the first one only announces


@contextmanager
def without_logs() -> Iterator[None]:
    """torch prints pages where it cannot make a graph, and then raises or goes on; `reason_of` has its line."""
    logs = [logging.getLogger(name) for name in ("torch._dynamo", "torch._functorch")]
    before = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for log, level in zip(logs, before, strict=True):
            log.setLevel(level)


@contextmanager
def graphs_noticed(begun: Callable[[], object], done: Callable[[], object]) -> Iterator[None]:
    """Call one function before torch makes a graph, and the other when it is made or has failed."""
    from torch._dynamo.callback import CallbackArgs, callback_handler  # takes a second to import

    def before(arguments: CallbackArgs) -> None:
        begun()

    def after(arguments: CallbackArgs) -> None:
        done()

    callback_handler.register_start_callback(before)
    callback_handler.register_end_callback(after)
    try:
        yield
    finally:
        callback_handler.remove_start_callback(before)
        callback_handler.remove_end_callback(after)


@contextmanager
def equal_sizes_apart() -> Iterator[None]:
    """torch takes sizes that are equal in the first batch for one size, and makes another graph when they differ."""
    from torch.fx.experimental import _config

    before, _config.use_duck_shape = _config.use_duck_shape, False
    try:
        yield
    finally:
        _config.use_duck_shape = before
