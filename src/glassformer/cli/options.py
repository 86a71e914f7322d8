"""Options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import torch

    from glassformer.checkpoint.loading import Loaded

Model = Annotated[str, typer.Argument(metavar="MODEL", help="A run folder, a checkpoint folder, or preset:NAME.")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, such as training.max_steps=200. Repeatable."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads of the CPU.")]
Precision = Annotated[str, typer.Option(help="float32, bf16 or fp16; float32 unless asked.")]


def place(device: str, threads: int | None) -> torch.device:
    """Return the device to use, and set the number of threads.

    Raises:
        ConfigError: There is no such device.
    """
    import torch

    from glassformer.training.precision import choose_device

    if threads is not None:
        torch.set_num_threads(threads)
    return choose_device(device)


def open_model(source: str, device: str, threads: int | None, precision: str) -> Loaded:
    """Return a model, ready to run as the options say.

    Raises:
        CheckpointError: There is none, or it is damaged.
        ConfigError: An option is impossible.
    """
    from glassformer.checkpoint.loading import load
    from glassformer.core.errors import ConfigError
    from glassformer.training.precision import TYPES

    if precision not in ("auto", "float32", *TYPES):
        raise ConfigError(f"precision is {precision!r}; choose float32, bf16 or fp16")
    loaded = load(source, device=place(device, threads))
    if precision in TYPES:
        loaded.model.to(TYPES[precision])
    return loaded
