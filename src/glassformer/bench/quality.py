"""One variant trained on one task: the same data, steps and rate for all."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import nn

from glassformer.bench.task import Task
from glassformer.bench.variants import Variant
from glassformer.core.errors import DataError
from glassformer.models.inference import inference
from glassformer.models.output import Loss
from glassformer.training.config import TrainingConfig
from glassformer.training.optimizer import build_optimizer
from glassformer.training.schedule import learning_rate


@dataclass(frozen=True)
class Result:
    """What one training came to.

    Attributes:
        task: Its name.
        variant: Its name.
        seed: Of the parameters and the data.
        steps: Updates of training.
        parameters: Numbers that were trained.
        seconds: That training took; the machine may have done other things, too.
        values: What was measured, by name.
    """

    task: str
    variant: str
    seed: int
    steps: int
    parameters: int
    seconds: float
    values: Mapping[str, float]


def measure(task: Task, variant: Variant, seed: int, advanced: Callable[[], None] = lambda: None) -> Result:
    """Train a fresh model and judge it.

    The parameters of equal shape and all batches are the same for every variant of a seed, so that variants are
    compared in pairs.

    Args:
        task: What is learned.
        variant: By what.
        seed: Of both.
        advanced: Called after every update.
    """
    model = task.build(variant, torch.Generator().manual_seed(seed))
    config = TrainingConfig(
        max_steps=task.steps, optimizer="muon", momentum=0.95, lr=task.lr, schedule="cosine", warmup=0.1
    )
    optimizer, generator = build_optimizer(model, config), torch.Generator().manual_seed(1000 + seed)
    began = time.perf_counter()
    for step in range(1, task.steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, config, d_model=1)
        rows = task.rows(step, generator)
        loss = model(rows.tokens, types=rows.types, labels=rows.labels)
        assert isinstance(loss, Loss), "labels were given"
        optimizer.zero_grad()
        loss.mean.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        advanced()
    seconds = time.perf_counter() - began
    with inference(model.modules()):
        values = task.measure(model, beyond=variant.beyond)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return Result(task.name, variant.name, seed, task.steps, parameters, round(seconds, 1), values)


def measure_all(
    tasks: Sequence[Task],
    variants: Sequence[Variant],
    seeds: Sequence[int],
    file: Path,
    advanced: Callable[[int, int], None] = lambda done, total: None,
) -> list[Result]:
    """Measure every combination that the file does not hold yet; one line of it is one training.

    Args:
        tasks: What is learned.
        variants: What is compared.
        seeds: All variants have the same.
        file: JSON lines; a measurement that was interrupted goes on after the last line.
        advanced: Called with the updates done, and of how many.

    Raises:
        DataError: The file is not one of these.
    """
    known = {(result.task, result.variant, result.seed, result.steps): result for result in read(file)}
    jobs = [(task, variant, seed) for seed in seeds for task in tasks for variant in variants]
    missing = [job for job in jobs if _key(*job) not in known]
    total, done = sum(task.steps for task, _, _ in missing), 0

    def step() -> None:
        nonlocal done
        done += 1
        advanced(done, total)

    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as lines:
        for task, variant, seed in missing:
            result = measure(task, variant, seed, step)
            known[_key(task, variant, seed)] = result
            lines.write(json.dumps(asdict(result)) + "\n")
            lines.flush()
    return [known[_key(*job)] for job in jobs]


def read(file: Path) -> Iterator[Result]:
    """Yield the results that a file holds.

    Raises:
        DataError: A line is none.
    """
    if not file.exists():
        return
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        try:
            yield Result(**json.loads(line))
        except (ValueError, TypeError):
            raise DataError(f"line {number} of {file} is no result of this command; name another --out") from None


def _key(task: Task, variant: Variant, seed: int) -> tuple[str, str, int, int]:
    return task.name, variant.name, seed, task.steps
