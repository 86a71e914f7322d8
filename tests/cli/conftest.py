"""What the tests of the command line share: one tiny trained run of each kind."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from .calling import BOOK, SEQUENCES, TEXT, sets, train


@pytest.fixture(scope="session")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small text in two languages; its path has a space and Chinese characters."""
    file = tmp_path_factory.mktemp("我的 texts") / "book.txt"
    file.write_text(BOOK, encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def reverse_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the reverse task; to be read only."""
    folder = tmp_path_factory.mktemp("runs") / "reverse"
    train("reverse", "--out", folder, *sets(*SEQUENCES))
    return folder


@pytest.fixture(scope="session")
def text_run(tmp_path_factory: pytest.TempPathFactory, book: Path) -> Path:
    """A run of the language model on the book, with a path as people have them; to be read only."""
    folder = tmp_path_factory.mktemp("runs") / "我的 run's"
    train("language_model", "--out", folder, *sets(*TEXT, f"task.text={book}"))
    return folder


@pytest.fixture
def copied(tmp_path: Path) -> Callable[[Path], Path]:
    """Makes a copy of a run that may be damaged."""

    def copy(run: Path) -> Path:
        return Path(shutil.copytree(run, tmp_path / f"copy of {run.name}"))

    return copy


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
