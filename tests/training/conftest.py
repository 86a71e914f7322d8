"""Fixtures for tests of training."""

from __future__ import annotations

from pathlib import Path

import pytest

from .tiny import without_report, write_text_file


@pytest.fixture
def no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs end without drawing their report."""
    monkeypatch.setattr("glassformer.training.run.write_run_report", without_report)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A small text file."""
    return write_text_file(tmp_path)
