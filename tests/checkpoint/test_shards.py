from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.checkpoint.shards import TensorFolder, TensorSpec
from glassformer.checkpoint.tensors import save_tensors
from glassformer.core.errors import CheckpointError

A, B = {"a": torch.arange(6.0).view(2, 3)}, {"b": torch.tensor([7, 8]), "c": torch.zeros(0, 4, dtype=torch.bfloat16)}
NAMES = {
    "a": TensorSpec((2, 3), torch.float32),
    "b": TensorSpec((2,), torch.int64),
    "c": TensorSpec((0, 4), torch.bfloat16),
}


def write_index(folder: Path, ending: str, weight_map: object) -> None:
    stem = "model" if ending == "safetensors" else "pytorch_model"
    (folder / f"{stem}.{ending}.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def write_sharded(folder: Path, ending: str = "safetensors", **also: torch.Tensor) -> dict[str, str]:
    """Two files, A and B, the second with what is named besides; returns the index's map, which names A and B only."""
    write = save_tensors if ending == "safetensors" else lambda path, tensors: torch.save(tensors, path)
    files = [f"model-0000{n}-of-00002.{ending}" for n in (1, 2)]
    for file, tensors in zip(files, (A, B | also), strict=True):
        write(folder / file, tensors)
    weight_map = dict.fromkeys(A, files[0]) | dict.fromkeys(B, files[1])
    write_index(folder, ending, weight_map)
    return weight_map


def write_layout(folder: Path, layout: str) -> None:
    if layout == "model.safetensors":
        save_tensors(folder / layout, A | B)
    elif layout == "pytorch_model.bin":
        torch.save(A | B, folder / layout)
    elif layout == "a .bin from before torch 1.6":
        torch.save(A | B, folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    else:
        write_sharded(folder, layout.split(".")[1])


LAYOUTS = [
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "a .bin from before torch 1.6",
]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_tensors_of_every_layout_come_out_as_they_went_in(tmp_path, layout):
    write_layout(tmp_path, layout)
    folder = TensorFolder(tmp_path)
    assert folder.folder == tmp_path
    assert folder.source == tmp_path / ("pytorch_model.bin" if layout.startswith("a ") else layout)
    assert dict(folder.names) == NAMES
    assert folder.tensors.keys() == NAMES.keys()
    for name, tensor in (A | B).items():
        assert torch.equal(folder.tensor(name), tensor)
        assert torch.equal(folder.tensors[name], tensor)


def test_first_layout_that_is_there_wins(tmp_path):
    for layout in reversed(LAYOUTS[:4]):
        write_layout(tmp_path, layout)
        assert TensorFolder(tmp_path).source.name == layout


@pytest.mark.parametrize("layout", LAYOUTS[:4])
def test_writing_into_a_tensor_does_not_reach_the_file(tmp_path, layout):
    write_layout(tmp_path, layout)
    TensorFolder(tmp_path).tensor("a").fill_(9.0)
    assert torch.equal(TensorFolder(tmp_path).tensor("a"), A["a"])


def test_parameters_of_a_bin_file_are_tensors_without_gradient(tmp_path):
    torch.save({"a": torch.nn.Parameter(torch.ones(2))}, tmp_path / "pytorch_model.bin")
    assert not TensorFolder(tmp_path).tensor("a").requires_grad


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="looks at the mappings that Linux lists")
@pytest.mark.parametrize("layout", LAYOUTS[:4])
def test_files_are_mapped_while_a_tensor_lives_and_no_longer(tmp_path, layout):
    def mapped() -> bool:
        return str(tmp_path) in Path("/proc/self/maps").read_text()

    write_layout(tmp_path, layout)
    folder = TensorFolder(tmp_path)
    parameter = torch.zeros(2, 3)
    parameter.copy_(folder.tensor("a"))
    kept = folder.tensor("a")
    del folder
    assert mapped()
    del kept
    assert not mapped()
    assert torch.equal(parameter, A["a"])


MEASURE = """
import json, sys
from pathlib import Path
import torch
from glassformer.checkpoint.shards import TensorFolder

def anonymous():
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("Anonymous:"))

models = []
for name in sys.argv[1:]:
    before = anonymous()
    folder = TensorFolder(Path(name))
    model = {name: torch.empty(spec.shape) for name, spec in folder.names.items()}
    for name, target in model.items():
        target.copy_(folder.tensor(name))
    models.append(model)
    print(anonymous() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="counts pages as Linux does")
def test_model_that_is_filled_costs_its_own_memory_and_no_more(tmp_path):
    """Growth of a process's anonymous pages, which only swapping could free, in terms of the model's size.

    Pages of a mapped file are not counted: the system drops and rereads them at will. Private_Dirty would count them
    as long as the file itself was just written and has not reached the disk. The folder is still open at the end.
    """
    size = 50 * 2**20
    tensors = {f"layer.{n}.weight": torch.full((size // 40,), float(n)) for n in range(10)}
    folders = [tmp_path / name for name in ("single", "shards", "bin")]
    for folder in folders:
        folder.mkdir()
    save_tensors(folders[0] / "model.safetensors", tensors)
    torch.save(tensors, folders[2] / "pytorch_model.bin")
    for file in ("x", "y"):
        half = {name: tensor for name, tensor in tensors.items() if (name < "layer.5") == (file == "x")}
        save_tensors(folders[1] / f"{file}.safetensors", half)
    write_index(folders[1], "safetensors", {n: f"{'x' if n < 'layer.5' else 'y'}.safetensors" for n in tensors})
    command = [sys.executable, "-W", "ignore", "-c", MEASURE, *map(str, folders)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr[-3000:]
    for growth in map(int, found.stdout.split()):
        assert 0.9 * size < growth < 1.3 * size


def test_folder_without_weights_says_what_it_holds(tmp_path):
    with pytest.raises(CheckpointError, match=r"there is no folder .*nowhere$"):
        TensorFolder(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match=r"holds no weights: looked for model\.safetensors, .*; found nothing$"):
        TensorFolder(tmp_path)
    for name in ("tf_model.h5", "config.json", *(f"z{n:02}" for n in range(12))):
        (tmp_path / name).touch()
    with pytest.raises(CheckpointError, match=r"; found config\.json, tf_model\.h5, z00, .*, z07 and 4 more$"):
        TensorFolder(tmp_path)


def test_name_that_is_none_is_refused_with_the_nearest(tmp_path):
    save_tensors(tmp_path / "model.safetensors", {"layer.0.weight": torch.ones(1)})
    with pytest.raises(CheckpointError, match=r"model\.safetensors holds no tensor 'layer\.0\.wight'; did you mean"):
        TensorFolder(tmp_path).tensor("layer.0.wight")


@pytest.mark.parametrize("ending", ["safetensors", "bin"])
def test_missing_files_of_an_index_are_all_named(tmp_path, ending):
    for file in set(write_sharded(tmp_path, ending).values()):
        (tmp_path / file).unlink()
    with pytest.raises(
        CheckpointError, match=rf"index\.json names model-00001-of-00002\.{ending}, model-00002-.*missing in its folder"
    ):
        TensorFolder(tmp_path)


def test_tensor_that_only_the_index_names_is_named(tmp_path):
    weight_map = write_sharded(tmp_path)
    write_index(tmp_path, "safetensors", weight_map | {"d": weight_map["b"], "e": weight_map["a"]})
    with pytest.raises(
        CheckpointError, match=r"model-00001-of-00002\.safetensors and .*index\.json .*: the file does not hold e$"
    ):
        TensorFolder(tmp_path)


def test_tensor_that_is_in_another_file_than_the_index_says_is_named(tmp_path):
    weight_map = write_sharded(tmp_path)
    write_index(tmp_path, "safetensors", weight_map | {"a": weight_map["b"]} | {"b": weight_map["a"]})
    with pytest.raises(CheckpointError, match=r"model-00001-of-00002\.safetensors and .*: the file does not hold b$"):
        TensorFolder(tmp_path)


def test_tensor_that_the_index_does_not_name_is_named(tmp_path):
    write_sharded(tmp_path, x=torch.ones(1), y=torch.ones(1))
    with pytest.raises(
        CheckpointError, match=r"model-00002-of-00002\.safetensors and .*: the index does not name x, y$"
    ):
        TensorFolder(tmp_path)


@pytest.mark.parametrize("ending", ["safetensors", "bin"])
def test_tensor_in_two_files_is_named_with_both(tmp_path, ending):
    write_sharded(tmp_path, ending, a=torch.ones(1))
    with pytest.raises(
        CheckpointError, match=rf"model-00002-of-00002\.{ending} and model-00001-of-00002\.{ending} .*: both hold a$"
    ):
        TensorFolder(tmp_path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"weight_map"', r"is damaged, fetch it again: it is no JSON"),
        ("[1]", r"must hold a JSON object \{\.\.\.\}, it holds a list"),
        ("{}", r'has no "weight_map"'),
        ('{"weight_map": {}}', r'has no "weight_map"'),
        ('{"weight_map": ["a"]}', r'has no "weight_map"'),
        ('{"weight_map": {"a": 1}}', r"'a' must be in a file of the same folder, not in 1$"),
        ('{"weight_map": {"a": "../a.safetensors"}}', r"'a' must be in a file of the same folder, not in '\.\./a"),
        ('{"weight_map": {"a": "/etc/a.bin"}}', r"'a' must be in a file of the same folder, not in '/etc"),
    ],
)
def test_index_that_is_none_is_refused(tmp_path, content, problem):
    (tmp_path / "model.safetensors.index.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"model\.safetensors\.index\.json:? " + problem):
        TensorFolder(tmp_path)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kept", [0, 4, 50, -1])
def test_o25_truncated_file_is_named(tmp_path, layout, kept):
    write_layout(tmp_path, layout)
    file = next(file for file in sorted(tmp_path.iterdir()) if file.suffix != ".json")
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(CheckpointError, match=rf"({file.name} is refused: it is damaged|damaged .*{file.name})"):
        TensorFolder(tmp_path)


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_file_that_git_left_elsewhere_says_how_to_fetch_it(tmp_path, name):
    (tmp_path / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n")
    with pytest.raises(CheckpointError, match=rf"{name} only says where git keeps the real file.*git lfs pull"):
        TensorFolder(tmp_path)


@given(place=st.integers(0, 1500), flip=st.integers(1, 255), name=st.sampled_from(["model.safetensors", "a.bin"]))
def test_o26_a_flipped_byte_never_does_worse_than_a_clear_error(tmp_path_factory, place, flip, name):
    folder = tmp_path_factory.getbasetemp() / name
    folder.mkdir(exist_ok=True)
    file = "pytorch_model.bin" if name == "a.bin" else name
    write_layout(folder, file)
    content = bytearray((folder / file).read_bytes())
    content[place % len(content)] ^= flip
    (folder / file).write_bytes(content)
    with contextlib.suppress(CheckpointError):
        tensors = TensorFolder(folder)
        for tensor_name, spec in tensors.names.items():
            assert tensors.tensor(tensor_name).clone().shape == spec.shape


class Payload:
    """What a pickle can hold: loading it would create a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("sharded", [True, False])
def test_o26_bin_file_that_would_run_code_is_refused_and_runs_nothing(tmp_path, zipped, sharded):
    if sharded:
        write_sharded(tmp_path, "bin")
    file = tmp_path / ("model-00002-of-00002.bin" if sharded else "pytorch_model.bin")
    torch.save({"b": Payload(tmp_path / "marker")}, file, _use_new_zipfile_serialization=zipped)
    with pytest.raises(CheckpointError, match=rf"{file.name} is refused: .*Convert it to \.safetensors where it was"):
        TensorFolder(tmp_path)
    assert not (tmp_path / "marker").exists()
