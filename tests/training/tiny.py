"""Runs that take a moment, and what watches them."""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer.checkpoint.tensors import read_tensors
from glassformer.data.batch import Batch
from glassformer.models.transformer import Transformer
from glassformer.training import run
from glassformer.training.callback import Callback
from glassformer.training.precision import Precision
from glassformer.training.progress import Progress
from glassformer.training.recipe import Recipe, make_recipe
from glassformer.training.trainer import Trainer, Update

SEQUENCES = {"name": "reverse", "epoch_size": 20, "valid_size": 3, "test_size": 3, "max_length": 6}
"""With batches of 2, an epoch is 10 updates."""

ENCODER_DECODER = {"d_model": 16, "n_layers": 2, "n_heads": 2, "d_ff": 24, "dropout": 0.1}
DECODER = {
    **ENCODER_DECODER,
    "kind": "decoder",
    "positions": "rotary",
    "embedding_scale": False,
    "norm": "rms",
    "norm_place": "pre",
}
TRAINING = {"max_steps": 14, "batch_size": 2, "warmup": 4, "log_every": 1, "precision": "float32"}


def sequences(*, model: dict[str, Any] | None = None, task: dict[str, Any] | None = None, **training: Any) -> Recipe:
    """A tiny encoder-decoder with dropout that learns to reverse: 14 updates by AdamW, warm-up, 10 batches an epoch."""
    return make_recipe(
        {
            "task": SEQUENCES | (task or {}),
            "model": ENCODER_DECODER | (model or {}),
            "training": TRAINING | training,
        }
    )


def text_model(
    file: Path, *, model: dict[str, Any] | None = None, task: dict[str, Any] | None = None, **training: Any
) -> Recipe:
    """A tiny decoder with dropout that learns a text."""
    return make_recipe(
        {
            "task": {"name": "language_model", "text": str(file), "context": 8} | (task or {}),
            "model": DECODER | (model or {}),
            "training": TRAINING | training,
        }
    )


