"""More learning rates by step, from 0: up until step 100 (WARMUP), then down until step 1000 (STEPS)."""

from __future__ import annotations

import math

WARMUP, STEPS, STEPS_PER_EPOCH = 100, 1000, 50
PEAK = 3e-4

# Right ---------------------------------------------------------------------------------------------------------------


class NoamOpt:
    """Harvard's, with the step given; the first step is step 0."""

    def __init__(self, model_size: int = 256, factor: float = 2.0, warmup: int = WARMUP) -> None:
        self.model_size, self.factor, self.warmup = model_size, factor, warmup

    def shape(self, step: int) -> float:
        return min(step**-0.5, step * self.warmup**-1.5)

    def __call__(self, step: int) -> float:
        step += 1
        return self.factor * self.model_size**-0.5 * self.shape(step)


def cosine_lambda(current_step: int) -> float:
    """A factor for LambdaLR."""
    if current_step < WARMUP:
        return current_step / WARMUP
    progress = min(1.0, (current_step - WARMUP) / (STEPS - WARMUP))
    return max(0.0, 0.5 * (1.0 + math.cos(math.pi * progress)))


def linear(start: float, end: float, steps: int, count: int) -> float:
    return start + (end - start) * min(count / steps, 1.0)


def joined(step: int) -> float:
    """A port from JAX: two schedules joined, each counting from its own beginning."""
    if step < WARMUP:
        return linear(0.0, PEAK, WARMUP, step)
    return linear(PEAK, 0.0, STEPS - WARMUP, step - WARMUP)


def by_epoch(step: int) -> float:
    """Up, then 0.8 for each epoch, smoothly."""
    if step < WARMUP:
        return PEAK * (step + 1) / WARMUP
    return PEAK * 0.8 ** ((step - WARMUP) / STEPS_PER_EPOCH)


# Wrong ---------------------------------------------------------------------------------------------------------------


class MaxForMin(NoamOpt):
    def shape(self, step: int) -> float:
        return max(step**-0.5, step * self.warmup**-1.5)


class StepZeroDivides(NoamOpt):
    def __call__(self, step: int) -> float:
        return self.factor * self.model_size**-0.5 * self.shape(step)


def cosine_lambda_unclipped(current_step: int) -> float:
    if current_step < WARMUP:
        return current_step / WARMUP
    progress = (current_step - WARMUP) / (STEPS - WARMUP)
    return max(0.0, 0.5 * (1.0 + math.cos(math.pi * progress)))


def cosine_lambda_floored(current_step: int) -> float:
    if current_step < WARMUP:
        return current_step // WARMUP
    progress = min(1.0, (current_step - WARMUP) / (STEPS - WARMUP))
    return max(0.0, 0.5 * (1.0 + math.cos(math.pi * progress)))


def joined_counts_on(step: int) -> float:
    if step < WARMUP:
        return linear(0.0, PEAK, WARMUP, step)
    return linear(PEAK, 0.0, STEPS - WARMUP, step)


def by_epoch_each_step(step: int) -> float:
    if step < WARMUP:
        return PEAK * (step + 1) / WARMUP
    return PEAK * 0.8 ** (step - WARMUP)
