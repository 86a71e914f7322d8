"""Folders of weights that other libraries read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from glassformer.checkpoint.foreign_config import CONFIG_FILE
from glassformer.checkpoint.shards import INDEX_FILE, WEIGHTS_FILE
from glassformer.checkpoint.tensors import save_tensors
from glassformer.checkpoint.whole_folder import write_whole
from glassformer.core.errors import CheckpointError, ConfigError
from glassformer.core.files import write_json, write_text


def write_folder(
    folder: Path,
    tensors: Mapping[str, Tensor],
    config: Mapping[str, Any],
    texts: Mapping[str, str] | None = None,
    *,
    max_shard_bytes: int = 5 * 10**9,
    overwrite: bool = False,
) -> None:
    """Write a Hugging Face folder: weights, config.json and other texts; equal content gives equal bytes.

    It is written whole or not at all, see `write_whole`; a folder without config.json is an unfinished one.

    Args:
        folder: It and its parents are made where they are missing.
        tensors: By name, in the order in which they fill one file after another; no two may share memory.
        config: The content of config.json.
        texts: Further files by name, for example a tokenizer's.
        max_shard_bytes: Weights larger than this are cut into several files, named and filled as the reference
            library does it, with an index; one tensor is never cut.
        overwrite: Whether the folder may hold something, see `write_whole`.

    Raises:
        CheckpointError: The folder is not empty and `overwrite` is not set, it cannot be written, the disk is full, or
            two tensors are one.
        ConfigError: A shard size below one byte.
    """
    if max_shard_bytes < 1:
        raise ConfigError(f"max_shard_bytes must be at least 1, not {max_shard_bytes}")
    _refuse_shared(tensors)

    def write(into: Path) -> None:
        _write_weights(into, tensors, max_shard_bytes)
        for name, text in (texts or {}).items():
            write_text(into / name, text)
        write_json(into / CONFIG_FILE, config)

    write_whole(folder, write, CONFIG_FILE, overwrite=overwrite)


def _refuse_shared(tensors: Mapping[str, Tensor]) -> None:
    first: dict[int, str] = {}
    for name, tensor in tensors.items():
        other = first.setdefault(tensor.data_ptr(), name) if tensor.numel() else name
        if other != name:
            raise CheckpointError(f"{other} and {name} share memory; such a folder holds a tied tensor under one name")


def _write_weights(folder: Path, tensors: Mapping[str, Tensor], max_shard_bytes: int) -> None:
    shards = _shards(tensors, max_shard_bytes)
    if len(shards) == 1:
        save_tensors(folder / WEIGHTS_FILE, shards[0])
        return
    file_of: dict[str, str] = {}
    for number, shard in enumerate(shards, 1):
        file = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        save_tensors(folder / file, shard)
        file_of |= dict.fromkeys(shard, file)
    total = sum(tensor.nbytes for tensor in tensors.values())
    write_json(folder / INDEX_FILE, {"metadata": {"total_size": total}, "weight_map": dict(sorted(file_of.items()))})


def _shards(tensors: Mapping[str, Tensor], max_bytes: int) -> list[dict[str, Tensor]]:
    """The tensors cut into files as the reference library cuts them: a tensor above the limit has a file of its own."""
    shards: list[dict[str, Tensor]] = []
    current: dict[str, Tensor] = {}
    size = 0
    for name, tensor in tensors.items():
        if tensor.nbytes > max_bytes:
            shards.append({name: tensor})
            continue
        if size + tensor.nbytes > max_bytes:
            shards.append(current)
            current, size = {}, 0
        current[name] = tensor
        size += tensor.nbytes
    return [*shards, current] if current or not shards else shards
