"""What the machine itself gives: the arithmetic of its matrix products, and how fast it reads its memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import torch

READ_BYTES = 256 * 2**20
"""Several times what any cache of a processor holds."""


@dataclass(frozen=True)
class Machine:
    """What one program can get of a machine at a time.

    Attributes:
        threads: With so many threads of the CPU.
        float32_gflops: Of a float32 matrix product, in 10^9 operations a second; 2 for each multiply-add.
        bf16_gflops: The same in bf16.
        read_gbs: Read from memory, in 10^9 bytes a second.
    """

    threads: int
    float32_gflops: float
    bf16_gflops: float
    read_gbs: float

    def gflops(self, numbers: str) -> float | None:
        """Return the peak of the products of these numbers; None of numbers that are not measured."""
        return {"float32": self.float32_gflops, "bf16": self.bf16_gflops}.get(numbers)


class Gauge:
    """Measures the machine, each time in a fraction of a second, with the threads that torch has.

    Args:
        side: Rows and columns of the matrices.
        read_bytes: How much memory is read.
    """

    def __init__(self, side: int = 1024, read_bytes: int = READ_BYTES) -> None:
        generator = torch.Generator().manual_seed(0)
        self._matrix = torch.randn(side, side, generator=generator)
        self._half = self._matrix.bfloat16()
        self._long = torch.zeros(read_bytes // 4)

    def measure(self) -> Machine:
        """Return what the machine gives now: of each kind the faster of two tries."""
        operations = 2 * self._matrix.shape[0] ** 3
        return Machine(
            torch.get_num_threads(),
            operations / _seconds(lambda: self._matrix @ self._matrix) / 1e9,
            operations / _seconds(lambda: self._half @ self._half) / 1e9,
            self._long.nbytes / _seconds(self._long.sum) / 1e9,
        )


def typical(samples: Sequence[Machine]) -> Machine:
    """Return the median of each number: what was there for whoever ran in between.

    Args:
        samples: At least one.
    """
    return Machine(
        samples[0].threads,
        median(sample.float32_gflops for sample in samples),
        median(sample.bf16_gflops for sample in samples),
        median(sample.read_gbs for sample in samples),
    )


def _seconds(work: Callable[[], object]) -> float:
    tries = []
    for _ in range(2):
        began = time.perf_counter()
        work()
        tries.append(time.perf_counter() - began)
    return min(tries)
