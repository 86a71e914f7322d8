"""How many threads of the processor an update is quickest with."""

from __future__ import annotations

import time
from statistics import median

import torch

from glassformer.training.divergence import RandomState
from glassformer.training.trainer import Trainer

TRIES = 3


def fastest_threads(trainer: Trainer) -> int:
    """Return 1 or as many as torch would take: whichever makes forward and backward pass of the first batch sooner.

    More than one must be a tenth faster than one, or others are left without for nothing. Nothing is learned, and the
    random state stays what it was.

    Args:
        trainer: Before its first update.
    """
    most = torch.get_num_threads()
    if most == 1:
        return 1
    batch, random = next(trainer.windows())[0], RandomState.now(trainer.model.device)
    times: dict[int, list[float]] = {1: [], most: []}
    trainer.model.train()
    for number in [*times] * (TRIES + 1):
        torch.set_num_threads(number)
        began = time.perf_counter()
        trainer.plain_loss(batch).sum.backward()
        times[number].append(time.perf_counter() - began)
        trainer.optimizer.zero_grad(set_to_none=True)
        random.restore()
    torch.set_num_threads(most)
    one, many = (median(seconds[1:]) for seconds in times.values())  # the first warms up
    return most if many < 0.9 * one else 1
