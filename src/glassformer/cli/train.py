"""`demo` and `train`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.options import Sets

if TYPE_CHECKING:
    from glassformer.training.recipe import Recipe
    from glassformer.training.run import Run

Out = Annotated[
    Path | None,
    typer.Option(help="The run folder; the next free number under runs/ when not given.", show_default=False),
]
TrainDevice = Annotated[str | None, typer.Option(help="auto, cpu, cuda or mps.", show_default=False)]
TrainThreads = Annotated[int | None, typer.Option(min=1, help="Threads of the CPU.", show_default=False)]
TrainPrecision = Annotated[str | None, typer.Option(help="auto, float32, bf16 or fp16.", show_default=False)]


def demo(
    out: Out = None,
    sets: Sets = None,
    device: TrainDevice = None,
    threads: TrainThreads = None,
    precision: TrainPrecision = None,
) -> None:
    """Train the reverse task, show it working, and write its report."""
    recipe = _recipe("demo", sets, device, threads, precision)
    run = _train(recipe, out, "demo")
    from glassformer.cli.show import show_examples

    show_examples(run.folder, 5)
    typer.echo(f"\nreport   {run.folder / 'report.html'}")
    typer.echo("\nThree things to try next:")
    typer.echo(f"  glassformer generate {run.folder} 31415926")
    typer.echo("  glassformer demo --set model.positions=none        # and watch it fail without positions")
    typer.echo("  glassformer train shakespeare --set task.text=FILE  # your own text, any language")


def train(
    recipe: Annotated[str | None, typer.Argument(help="A recipe's name (see --list) or a .yaml file.")] = None,
    sets: Sets = None,
    out: Out = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Go on with a run that was stopped.", show_default=False),
    ] = None,
    list_recipes: Annotated[bool, typer.Option("--list", help="List the recipes and end.")] = False,
    device: TrainDevice = None,
    threads: TrainThreads = None,
    precision: TrainPrecision = None,
) -> None:
    """Train a recipe into a run folder. Ctrl-C stops after the current update; --resume goes on."""
    if list_recipes:
        from glassformer.training.recipe import describe_recipe, recipe_names

        for name in recipe_names():
            typer.echo(f"{name:16} {describe_recipe(name)}")
        return
    if resume is not None:
        if recipe is not None or sets or out is not None or device or threads or precision:
            raise typer.BadParameter("--resume takes the run's own recipe and settings; give nothing else with it")
        _resume(resume)
        return
    if recipe is None:
        raise typer.BadParameter("name a recipe (glassformer train --list shows them), or --resume DIR")
    _train(_recipe(recipe, sets, device, threads, precision), out, Path(recipe).stem)


def _recipe(
    name: str, sets: list[str] | None, device: str | None, threads: int | None, precision: str | None
) -> Recipe:
    from glassformer.training.recipe import load_recipe

    edits = list(sets or [])
    for key, value in (("device", device), ("threads", threads), ("precision", precision)):
        if value is not None:
            edits.append(f"training.{key}={value}")
    return load_recipe(name, edits)


def _train(recipe: Recipe, out: Path | None, name: str) -> Run:
    from glassformer.cli.display import display
    from glassformer.cli.show import show_result
    from glassformer.training.run import next_folder
    from glassformer.training.run import train as train_recipe

    folder = out or next_folder(Path("runs"), name)
    with display(folder) as shown:
        run = train_recipe(recipe, folder, [shown])
    _leave_if_stopped(run)
    show_result(run)
    return run


def _resume(folder: Path) -> None:
    from glassformer.cli.display import display
    from glassformer.cli.show import show_result
    from glassformer.training.run import is_finished, resume

    if is_finished(folder):
        typer.echo(f"{folder} is finished; nothing to resume")
        return
    with display(folder) as shown:
        run = resume(folder, [shown])
    _leave_if_stopped(run)
    show_result(run)


def _leave_if_stopped(run: Run) -> None:
    if run.exit_code:
        typer.echo(f"stopped; saved in {run.folder / 'trainer'}")
        typer.echo(f"go on with: glassformer train --resume {run.folder}")
        raise typer.Exit(run.exit_code)
