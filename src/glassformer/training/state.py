"""All that an exact resume needs, in one file that is read without running anything."""

from __future__ import annotations

import json
import warnings
import zlib
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.checkpoint.tensors import read_metadata, read_tensors, save_tensors
from glassformer.checkpoint.weights import load_weights, weights_of
from glassformer.core.config import TransformerConfig
from glassformer.core.errors import CheckpointError
from glassformer.models.meaning import other_meaning
from glassformer.training.progress import Progress
from glassformer.training.trainer import Trainer

NEW, LAST, PREVIOUS = "new-last.safetensors", "last.safetensors", "previous.safetensors"
"""The newest first; NEW is there only between the end of writing and the two renames that follow."""
FORMAT = "glassformer training state 2"


def save_state(trainer: Trainer, folder: Path) -> Path:
    """Write weights, optimizer, random state and progress; the state before stays beside it.

    Args:
        trainer: What to save.
        folder: The run's `trainer` folder.

    Returns:
        The file.

    Raises:
        CheckpointError: The disk is full or the folder cannot be written; the last good state is untouched.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {f"model.{name}": tensor for name, tensor in weights_of(trainer.model).items()}
    tensors |= {f"average.{name}": tensor for name, tensor in trainer.average.means.items()}
    numbers: dict[str, dict[str, Any]] = {}
    for index, values in trainer.optimizer.state_dict()["state"].items():
        for name, value in values.items():
            if isinstance(value, Tensor):
                tensors[f"optimizer.{index}.{name}"] = value
            else:
                numbers.setdefault(str(index), {})[name] = value
    tensors["random.cpu"] = torch.get_rng_state()
    if trainer.model.device.type == "cuda":
        tensors["random.cuda"] = torch.cuda.get_rng_state(trainer.model.device)
    metadata = {
        "format": FORMAT,
        "progress": json.dumps(trainer.progress.to_dict()),
        "optimizer": json.dumps(numbers),
        "scaler": json.dumps(trainer.scaler.state_dict()),
        "averaged": json.dumps(trainer.average.count),
        "config": trainer.model.config.model_dump_json(),
        "compiled": trainer.compiling.state,
        **_circumstances(trainer),
    }
    save_tensors(folder / NEW, tensors, metadata)
    return _move_up(folder)


def restore_state(trainer: Trainer, folder: Path) -> bool:
    """Put a trainer where `save_state` left it; a damaged last state falls back to the one before, with a warning.

    Args:
        trainer: Freshly built from the run's own config.
        folder: The run's `trainer` folder.

    Returns:
        False if nothing was ever saved, so that the run starts from its beginning.

    Raises:
        CheckpointError: Both states are damaged, or they belong to another model.
    """
    candidates = [folder / name for name in (NEW, LAST, PREVIOUS) if (folder / name).exists()]
    if not candidates:
        return False
    problem: CheckpointError | None = None
    for file in candidates:
        try:
            tensors, metadata = read_tensors(file)
            if metadata.get("format") != FORMAT:
                raise CheckpointError(f"{file} is no training state of this version")
        except CheckpointError as error:
            problem = problem or error
            continue
        if problem is not None:
            warnings.warn(f"{problem}; going on from {file.name}, the state before it", stacklevel=2)
        _restore(trainer, tensors, metadata, file)
        if file.name == NEW:
            _move_up(folder)
        return True
    assert problem is not None, "every candidate was refused"
    raise problem


def _move_up(folder: Path) -> Path:
    last = folder / LAST
    if last.exists():
        last.replace(folder / PREVIOUS)
    (folder / NEW).replace(last)
    return last


def _restore(trainer: Trainer, tensors: dict[str, Tensor], metadata: dict[str, str], file: Path) -> None:
    if "config" in metadata:  # states of earlier releases do not say what model they are of
        learned = TransformerConfig.parse(json.loads(metadata["config"]))
        differing = other_meaning(learned, trainer.model.config)
        if differing:
            raise CheckpointError(
                f"{file} is of another model than the one that the run's config.yaml now asks for:\n  {differing}\n"
                "put those settings back to go on with it, or train a new run"
            )
    weights = {name.removeprefix("model."): tensor for name, tensor in tensors.items() if name.startswith("model.")}
    load_weights(trainer.model, weights, str(file))
    state: dict[int, dict[str, Any]] = {
        int(index): dict(values) for index, values in json.loads(metadata["optimizer"]).items()
    }
    for name, tensor in tensors.items():
        if name.startswith("optimizer."):
            _, index, key = name.split(".", 2)
            state.setdefault(int(index), {})[key] = tensor
    trainer.optimizer.load_state_dict({"state": state, "param_groups": trainer.optimizer.state_dict()["param_groups"]})
    if scaler := json.loads(metadata["scaler"]):  # empty without fp16
        trainer.scaler.load_state_dict(scaler)
    means = {name.removeprefix("average."): mean for name, mean in tensors.items() if name.startswith("average.")}
    trainer.average.restore(means, json.loads(metadata["averaged"]))
    trainer.progress = Progress.from_dict(json.loads(metadata["progress"]))
    torch.set_rng_state(tensors["random.cpu"])
    if "random.cuda" in tensors and trainer.model.device.type == "cuda":
        torch.cuda.set_rng_state(tensors["random.cuda"], trainer.model.device)
    trainer.compiling.go_on(metadata.get("compiled", "off"))
    _warn_of_differences(trainer, metadata)


def _circumstances(trainer: Trainer) -> dict[str, str]:
    """What decides the last digits besides the state itself."""
    return {
        "threads": str(torch.get_num_threads()),
        "precision": trainer.precision.name,
        "device": trainer.model.device.type,
        "torch": torch.__version__,
        "data": _fingerprint(trainer),
    }


def _fingerprint(trainer: Trainer) -> str:
    """The size of the training data and a checksum of its first batch: enough to notice that a text was edited."""
    first = trainer.data.train.batch(trainer.order.batches(0)[0], epoch=0)
    checksum = 0
    for tensor in (first.source, first.inputs, first.labels):
        if tensor is not None:
            checksum = zlib.crc32(tensor.numpy().tobytes(), checksum)
    return f"{len(trainer.data.train)} items, checksum {checksum:08x}"


def _warn_of_differences(trainer: Trainer, metadata: dict[str, str]) -> None:
    """Name what makes this session compute other last digits than the one before."""
    for name, value in _circumstances(trainer).items():
        if metadata[name] != value:
            warnings.warn(
                f"the run was saved with {name} {metadata[name]} and goes on with {value}; it will not be bit for bit "
                "what an uninterrupted run gives",
                stacklevel=2,
            )


def saved_threads(folder: Path) -> int | None:
    """Return the number of threads that the saved state was made with, if there is one."""
    for name in (NEW, LAST, PREVIOUS):
        try:
            return int(read_metadata(folder / name)["threads"])
        except (CheckpointError, KeyError):
            continue
    return None
