"""What the machine gives is a positive number of each kind, and a median over the rounds."""

from __future__ import annotations

import torch

from glassformer.bench.machine import Gauge, Machine, typical


def test_gauge_measures_every_kind() -> None:
    machine = Gauge(side=64, read_bytes=2**16).measure()
    assert machine.threads == torch.get_num_threads()
    assert min(machine.float32_gflops, machine.bf16_gflops, machine.read_gbs) > 0


def test_typical_is_the_median_of_each_number() -> None:
    samples = [Machine(2, 10.0, 7.0, 1.0), Machine(2, 30.0, 5.0, 2.0), Machine(2, 20.0, 9.0, 9.0)]
    assert typical(samples) == Machine(2, 20.0, 7.0, 2.0)


def test_peaks_are_known_by_their_numbers() -> None:
    machine = Machine(2, 20.0, 7.0, 2.0)
    assert [machine.gflops(numbers) for numbers in ("float32", "bf16", "int8")] == [20.0, 7.0, None]
