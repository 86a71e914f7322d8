"""Learning rates as functions of the step: what people hand to LambdaLR or call themselves, right and wrong.

Steps count from 0. WARMUP and MAX_STEPS say what each is meant to do: rise until WARMUP, fall until MAX_STEPS.
"""

from __future__ import annotations

import math

WARMUP = 100
MAX_STEPS = 1000

# Right ---------------------------------------------------------------------------------------------------------------


def rate(step: int, model_size: int = 512, factor: float = 1.0, warmup: int = WARMUP) -> float:
    """The paper's; step 0 counts as 1."""
    if step == 0:
        step = 1
    return factor * (model_size ** (-0.5) * min(step ** (-0.5), step * warmup ** (-1.5)))


def get_lr(it: int) -> float:
    """nanoGPT's: linear warm-up, cosine, floor."""
    learning_rate, min_lr = 6e-4, 6e-5
    if it < WARMUP:
        return learning_rate * (it + 1) / (WARMUP + 1)
    if it > MAX_STEPS:
        return min_lr
    decay_ratio = (it - WARMUP) / (MAX_STEPS - WARMUP)
    coeff = 0.5 * (1.0 + math.cos(math.pi * decay_ratio))
    return min_lr + coeff * (learning_rate - min_lr)


class LinearWithWarmup:
    """A factor for LambdaLR: up to 1, then straight down to 0."""

    def __init__(self, num_warmup_steps: int = WARMUP, num_training_steps: int = MAX_STEPS) -> None:
        self.num_warmup_steps = num_warmup_steps
        self.num_training_steps = num_training_steps

    def warm(self, current_step: int) -> float:
        return current_step / max(1, self.num_warmup_steps)

    def fall(self, current_step: int) -> float:
        left = self.num_training_steps - current_step
        return max(0.0, left / max(1, self.num_training_steps - self.num_warmup_steps))

    def __call__(self, current_step: int) -> float:
        if current_step < self.num_warmup_steps:
            return self.warm(current_step)
        return self.fall(current_step)


class InverseSquareRoot(LinearWithWarmup):
    """fairseq's: up to 1, then sqrt(warmup / step)."""

    def fall(self, current_step: int) -> float:
        return math.sqrt(self.num_warmup_steps / current_step)


# Wrong ---------------------------------------------------------------------------------------------------------------


def rate_step_zero(step: int, model_size: int = 512, factor: float = 1.0, warmup: int = WARMUP) -> float:
    """0 ** -0.5 at the first step."""
    return factor * (model_size ** (-0.5) * min(step ** (-0.5), step * warmup ** (-1.5)))


def rate_max(step: int, model_size: int = 512, factor: float = 1.0, warmup: int = WARMUP) -> float:
    """max where min was meant: it begins high, falls to the end of the warm-up and rises for ever."""
    step = max(step, 1)
    return factor * (model_size ** (-0.5) * max(step ** (-0.5), step * warmup ** (-1.5)))


def rate_late_peak(step: int, model_size: int = 512, factor: float = 1.0, warmup: int = WARMUP) -> float:
    """warmup ** -1 where warmup ** -1.5 was meant: the two curves meet at step warmup ** (2 / 3)."""
    step = max(step, 1)
    return factor * (model_size ** (-0.5) * min(step ** (-0.5), step * warmup ** (-1.0)))


def rate_never_falls(step: int, model_size: int = 512, factor: float = 1.0, warmup: int = WARMUP) -> float:
    """The rate stays where the warm-up ended."""
    step = max(step, 1)
    return factor * (model_size ** (-0.5) * min(warmup ** (-0.5), step * warmup ** (-1.5)))


def get_lr_without_pi(it: int) -> float:
    """cos(ratio) without pi: the decay stops at half way up."""
    learning_rate, min_lr = 6e-4, 6e-5
    if it < WARMUP:
        return learning_rate * (it + 1) / (WARMUP + 1)
    if it > MAX_STEPS:
        return min_lr
    decay_ratio = (it - WARMUP) / (MAX_STEPS - WARMUP)
    coeff = 0.5 * (1.0 + math.cos(decay_ratio))
    return min_lr + coeff * (learning_rate - min_lr)


def get_lr_rises_again(it: int) -> float:
    """After MAX_STEPS the cosine goes on, and up again."""
    learning_rate, min_lr = 6e-4, 6e-5
    if it < WARMUP:
        return learning_rate * (it + 1) / (WARMUP + 1)
    decay_ratio = (it - WARMUP) / (MAX_STEPS - WARMUP)
    coeff = 0.5 * (1.0 + math.cos(math.pi * decay_ratio))
    return min_lr + coeff * (learning_rate - min_lr)


def get_lr_jump(it: int) -> float:
    """The decay counts from step 0: it starts at half height where the warm-up ends."""
    learning_rate, min_lr, warmup = 6e-4, 6e-5, 500
    if it < warmup:
        return learning_rate * (it + 1) / (warmup + 1)
    coeff = 0.5 * (1.0 + math.cos(math.pi * min(1.0, it / MAX_STEPS)))
    return min_lr + coeff * (learning_rate - min_lr)


def get_lr_warm_down(it: int) -> float:
    """The warm-up counts what is left of it."""
    learning_rate, min_lr = 6e-4, 6e-5
    if it < WARMUP:
        return learning_rate * (WARMUP - it) / WARMUP
    if it > MAX_STEPS:
        return min_lr
    decay_ratio = (it - WARMUP) / (MAX_STEPS - WARMUP)
    coeff = 0.5 * (1.0 + math.cos(math.pi * decay_ratio))
    return min_lr + coeff * (learning_rate - min_lr)


class WarmupInWholeNumbers(LinearWithWarmup):
    """// gives 0 until the warm-up is over."""

    def warm(self, current_step: int) -> float:
        return float(current_step // max(1, self.num_warmup_steps))


class BelowZero(LinearWithWarmup):
    """Nothing holds the line at 0: after the end the rate is negative."""

    def fall(self, current_step: int) -> float:
        left = self.num_training_steps - current_step
        return left / max(1, self.num_training_steps - self.num_warmup_steps)


class CountsTwice(LinearWithWarmup):
    """It keeps a count of its own and adds the step it is given."""

    def __init__(self, num_warmup_steps: int = WARMUP, num_training_steps: int = MAX_STEPS) -> None:
        super().__init__(num_warmup_steps, num_training_steps)
        self.steps = 0

    def __call__(self, current_step: int) -> float:
        self.steps += 1
        return super().__call__(current_step + self.steps)


class PeakTooLate(InverseSquareRoot):
    """The warm-up was meant in steps and is counted in accumulated batches of four."""

    def __call__(self, current_step: int) -> float:
        return super().__call__(current_step // 4)


class SquareRootWithoutWarmup(InverseSquareRoot):
    """1 / sqrt(step) after the warm-up: from 1 it drops to a tenth in one step."""

    def fall(self, current_step: int) -> float:
        return 1.0 / math.sqrt(current_step)
