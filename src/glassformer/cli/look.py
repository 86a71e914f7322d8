"""`summary` and `sites`: what a model is made of, and where it can be looked at."""

from __future__ import annotations

from typing import Annotated

import typer

from glassformer.cli.options import Device, Json, Model, Threads, open_transformer
from glassformer.cli.words import echo_json, listing, terminal_width


def summary(
    model: Model,
    length: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Tokens of the forward pass whose FLOPs are counted; 128, or all that fit, when not given.",
            show_default=False,
        ),
    ] = None,
    vocab: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Tokens of a preset's vocabulary; 259 when not given.", show_default=False
        ),
    ] = None,
    as_json: Json = False,
    device: Device = "cpu",
    threads: Threads = None,
) -> None:
    """Show the parameters, FLOPs and memory of every part.

    And how each matrix was drawn: the rule, its expected standard deviation, and the one it has now.
    """
    from glassformer.cli.waiting import waiting

    opened = open_transformer(model, device, threads, vocab)
    with waiting("counting"):
        from glassformer.inspection.summary import summarise, table

        found = summarise(opened, length)
    if as_json:
        echo_json(found.to_dict())
    else:
        bytewise = " (bytes; another one: --vocab N)" if vocab is None and model.startswith("preset:") else ""
        kind = opened.config.kind.replace("_", "-")
        typer.echo(f"{model}: {kind}, vocabulary {opened.config.output_stack.input.vocab_size:,}{bytewise}\n")
        typer.echo(table(found, terminal_width()))


def sites(model: Model, as_json: Json = False, device: Device = "cpu", threads: Threads = None) -> None:
    """List every place of a model that can be looked at.

    Each comes with the dimensions of what is there: B rows, T tokens that ask, S tokens that are looked at, D width, H
    heads, K key and value heads, E width of a head, F inner width, V vocabulary, C classes.
    """
    found = open_transformer(model, device, threads).sites()
    if as_json:
        echo_json([{"site": site.name, "shape": site.shape} for site in found])
        return
    for line in listing([(site.name, f"({', '.join(site.shape.split())})") for site in found], terminal_width()):
        typer.echo(line)
