from __future__ import annotations

import contextlib
import os
import pickle
import resource
import signal
import zipfile
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from glassformer.checkpoint.tensors import read_state_dict, read_tensors, save_tensors
from glassformer.core.errors import CheckpointError

TENSORS = {"a": torch.arange(6.0).view(2, 3), "b": torch.tensor(7, dtype=torch.int64), "c": torch.zeros(0, 4)}

forks = [
    pytest.mark.skipif(os.name != "posix", reason="forks as on POSIX systems"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]


class Payload:
    """What a pickle can hold: loading it would create a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


def test_tensors_and_texts_come_back_as_they_were(tmp_path):
    save_tensors(tmp_path / "a.safetensors", TENSORS, {"format": "x", "text": "闫\n🎉"})
    tensors, metadata = read_tensors(tmp_path / "a.safetensors")
    assert metadata == {"format": "x", "text": "闫\n🎉"}
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert torch.equal(tensors[name], tensor)
        assert tensors[name].dtype == tensor.dtype
    assert [file.name for file in tmp_path.iterdir()] == ["a.safetensors"]


def test_file_without_texts_is_what_other_programs_write(tmp_path):
    save_tensors(tmp_path / "a.safetensors", TENSORS)
    save_file(TENSORS, tmp_path / "b.safetensors", {"format": "pt"})
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()
    assert read_tensors(tmp_path / "a.safetensors")[1] == {"format": "pt"}


@pytest.mark.parametrize("name", ["a.safetensors", "a.pt", "legacy.pt"])
def test_file_is_read_the_same_mapped_and_whole(tmp_path, name):
    if name == "a.safetensors":
        save_tensors(tmp_path / name, TENSORS)
    else:
        torch.save({"model": TENSORS}, tmp_path / name, _use_new_zipfile_serialization=name == "a.pt")
    for mapped in (True, False):
        tensors = read_state_dict(tmp_path / name, mapped=mapped)
        assert tensors.keys() == TENSORS.keys()
        assert all(torch.equal(tensors[key], tensor) for key, tensor in TENSORS.items())


def test_tensor_that_is_a_view_is_stored_alone(tmp_path):
    big = torch.arange(1000.0).view(10, 100)
    save_tensors(tmp_path / "a.safetensors", {"view": big[:, :1], "turned": big[:2].T}, {})
    tensors, _ = read_tensors(tmp_path / "a.safetensors")
    assert torch.equal(tensors["view"], big[:, :1])
    assert torch.equal(tensors["turned"], big[:2].T)
    assert (tmp_path / "a.safetensors").stat().st_size < 1500


def test_others_may_read_a_file_of_tensors(tmp_path):
    """The library makes files that only their owner can read; here the user's own mask decides."""
    before = os.umask(0o022)
    try:
        save_tensors(tmp_path / "a.safetensors", TENSORS, {})
    finally:
        os.umask(before)
    assert (tmp_path / "a.safetensors").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("cut", [1, 8, 100, -1])
def test_o25_truncated_file_is_a_damaged_checkpoint(tmp_path, cut):
    file = tmp_path / "a.safetensors"
    save_tensors(file, TENSORS, {"format": "x"})
    content = file.read_bytes()
    file.write_bytes(b"" if cut < 0 else content[:-cut])
    with pytest.raises(CheckpointError, match=r"damaged checkpoint .*a\.safetensors"):
        read_tensors(file)


def test_o25_missing_file_is_named(tmp_path):
    for read in (read_tensors, read_state_dict):
        with pytest.raises(CheckpointError, match=r"there is no file .*a\.safetensors"):
            read(tmp_path / "a.safetensors")
    with pytest.raises(CheckpointError, match=r"there is no file .*a\.pt"):
        read_state_dict(tmp_path / "a.pt")


@given(st.binary(max_size=200))
def test_o25_any_bytes_are_refused_clearly(tmp_path_factory, content):
    folder = tmp_path_factory.getbasetemp()
    for name, read in (("any.safetensors", read_tensors), ("any.pt", read_state_dict)):
        (folder / name).write_bytes(content)
        with pytest.raises(CheckpointError):
            read(folder / name)


@given(st.integers(0, 1300), st.integers(1, 255))
def test_o26_a_flipped_byte_never_does_worse_than_a_clear_error(tmp_path_factory, place, flip):
    """There is no checksum: a number may be another. But what does not load is said to be damaged."""
    folder = tmp_path_factory.getbasetemp()
    torch.save({"a": torch.arange(6.0)}, folder / "flip.pt")
    content = bytearray((folder / "flip.pt").read_bytes())
    content[place % len(content)] ^= flip
    (folder / "flip.pt").write_bytes(content)
    with contextlib.suppress(CheckpointError):
        read_state_dict(folder / "flip.pt")


def test_o25_a_real_limit_of_the_system_leaves_the_old_tensors(tmp_path):
    """The library that writes tensors wraps the system's error in one of its own: it is recognised all the same."""
    file = tmp_path / "a.safetensors"
    save_tensors(file, {"a": torch.ones(10)}, {})
    pid = os.fork()
    if pid == 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        code = 1
        try:
            save_tensors(file, {"a": torch.zeros(100_000)}, {})
        except CheckpointError as error:
            code = 0 if "File too large" in str(error) and "needs about 0.4 MiB" in str(error) else 2
        except BaseException:
            code = 3
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert torch.equal(read_tensors(file)[0]["a"], torch.ones(10))
    assert [file.name for file in tmp_path.iterdir()] == ["a.safetensors"]


test_o25_a_real_limit_of_the_system_leaves_the_old_tensors.pytestmark = forks  # type: ignore[attr-defined]


def test_o26_file_that_would_run_code_is_refused_and_runs_nothing(tmp_path):
    marker = tmp_path / "marker"
    torch.save({"model": {"a": torch.ones(2)}, "extra": Payload(marker)}, tmp_path / "evil.pt")
    (tmp_path / "old.bin").write_bytes(pickle.dumps(Payload(marker)))
    torch.save(
        {"a": torch.ones(2), "b": Payload(marker)}, tmp_path / "legacy.pth", _use_new_zipfile_serialization=False
    )
    for name in ("evil.pt", "old.bin", "legacy.pth"):
        with pytest.raises(CheckpointError, match=r"is refused.*Convert it to \.safetensors"):
            read_state_dict(tmp_path / name)
        assert not marker.exists()


def test_o26_payload_of_the_test_is_a_real_one(tmp_path):
    pickle.loads(pickle.dumps(Payload(tmp_path / "marker")))
    assert (tmp_path / "marker").exists()


def test_o26_whole_module_in_a_file_is_refused(tmp_path):
    torch.save(torch.nn.Linear(2, 2), tmp_path / "module.pt")
    with pytest.raises(CheckpointError, match="more than tensors"):
        read_state_dict(tmp_path / "module.pt")


@pytest.mark.parametrize("wrapped", ["", "model", "state_dict"])
@pytest.mark.parametrize("new", [True, False], ids=["zip", "legacy"])
def test_o26_plain_state_dicts_are_read(tmp_path, wrapped, new):
    content = dict(TENSORS)
    file = tmp_path / "a.bin"
    torch.save(
        {wrapped: content, "step": 3, "lr": 0.1} if wrapped else content, file, _use_new_zipfile_serialization=new
    )
    found = read_state_dict(file)
    assert found.keys() == TENSORS.keys()
    assert torch.equal(found["a"], TENSORS["a"])
    save_tensors(tmp_path / "a.safetensors", TENSORS, {})
    assert read_state_dict(tmp_path / "a.safetensors").keys() == TENSORS.keys()


@pytest.mark.parametrize("content", [[torch.ones(2)], {"a": 1}, torch.ones(2), {"model": {"a": "text"}}, 5])
def test_o26_what_is_no_dictionary_of_tensors_is_refused(tmp_path, content):
    torch.save(content, tmp_path / "a.pt")
    with pytest.raises(CheckpointError, match="no dictionary of tensors by name"):
        read_state_dict(tmp_path / "a.pt")


def test_o25_damaged_zip_is_a_damaged_checkpoint(tmp_path):
    torch.save(TENSORS, tmp_path / "a.pt")
    content = (tmp_path / "a.pt").read_bytes()
    (tmp_path / "a.pt").write_bytes(content[:-8])
    with pytest.raises(CheckpointError, match=r"a\.pt"):
        read_state_dict(tmp_path / "a.pt")
    with zipfile.ZipFile(tmp_path / "b.pt", "w") as file:
        file.writestr("nothing", "of torch")
    with pytest.raises(CheckpointError, match=r"damaged checkpoint .*b\.pt"):
        read_state_dict(tmp_path / "b.pt")


def test_o25_kill_within_the_write_leaves_the_old_tensors(tmp_path, monkeypatch):
    file = tmp_path / "a.safetensors"
    save_tensors(file, {"a": torch.ones(10)}, {})
    pid = os.fork()
    if pid == 0:
        monkeypatch.setattr(os, "fsync", lambda number: os.kill(os.getpid(), signal.SIGKILL))
        save_tensors(file, {"a": torch.zeros(10)}, {})
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert torch.equal(read_tensors(file)[0]["a"], torch.ones(10))


test_o25_kill_within_the_write_leaves_the_old_tensors.pytestmark = forks  # type: ignore[attr-defined]
