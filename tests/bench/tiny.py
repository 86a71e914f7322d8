"""Work of each kind that takes no time."""

from __future__ import annotations

from dataclasses import replace

from glassformer.bench.workloads import WORK, Decoding, PairTraining, Training, Translation
from glassformer.models.arguments import ModelArguments


def training() -> Training:
    work = WORK["train"]["small"][0]
    assert isinstance(work, Training)
    return replace(work, arguments=_narrow(work), rows=2, length=16)


def pair_training() -> PairTraining:
    work = WORK["train"]["small"][1]
    assert isinstance(work, PairTraining)
    return replace(work, arguments=_narrow(work), tokens=200)


def decoding(*, new: int = 4) -> Decoding:
    work = WORK["decode"]["small"][1]
    assert isinstance(work, Decoding)
    arguments = work.arguments.model_copy(update={"d_model": 64, "n_heads": 2, "n_layers": 2, "d_ff": 96})
    return replace(work, arguments=arguments, vocab_size=128, rows=2, prompt=6, new=new)


def translation(beam: int) -> Translation:
    work = WORK["translate"]["small"][0]
    assert isinstance(work, Translation)
    return replace(work, vocab_size=96, sentences=6, length=5, beam=beam)


def _narrow(work: Training | PairTraining) -> ModelArguments:
    return work.arguments.model_copy(update={"d_model": 32, "n_heads": 2, "n_layers": 1})
