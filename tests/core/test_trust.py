"""Code from elsewhere is not run unless the user says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.core.errors import CheckpointError
from glassformer.core.trust import CONSENT, ensure_trusted, remember_code


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv(CONSENT, raising=False)
    made = tmp_path / "run" / "code"
    made.mkdir(parents=True)
    (made / "model.py").write_text("x = 1\n")
    return made


def test_unknown_code_is_refused_with_the_way_out(folder: Path) -> None:
    with pytest.raises(CheckpointError, match=rf"not trained here.*{CONSENT}=1"):
        ensure_trusted(folder)


def test_code_trained_here_is_trusted_wherever_it_lies(folder: Path) -> None:
    remember_code(folder)
    moved = folder.rename(folder.parent / "moved")
    ensure_trusted(moved)


@pytest.mark.parametrize("change", ["edit", "add"])
def test_changed_code_is_another_code(folder: Path, change: str) -> None:
    remember_code(folder)
    (folder / ("model.py" if change == "edit" else "other.py")).write_text("x = 2\n")
    with pytest.raises(CheckpointError):
        ensure_trusted(folder)


def test_the_user_may_trust(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONSENT, "1")
    ensure_trusted(folder)
