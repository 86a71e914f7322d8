"""The learning rate of every update; updates are counted from 1."""

from __future__ import annotations

import math

from glassformer.training.config import TrainingConfig


def learning_rate(step: int, config: TrainingConfig, d_model: int) -> float:
    """Return the learning rate of an update.

    Args:
        step: Number of the update, from 1.
        config: Schedule, peak, warm-up, length and end.
        d_model: Width of the residual stream, which the paper's schedule goes by.
    """
    warmup = config.warmup_steps
    if config.schedule == "paper":
        return paper(step, d_model, warmup, config.lr)
    assert config.lr is not None, "checked when the config was made"
    if step <= warmup:
        return config.lr * step / warmup
    # From the peak to the end, which comes one update after the last: none is made with a rate of 0.
    peak = max(1, warmup)
    progress = (step - peak) / (config.max_steps + 1 - peak)
    return config.lr * decayed(config.schedule, progress, config.final_lr)


def paper(step: int, d_model: int, warmup: int, peak: float | None = None) -> float:
    """Return the paper's learning rate: a linear warm-up, then the inverse square root of the step.

    lr(t) = D^-1/2 min(t^-1/2, t w^-3/2); without warm-up, D^-1/2 t^-1/2.

    Args:
        step: t, from 1.
        d_model: D.
        warmup: w, updates.
        peak: Rescales the whole curve so that this is its largest value; None = the paper's own, (D w)^-1/2.

    Source: Vaswani et al. 2017, arXiv:1706.03762, equation 3.
    """
    rate = min(step**-0.5, step * warmup**-1.5) if warmup else step**-0.5
    scale = d_model**-0.5 if peak is None else peak * max(1, warmup) ** 0.5
    return float(scale * rate)


def decayed(schedule: str, progress: float, final: float) -> float:
    """Return the share of the peak that is left.

    cosine: final + (1 - final) (1 + cos(pi p)) / 2;  linear: final + (1 - final) (1 - p);  constant: 1.

    Args:
        schedule: "cosine", "linear" or "constant".
        progress: p, from 0 at the peak to 1 when training is over.
        final: Share that is left at the end.

    Source: cosine: Loshchilov and Hutter 2016, arXiv:1608.03983, equation 5.
    """
    if schedule == "constant":
        return 1.0
    left = (1 + math.cos(math.pi * progress)) / 2 if schedule == "cosine" else 1 - progress
    return final + (1 - final) * left
