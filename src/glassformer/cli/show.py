"""What a verb says when its work is done."""

from __future__ import annotations

from pathlib import Path

import typer

from glassformer.cli.display import clock, metrics_line
from glassformer.training.run import Run, read_recipe


def show_result(run: Run) -> None:
    """Print the numbers of a finished run and where they are."""
    result = run.result
    typer.echo(
        f"trained  {result['steps']:,} updates in {clock(result['train_seconds'])}, {result['tokens_per_second']:,} tokens/s; "
        f"kept the {result['selected']} (update {result['best_step']:,})"
    )
    for split in ("valid", "test"):
        if split in result:
            typer.echo(f"{split:9}{metrics_line(result[split])}")
    typer.echo(f"run      {run.folder}")


def show_examples(folder: Path, number: int) -> None:
    """Print what a trained model writes for the first pairs of the test split."""
    from glassformer.checkpoint.loading import load
    from glassformer.training.evaluate import answers

    split = read_recipe(folder).task.build().test
    assert split is not None, "the sequence tasks have a test split"
    loaded = load(folder)
    pairs = split.pairs[:number]
    typer.echo("\nSequences it has never seen:")
    for (source, target), output in zip(pairs, answers(loaded, [s for s, _ in pairs]), strict=True):
        mark = "right" if output == target else f"wrong, expected {target}"
        typer.echo(f"  {source:>20} -> {output:<20}  {mark}")
