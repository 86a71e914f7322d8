"""One update of the parameters, and all that it changes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import count, islice

import torch

from glassformer.core.errors import ConfigError, DivergenceError
from glassformer.core.places import IGNORED
from glassformer.data.batch import Batch
from glassformer.data.order import BatchOrder, Order, TokenOrder
from glassformer.data.source import HasLengths, Source, loader
from glassformer.models.output import Loss
from glassformer.models.quantise import refuse_learning
from glassformer.models.transformer import Transformer
from glassformer.tasks.task import TaskData
from glassformer.text.tokenizer import TextTokenizer
from glassformer.training.average import Average
from glassformer.training.bad_update import Made, describe_bad_parameters
from glassformer.training.compiling import Compiling
from glassformer.training.config import TrainingConfig
from glassformer.training.divergence import Failure, RandomState, explain_validation
from glassformer.training.evaluate import judged_batches
from glassformer.training.objective import objective, unit
from glassformer.training.optimizer import build_optimizer
from glassformer.training.precision import Precision
from glassformer.training.progress import Progress
from glassformer.training.schedule import learning_rate


@dataclass(frozen=True)
class Update:
    """What one update of the parameters was.

    Attributes:
        step: Its number, from 1.
        loss: Nats per target (token, or labelled text), before the update.
        lr: The learning rate that was used.
        grad_norm: Norm of the gradient, before clipping.
        tokens: Targets.
        seconds: How long it took, without what it took to compile.
    """

    step: int
    loss: float
    lr: float
    grad_norm: float
    tokens: int
    seconds: float


class Trainer:
    """Model, optimizer, data and progress of a run.

    Args:
        model: On its device.
        data: The task's.
        config: How it is trained.
        precision: In which numbers.
        start: What is said of the checkpoint that the model comes from; None = it is new.
    """

    def __init__(
        self,
        model: Transformer,
        data: TaskData,
        config: TrainingConfig,
        precision: Precision,
        start: str | None = None,
    ) -> None:
        refuse_learning(model)
        self.model, self.data, self.config, self.precision = model, data, config, precision
        self.start = start
        self.optimizer = build_optimizer(model, config)
        self.scaler = torch.amp.GradScaler(precision.device_type, enabled=precision.name == "fp16")
        self.order = batch_order(data.train, config)
        self.average = Average(model)
        self.progress = Progress()
        self.made: Made | None = None
        self.d_model = model.config.output_stack.input.d_model
        self.compiling = Compiling(model, config, data.train)
        self.timed: Callable[[str], AbstractContextManager[object]] = _untimed

    @property
    def tokenizer(self) -> TextTokenizer:
        """The task's vocabulary: a trainer can be asked to write, like any loaded model."""
        return self.data.tokenizer

    @property
    def unit(self) -> str:
        """What is learned and counted: "tokens", or labelled "texts"."""
        return unit(self.model)

    def windows(self) -> Iterator[list[Batch]]:
        """Yield the batches of each update, going on from wherever the progress says, for ever.

        The last window of an epoch may hold fewer batches; it is weighted by its own tokens like any other.
        """
        for epoch in count(self.progress.epoch):
            start = self.progress.batch if epoch == self.progress.epoch else 0
            batches = iter(loader(self.data.train, self.order, epoch, start, self.config.workers))
            while window := list(islice(batches, self.config.accumulate)):
                self.progress.epoch = epoch
                yield window

    def update(self, window: Sequence[Batch]) -> Update:
        """Make one update from the batches of a window, as if they were one batch.

        The loss is divided once, by the target tokens of the whole window.

        Raises:
            DivergenceError: A loss or gradient is not finite; the parameters are as they were. The message says whether
                forward pass, backward pass or the update before went wrong, where, and at which token.
            KeyboardInterrupt: In its forward or backward pass, after which it is as if it had not begun.
        """
        began = time.perf_counter()
        step, tokens = self.progress.step + 1, max(1, sum(_targets(batch) for batch in window))
        random = RandomState.now(self.model.device)
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        try:
            total = self._backward(window, tokens)
        except KeyboardInterrupt:
            random.restore()
            raise
        with self.timed("optimizer"):
            norm = self._gradient_norm()
        loss_sum, grad_norm = torch.stack((total, norm.to(total.dtype))).tolist()
        finite = math.isfinite(loss_sum) and math.isfinite(grad_norm)
        # What overflows at a scale above 1 may fit at a smaller one: the scaler leaves this update out and halves it.
        overflowed = not finite and math.isfinite(loss_sum) and self.scaler.get_scale() > 1.0
        if not (finite or overflowed):
            raise DivergenceError(self._failure(step, window, tokens, loss_sum, random).explain())
        with self.timed("optimizer"):
            lr = self._step(step, norm)
        making = self.compiling.spent()
        seconds = time.perf_counter() - began - making
        self.progress.skipped += overflowed
        self.made = Made(step, grad_norm, self.config.clip, _items(window), self.progress.epoch)
        self._count(len(window), tokens, loss_sum, seconds)
        if not making:
            self.compiling.measured(seconds, tokens, self.config.max_steps - step)
        if step >= self.config.average_from:
            self.average.take()
        return Update(step, loss_sum / tokens, lr, grad_norm, tokens, seconds)

    def _backward(self, window: Sequence[Batch], tokens: int) -> torch.Tensor:
        """Add up the gradients of the mean loss over all batches; return the sum of their losses."""
        total = torch.zeros((), device=self.model.device)
        for batch in window:
            total += self._pass(batch, tokens)
        self.scaler.unscale_(self.optimizer)
        return total

    def _pass(self, batch: Batch, tokens: int) -> torch.Tensor:
        """Send the loss of a batch back and return it; if no graph comes about, again without, from the same draws."""
        random = RandomState.now(self.model.device) if self.compiling.compiles else None
        try:
            with self.compiling.noticed():
                with self.timed("forward"):
                    loss = self._loss(batch).sum
                with self.timed("backward"):
                    self._send_back(loss, tokens)
        except Exception as error:  # compilers raise whatever they like
            if random is None or not self.compiling.gives_up(error):
                raise
            random.restore()
        else:
            return loss.detach()
        return self._pass(batch, tokens)

    def _send_back(self, loss: torch.Tensor, tokens: int) -> None:
        self.scaler.scale(loss / tokens).backward()

    def _gradient_norm(self) -> torch.Tensor:
        """The norm of all gradients, before anything is scaled by it: one that is NaN would make them all NaN."""
        return torch.nn.utils.get_total_norm([p.grad for p in self.model.parameters() if p.grad is not None])

    def _step(self, step: int, norm: torch.Tensor) -> float:
        """Clip, and change the parameters; return the learning rate that was used."""
        lr = learning_rate(step, self.config, self.d_model)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        if self.config.clip is not None:
            torch.nn.utils.clip_grads_with_norm_(self.model.parameters(), self.config.clip, norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return lr

    def _loss(self, batch: Batch) -> Loss:
        with self.precision.autocast():
            return self.compiling.objective(batch.to(self.model.device))

    def plain_loss(self, batch: Batch) -> Loss:
        """The same, never compiled: what is looked for goes module by module."""
        with self.precision.autocast():
            return objective(self.model, batch.to(self.model.device), label_smoothing=self.config.label_smoothing)

    def _count(self, batches: int, tokens: int, loss_sum: float, seconds: float) -> None:
        progress = self.progress
        progress.step += 1
        progress.batch += batches
        if progress.batch >= len(self.order):
            progress.epoch, progress.batch = progress.epoch + 1, 0
        progress.tokens += tokens
        progress.busy_seconds += seconds
        progress.logged_loss += loss_sum
        progress.logged_tokens += tokens
        progress.logged_seconds += seconds

    def why_not_finite(self, *, validation: bool = False) -> str:
        """Return which parameter is not finite since the newest update; else "".

        Args:
            validation: Whether to look for what else spoils the validation loss, if all parameters are finite.
        """
        found = describe_bad_parameters(self.model, self.optimizer, self.made, self.tokenizer)
        if found is None and validation:
            batches = (batch.to(self.model.device) for batch in judged_batches(self.data.valid.source))
            found = explain_validation(self.model, self.optimizer, self.made, batches, self.tokenizer)
        return found or ""

    def _failure(
        self, step: int, window: Sequence[Batch], tokens: int, loss_sum: float, random: RandomState
    ) -> Failure:
        return Failure(
            self.model,
            self.optimizer,
            self.tokenizer,
            [batch.to(self.model.device) for batch in window],
            step,
            self.progress.epoch,
            loss_sum,
            self.progress.skipped,
            random,
            self.made,
            forward=lambda batch: self.plain_loss(batch).sum,
            backward=lambda loss: self._send_back(loss, tokens),
        )


def _untimed(what: str) -> AbstractContextManager[object]:
    return nullcontext()


def batch_order(source: Source, config: TrainingConfig) -> Order:
    """Return which items of a source make up each batch.

    Raises:
        ConfigError: Batches are to be counted in tokens, but the lengths of the items are not known beforehand.
    """
    if config.batch_tokens is None:
        return BatchOrder(len(source), config.batch_size, config.seed, shuffle=True)
    if not isinstance(source, HasLengths):
        raise ConfigError(
            f"training.batch_tokens is {config.batch_tokens}, but this task draws fresh items, whose lengths nobody"
            " knows beforehand; use training.batch_size"
        )
    return TokenOrder(source.lengths, config.batch_tokens, config.seed, shuffle=True)


def _targets(batch: Batch) -> int:
    """How many tokens of a batch are predicted."""
    return int((batch.labels != IGNORED).sum())


def _items(window: Sequence[Batch]) -> tuple[int, ...]:
    return tuple(item for batch in window for item in batch.items)
