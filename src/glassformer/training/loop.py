"""The training loop, whole."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence

from glassformer.core.errors import DivergenceError
from glassformer.core.metric import METRICS
from glassformer.inspection.growth import GrowthWatch
from glassformer.training.callback import Callback, Interval
from glassformer.training.evaluate import evaluate, greedy
from glassformer.training.interrupt import StopNow
from glassformer.training.layer_norms import norms_on
from glassformer.training.trainer import Trainer, Update


def fit(trainer: Trainer, callbacks: Sequence[Callback], interrupted: Callable[[], bool] = lambda: False) -> None:
    """Train until max_steps, or until patience or the user ends it.

    Args:
        trainer: Model, data, optimizer, progress; a resumed one goes on where it was.
        callbacks: What is done beside the loop.
        interrupted: Asked after every update; True ends the loop as if it had not begun the next one. `StopNow` in an
            update ends it as if it had not begun this one.

    Raises:
        DivergenceError: A loss, a gradient or a parameter is not finite.
    """
    config, progress = trainer.config, trainer.progress
    watch = GrowthWatch()
    began = time.perf_counter() - progress.seconds
    for callback in callbacks:
        callback.started(trainer)

    def tell(text: str) -> None:
        for callback in callbacks:
            callback.told(trainer, progress.step, text)

    trainer.compiling.tell = tell
    windows = trainer.windows()
    while progress.step < config.max_steps and not _out_of_patience(trainer) and not interrupted():
        with trainer.timed("data"):
            window = next(windows)
        try:
            update = trainer.update(window)
        except StopNow:
            break
        progress.seconds = time.perf_counter() - began
        if _due(update.step, config.log_every, config.max_steps):
            _log(trainer, update, callbacks)
        if config.norms_every is not None and (
            update.step == 1 or _due(update.step, config.norms_every, config.max_steps)
        ):
            _look(trainer, norms_on(trainer.model, window[0]), watch, callbacks)
        if _due(update.step, config.eval_every, config.max_steps):
            with trainer.average.applied():
                metrics, better = judge(trainer)
                progress.seconds = time.perf_counter() - began
                for callback in callbacks:
                    callback.evaluated(trainer, "valid", metrics, better)
        for callback in callbacks:
            callback.updated(trainer, update)
    progress.finished = progress.step >= config.max_steps or _out_of_patience(trainer)
    for callback in callbacks:
        callback.ended(trainer)


def judge(trainer: Trainer) -> tuple[dict[str, float | str], bool]:
    """Evaluate on the validation split; remember its best; return the metrics, and whether this model is kept.

    Raises:
        DivergenceError: The loss is not finite: a model that is compared with NaN is never better.
    """
    config, progress, data = trainer.config, trainer.progress, trainer.data
    metrics = evaluate(trainer, data.valid, greedy(data.judging))
    if not math.isfinite(float(metrics["loss"])):
        raise DivergenceError(
            f"the validation loss after update {progress.step} is {metrics['loss']}; the last good state is kept\n"
            f"{trainer.why_not_finite(validation=True)}"
        )
    last = config.select_by == "last"
    value = float(progress.step if last else metrics[config.select_by])
    higher = last or METRICS[config.select_by].higher_is_better
    improved = progress.best is None or (value > progress.best if higher else value < progress.best)
    # Of two models that answer equally well the newer one is kept: it has learned for longer.
    kept = improved or (higher and value == progress.best)
    if kept:
        progress.best, progress.best_step = value, progress.step
    progress.stale = 0 if improved else progress.stale + 1
    return metrics, kept


def _due(step: int, every: int | None, last: int) -> bool:
    return step == last or (every is not None and step % every == 0)


def _out_of_patience(trainer: Trainer) -> bool:
    patience = trainer.config.patience
    return patience is not None and trainer.progress.stale >= patience


def _log(trainer: Trainer, update: Update, callbacks: Sequence[Callback]) -> None:
    progress = trainer.progress
    interval = Interval(
        update.step,
        progress.logged_loss / progress.logged_tokens,
        update.lr,
        update.grad_norm,
        progress.logged_tokens / max(progress.logged_seconds, 1e-9),
        progress.seconds,
    )
    progress.logged_loss, progress.logged_tokens, progress.logged_seconds = 0.0, 0, 0.0
    for callback in callbacks:
        callback.logged(trainer, interval)


def _look(trainer: Trainer, norms: Mapping[str, float], watch: GrowthWatch, callbacks: Sequence[Callback]) -> None:
    step = trainer.progress.step
    warning = watch.observe(step, norms)
    for callback in callbacks:
        callback.norms(trainer, step, norms)
        if warning is not None:
            callback.warned(trainer, step, warning)