def write_text_file(folder: Path, windows: int = 21) -> Path:
    """A text whose training part has `windows` - 1 windows of 8 characters, so that an epoch of batches of 2 is 10."""
    file = folder / "text.txt"
    words = "a quick brown fox jumps over the lazy dog and is gone; "
    train = windows * 8
    file.write_text((words * windows)[: train + 2 * (train // 8)], encoding="utf-8")
    return file


WORDS = {
    "rot": "red",
    "blau": "blue",
    "Hund": "dog",
    "Katze": "cat",
    "sieht": "sees",
    "und": "and",
    "schläft": "sleeps",
}


def write_pairs(folder: Path, n: int = 24, **names: str) -> dict[str, str]:
    """Write `n` texts and their translations, word by word in another order; return the settings that name the files.

    Args:
        folder: Where to.
        n: How many pairs, all different.
        names: Of the files for `source` and `target`.
    """
    german = list(WORDS)
    sides = names or {"source": "de.txt", "target": "en.txt"}
    sources = [[german[(i // 7**place) % 7] for place in range(2 + i % 3)] for i in range(1, n + 1)]
    texts = {"source": sources, "target": [[WORDS[word] for word in reversed(words)] for words in sources]}
    folder.mkdir(exist_ok=True)
    for side, rows in texts.items():
        (folder / sides[side]).write_text("".join(" ".join(words) + "\n" for words in rows), encoding="utf-8")
    return {side: str(folder / name) for side, name in sides.items()}


def write_table(folder: Path, n: int = 24, *, two: bool = False) -> Path:
    """Write a table of `n` different texts, or of two in each row, with three labels."""
    german = list(WORDS)
    labels = ("animal", "colour", "deed")
    head = "text_a\ttext_b\tlabel" if two else "text\tlabel"
    rows = []
    for i in range(n):
        text = f"{german[i % 7]} {german[i // 7 % 7]} {i}"
        rows.append("\t".join([text, *([f"{german[(i + 1) % 7]} {i}"] if two else []), labels[i % 3]]))
    folder.mkdir(exist_ok=True)
    file = folder / "table.tsv"
    file.write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    return file


def translation(
    folder: Path, *, model: dict[str, Any] | None = None, task: dict[str, Any] | None = None, **training: Any
) -> Recipe:
    """A tiny encoder-decoder with dropout that learns the pairs written into a folder."""
    files = write_pairs(folder)
    sizes = {"valid_size": 4, "test_size": 4, "tokenizer": "word", "vocab_size": None, "min_count": 1, "beam": 2}
    return make_recipe(
        {
            "task": {"name": "translation"} | files | sizes | (task or {}),
            "model": ENCODER_DECODER | (model or {}),
            "training": TRAINING | training,
        }
    )


def classification(
    folder: Path, *, model: dict[str, Any] | None = None, task: dict[str, Any] | None = None, **training: Any
) -> Recipe:
    """A tiny encoder with dropout that learns the table written into a folder."""
    name = (task or {}).get("name", "classification")
    file = write_table(folder, two=name == "matching")
    return make_recipe(
        {
            "task": {"name": name, "train": str(file), "tokenizer": "word"} | (task or {}),
            "model": ENCODER_DECODER | {"kind": "encoder"} | (model or {}),
            "training": TRAINING | training,
        }
    )


def make_trainer(recipe: Recipe) -> Trainer:
    """A trainer before its first update."""
    data = recipe.task.build(run.kind_for(recipe))
    model = Transformer(run.resolve(recipe.model, data), generator=torch.Generator().manual_seed(0))
    return Trainer(model, data, recipe.training, Precision("float32", "as asked", "cpu"))


class Witness(Callback):
    """Writes down of every update its number, items, learning rate and loss; in a file, so that it survives a kill."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def started(self, trainer: Trainer) -> None:
        make = trainer.update

        def update(window: Sequence[Batch]) -> Update:
            made = make(window)
            used = {float(group["lr"]) for group in trainer.optimizer.param_groups}
            row = [made.step, [list(batch.items) for batch in window], made.loss, made.lr, made.grad_norm, sorted(used)]
            with self.file.open("a") as out:
                out.write(json.dumps(row) + "\n")
            return made

        trainer.update = update  # type: ignore[method-assign]


def witnessed(file: Path) -> dict[int, list[Any]]:
    """What was written down, by update; of an update that was made twice, what it was the last time."""
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    return {row[0]: row[1:] for row in rows}


class At(Callback):
    """Does something after the updates of some numbers."""

    def __init__(self, steps: int | Sequence[int], action: Callable[[Trainer], object]) -> None:
        self.steps = [steps] if isinstance(steps, int) else steps
        self.action = action

    def updated(self, trainer: Trainer, update: Update) -> None:
        if update.step in self.steps:
            self.action(trainer)


def interrupt_after(step: int) -> At:
    """Ctrl-C during an update: the run is to end after it."""
    return At(step, lambda trainer: signal.raise_signal(signal.SIGINT))


def without_report(path: Path, *arguments: Any) -> None:
    """Stands in for the report, which takes longer than these runs."""
    path.write_text("a report", encoding="utf-8")


def state(folder: Path) -> tuple[dict[str, Tensor], Progress, dict[str, str]]:
    """The tensors, the counters and the texts of a run's last state."""
    tensors, metadata = read_tensors(folder / "trainer" / "last.safetensors")
    return tensors, Progress.from_dict(json.loads(metadata["progress"])), metadata


TIMES = ("seconds", "busy_seconds", "logged_seconds", "train_seconds", "tokens_per_second", "texts_per_second")


def timeless(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in TIMES}


def metrics(folder: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl without times."""
    return [timeless(json.loads(line)) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def assert_same_end(one: Path, other: Path) -> None:
    """Two finished runs are bit for bit the same: weights, optimizer, random state, counters, metrics, result."""
    tensors, progress, metadata = state(one)
    others, progress_of_other, metadata_of_other = state(other)
    assert tensors.keys() == others.keys()
    different = [name for name, tensor in tensors.items() if not torch.equal(tensor, others[name])]
    assert not different
    assert timeless(progress.to_dict()) == timeless(progress_of_other.to_dict())
    assert metadata["scaler"] == metadata_of_other["scaler"]
    kept, kept_of_other = (read_tensors(folder / "model.safetensors")[0] for folder in (one, other))
    assert all(torch.equal(tensor, kept_of_other[name]) for name, tensor in kept.items())
    assert metrics(one) == metrics(other)
    results = [timeless(json.loads((folder / "result.json").read_text())) for folder in (one, other)]
    assert results[0] == results[1]


def in_child(work: Callable[[], object]) -> int:
    """Run something in a forked process and return how that ended: its exit code, or minus the signal.

    Everything may be changed or killed in there.
    """
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def environment() -> dict[str, str]:
    """For a new process: the same package, one thread."""
    source = str(Path(run.__file__).parents[2])
    return os.environ | {"PYTHONPATH": source, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}


PYTHON = (sys.executable, "-W", "ignore")
COMMAND = (*PYTHON, "-c", "from glassformer.cli.main import main; main()")
"""The real command line."""

needs_posix = pytest.mark.skipif(os.name != "posix", reason="signals and forks as on POSIX systems")
