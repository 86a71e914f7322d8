"""`summary` and `sites`: what a model is made of, and where it can be looked at."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from glassformer.cli.options import Device, Json, Model, Threads, open_model


def summary(
    model: Model,
    length: Annotated[
        int | None, typer.Option(min=1, help="Tokens whose FLOPs are counted; 128 when not given.", show_default=False)
    ] = None,
    as_json: Json = False,
    device: Device = "cpu",
    threads: Threads = None,
) -> None:
    """Parameters, FLOPs and memory by part, and how each tensor was drawn: expected and measured deviation."""
    from glassformer.inspection.summary import summarise, table

    loaded = open_model(model, device, threads, "float32")
    found = summarise(loaded.model, length)
    typer.echo(json.dumps(found.to_dict()) if as_json else table(found))


def sites(model: Model, as_json: Json = False, device: Device = "cpu", threads: Threads = None) -> None:
    """Every place of a model that can be looked at, with the dimensions of what is there."""
    found = open_model(model, device, threads, "float32").model.sites()
    if as_json:
        typer.echo(json.dumps([{"site": site.name, "shape": site.shape} for site in found]))
        return
    width = max(len(site.name) for site in found)
    for site in found:
        typer.echo(f"{site.name:<{width}}  ({', '.join(site.shape.split())})")
