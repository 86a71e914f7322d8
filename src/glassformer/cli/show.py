"""What is said of a run when it is done."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer.checkpoint.loading import load
from glassformer.checkpoint.whole_folder import REPORT_FILE
from glassformer.cli.words import clock, counted, metrics_line, named, quoted, terminal_width
from glassformer.core.metric import METRICS
from glassformer.generation.answer import answer_texts
from glassformer.tasks.classification import ClassificationTask
from glassformer.training.run import Run, kind_for, read_recipe


def result_lines(run: Run) -> str:
    """Return the numbers of a finished run and where they are."""
    result = run.result
    speed = next(name for name in ("tokens_per_second", "texts_per_second") if name in result)
    width = terminal_width()
    lines: dict[str, str] = {
        "trained": f"{counted(result['steps'], 'update')} in {clock(result['train_seconds'])}, "
        f"{result[speed]:,} {speed.removesuffix('_per_second')}/s",
        "kept": f"update {result['best_step']:,}, the {_spoken(result['selected'])}",
        **{split: metrics_line(result[split]) for split in ("valid", "test") if split in result},
    }
    if "beam" in result:
        lines["valid"] += "  (greedy)"
        if "test" in lines:
            lines["test"] += f"  (beam {result['beam']})"
    if "example" in result:
        lines["example"] = f"{result['example']['input']} -> {result['example']['output']}"
    lines["run"] = str(run.folder)
    return "\n".join(named(name, text, width) for name, text in lines.items())


def profile_lines(found: Mapping[str, Any]) -> str:
    """Return what `training.profile.summary` found as a table: milliseconds of an update, and shares of it."""
    times = found["milliseconds"]
    whole = times["data"] + times["update"]
    rows = [("an update and its data", whole)]
    for name, spent in found["phases"].items():
        rows.append((f"  {name}", spent))
        if name == "forward":
            rows += [(f"    {part}", inner) for part, inner in found["forward"].items()]
    if found["overhead"] is not None:
        rows.append(("outside of torch's operators", found["overhead"]))
        rows += [(f"  {row['name']} x {row['calls']}", row["milliseconds"]) for row in found["operators"]]
    width = max(len(name) for name, _ in rows)
    lines = (f"{name:<{width}}  {spent:>9.2f} ms  {spent / max(whole, 1e-9):>4.0%}" for name, spent in rows)
    return "\n".join((f"where the time went, mean of {counted(found['updates'], 'update')}", *lines))


def next_lines(run: Run) -> str:
    """Return where the report of a finished run is, and the command with which its model is used."""
    folder, measured = quoted(run.folder), run.result["valid"]
    if "accuracy" in measured:
        task = read_recipe(run.folder).task
        two = isinstance(task, ClassificationTask) and task.second_text is not None
        command = f"predict {folder} TEXT{' SECOND' * two}"
    elif "bleu" in measured:
        command = f"translate {folder} --input FILE"
    else:
        command = f"generate {folder} {'TEXT' if 'exact_match' in measured else 'PROMPT --temperature 0.8'}"
    return "\n".join((named("report", str(run.folder / REPORT_FILE)), named("next", f"glassformer {command}")))


def _spoken(selected: str) -> str:
    """What was kept, with the metric that chose it as a person reads it."""
    how, _, name = selected.partition(" ")
    metric, *rest = name.split(",")
    return f"{how} {','.join([METRICS[metric].label, *rest])}" if metric in METRICS else selected


def examples(folder: Path, number: int) -> str:
    """Return what a trained model writes for the first pairs of the test split."""
    recipe = read_recipe(folder)
    split = recipe.task.build(kind_for(recipe)).test
    assert split is not None, "the sequence tasks have a test split"
    pairs = split.pairs[:number]
    outputs = [found[0].text for found in answer_texts(load(folder), [source for source, _ in pairs])]
    wide = max(len(source) for source, _ in pairs)
    lines = []
    for (source, target), output in zip(pairs, outputs, strict=True):
        mark = "right" if output == target else f"wrong: {target}"
        shown = output if len(output) <= wide else f"{output[: wide - 3]}..."
        lines.append(f"  {source:>{wide}} -> {shown:<{wide}}  {mark}")
    return "\n".join(lines)
