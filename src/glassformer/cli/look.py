"""`summary` and `sites`: what a model is made of, and where it can be looked at."""

from __future__ import annotations

from typing import Annotated

import typer

from glassformer.cli.options import Device, Json, Model, Threads, open_transformer
from glassformer.cli.words import echo_json


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
    as_json: Json = False,
    device: Device = "cpu",
    threads: Threads = None,
) -> None:
    """Show the parameters, FLOPs and memory of every part.

    And how each matrix was drawn: the rule, its expected standard deviation, and the one it has now.
    """
    from glassformer.cli.waiting import waiting

    opened = open_transformer(model, device, threads)
    with waiting("counting"):
        from glassformer.inspection.summary import summarise, table

        found = summarise(opened, length)
    if as_json:
        echo_json(found.to_dict())
    else:
        typer.echo(table(found))


def sites(model: Model, as_json: Json = False, device: Device = "cpu", threads: Threads = None) -> None:
    """List every place of a model that can be looked at.

    Each comes with the dimensions of what is there: B rows, T tokens that ask, S tokens that are looked at, D width, H
    heads, K key and value heads, E width of a head, F inner width.
    """
    found = open_transformer(model, device, threads).sites()
    if as_json:
        echo_json([{"site": site.name, "shape": site.shape} for site in found])
        return
    width = max(len(site.name) for site in found)
    for site in found:
        typer.echo(f"{site.name:<{width}}  ({', '.join(site.shape.split())})")
