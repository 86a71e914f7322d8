from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from glassformer.checkpoint import foreign_folder, whole_folder
from glassformer.checkpoint.foreign_config import read_config
from glassformer.checkpoint.foreign_folder import write_folder
from glassformer.checkpoint.loading import load
from glassformer.checkpoint.shards import TensorFolder
from glassformer.core.errors import CheckpointError, ConfigError

CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}
TENSORS = {f"t{n}": torch.full((5,), float(n)) for n in range(5)}  # 20 bytes each


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def contents(folder: Path) -> dict[str, bytes]:
    return {entry.name: entry.read_bytes() for entry in folder.iterdir()}


def weight_map(folder: Path) -> dict[str, int]:
    """The number of each tensor's file."""
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    return {name: int(file.split("-")[1]) for name, file in index["weight_map"].items()}


def same(folder: Path, tensors: dict[str, torch.Tensor]) -> bool:
    found = TensorFolder(folder)
    return found.names.keys() == tensors.keys() and all(torch.equal(found.tensor(n), t) for n, t in tensors.items())


def test_small_weights_are_one_file_that_says_it_is_torchs(tmp_path):
    folder = tmp_path / "new" / "folder"
    write_folder(folder, TENSORS, CONFIG, {"tokenizer.json": "{}\n"})
    assert names(folder) == ["config.json", "model.safetensors", "tokenizer.json"]
    assert read_config(folder) == CONFIG
    assert (folder / "tokenizer.json").read_text() == "{}\n"
    assert same(folder, TENSORS)
    with safe_open(folder / "model.safetensors", framework="pt") as file:
        assert file.metadata() == {"format": "pt"}


def test_large_weights_are_cut_where_a_file_would_be_too_large(tmp_path):
    write_folder(tmp_path, TENSORS, CONFIG, max_shard_bytes=40)
    files = [f"model-0000{n}-of-00003.safetensors" for n in (1, 2, 3)]
    assert names(tmp_path) == ["config.json", *files, "model.safetensors.index.json"]
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["metadata"] == {"total_size": 100}
    assert weight_map(tmp_path) == {"t0": 1, "t1": 1, "t2": 2, "t3": 2, "t4": 3}
    assert same(tmp_path, TENSORS)
    with safe_open(tmp_path / files[1], framework="pt") as file:
        assert file.metadata() == {"format": "pt"}


def test_tensor_above_the_limit_has_a_file_of_its_own(tmp_path):
    tensors = {"a": torch.ones(2), "big": torch.ones(20), "b": torch.ones(3), "c": torch.ones(1)}
    write_folder(tmp_path, tensors, CONFIG, max_shard_bytes=20)
    assert weight_map(tmp_path) == {"a": 2, "big": 1, "b": 2, "c": 3}
    assert same(tmp_path, tensors)


@pytest.mark.parametrize("limit", [40, 10**6])
def test_equal_content_gives_equal_bytes(tmp_path, limit):
    for name in ("one", "other"):
        tensors = {name: tensor.clone() for name, tensor in TENSORS.items()}
        write_folder(tmp_path / name, tensors, CONFIG, max_shard_bytes=limit)
    assert contents(tmp_path / "one") == contents(tmp_path / "other")


def test_parts_and_turned_views_of_a_matrix_are_stored_alone(tmp_path):
    qkv = torch.arange(24.0).view(6, 4)
    tensors = {"q": qkv[:2], "k": qkv[2:4], "v": qkv[4:], "turned": torch.arange(6.0).view(2, 3).T}
    write_folder(tmp_path, tensors, CONFIG)
    assert same(tmp_path, tensors)


def test_o11_tied_tensor_under_two_names_is_refused(tmp_path):
    table = torch.ones(3, 2)
    for tensors in ({"embedding": table, "x": torch.ones(1), "head": table}, {"embedding": table, "head": table[:1]}):
        with pytest.raises(CheckpointError, match=r"embedding and head share memory; .*under one name"):
            write_folder(tmp_path / "new", tensors, CONFIG, max_shard_bytes=24)
    assert not (tmp_path / "new").exists()


def test_shard_size_below_a_byte_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="max_shard_bytes must be at least 1, not 0"):
        write_folder(tmp_path, TENSORS, CONFIG, max_shard_bytes=0)


