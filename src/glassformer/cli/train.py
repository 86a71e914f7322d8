"""`demo` and `train`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.options import MOST_THREADS
from glassformer.cli.words import listing, quoted, terminal_width

if TYPE_CHECKING:
    from glassformer.cli.display import TrainingDisplay
    from glassformer.training.callback import Callback
    from glassformer.training.run import Run

Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, such as training.max_steps=200. Repeatable."),
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="The run folder; the next free number under runs/ when not given.", show_default=False
    ),
]
TrainDevice = Annotated[str | None, typer.Option(metavar="NAME", help="auto, cpu, cuda or mps.", show_default=False)]
TrainThreads = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, max=MOST_THREADS, help="Threads of the CPU.", show_default=False),
]
TrainPrecision = Annotated[
    str | None, typer.Option(metavar="NAME", help="auto, float32, bf16 or fp16.", show_default=False)
]

Profiled = Annotated[
    bool, typer.Option("--profile", help="Show where the time of an update goes; profile.json in the run folder too.")
]

TrainLanguage = Annotated[
    str | None, typer.Option(metavar="NAME", help="Of report.html: en or zh.", show_default=False)
]


def demo(
    out: Out = None,
    sets: Sets = None,
    device: TrainDevice = None,
    threads: TrainThreads = None,
    precision: TrainPrecision = None,
    language: TrainLanguage = None,
) -> None:
    """Train the reverse task, show it working, and write its report."""
    from glassformer.cli.waiting import waiting

    run = _train("demo", _edits(sets, device, threads, precision, language), out)
    with waiting("asking it"):
        from glassformer.cli.show import examples

        shown = examples(run.folder, 5)
    typer.echo(f"\nSequences it has never seen:\n{shown}")
    typer.echo(f"\nreport   {run.folder / 'report.html'}")
    typer.echo("\nThree things to try next:")
    typer.echo(f"  glassformer generate {quoted(run.folder)} 31415926")
    typer.echo("  glassformer demo --set model.positions=none  # watch it fail")
    typer.echo("  glassformer train language_model  # your own text: --set task.text=FILE")


def train(
    recipe: Annotated[
        str | None, typer.Argument(metavar="RECIPE", help="A recipe's name (see --list) or a .yaml file.")
    ] = None,
    sets: Sets = None,
    out: Out = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Go on with a run that was stopped.", show_default=False),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="FOLDER",
            help="Go on from the weights and vocabulary of a run or checkpoint, also of Hugging Face.",
            show_default=False,
        ),
    ] = None,
    own: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="FILE.py:CLASS",
            help="Train an encoder-decoder that you wrote in place of the recipe's own model.",
            show_default=False,
        ),
    ] = None,
    list_recipes: Annotated[bool, typer.Option("--list", help="List the recipes and end.")] = False,
    device: TrainDevice = None,
    threads: TrainThreads = None,
    precision: TrainPrecision = None,
    language: TrainLanguage = None,
    profile: Profiled = False,
) -> None:
    """Train a recipe into a run folder, or go on with a run.

    Ctrl-C stops after the current update; --resume goes on from there, on another --device or with other --threads
    if you say so.
    """
    if list_recipes:
        from glassformer.training.recipe import describe_recipe, recipe_names

        for line in listing([(name, describe_recipe(name)) for name in recipe_names()], terminal_width()):
            typer.echo(line)
        return
    if resume is not None:
        if sets or any(given is not None for given in (recipe, out, precision, start, own, language)):
            raise typer.BadParameter(
                "--resume takes the run's own recipe and settings; give nothing with it but --device and --threads"
            )
        _resume(resume, device, threads, profile)
        return
    edits = _edits(sets, device, threads, precision, language)
    if recipe is None:
        raise typer.BadParameter("name a recipe (glassformer train --list shows them), or --resume DIR")
    if not recipe.endswith((".yaml", ".yml")) and Path(recipe).is_file():
        raise typer.BadParameter(
            f"{recipe} is a file but no .yaml recipe; "
            f"to learn a text: glassformer train language_model --set {quoted(f'task.text={recipe}')}"
        )
    if own is not None and start is not None:
        raise typer.BadParameter(
            "--from goes on with a model of glassformer and --model trains yours; give one of them"
        )
    _said_next(_train(recipe, edits, out, start, own, profile))


def _edits(
    sets: list[str] | None, device: str | None, threads: int | None, precision: str | None, language: str | None
) -> list[str]:
    options = {"device": device, "threads": threads, "precision": precision, "language": language}
    return [*(sets or []), *(f"training.{key}={value}" for key, value in options.items() if value is not None)]


def _train(
    name: str,
    edits: list[str],
    out: Path | None,
    start: str | None = None,
    own: str | None = None,
    profile: bool = False,
) -> Run:
    from glassformer.cli.display import display

    with display() as shown:
        from glassformer.training.recipe import load_recipe
        from glassformer.training.run import claimed
        from glassformer.training.run import train as train_recipe

        if own is not None:
            from glassformer.training.recipe import own_recipe

            recipe = own_recipe(name, own, edits)
        elif start is None:
            recipe = load_recipe(name, edits)
        else:
            from glassformer.training.start import started_from

            recipe = started_from(name, start, edits)
        with claimed(out, Path(name).stem) as folder, _way_on(folder):
            shown.folder = folder
            run = train_recipe(recipe, folder, [shown, *_profiles(profile, folder, shown)])
    return _told(run)


def _resume(folder: Path, device: str | None, threads: int | None, profile: bool) -> None:
    from glassformer.cli.display import display

    with display() as shown:
        from glassformer.training.run import is_finished, resume

        finished = is_finished(folder)
        if not finished:
            shown.folder = folder
            with _way_on(folder):
                run = resume(folder, [shown, *_profiles(profile, folder, shown)], device=device, threads=threads)
    if finished:
        typer.echo(f"{folder} is finished; nothing to resume")
    else:
        _said_next(_told(run))


def _profiles(wanted: bool, folder: Path, shown: TrainingDisplay) -> list[Callback]:
    """What times updates, if that is wanted."""
    if not wanted:
        return []
    from glassformer.cli.show import profile_lines
    from glassformer.training.profile import Profile

    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # else torch's tracer writes when it starts and stops
    return [Profile(folder, lambda found: shown.say(profile_lines(found)))]


@contextmanager
def _way_on(folder: Path) -> Iterator[None]:
    """Say how to go on where a run ends before its time."""
    from glassformer.core.errors import DivergenceError

    try:
        yield
    except DivergenceError as error:
        raise DivergenceError(
            f"{error}\nLower training.lr or lengthen training.warmup, and train into a new folder; "
            f"what was saved before is in {folder}"
        ) from error
    except KeyboardInterrupt:
        if not (folder / "config.yaml").exists():
            raise  # nothing was begun
        typer.echo(f"stopped; go on with: glassformer train --resume {quoted(folder)}", err=True)
        raise typer.Exit(130) from None


def _told(run: Run) -> Run:
    """Say what came of a run, and leave if it was stopped."""
    from glassformer.cli.show import result_lines

    if run.exit_code:
        typer.echo(f"stopped; saved in {run.folder / 'trainer'}")
        typer.echo(f"go on with: glassformer train --resume {quoted(run.folder)}")
        raise typer.Exit(run.exit_code)
    typer.echo(result_lines(run))
    return run


def _said_next(run: Run) -> None:
    """Point onward: to the report, and to what can be done with the model."""
    from glassformer.cli.show import next_lines

    typer.echo(next_lines(run))
