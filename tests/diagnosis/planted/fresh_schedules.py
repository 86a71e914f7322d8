"""More learning rates by step, from 0: up to step 100 (WARMUP_STEPS), then down to step 1000 (TOTAL_STEPS)."""

from __future__ import annotations

import math

WARMUP_STEPS = 100
TOTAL_STEPS = 1000
MAX_LR, MIN_LR = 1e-3, 1e-5

# Right ---------------------------------------------------------------------------------------------------------------


def warmup_cosine(step: int) -> float:
    if step < WARMUP_STEPS:
        return MAX_LR * step / WARMUP_STEPS
    progress = min(1.0, (step - WARMUP_STEPS) / (TOTAL_STEPS - WARMUP_STEPS))
    return MIN_LR + 0.5 * (MAX_LR - MIN_LR) * (1 + math.cos(math.pi * progress))


class CustomSchedule:
    """Keras' tutorial: rsqrt(d_model) * min(rsqrt(step), step * warmup ** -1.5)."""

    def __init__(self, d_model: int = 128, warmup_steps: int = WARMUP_STEPS) -> None:
        self.d_model = d_model
        self.warmup_steps = warmup_steps

    def __call__(self, step: int) -> float:
        step = max(step, 1)
        arg1 = 1 / math.sqrt(step)
        arg2 = step * self.warmup_steps**-1.5
        return 1 / math.sqrt(self.d_model) * min(arg1, arg2)


def trapezoid(step: int) -> float:
    """Warm up, hold, and cool down in the last 300 steps."""
    cooldown = 300
    if step < WARMUP_STEPS:
        return step / WARMUP_STEPS
    if step < TOTAL_STEPS - cooldown:
        return 1.0
    return max(0.0, (TOTAL_STEPS - step) / cooldown)


class PolynomialDecay:
    """A factor: up to 1, then (1 - progress) ** power."""

    def __init__(self, warmup: int = WARMUP_STEPS, total: int = TOTAL_STEPS, power: float = 2.0) -> None:
        self.warmup = warmup
        self.total = total
        self.power = power

    def progress(self, step: int) -> float:
        return min(1.0, (step - self.warmup) / (self.total - self.warmup))

    def __call__(self, step: int) -> float:
        if step < self.warmup:
            return step / self.warmup
        return (1 - self.progress(step)) ** self.power


# Wrong ---------------------------------------------------------------------------------------------------------------


def warmup_cosine_of_total(step: int) -> float:
    """The warm-up is divided by all the steps: a tenth of the way up, then a jump."""
    if step < WARMUP_STEPS:
        return MAX_LR * step / TOTAL_STEPS
    progress = min(1.0, (step - WARMUP_STEPS) / (TOTAL_STEPS - WARMUP_STEPS))
    return MIN_LR + 0.5 * (MAX_LR - MIN_LR) * (1 + math.cos(math.pi * progress))


def warmup_cosine_degrees(step: int) -> float:
    """cos wants radians and is given 180."""
    if step < WARMUP_STEPS:
        return MAX_LR * step / WARMUP_STEPS
    progress = min(1.0, (step - WARMUP_STEPS) / (TOTAL_STEPS - WARMUP_STEPS))
    return MIN_LR + 0.5 * (MAX_LR - MIN_LR) * (1 + math.cos(180 * progress))


def warmup_cosine_minus(step: int) -> float:
    """1 - cos: after the warm-up it begins at the floor and climbs to the top."""
    if step < WARMUP_STEPS:
        return MAX_LR * step / WARMUP_STEPS
    progress = min(1.0, (step - WARMUP_STEPS) / (TOTAL_STEPS - WARMUP_STEPS))
    return MIN_LR + 0.5 * (MAX_LR - MIN_LR) * (1 - math.cos(math.pi * progress))


def warmup_cosine_by_epoch(step: int) -> float:
    """The warm-up is counted in epochs of 25 steps: stairs, with nothing at all on the first."""
    if step < WARMUP_STEPS:
        return MAX_LR * (step // 25) / (WARMUP_STEPS // 25)
    progress = min(1.0, (step - WARMUP_STEPS) / (TOTAL_STEPS - WARMUP_STEPS))
    return MIN_LR + 0.5 * (MAX_LR - MIN_LR) * (1 + math.cos(math.pi * progress))


class PowerWithoutMinus(CustomSchedule):
    """warmup ** 1.5: the second number is never the smaller one, and there is no warm-up."""

    def __call__(self, step: int) -> float:
        step = max(step, 1)
        return 1 / math.sqrt(self.d_model) * min(1 / math.sqrt(step), step * self.warmup_steps**1.5)


class RootNotRsqrt(CustomSchedule):
    """sqrt(step) for tf.math.rsqrt(step): it rises for ever."""

    def __call__(self, step: int) -> float:
        step = max(step, 1)
        return 1 / math.sqrt(self.d_model) * min(math.sqrt(step), step * self.warmup_steps**-1.5)


class StepOfItsOwn(CustomSchedule):
    """Every call is a step: printing the rate moves it on."""

    def __init__(self, d_model: int = 128, warmup_steps: int = WARMUP_STEPS) -> None:
        super().__init__(d_model, warmup_steps)
        self.current = 0

    def __call__(self, step: int) -> float:
        self.current += 1
        return super().__call__(self.current)


def trapezoid_cools_from_zero(step: int) -> float:
    """The cool-down counts from the first step: a cliff where it begins."""
    cooldown = 300
    if step < WARMUP_STEPS:
        return step / WARMUP_STEPS
    if step < TOTAL_STEPS - cooldown:
        return 1.0
    return max(0.0, 1 - step / TOTAL_STEPS)


def trapezoid_two_units(step: int) -> float:
    """A factor while warming up and cooling down, a rate between: 1 falls to 1e-3 and rises to 1 again."""
    cooldown = 300
    if step < WARMUP_STEPS:
        return step / WARMUP_STEPS
    if step < TOTAL_STEPS - cooldown:
        return MAX_LR
    return max(0.0, (TOTAL_STEPS - step) / cooldown)


class ParabolaRisesAgain(PolynomialDecay):
    """Progress is not held at 1, and (1 - progress) ** 2 comes up again on the other side."""

    def progress(self, step: int) -> float:
        return (step - self.warmup) / (self.total - self.warmup)


class FractionTurned(PolynomialDecay):
    """warmup / step: it starts a hundred times too high and falls to 1."""

    def __call__(self, step: int) -> float:
        if step < self.warmup:
            return self.warmup / max(step, 1)
        return super().__call__(step)


class DecaysFromStepZero(PolynomialDecay):
    """The warm-up is not subtracted: where it ends, a fifth is gone already."""

    def progress(self, step: int) -> float:
        return min(1.0, step / self.total)
