"""The tensors of a folder, in one file or in many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from glassformer.checkpoint.foreign_config import read_json_object
from glassformer.checkpoint.tensors import read_state_dict
from glassformer.core.errors import CheckpointError, did_you_mean

WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
SOURCES = (WEIGHTS_FILE, INDEX_FILE, "pytorch_model.bin", "pytorch_model.bin.index.json")
"""Where a folder's weights are looked for; the first that is there is read. An index says which file holds which."""


@dataclass(frozen=True)
class TensorSpec:
    """What is known of a tensor before its values are read."""

    shape: tuple[int, ...]
    dtype: torch.dtype


class TensorFolder:
    """The tensors of a Hugging Face folder by name, each read when it is used.

    The files are mapped into memory, not copied there: values that are read are pages of the file, which the system
    drops when it needs the room. A model filled from here therefore costs its own size and no more, whatever the size
    of the folder. The files are let go when this object and every tensor it gave out are gone. (A .bin file that torch
    wrote before version 1.6 cannot be mapped and is read whole.)

    Attributes:
        folder: Where the files are.
        source: The file that decides: the one file of weights, or the index of several.
        names: Shape and type of every tensor.
        tensors: Every tensor by name, on the CPU, its values still in the file: slice one, and only that part is read.
            Copy them to where they belong; writing into one does not reach the file, but all who use it later.
    """

    def __init__(self, folder: Path) -> None:
        """Find the files and check that they belong together; no values are read.

        Raises:
            CheckpointError: There is no such folder, it holds no weights, a file is missing or damaged or would run
                code, or the index and its files do not say the same.
        """
        self.folder = folder
        self.source = _source(folder)
        indexed = self.source.suffix == ".json"
        found = _indexed(self.source) if indexed else read_state_dict(self.source, mapped=True)
        self.tensors: Mapping[str, Tensor] = {name: tensor.detach() for name, tensor in found.items()}
        self.names: Mapping[str, TensorSpec] = {
            name: TensorSpec(tuple(tensor.shape), tensor.dtype) for name, tensor in self.tensors.items()
        }

    def tensor(self, name: str) -> Tensor:
        """Return one of the tensors.

        Raises:
            CheckpointError: There is none of that name.
        """
        if name not in self.tensors:
            raise CheckpointError(f"{self.source} holds no tensor {name!r}{did_you_mean(name, self.tensors)}")
        return self.tensors[name]


def _source(folder: Path) -> Path:
    if not folder.is_dir():
        raise CheckpointError(f"there is no folder {folder}")
    for name in SOURCES:
        if (folder / name).is_file():
            return folder / name
    held = _listed(entry.name for entry in folder.iterdir()) or "nothing"
    raise CheckpointError(f"{folder} holds no weights: looked for {', '.join(SOURCES)}; found {held}")


def _indexed(index: Path) -> dict[str, Tensor]:
    """The tensors of an index's files, if it and they agree on every name."""
    file_of = _weight_map(index)
    files = [index.parent / name for name in sorted(set(file_of.values()))]
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise CheckpointError(f"{index} names {_listed(missing)}, missing in its folder; fetch what is missing")
    problem = "{} and {} belong to different checkpoints, fetch both again: {}"
    tensors: dict[str, Tensor] = {}
    holder: dict[str, str] = {}
    for file in files:
        held = read_state_dict(file, mapped=True)
        twice = held.keys() & holder.keys()
        if twice:
            other = holder[min(twice)]
            raise CheckpointError(problem.format(file, other, f"both hold {_listed(twice & _names_in(other, holder))}"))
        unnamed = held.keys() - file_of.keys()
        if unnamed:
            raise CheckpointError(problem.format(file, index, f"the index does not name {_listed(unnamed)}"))
        lacking = _names_in(file.name, file_of) - held.keys()
        if lacking:
            raise CheckpointError(problem.format(file, index, f"the file does not hold {_listed(lacking)}"))
        tensors |= held
        holder |= dict.fromkeys(held, file.name)
    return tensors


def _weight_map(index: Path) -> dict[str, str]:
    file_of = read_json_object(index).get("weight_map")
    if not isinstance(file_of, dict) or not file_of:
        raise CheckpointError(f'{index} has no "weight_map" of tensors and their files; fetch it again')
    for name, file in file_of.items():
        if not isinstance(file, str) or Path(file).name != file:
            raise CheckpointError(f"{index}: {name!r} must be in a file of the same folder, not in {file!r}")
    return file_of


def _names_in(file: str, file_of: Mapping[str, str]) -> set[str]:
    return {name for name, of in file_of.items() if of == file}


def _listed(names: Iterable[str], limit: int = 10) -> str:
    known = sorted(names)
    more = f" and {len(known) - limit} more" if len(known) > limit else ""
    return ", ".join(known[:limit]) + more
