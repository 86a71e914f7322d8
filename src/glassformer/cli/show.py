"""What is said of a run when it is done."""

from __future__ import annotations

from pathlib import Path

from glassformer.checkpoint.loading import load
from glassformer.cli.words import clock, counted, metrics_line
from glassformer.core.metric import METRICS
from glassformer.generation.answer import answer_texts
from glassformer.training.run import Run, kind_for, read_recipe


def result_lines(run: Run) -> str:
    """Return the numbers of a finished run and where they are."""
    result = run.result
    speed = next(name for name in ("tokens_per_second", "texts_per_second") if name in result)
    lines = [
        f"trained  {counted(result['steps'], 'update')} in {clock(result['train_seconds'])}, "
        f"{result[speed]:,} {speed.removesuffix('_per_second')}/s",
        f"kept     update {result['best_step']:,}, the {_spoken(result['selected'])}",
        *(f"{split:9}{metrics_line(result[split])}" for split in ("valid", "test") if split in result),
        f"run      {run.folder}",
    ]
    return "\n".join(lines)


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
