"""A run folder from its first file to its last."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import torch

from glassformer.checkpoint.loading import Loaded, load
from glassformer.checkpoint.native import MODEL_FILE, TOKENIZER_FILE, holds_quantised
from glassformer.checkpoint.whole_folder import METRICS_FILE, RECIPE_FILE, REPORT_FILE, RESULT_FILE, STATE_FOLDER
from glassformer.core.config import TransformerConfig
from glassformer.core.errors import CheckpointError, ConfigError, DataError, UnsupportedError
from glassformer.core.files import ensure_writable, remove_leftovers, write_json, write_text
from glassformer.data.labelled import listed
from glassformer.models.arguments import ModelArguments
from glassformer.models.transformer import Transformer
from glassformer.tasks.task import Kind, TaskData
from glassformer.text.tokenizer import TextTokenizer
from glassformer.training.callback import Callback
from glassformer.training.config import TrainingConfig
from glassformer.training.evaluate import count_unknown, evaluate, greedy
from glassformer.training.interrupt import Interrupts
from glassformer.training.loop import fit
from glassformer.training.precision import choose_device, choose_precision, parameter_type
from glassformer.training.recipe import Recipe, load_recipe, to_yaml
from glassformer.training.record import MetricsLog, read_metrics
from glassformer.training.report import example_answer, write_run_report
from glassformer.training.saving import Checkpoints
from glassformer.training.start import begun, take_over
from glassformer.training.state import restore_state, saved_threads
from glassformer.training.threads import fastest_threads
from glassformer.training.trainer import Trainer


@dataclass(frozen=True, eq=False)
class Run:
    """What a session of training left behind.

    Attributes:
        folder: The run folder.
        result: The content of result.json; empty if the run is not finished.
        exit_code: 0, or what a shell expects after a signal.
    """

    folder: Path
    result: dict[str, Any]
    exit_code: int = 0


def train(recipe: Recipe, out: Path | None = None, callbacks: Sequence[Callback] = ()) -> Run:
    """Train a recipe into a new run folder.

    Args:
        recipe: What to learn, with which model, and how.
        out: The folder; None = the next free number under `runs`.
        callbacks: What is done besides recording and saving (a display).

    Raises:
        ConfigError: The folder holds something already, or settings do not fit each other or the data.
        DataError: The data cannot be used.
        CheckpointError: The folder cannot be written.
        DivergenceError: Training produced a number that is not finite.
    """
    with claimed(out, recipe.task.name) as folder:
        return _begin(folder, recipe, callbacks)


def _begin(folder: Path, recipe: Recipe, callbacks: Sequence[Callback]) -> Run:
    _refuse_occupied(folder)
    if recipe.missing is not None:
        raise ConfigError(recipe.missing)
    start = begun(recipe)
    data = recipe.task.build(kind_for(recipe), None if start is None else start.tokenizer)
    with _trainer(recipe.training, recipe, data, start) as trainer:
        # All that can be refused was refused: a folder is made only for a run that begins.
        ensure_writable(folder)
        if recipe.own is not None:
            recipe.own.copied(folder)
        write_text(folder / RECIPE_FILE, to_yaml(recipe, trainer.model.config))
        data.tokenizer.save(folder / TOKENIZER_FILE)
        return _go_on(folder, recipe, trainer, callbacks)


def resume(
    folder: Path, callbacks: Sequence[Callback] = (), *, device: str | None = None, threads: int | None = None
) -> Run:
    """Go on with a run that was stopped or killed; a finished one is only read.

    On a CPU the result is bit for bit that of an uninterrupted run.

    Args:
        folder: The run folder.
        callbacks: What is done besides recording and saving.
        device: Where to go on; None = as the run's own settings say.
        threads: Threads of a CPU to go on with; None = as many as before. With another number, or on another device,
            the last digits differ, and a warning says so.

    Raises:
        CheckpointError: The folder holds no run, or its states are damaged.
        ConfigError: The device is not there.
        DataError: The data cannot be used any more.
        UnsupportedError: The folder is that of a run turned into 8 bits.
    """
    recipe = read_recipe(folder)
    if (folder / RESULT_FILE).exists():
        return Run(folder, json.loads((folder / RESULT_FILE).read_text(encoding="utf-8")))
    if holds_quantised(folder):
        raise UnsupportedError(
            f"{folder} holds a model in 8 bits, which does not learn: go on with the run it was made from"
        )
    ensure_writable(folder)
    remove_leftovers(folder)
    remove_leftovers(folder / STATE_FOLDER)
    data = _data_again(folder, recipe)
    state_folder = folder / STATE_FOLDER
    settings = recipe.training.model_copy(
        update={
            "device": device or recipe.training.device,
            "threads": threads
            or _asked(recipe.training.threads)
            or saved_threads(state_folder)
            or recipe.training.threads,
        }
    )
    start = begun(recipe) if not any(state_folder.glob("*.safetensors")) else None
    with _trainer(settings, recipe, data, start) as trainer:
        restore_state(trainer, state_folder)
        return _go_on(folder, recipe, trainer, callbacks)


@contextmanager
def claimed(out: Path | None, name: str) -> Iterator[Path]:
    """Yield the folder of a new run; a numbered one is made at once, so that no other run takes the same number.

    Args:
        out: The folder; None = runs/name-1, runs/name-2, ...
        name: Of the numbered folders.
    """
    if out is not None:
        yield out
        return
    for number in count(1):
        folder = Path("runs") / f"{name}-{number}"
        with suppress(FileExistsError):
            try:
                folder.mkdir(parents=True)
            except (PermissionError, NotADirectoryError) as error:
                raise CheckpointError(f"cannot make {folder}: {error.strerror}; choose a folder with --out") from error
            break
    try:
        yield folder
    finally:
        with suppress(OSError):
            folder.rmdir()  # goes only if it is empty: nothing was begun


def is_finished(folder: Path) -> bool:
    """True if the run has its result.

    Raises:
        CheckpointError: The folder holds no run.
    """
    read_recipe(folder)
    return (folder / RESULT_FILE).exists()


def evaluate_run(
    folder: Path,
    edits: Sequence[str] = (),
    *,
    device: torch.device | str = "cpu",
    precision: str = "float32",
    advanced: Callable[[int, int], None] | None = None,
) -> tuple[str, dict[str, float | str]]:
    """Measure a run's model again, on its own data or on other data.

    The vocabulary stays the model's, also where the data is new.

    Args:
        folder: The run folder.
        edits: "task.key=value" each: other data.
        device: Where to compute.
        precision: In which numbers; "float32", "bf16" or "fp16".
        advanced: Called with (done, total) sequences.

    Returns:
        Which split ("test", or "valid" where there is no test split; "all" of a file that is named anew, for the
        model has not learned from it) and its metrics; of new data also how many tokens are "unknown".

    Raises:
        CheckpointError: The folder holds no run, or no model.
        ConfigError: An edit does not fit, or is not about the task.
        DataError: The data cannot be used, or what is learned from has other labels than the model.
    """
    recipe = read_recipe(folder, edits)
    idle = next((edit for edit in edits if not edit.strip().startswith("task.")), None)
    if idle is not None:
        raise ConfigError(f"{idle} has no effect on a trained model; other data is named by task.key=value")
    loaded = load(folder, device=device, dtype=parameter_type(precision, torch.device(device)))
    named = {edit.partition("=")[0].strip() for edit in edits}
    if named & {f"task.{name}" for name in recipe.task.files}:
        foreign = recipe.task.whole(kind_for(recipe), loaded.tokenizer, classes_of(loaded.model))
        metrics = evaluate(loaded, foreign, recipe.task.judging, advanced=advanced)
        return "all", {**metrics, "unknown": count_unknown(loaded.tokenizer, foreign.source)}
    data = recipe.task.build(kind_for(recipe), loaded.tokenizer)
    if data.classes is not None and data.classes != classes_of(loaded.model):
        raise DataError(
            f"the data has the labels {listed(data.classes)}, the model {listed(classes_of(loaded.model))}; to measure "
            "on a table that has only labels of the model, name it: task.train=FILE"
        )
    name, split = ("valid", data.valid) if data.test is None else ("test", data.test)
    return name, evaluate(loaded, split, data.judging, advanced=advanced)


def read_recipe(folder: Path, edits: Sequence[str] = ()) -> Recipe:
    """Return the recipe of a run folder, edited.

    Raises:
        CheckpointError: The folder holds no run.
        ConfigError: An edit does not fit, or the recipe is damaged.
    """
    file = folder / RECIPE_FILE
    if not file.is_file():
        has_model = (folder / MODEL_FILE).is_file()
        way = "; if its model is that of a run, copy the file from there" if has_model else ""
        raise CheckpointError(f"{folder} is no run folder: it holds no {RECIPE_FILE}{way}")
    try:
        own = load_recipe(file)
    except ConfigError as error:
        raise ConfigError(str(error) if str(file) in str(error) else f"{file}: {error}") from error
    return load_recipe(file, edits) if edits else own


def resolve(arguments: ModelArguments, data: TaskData) -> TransformerConfig:
    """Return the architecture for a task's data.

    Raises:
        ConfigError: The context is longer than the model's positions.
    """
    # What the model is measured by counts as well: it is never cut, and found too long only after hours of training.
    splits = (data.valid,) if data.test is None else (data.valid, data.test)
    longest = max(*data.train.longest, *(length for split in splits for length in split.source.longest))
    if arguments.max_positions is None:
        limit = longest if arguments.positions == "learned" else None
        arguments = arguments.model_copy(update={"max_positions": data.context or limit})
    elif longest > arguments.max_positions:
        raise ConfigError(
            f"the data has rows of {longest} tokens, but model.max_positions is {arguments.max_positions}; raise it, or"
            " give shorter texts"
        )
    return arguments.resolve(data.tokenizer.vocab_size, classes=data.classes)


def kind_for(recipe: Recipe) -> Kind:
    """Return the kind of model that a recipe trains.

    Raises:
        ConfigError: The task cannot be learned by a model of that kind.
    """
    kind = recipe.model.kind
    if kind not in recipe.task.kinds:
        possible = " or ".join(recipe.task.kinds)
        which = "model.kind" if recipe.start is None else f"that of {recipe.start}"
        raise ConfigError(f"the task {recipe.task.name} trains a model of kind {possible}, but {which} is {kind}")
    return kind


def classes_of(model: Transformer) -> tuple[str, ...]:
    """Return what a model labels texts with; nothing if it does not."""
    return () if model.config.head is None else model.config.head.classes


def _refuse_occupied(folder: Path) -> None:
    if folder.is_dir() and any(folder.iterdir()):
        begun = (folder / RECIPE_FILE).exists() and not holds_quantised(folder)
        way = f", or go on with it: glassformer train --resume {shlex.quote(str(folder))}" if begun else ""
        raise ConfigError(f"{folder} is not empty; choose another --out{way}")
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file, and a run is a folder; choose another --out")


def _data_again(folder: Path, recipe: Recipe) -> TaskData:
    """The data of a run that was begun, in the vocabulary it was begun with, whatever its text says by now."""
    file = folder / TOKENIZER_FILE
    if file.exists():
        return recipe.task.build(kind_for(recipe), TextTokenizer.load(file))
    data = recipe.task.build(kind_for(recipe))
    data.tokenizer.save(file)
    return data


@contextmanager
def _trainer(
    settings: TrainingConfig, recipe: Recipe, data: TaskData, start: Loaded | None = None
) -> Iterator[Trainer]:
    """A trainer before its first update; threads and random state are put back when it is done with.

    Args:
        settings: How it is trained.
        recipe: Whose model is trained.
        data: What is learned.
        start: The checkpoint that is gone on from.

    Raises:
        ConfigError: The device is not there, or the task does not measure what selects the model.
    """
    if settings.select_by not in (*data.judging.metrics, "last"):
        choices = ", ".join((*data.judging.metrics, "last"))
        raise ConfigError(
            f"training.select_by is {settings.select_by}, but this task has only {choices} to choose from"
        )
    device = choose_device(settings.device)
    config = resolve(recipe.model, data) if recipe.own is None else None
    with _threads(_asked(settings.threads)), torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(settings.seed)
        if recipe.own is not None:
            model: Transformer = recipe.own.make(data.tokenizer.vocab_size)
            # its layers are not known here, nor whether a compiler takes them
            settings = settings.model_copy(update={"norms_every": None, "compile": "off"})
        else:
            assert config is not None, "resolved above"
            model = Transformer(config, generator=torch.Generator().manual_seed(settings.seed))
        said = None
        if start is not None:
            new = take_over(model, start)
            drawn = f"; drawn anew: {', '.join(new)}" if new else ""
            said = f"weights and vocabulary of {start.source}{drawn}"
        trainer = Trainer(model.to(device), data, settings, choose_precision(settings.precision, device), said)
        if settings.threads == "auto" and device.type == "cpu":
            torch.set_num_threads(fastest_threads(trainer))
        yield trainer


def _go_on(folder: Path, recipe: Recipe, trainer: Trainer, callbacks: Sequence[Callback]) -> Run:
    saving = Checkpoints(folder, trainer.config.save_every)

    def heard(now: bool) -> None:
        for callback in callbacks:
            callback.interrupted(now)

    with Interrupts(heard, lambda: trainer.compiling.making) as interrupts:
        if not trainer.progress.finished:
            fit(trainer, [*callbacks, MetricsLog(folder / METRICS_FILE), saving], interrupts)
        if not trainer.progress.finished:
            return Run(folder, {}, interrupts.exit_code)
        return Run(folder, _finish(folder, recipe, trainer))


def _finish(folder: Path, recipe: Recipe, trainer: Trainer) -> dict[str, Any]:
    """Judge the selected model once on the test split, and write result.json and report.html."""
    data, progress = trainer.data, trainer.progress
    loaded = load(folder, device=trainer.model.device)
    rows = read_metrics(folder / METRICS_FILE)
    at_best = [row for row in rows if row["split"] == "valid" and row["step"] == progress.best_step]
    valid = at_best[-1] if at_best else evaluate(loaded, data.valid, greedy(data.judging))  # a lost log is no lost run
    chosen = "last" if recipe.training.select_by == "last" else f"best {recipe.training.select_by}"
    if progress.best_step >= recipe.training.average_from:
        chosen += f", weights averaged over updates {recipe.training.average_from} to {progress.best_step}"
    result: dict[str, Any] = {
        "task": recipe.task.name,
        "parameters": sum(parameter.numel() for parameter in loaded.model.parameters()),
        "steps": progress.step,
        "train_seconds": round(progress.seconds, 2),
        f"{trainer.unit}_per_second": round(progress.tokens / max(progress.busy_seconds, 1e-9)),
        "precision": trainer.precision.name,
        "threads": torch.get_num_threads(),
        "selected": chosen,
        "best_step": progress.best_step,
        "valid": {name: value for name, value in valid.items() if name not in ("step", "split", "seconds")},
    }
    if data.test is not None:
        result["test"] = evaluate(loaded, data.test, data.judging)
    if data.judging.beam > 1:
        result["beam"] = data.judging.beam  # of the test; while a model learns its answers are greedy
    if data.example is not None:
        result["example"] = {"input": data.example, "output": example_answer(loaded, data)}
    write_run_report(folder / REPORT_FILE, loaded, data, result, rows, recipe.training.language)
    write_json(folder / RESULT_FILE, result)  # last: it says that the run is finished
    return result


def _asked(threads: int | str | None) -> int | None:
    """The number that a setting names; None if it names none."""
    return threads if isinstance(threads, int) else None


@contextmanager
def _threads(number: int | None) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
