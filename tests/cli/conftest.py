"""What the tests of the command line share: one tiny trained run of each kind."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from .calling import BOOK, GERMAN, QUESTIONS, SEQUENCES, TEXT, sets, train


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


TRANSLATION = """
task: {name: translation, tokenizer: word, vocab_size: none, min_count: 1, valid_size: 5, test_size: 5, beam: 2}
model: {d_model: 16, n_layers: 1, n_heads: 2, d_ff: 32, dropout: 0.0}
training: {max_steps: 60, batch_tokens: 60, lr: 1e-2, schedule: constant}
"""


@pytest.fixture(scope="session")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two files, line by line each other's translation."""
    folder = tmp_path_factory.mktemp("pairs")
    words = list(GERMAN)
    texts = [[words[(n // 7**place) % 7] for place in range(2 + n % 3)] for n in range(1, 60)]
    files = folder / "de.txt", folder / "en.txt"
    files[0].write_text("".join(" ".join(text) + "\n" for text in texts), encoding="utf-8")
    files[1].write_text("".join(" ".join(GERMAN[word] for word in text) + "\n" for text in texts), encoding="utf-8")
    return files


def _translated(folder: Path, pairs: tuple[Path, Path], *edits: str) -> Path:
    recipe = folder / "tiny.yaml"
    recipe.write_text(TRANSLATION, encoding="utf-8")
    train(recipe, "--out", folder / "run", *sets(f"task.source={pairs[0]}", f"task.target={pairs[1]}", *edits))
    return folder / "run"


@pytest.fixture(scope="session")
def translation_run(tmp_path_factory: pytest.TempPathFactory, pairs: tuple[Path, Path]) -> Path:
    """A run that translates; to be read only."""
    return _translated(tmp_path_factory.mktemp("translation"), pairs)


@pytest.fixture(scope="session")
def narrow_run(tmp_path_factory: pytest.TempPathFactory, pairs: tuple[Path, Path]) -> Path:
    """A run that translates and has learned positions, as many as its longest text has tokens: 4 and the end."""
    return _translated(tmp_path_factory.mktemp("narrow"), pairs, "model.positions=learned", "training.max_steps=2")


@pytest.fixture(scope="session")
def label_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that labels questions; to be read only."""
    folder = tmp_path_factory.mktemp("labels")
    rows = [f"{label}\t{word} {n}" for n in range(12) for word, label in QUESTIONS.items()]
    (folder / "questions.tsv").write_text("label\ttext\n" + "\n".join(rows) + "\n", encoding="utf-8")
    recipe = folder / "labels.yaml"
    recipe.write_text(
        "task: {name: classification}\n"
        "model: {kind: encoder, d_model: 16, n_layers: 1, n_heads: 2, d_ff: 32, dropout: 0.0}\n"
        "training: {max_steps: 30, batch_size: 8, lr: 1e-2}\n",
        encoding="utf-8",
    )
    train(recipe, "--out", folder / "run", *sets(f"task.train={folder / 'questions.tsv'}"))
    return folder / "run"


@pytest.fixture(scope="session")
def match_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that judges two texts together; to be read only."""
    folder = tmp_path_factory.mktemp("matches") / "run"
    small = ("model.d_model=16", "model.n_layers=1", "model.n_heads=2", "model.d_ff=32")
    train("matching", "--out", folder, *sets(*small, "task.made_size=20", "training.max_steps=2", "training.warmup=0"))
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
