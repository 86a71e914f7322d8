"""What attention costs as texts grow longer: time and memory of each type, and the power of the length they grow as.

One causal attention on one thread, forward alone and forward with backward, by the kernel that "auto" takes. The types
take turns at each length, so that whatever else the machine does falls on all; the fastest of the turns counts. Memory
is the peak of a process of its own above what it had when it began (Linux only).

    python bench/attention_cost.py [--lengths 2048 4096 8192 16384] [--turns 3] [--heads 2] [--d-head 64]

Exits with 1 if a power is outside of what is promised of it.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from torch import Tensor

from glassformer.core.call import Sight
from glassformer.core.mask import Mask
from glassformer.core.pattern import Blocks
from glassformer.core.places import Places
from glassformer.kernels.registry import choose_kernel


@dataclass(frozen=True)
class Variant:
    """A type of attention, what it hides, and the bounds of the powers: of time with backward, and of memory."""

    type: str
    mask: Mask
    time: tuple[float, float] = (0.0, math.inf)
    memory: tuple[float, float] = (0.0, 1.2)


VARIANTS = {
    "full": Variant("softmax", Mask(causal=True), time=(1.7, 2.2)),
    "window 128": Variant("softmax", Mask(causal=True, window=128), time=(0.0, 1.15)),
    "blocks": Variant("softmax", Mask(causal=True, patterns=(Blocks(64, near=1, first=1, random=2),))),
    "linear": Variant("linear", Mask(causal=True)),
}


@dataclass(frozen=True)
class Size:
    """Heads, their width, and how many tokens."""

    heads: int
    d_head: int
    length: int


def inputs(size: Size, *, gradients: bool) -> list[Tensor]:
    """q, k and v as a projection leaves them: positions before heads."""
    generator = torch.Generator().manual_seed(0)
    shape = (1, size.length, size.heads, size.d_head)
    return [torch.randn(shape, generator=generator).transpose(1, 2).requires_grad_(gradients) for _ in ("q", "k", "v")]


def attend(variant: Variant, leaves: Sequence[Tensor]) -> tuple[Tensor, str]:
    q, k, v = leaves
    places = Places.full(q.shape[2])
    sight = Sight.of(variant.mask, places, places)
    kernel = choose_kernel("auto", sight, of=variant.type)
    return kernel.attend(q, k, v, sight, scale=q.shape[-1] ** -0.5), kernel.name


def seconds(variant: Variant, size: Size, *, backward: bool) -> float:
    leaves = inputs(size, gradients=backward)
    began = time.perf_counter()
    out, _ = attend(variant, leaves)
    if backward:
        out.sum().backward()
    return time.perf_counter() - began


def resident(what: str) -> int:
    """A number of this process's memory in MiB: "VmRSS" now, "VmHWM" at its peak."""
    found = re.search(rf"{what}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None, "Linux says how much memory a process has"
    return int(found[1])


def measure_memory(variant: Variant, size: Size, answer: Connection) -> None:
    seconds(variant, replace(size, length=512), backward=True)  # torch's own code is then in memory
    before = resident("VmRSS")
    seconds(variant, size, backward=True)
    answer.send((resident("VmHWM") - before) / 1024)


def memory(variant: Variant, size: Size) -> float:
    """Peak of forward and backward in MiB; the process begins as a copy of this one, with all that is imported."""
    here, there = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=measure_memory, args=(variant, size, there))
    process.start()
    there.close()
    peak: float = here.recv()
    process.join()
    return peak


def power(lengths: Sequence[int], values: Sequence[float]) -> float:
    """The exponent p of values = a length^p, by least squares of the logarithms."""
    x, y = [math.log(length) for length in lengths], [math.log(value) for value in values]
    middle, height = sum(x) / len(x), sum(y) / len(y)
    return sum((a - middle) * (b - height) for a, b in zip(x, y, strict=True)) / sum((a - middle) ** 2 for a in x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[2048, 4096, 8192, 16384])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--heads", type=int, default=2)
    parser.add_argument("--d-head", type=int, default=64)
    options = parser.parse_args()
    torch.set_num_threads(1)
    sizes = [Size(options.heads, options.d_head, length) for length in options.lengths]
    # Before any backward pass here: autograd does not go on in the copy of a process that has used it.
    peaks = {name: [memory(variant, size) for size in sizes] for name, variant in VARIANTS.items()}
    times = {(name, backward): [math.inf] * len(sizes) for name in VARIANTS for backward in (False, True)}
    for _ in range(options.turns):
        for i, size in enumerate(sizes):
            for (name, backward), best in times.items():
                best[i] = min(best[i], seconds(VARIANTS[name], size, backward=backward))

    print(f"{options.heads} heads of {options.d_head}, one row, causal; the fastest of {options.turns} turns")
    print(f"{'':28}" + "".join(f"{f'T={length}':>11}" for length in options.lengths) + f"{'power':>8}")
    missed = []
    for name, variant in VARIANTS.items():
        rows = (
            ("forward, ms", [1000 * value for value in times[name, False]], (0.0, math.inf)),
            ("with backward, ms", [1000 * value for value in times[name, True]], variant.time),
            ("peak memory, MiB", peaks[name], variant.memory),
        )
        for what, values, (low, high) in rows:
            exponent = power(options.lengths, values)
            print(f"{name:11}{what:17}" + "".join(f"{value:11.1f}" for value in values) + f"{exponent:8.2f}")
            if not low <= exponent <= high:
                missed.append(f"{name}, {what}: {exponent:.2f} is not within {low} and {high}")
        with torch.no_grad():
            print(f"{'':11}by the kernel {attend(variant, inputs(sizes[-1], gradients=False))[1]}")
    if missed:
        raise SystemExit("\n".join(missed))


if __name__ == "__main__":
    main()
