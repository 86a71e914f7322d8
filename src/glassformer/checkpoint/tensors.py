"""Files of tensors, read without running anything that is in them."""

from __future__ import annotations

import json
import pickle
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from glassformer.core.errors import CheckpointError
from glassformer.core.files import write_atomically

METADATA = "glassformer"
"""The one key of our files' metadata: several are written in any order, and equal runs should give equal bytes."""

PLAIN = {"format": "pt"}
"""What other programs look for in the metadata before they read a file of torch's tensors."""

ZIP = b"PK\x03\x04"
"""How torch's files begin since 1.6; those from before cannot be mapped into memory."""

POINTER = b"version https://git-lfs"
"""How a file begins that only says where git keeps the real one."""


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors and texts to a safetensors file, atomically; equal tensors and texts give equal bytes.

    Args:
        path: Where the file belongs.
        tensors: By name; no two may share memory.
        metadata: This project's texts; None = a file without any, as other programs write and read it.

    Raises:
        CheckpointError: The disk is full or the folder cannot be written.
    """
    held = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    size = sum(tensor.numel() * tensor.element_size() for tensor in held.values())
    texts = PLAIN if metadata is None else {METADATA: json.dumps(metadata)}
    write_atomically(path, lambda partial: save_file(held, partial, texts), size)


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors and texts of a safetensors file; the values stay in the file until they are used.

    Raises:
        CheckpointError: There is no such file, or it is damaged.
    """
    with _opened(path) as file:
        return {name: file.get_tensor(name) for name in file.keys()}, _texts(file.metadata())  # noqa: SIM118


def read_metadata(path: Path) -> dict[str, str]:
    """Return the texts of a safetensors file, without reading its tensors.

    Raises:
        CheckpointError: There is no such file, or it is damaged.
    """
    with _opened(path) as file:
        return _texts(file.metadata())


def _texts(metadata: Mapping[str, str] | None) -> dict[str, str]:
    """This project's texts, or those of a file from elsewhere."""
    found = dict(metadata or {})
    texts: dict[str, str] = json.loads(found[METADATA]) if METADATA in found else found
    return texts


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    _beginning(path)
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"damaged checkpoint {path}: {error}; get the file again") from error


def _beginning(path: Path) -> bytes:
    """The first bytes of a file that is there and is no stand-in for another."""
    if not path.is_file():
        raise CheckpointError(f"there is no file {path}")
    try:
        with path.open("rb") as file:
            beginning = file.read(len(POINTER))
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from error
    if beginning == POINTER:
        raise CheckpointError(f"{path} only says where git keeps the real file; fetch that with: git lfs pull")
    return beginning


def read_state_dict(path: Path, *, mapped: bool = False) -> dict[str, Tensor]:
    """Return the tensors of a .safetensors, .pt, .pth or .bin file; code inside a file is never run.

    Args:
        path: A file of tensors by name; a .pt file may hold them under "model" or "state_dict".
        mapped: Leave the values in the file until they are used. A .safetensors file always does; one that torch
            wrote before version 1.6 never can, and is read whole.

    Raises:
        CheckpointError: The file is damaged, or holds more than tensors and plain values.
    """
    if path.suffix == ".safetensors":
        return read_tensors(path)[0]
    mmap = _beginning(path).startswith(ZIP) and mapped
    try:
        with warnings.catch_warnings(action="ignore"):  # torch's doubts about a file that it then refuses
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    except pickle.UnpicklingError as error:
        raise CheckpointError(
            f"{path} is refused: it is damaged, or it holds more than tensors and plain values, and loading those "
            "could run code. Convert it to .safetensors where it was made"
        ) from error
    except Exception as error:  # the bytes of a damaged file lead anywhere
        raise CheckpointError(f"damaged checkpoint {path}: {error}") from error
    for key in ("model", "state_dict"):
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise CheckpointError(f"{path} is no dictionary of tensors by name")
    return content
