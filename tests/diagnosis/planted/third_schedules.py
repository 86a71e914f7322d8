"""Learning rates as functions of the step, from well-known repositories, right and wrong.

Steps count from 0; each is meant to rise until WARMUP and, where it has an end, to fall until TOTAL.
"""

from __future__ import annotations

import math

WARMUP = 100
TOTAL = 1000

# Right ---------------------------------------------------------------------------------------------------------------


class NoamRate:
    def __init__(self, model_size: int = 512, factor: float = 2.0, warmup: int = WARMUP) -> None:
        self.model_size, self.factor, self.warmup = model_size, factor, warmup

    def __call__(self, step: int) -> float:
        step = max(step, 1)
        return self.factor * (self.model_size ** (-0.5) * min(step ** (-0.5), step * self.warmup ** (-1.5)))


def cosine_with_warmup(current_step: int) -> float:
    """A factor for LambdaLR."""
    if current_step < WARMUP:
        return current_step / max(1, WARMUP)
    progress = (current_step - WARMUP) / max(1, TOTAL - WARMUP)
    return max(0.0, 0.5 * (1.0 + math.cos(math.pi * min(1.0, progress))))


def linear_by_proportion(step: int, warmup: float = WARMUP / TOTAL) -> float:
    """x is how much of the training is done; warmup, how much of it the warm-up takes."""
    x = step / TOTAL
    if x < warmup:
        return x / warmup
    return max((x - 1.0) / (warmup - 1.0), 0.0)


class InverseSqrtSchedule:
    def __init__(self, lr: float = 5e-4, warmup_init_lr: float = 1e-7, warmup_updates: int = WARMUP) -> None:
        self.lr, self.warmup_init_lr, self.warmup_updates = lr, warmup_init_lr, warmup_updates
        self.lr_step = (lr - warmup_init_lr) / warmup_updates
        self.decay_factor = lr * warmup_updates**0.5

    def __call__(self, num_updates: int) -> float:
        if num_updates < self.warmup_updates:
            return self.warmup_init_lr + num_updates * self.lr_step
        return self.decay_factor * num_updates**-0.5


def cosine_times_warmup(epoch: int, warmup: int = WARMUP, max_num_iters: int = TOTAL) -> float:
    """The cosine runs from the first step on; the warm-up is a factor in front of it."""
    lr_factor = 0.5 * (1 + math.cos(math.pi * min(epoch, max_num_iters) / max_num_iters))
    if epoch <= warmup:
        lr_factor *= epoch * 1.0 / warmup
    return lr_factor


# Wrong ---------------------------------------------------------------------------------------------------------------


class NoamBracket(NoamRate):
    """A bracket too early: the power is of the smaller one, and the rate grows for ever."""

    def __call__(self, step: int) -> float:
        step = max(step, 1)
        return self.factor * (self.model_size ** (-0.5) * min(step ** (-0.5), step * self.warmup) ** (-1.5))


class NoamByEpoch(NoamRate):
    """scheduler.step() at the end of an epoch of 500 steps."""

    def __call__(self, step: int) -> float:
        return super().__call__(step // 500)


class NoamWholeNumbers(NoamRate):
    """// for /: no rate at all, and then all of it at once."""

    def __call__(self, step: int) -> float:
        step = max(step, 1)
        return self.factor * self.model_size**-0.5 * min(step**-0.5, step // self.warmup * self.warmup**-0.5)


def cosine_ends_early(current_step: int) -> float:
    """The period is shortened by the warm-up, the step is not: zero before the end, and up again."""
    if current_step < WARMUP:
        return current_step / max(1, WARMUP)
    progress = current_step / max(1, TOTAL - WARMUP)
    return 0.5 * (1.0 + math.cos(math.pi * progress))


def cosine_without_half(current_step: int) -> float:
    """The warm-up ends at 1, the cosine begins at 2."""
    if current_step < WARMUP:
        return current_step / max(1, WARMUP)
    progress = (current_step - WARMUP) / max(1, TOTAL - WARMUP)
    return 1.0 + math.cos(math.pi * min(1.0, progress))


def linear_below_zero(step: int, warmup: float = WARMUP / TOTAL) -> float:
    """Past the end the rate is negative."""
    x = step / TOTAL
    if x < warmup:
        return x / warmup
    return (x - 1.0) / (warmup - 1.0)


def proportion_for_steps(current_step: int, num_warmup_steps: float = 0.1) -> float:
    """A proportion, where the new function wants steps: no warm-up."""
    if current_step < num_warmup_steps:
        return current_step / max(1, num_warmup_steps)
    return max(0.0, (TOTAL - current_step) / max(1.0, TOTAL - num_warmup_steps))


class InverseSqrtOfStep(InverseSqrtSchedule):
    """Without the decay factor the rate falls to a tenth where the warm-up ends."""

    def __call__(self, num_updates: int) -> float:
        if num_updates < self.warmup_updates:
            return self.warmup_init_lr + num_updates * self.lr_step
        return self.lr * num_updates**-0.5


def cosine_warmup_for_ever(epoch: int, warmup: int = WARMUP, max_num_iters: int = TOTAL) -> float:
    """The if is gone: the factor of the warm-up goes on growing."""
    lr_factor = 0.5 * (1 + math.cos(math.pi * min(epoch, max_num_iters) / max_num_iters))
    lr_factor *= epoch * 1.0 / warmup
    return lr_factor
