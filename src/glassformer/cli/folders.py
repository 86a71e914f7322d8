"""`convert` and `verify`: other people's checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from glassformer.cli.options import Json, Threads, place
from glassformer.cli.words import echo_json, note, quoted


def convert(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SRC", help="A run folder, a checkpoint folder, one of the Hugging Face kind, or preset:NAME."
        ),
    ],
    target: Annotated[Path, typer.Argument(metavar="DST", help="The folder to write.")],
    to: Annotated[
        Literal["hf", "glassformer"] | None,
        typer.Option(help="The format to write; the other one than SRC has when not given.", show_default=False),
    ] = None,
    family: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="As what to write a model for the reference library.", show_default=False),
    ] = None,
    quantize: Annotated[
        Literal["int8"] | None,
        typer.Option(help="Write matrices in 8 bits: a quarter of float32, faster writing.", show_default=False),
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Write into a folder that holds something; a model or run in it is replaced."),
    ] = False,
    download: Annotated[
        bool, typer.Option("--download", help="Fetch SRC from the Hugging Face hub if it is no folder.")
    ] = False,
) -> None:
    """Write a checkpoint in another format: that of the reference library, or ours.

    No number changes: what is written and read again is the same to the last bit. With --quantize numbers are rounded,
    and the loss on a text is shown before and after; what is written is always ours, and no longer learns. A run that
    labels or translates still does so.
    """
    from glassformer.cli.waiting import waiting

    if quantize is not None:
        if to == "hf" or family is not None:
            raise typer.BadParameter("8 bits are written for glassformer only; leave out --to hf and --family")
        _quantise(source, target, overwrite=overwrite, download=download)
        return
    with waiting("converting"):
        from glassformer.checkpoint.convert import convert as convert_folder
        from glassformer.checkpoint.hub import resolve_folder
        from glassformer.checkpoint.loading import PRESET_PREFIX

        where = source if source.startswith(PRESET_PREFIX) else resolve_folder(source, download=download)
        written, kind = convert_folder(where, target, to, family=family, overwrite=overwrite)
    what = (
        f"{kind} checkpoint for the reference library"
        if written == "hf"
        else f"{kind.replace('_', '-')} of glassformer"
    )
    typer.echo(f"{target} holds a{'n' if what[0] in 'aeiou' else ''} {what}")
    if written == "hf":
        typer.echo(f"prove it: glassformer verify {quoted(target)}")


def _quantise(source: str, target: Path, *, overwrite: bool, download: bool) -> None:
    from glassformer.cli.waiting import waiting

    with waiting("converting"):
        from glassformer.checkpoint.hub import resolve_folder
        from glassformer.checkpoint.loading import PRESET_PREFIX
        from glassformer.checkpoint.quantise import quantise_checkpoint
        from glassformer.checkpoint.whole_folder import RECIPE_FILE

        where = source if source.startswith(PRESET_PREFIX) else resolve_folder(source, download=download)
        found = quantise_checkpoint(where, target, overwrite=overwrite)
    share = 100 * found.bytes_after / found.bytes_before
    tied = "; input and output still share one table" if found.tied else ""
    unit, size = ("MB", 1e6) if found.bytes_before >= 1e6 else ("kB", 1e3)
    typer.echo(
        f"{target} holds it in 8 bits: {found.bytes_after / size:,.1f} {unit} instead of "
        f"{found.bytes_before / size:,.1f} ({share:.0f} %){tied}"
    )
    if found.loss_before is None or found.loss_after is None:
        typer.echo(f"{found.no_loss}, so there is no loss to compare")
    else:
        what = "a fixed text" if found.text else "fixed random ids (it does not know the words of the fixed text)"
        typer.echo(f"loss on {what}: {found.loss_before:.4f} before, {found.loss_after:.4f} after")
    if (target / RECIPE_FILE).is_file():
        typer.echo(f"measure it: glassformer eval {quoted(target)}")


def verify(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A checkpoint folder of the Hugging Face kind.")],
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Random seed of the token ids.")] = 0,
    as_json: Json = False,
    threads: Threads = None,
) -> None:
    """Compare a checkpoint as it is loaded here with what the reference library makes of it.

    Both get the same padded batch of random token ids. Compared are what comes out and the output of every sublayer,
    in float32 and in float64. Ends with 0 only if all of it agrees; verification.json has the numbers.
    """
    from glassformer.cli.waiting import waiting
    from glassformer.core.errors import CheckpointError

    place("cpu", threads)
    with waiting("loading") as advanced:
        from glassformer.checkpoint.loading import ForeignFolder
        from glassformer.checkpoint.verify import verify as verify_model
        from glassformer.checkpoint.verify import write_report

        found = verify_model(ForeignFolder.open(folder), seed=seed, advanced=advanced)
        try:
            write_report(found, folder)
        except CheckpointError as error:
            note(f"verification.json is not written: {error}")
    if as_json:
        echo_json(found.to_dict())
    else:
        for line in found.lines():
            typer.echo(line)
    if not found.equal:
        raise typer.Exit(1)
