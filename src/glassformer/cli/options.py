"""Options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import torch

    from glassformer.checkpoint.loading import Loaded
    from glassformer.models.transformer import Transformer

MOST_THREADS = 1024
"""More than any processor has; a request for millions of threads crashes the process."""

Model = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="A run folder, a checkpoint folder (also of Hugging Face), or preset:NAME."),
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON value, for scripts.")]
Device = Annotated[str, typer.Option(metavar="NAME", help="auto, cpu, cuda or mps.")]
Threads = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, max=MOST_THREADS, help="Threads of the CPU; torch's choice when not given."),
]
Precision = Annotated[str, typer.Option(metavar="NAME", help="auto, float32, bf16 or fp16.")]


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
    """Return a model, ready to run as the options say; on a terminal it is shown that this takes a moment.

    Raises:
        CheckpointError: There is none, or it is damaged.
        ConfigError: An option is impossible.
    """
    from glassformer.cli.waiting import waiting

    with waiting("loading"):
        from glassformer.checkpoint.loading import load
        from glassformer.training.precision import parameter_type

        where = place(device, threads)
        return load(source, device=where, dtype=parameter_type(precision, where))


def compile_operators(device: torch.device) -> None:
    """Compile what writing calls, where that has not been done; on a terminal it is shown that this takes a moment.

    Args:
        device: Of the model.
    """
    from glassformer.cli.waiting import waiting

    if device.type != "cpu":
        return

    with waiting("compiling for this processor, once"):
        from glassformer.kernels.operators import has_operators

        has_operators()


def open_transformer(source: str, device: str, threads: int | None, vocab: int | None = None) -> Transformer:
    """Return a model alone, for what needs no text: a folder without a tokenizer will do.

    Args:
        source: As the user names it.
        device: Where to put it.
        threads: Of a CPU.
        vocab: Tokens of the vocabulary of a preset; None = that of a byte tokenizer.
    """
    from glassformer.cli.waiting import waiting

    if vocab is not None and not source.startswith("preset:"):
        raise typer.BadParameter(f"{source} has its own vocabulary; --vocab is for presets, such as preset:paper-base")
    with waiting("loading"):
        from glassformer.checkpoint.loading import PRESET_PREFIX, load_transformer

        if vocab is None:
            return load_transformer(source, device=place(device, threads))
        import torch

        from glassformer.families.registry import preset
        from glassformer.models.transformer import Transformer

        config = preset(source.removeprefix(PRESET_PREFIX)).resolve(vocab)
        model = Transformer(config, generator=torch.Generator().manual_seed(0))
        return model.to(place(device, threads)).eval()
