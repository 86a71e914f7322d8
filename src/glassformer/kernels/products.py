"""Products of rows with a matrix, in C++ of our own (products.cpp), for writing."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from glassformer.core.native import load_library
from glassformer.kernels.operators import OPERATORS

FEW, SOME = 4, 12
"""From how many rows on, and up to how many, our product in float32 is faster than torch's."""

SOME_INT8 = 16
"""Up to how many rows ours is faster than torch's product of whole numbers, which takes the others."""

LEAST = torch.finfo(torch.float32).tiny
"""Of a row of zeros: what its levels are divided by."""

OPERATORS.define("linear(Tensor x, Tensor weight, Tensor? bias) -> Tensor")
OPERATORS.define("linear_int8(Tensor x, Tensor levels, Tensor steps, Tensor? bias) -> Tensor")


@cache
def library() -> ctypes.CDLL | None:
    """Return the functions of products.cpp; None where they cannot be compiled."""
    found = load_library(Path(__file__).with_suffix(".cpp"))
    if found is None:
        return None
    array, size, number, threads = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float, ctypes.c_int
    found.linear.argtypes = [*[array] * 4, *[size] * 3, threads]
    found.linear_int8.argtypes = [*[array] * 5, *[size] * 3, number, threads]
    found.round_rows.argtypes = [*[array] * 3, *[size] * 2, number, threads]
    found.rescale.argtypes = [*[array] * 5, *[size] * 2, threads]
    return found


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    functions = library()
    assert functions is not None, "asked for only where it is there"
    x, weight, bias = _dense(x), _dense(weight), None if bias is None else _dense(bias)
    outputs, columns = _fitting(x, weight, bias)
    out = x.new_empty(*x.shape[:-1], outputs)
    arrays = x.data_ptr(), weight.data_ptr(), _address(bias), out.data_ptr()
    functions.linear(*arrays, x.numel() // columns, columns, outputs, torch.get_num_threads())
    return out


def _linear_int8(x: Tensor, levels: Tensor, steps: Tensor, bias: Tensor | None) -> Tensor:
    functions = library()
    assert functions is not None, "asked for only where it is there"
    x, steps, bias = _dense(x), _dense(steps), None if bias is None else _dense(bias)
    levels, threads = _dense(levels, torch.int8), torch.get_num_threads()
    outputs, columns = _fitting(x, levels, bias, steps)
    rows = x.numel() // columns
    if rows <= SOME_INT8:
        out = x.new_empty(*x.shape[:-1], outputs)
        arrays = x.data_ptr(), levels.data_ptr(), steps.data_ptr(), _address(bias), out.data_ptr()
        functions.linear_int8(*arrays, rows, columns, outputs, LEAST, threads)
        return out
    of_rows, step = x.new_empty(rows, columns, dtype=torch.int8), x.new_empty(rows)
    functions.round_rows(x.data_ptr(), of_rows.data_ptr(), step.data_ptr(), rows, columns, LEAST, threads)
    sums = torch._int_mm(of_rows, levels.t())
    out = sums.view(torch.float32)  # in the same place
    arrays = sums.data_ptr(), step.data_ptr(), steps.data_ptr(), _address(bias), out.data_ptr()
    functions.rescale(*arrays, rows, outputs, threads)
    return out.view(*x.shape[:-1], outputs)


def _dense(array: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    if array.dtype != dtype:
        raise RuntimeError(f"here are numbers in {array.dtype}, where {dtype} is expected")
    return array.contiguous()


def _fitting(x: Tensor, matrix: Tensor, *of_rows: Tensor | None) -> tuple[int, int]:
    """Rows and columns of a matrix; what stands for its rows has one number for each."""
    rows, columns = matrix.shape
    if x.shape[-1] != columns or any(each is not None and each.numel() != rows for each in of_rows):
        shapes = [tuple(each.shape) for each in (x, matrix, *of_rows) if each is not None]
        raise RuntimeError(f"shapes that do not fit: {shapes}")
    return rows, columns


def _address(array: Tensor | None) -> int | None:
    return None if array is None else array.data_ptr()


OPERATORS.impl("linear", _linear, "CPU")
OPERATORS.impl("linear_int8", _linear_int8, "CPU")


def _shape(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return x.new_empty(*x.shape[:-1], weight.shape[0])


def _shape_int8(x: Tensor, levels: Tensor, steps: Tensor, bias: Tensor | None) -> Tensor:
    return x.new_empty(*x.shape[:-1], levels.shape[0])


torch.library.register_fake("glassformer::linear", _shape)
torch.library.register_fake("glassformer::linear_int8", _shape_int8)

linear: Callable[[Tensor, Tensor, Tensor | None], Tensor] = torch.ops.glassformer.linear.default
linear_int8: Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor] = torch.ops.glassformer.linear_int8.default