def test_folder_that_is_not_empty_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(CheckpointError, match=r"is not empty \(it holds notes\.txt\); choose another folder, or ask"):
        write_folder(tmp_path, TENSORS, CONFIG)
    assert names(tmp_path) == ["notes.txt"]


def test_folder_in_a_place_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").touch()
    for target in (tmp_path / "file", tmp_path / "file" / "folder"):
        with pytest.raises(CheckpointError, match=r"cannot write in .*file.*; choose another folder"):
            write_folder(target, TENSORS, CONFIG)


@pytest.mark.parametrize("before", [20, 40, 10**6])
@pytest.mark.parametrize("after", [20, 40, 10**6])
def test_overwriting_replaces_the_weights_and_keeps_other_files(tmp_path, before, after):
    """Files of an earlier cut would be read instead of the new ones, or confuse whoever looks."""
    (tmp_path / "notes.txt").write_text("mine")
    write_folder(tmp_path, TENSORS, CONFIG | {"old": True}, overwrite=True, max_shard_bytes=before)
    tensors = {name: tensor + 1 for name, tensor in TENSORS.items()}
    write_folder(tmp_path, tensors, CONFIG, overwrite=True, max_shard_bytes=after)
    write_folder(tmp_path / "new", tensors, CONFIG, max_shard_bytes=after)
    fresh = contents(tmp_path / "new")
    for file in (tmp_path / "new").iterdir():
        file.unlink()
    (tmp_path / "new").rmdir()
    assert contents(tmp_path) == fresh | {"notes.txt": b"mine"}
    assert same(tmp_path, tensors)


def test_folder_can_be_overwritten_with_what_is_read_from_it(tmp_path):
    write_folder(tmp_path, TENSORS, CONFIG)
    read = TensorFolder(tmp_path)
    write_folder(tmp_path, {name: read.tensor(name) for name in read.names}, CONFIG, overwrite=True, max_shard_bytes=40)
    assert same(tmp_path, TENSORS)


@pytest.mark.parametrize("failing", ["save_tensors", "write_text", "write_json"])
def test_o25_full_disk_leaves_the_old_folder(tmp_path, monkeypatch, failing):
    write_folder(tmp_path, TENSORS, CONFIG, max_shard_bytes=40)
    before = contents(tmp_path)

    def full(path: Path, *content: object) -> None:
        path.write_bytes(b"torn")
        raise CheckpointError(f"could not write {path}: No space left on device")

    monkeypatch.setattr(foreign_folder, failing, full)
    with pytest.raises(CheckpointError, match="No space left"):
        write_folder(tmp_path, {"t0": torch.ones(1)}, CONFIG, {"tokenizer.json": "{}"}, overwrite=True)
    assert contents(tmp_path) == before


@pytest.mark.skipif(os.name != "posix", reason="forks as on POSIX systems")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("dies_in", [(foreign_folder, "write_json"), (whole_folder, "_move_in")])
def test_o25_killed_process_leaves_the_old_folder_and_no_hindrance(tmp_path, monkeypatch, dies_in):
    write_folder(tmp_path / "full", TENSORS, CONFIG)
    before = contents(tmp_path / "full")
    (tmp_path / "empty").mkdir()
    for name in ("full", "empty"):
        pid = os.fork()
        if pid == 0:
            setattr(*dies_in, lambda *_: os._exit(9))
            write_folder(tmp_path / name, {"t0": torch.ones(1)}, CONFIG, overwrite=True)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    assert same(tmp_path / "full", TENSORS)
    assert (tmp_path / "full" / "folder.partial" / "model.safetensors").exists()
    with pytest.raises(CheckpointError, match="is not empty"):
        write_folder(tmp_path / "full", TENSORS, CONFIG)
    write_folder(tmp_path / "full", TENSORS, CONFIG, overwrite=True)
    write_folder(tmp_path / "empty", TENSORS, CONFIG)
    assert contents(tmp_path / "full") == contents(tmp_path / "empty") == before


def test_o25_config_is_moved_last(tmp_path, monkeypatch):
    """Killed while files are moved: without its config nobody takes the mixture for a model."""
    write_folder(tmp_path, TENSORS, CONFIG)
    replace = Path.replace

    def dies(self: Path, target: Path) -> Path:
        if self.name == "config.json" and target.parent == tmp_path:
            assert same(tmp_path, {"t0": torch.ones(1)})
            raise OSError(5, "Input/output error")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", dies)
    with pytest.raises(CheckpointError, match=r"Input/output error.*was there before is in .*folder\.before"):
        write_folder(tmp_path, {"t0": torch.ones(1)}, CONFIG, {"z.json": "{}"}, overwrite=True)
    assert names(tmp_path) == ["folder.before", "model.safetensors", "z.json"]
    assert same(tmp_path / "folder.before", TENSORS)
    with pytest.raises(CheckpointError, match=r"there is no .*config\.json"):
        read_config(tmp_path)


