from __future__ import annotations

import sys
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType

import pytest

from glassformer.checkpoint.hub import resolve_folder
from glassformer.core.errors import CheckpointError, ConfigError


class Hub(ModuleType):
    """A hub that holds one folder and remembers what it was asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__("huggingface_hub")
        self.folder = folder
        self.asked: list[str] = []
        self.fetched: list[str] = []

    def snapshot_download(self, repo_id: str, *, allow_patterns: list[str], ignore_patterns: list[str]) -> str:
        self.asked.append(repo_id)
        if repo_id == "nobody/nothing":
            raise RuntimeError("404: repository not found")
        for file in REPOSITORY:
            wanted = any(fnmatch(file, pattern) for pattern in allow_patterns)
            if wanted and not any(fnmatch(file, pattern) for pattern in ignore_patterns):
                self.fetched.append(file)
        return str(self.folder)


WANTED = [
    "config.json",
    "generation_config.json",
    "merges.txt",
    "model-00001-of-00002.safetensors",
    "model.safetensors",
    "model.safetensors.index.json",
    "special_tokens_map.json",
    "spiece.model",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
]
REPOSITORY = sorted(
    [
        *WANTED,
        "README.md",
        "consolidated.safetensors",
        "model.fp16.safetensors",
        "modeling_x.py",
        "onnx/config.json",
        "onnx/model.safetensors",
        "pytorch_model.bin",
        "tf_model.h5",
    ]
)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cache").mkdir()
    found = Hub(tmp_path / "cache")
    monkeypatch.setitem(sys.modules, "huggingface_hub", found)
    return found


@pytest.mark.parametrize("download", [True, False])
def test_folder_that_exists_is_never_asked_for(hub, tmp_path, download):
    (tmp_path / "owner/name").mkdir(parents=True)
    for source in ("owner/name", str(tmp_path), "cache"):
        assert resolve_folder(source, download=download) == Path(source)
    assert hub.asked == []


@pytest.mark.parametrize("source", ["owner/name", "gpt2", "Own-er_1/na.me-2"])
def test_hub_is_asked_only_when_that_is_allowed(hub, source):
    with pytest.raises(CheckpointError, match=rf"there is no folder {source}; .*allow the download, or fetch it"):
        resolve_folder(source, download=False)
    assert hub.asked == []
    assert resolve_folder(source, download=True) == hub.folder
    assert hub.asked == [source]


def test_only_settings_weights_and_vocabularies_are_fetched(hub):
    resolve_folder("owner/name", download=True)
    assert hub.fetched == WANTED


@pytest.mark.parametrize("source", ["a/b/c", "./name", "../name", "/nowhere/name", "~/name", "a b", "owner/", "闫"])
def test_what_can_be_no_name_is_not_asked_for(hub, source):
    with pytest.raises(CheckpointError, match=r"there is no folder .*and it is no name on the Hugging Face hub"):
        resolve_folder(source, download=True)
    assert hub.asked == []


def test_file_is_refused(hub, tmp_path):
    (tmp_path / "name").touch()
    with pytest.raises(CheckpointError, match="name is a file; give the folder that it is in"):
        resolve_folder("name", download=True)


def test_what_the_hub_does_not_give_is_said(hub):
    with pytest.raises(CheckpointError, match="could not fetch nobody/nothing from the Hugging Face hub: 404"):
        resolve_folder("nobody/nothing", download=True)


def test_missing_extra_is_named(hub, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ConfigError, match=r"there is no folder a/b; .*pip install 'glassformer\[hf\]'"):
        resolve_folder("a/b", download=True)
    with pytest.raises(CheckpointError, match="allow the download"):
        resolve_folder("a/b", download=False)
