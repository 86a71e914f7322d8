"""Forward passes of one generation: the readable way, and the same in less time where that pays.

    off    model(tokens, cache=...), as it is written
    on     steps of one token a row run as one compiled graph
    auto   the readable way; with few rows through packed matrices; compiled once what is left to write is long enough

All that is fast is in this file. It changes no part of a model, and what is unusual (a tape, no cache, a processor that
is none) goes the readable way.
"""

from __future__ import annotations

import shutil
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from statistics import median
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from glassformer.core.cache import KVCache
from glassformer.core.call import Memory
from glassformer.core.errors import GlassformerError
from glassformer.core.places import Places
from glassformer.core.tape import Tape
from glassformer.models.transformer import Transformer

Fast = Literal["auto", "on", "off"]

FEW, MANY = 3, 64
"""Rows from which on, and up to which, packed matrices are faster: fewer wait for memory, more for arithmetic."""

LEAST_NUMBERS = 2**16
"""Of a matrix that is packed; smaller ones stay in the caches of a processor."""

SETTLED = 4
"""Steps after which matrices are packed, which takes as long as about four of them."""

TRIAL = 8
"""Steps after which compiling is thought about, and by which it is then judged."""

SECONDS, SECONDS_A_LAYER = 5.0, 4.5
"""What compiling took on two cores, rounded upwards."""

SAVED = 0.2
"""Share of a step that compiling saved, rounded downwards; more on several threads and in small models."""


class Forward:
    """What gives the scores of the next tokens, step after step, of one generation.

    Args:
        model: The model.
        fast: "off", "on" or "auto".
        expected: Number of steps that may come.
        clock: Returns seconds.
        compiler: Makes a function a compiled one.
    """

    def __init__(
        self,
        model: Transformer,
        fast: Fast,
        expected: int,
        *,
        clock: Callable[[], float] = time.perf_counter,
        compiler: Callable[[Callable[..., Tensor]], Callable[..., Tensor]] | None = None,
    ) -> None:
        self._model, self._fast, self._left = model, fast, expected
        self._clock, self._compiler = clock, compiler or compiled
        self._readable: list[float] = []
        self._quick: list[float] = []
        self._step: Callable[..., Tensor] | None = None
        self._packed: Packed | None = None
        self._rows: int | None = None
        """The number of rows that the compiled graph is for."""

    def __call__(
        self,
        tokens: Int[Tensor, "batch length"],
        places: Places,
        *,
        memory: Memory | None,
        cache: KVCache | None,
        tape: Tape | None,
    ) -> Float[Tensor, "batch vocab"]:
        """Return the scores after each row's last token; see `Transformer.forward`.

        Args:
            tokens: What the cache lacks. *Shape:* (B, T).
            places: Where they stand.
            memory: What an encoder-decoder looks at.
            cache: What was read before.
            tape: What is recorded and changed.
        """
        self._left -= 1
        usual = self._fast != "off" and tape is None and cache is not None and tokens.device.type == "cpu"
        one_each = tokens.shape[1] == 1 and bool(places.is_token.all())
        if not usual or not one_each:
            plain: Tensor = self._model(tokens, places=places, memory=memory, cache=cache, outputs="last", tape=tape)
            return plain
        began = self._clock()
        if self._compiles(tokens.shape[0]):
            try:
                assert self._step is not None, "just decided"
                quick = self._step(self._model, tokens, memory, cache)
            except GlassformerError:
                raise
            except Exception as error:  # compilers raise whatever they like
                self._give_up(error)
            else:
                self._quick.append(self._clock() - began)
                return quick
        with self._packing(tokens.shape[0]):
            scores: Tensor = self._model(tokens, places=places, memory=memory, cache=cache, outputs="last")
        self._readable.append(self._clock() - began)
        return scores

    def _compiles(self, rows: int) -> bool:
        """Whether this step goes through the compiled graph: it is asked for, or what is left will pay for it."""
        if self._step is None and self._rows is None:
            wanted = self._fast == "on" or self._pays()
            if not wanted:
                return False
            self._rows = rows
            if (reason := no_compiler()) is None:
                self._step = self._compiler(step)
            else:
                self._give_up(reason)
        if self._step is None or rows != self._rows:
            return False
        slower = len(self._quick) > TRIAL and median(self._quick[-TRIAL:]) >= median(self._readable or [torch.inf])
        if self._fast == "auto" and slower:
            self._step = None
        return self._step is not None

    def _pays(self) -> bool:
        if len(self._readable) < TRIAL:
            return False
        layers = len(self._model.output_stack.blocks)
        return self._left * median(self._readable) * SAVED > SECONDS + SECONDS_A_LAYER * layers

    def _packing(self, rows: int) -> AbstractContextManager[object]:
        """What a step runs under: matrices are packed once a text has gone on for a while."""
        begun = self._packed is not None or (len(self._readable) >= SETTLED and self._left >= SETTLED)
        if not begun or not FEW <= rows <= MANY:
            return nullcontext()
        if self._packed is None:
            self._packed = Packed()
        return self._packed

    def _give_up(self, reason: object) -> None:
        line = next(iter(str(reason).strip().splitlines()), type(reason).__name__)
        warnings.warn(f"nothing is compiled, so writing goes on the readable way: {line}", stacklevel=4)
        self._step = None


def step(
    model: Transformer, tokens: Int[Tensor, "batch 1"], memory: Memory | None, cache: KVCache
) -> Float[Tensor, "batch vocab"]:
    """Return the scores after one more token of each row; this is what is compiled."""
    scores: Tensor = model(tokens, memory=memory, cache=cache, outputs="last")
    return scores


def compiled(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a function as a compiled graph: one for the first step, and one for all others, whatever their length."""
    made: Callable[..., Tensor] = torch.compile(function, fullgraph=True)
    return made


def no_compiler() -> str | None:
    """Return that there is no C++ compiler, which `torch.compile` needs; None if there is one."""
    there = any(shutil.which(name) for name in ("g++", "clang++", "cl"))
    return None if there else "torch.compile needs a C++ compiler (g++ or clang++), and there is none"


class Packed(TorchFunctionMode):
    """Products of a few rows with matrices in the order in which the processor wants to read them.

    torch's product of 4 to 64 rows in float32 waits for something other than memory or arithmetic; the same library
    call on a packed copy takes half the time. The copy is made at a matrix's first use and lives as long as this.
    """

    def __init__(self) -> None:
        super().__init__()
        self._copies: dict[int, tuple[Tensor, int, Tensor]] = {}

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        given: Mapping[str, Any] = kwargs or {}
        if func is F.linear:
            return self._linear(*args, **given)
        return func(*args, **given)

    def _linear(self, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        fits = input.dtype == weight.dtype == torch.float32 and weight.numel() >= LEAST_NUMBERS and weight.is_leaf
        if not fits or not torch.backends.mkldnn.is_available():
            return F.linear(input, weight, bias)
        product: Tensor = torch.ops.mkldnn._linear_pointwise(input, self._copy(weight), bias, "none", [], "")
        return product

    def _copy(self, weight: Tensor) -> Tensor:
        held, version, copy = self._copies.get(id(weight), (None, -1, weight))
        if held is not weight or version != weight._version:
            copy = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), None)
            self._copies[id(weight)] = weight, weight._version, copy
        return copy