@pytest.mark.skipif(os.name != "posix", reason="forks as on POSIX systems")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("last", ["config.json", "model.safetensors"])
@pytest.mark.parametrize("moves", range(4))
def test_o25_killed_at_any_move_the_old_model_is_still_there(tmp_path, monkeypatch, moves, last):
    """Two files go aside and two come in, twice; what is left over is named, and gone after the next time."""
    write_folder(tmp_path, TENSORS, CONFIG)
    before, done, replace = contents(tmp_path), [], Path.replace

    def dies(self: Path, target: Path) -> Path:
        if len(done) == moves:
            os._exit(9)
        done.append(target)
        return replace(self, target)

    def write(new: Path) -> None:
        monkeypatch.setattr(Path, "replace", dies)
        for name in before:
            (new / name).touch()

    for _ in range(2 if moves < 2 else 1):  # what was moved aside the first time need not be moved again
        pid = os.fork()
        if pid == 0:
            whole_folder.write_whole(tmp_path, write, last, overwrite=True)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    places = {name: (tmp_path / name, tmp_path / "folder.before" / name) for name in before}
    assert all(any(at.is_file() and at.read_bytes() == before[name] for at in places[name]) for name in before)
    write_folder(tmp_path, TENSORS, CONFIG, overwrite=True)
    assert contents(tmp_path) == before


def test_what_a_killed_process_moved_aside_is_named(tmp_path):
    (tmp_path / "folder.before").mkdir()
    with pytest.raises(CheckpointError, match=r"holds no model\.safetensors.*there before is in .*folder\.before"):
        load(tmp_path)


@pytest.fixture(scope="module")
def theirs():
    transformers = pytest.importorskip("transformers", reason="the reference library is the oracle here")
    config = transformers.LlamaConfig(
        vocab_size=40,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=32,
        tie_word_embeddings=False,
    )
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(config).eval()


@pytest.mark.parametrize("limit", [5000, 10**9])
def test_reference_library_writes_what_is_read_here(theirs, tmp_path, limit):
    theirs.save_pretrained(tmp_path, max_shard_size=limit)
    assert (tmp_path / "model.safetensors.index.json").exists() == (limit == 5000)
    assert read_config(tmp_path)["architectures"] == ["LlamaForCausalLM"]
    assert same(tmp_path, theirs.state_dict())


@pytest.mark.parametrize("limit", [5000, 10**9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_reference_library_loads_what_is_written_here(theirs, tmp_path, limit, dtype):
    tensors = {name: tensor.to(dtype) for name, tensor in theirs.state_dict().items()}
    write_folder(tmp_path, tensors, theirs.config.to_dict(), max_shard_bytes=limit)
    loaded, report = type(theirs).from_pretrained(tmp_path, dtype=dtype, output_loading_info=True)
    assert not any(report.values())
    assert loaded.state_dict().keys() == tensors.keys()
    assert all(torch.equal(loaded.state_dict()[name], tensor) for name, tensor in tensors.items())


@pytest.mark.parametrize("limit", [1000, 5000, 10_000, 10**9])
def test_weights_are_cut_and_written_as_the_reference_library_does(theirs, tmp_path, limit):
    theirs.save_pretrained(tmp_path / "theirs", max_shard_size=limit)
    write_folder(tmp_path / "ours", theirs.state_dict(), theirs.config.to_dict(), max_shard_bytes=limit)
    expected, found = contents(tmp_path / "theirs"), contents(tmp_path / "ours")
    weights = [name for name in expected if name.endswith(".safetensors")]
    assert sorted(name for name in found if name.endswith(".safetensors")) == sorted(weights)
    assert all(found[name] == expected[name] for name in weights)
    if len(weights) > 1:
        index = json.loads(expected["model.safetensors.index.json"])
        del index["metadata"]["total_parameters"]  # newer versions count for themselves
        assert json.loads(found["model.safetensors.index.json"]) == index
