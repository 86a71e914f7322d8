from __future__ import annotations

from types import SimpleNamespace

import pytest

from glassformer.cli import waiting as waiting_module
from glassformer.cli.waiting import waiting


def test_waiting_without_a_terminal_says_lines_only_where_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At once, after two seconds, and then ever fewer."""
    clock = iter(float(second) for second in range(3601))
    monkeypatch.setattr(waiting_module, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    with waiting("writing") as advanced:
        advanced(1, 2)
    assert capsys.readouterr() == ("", "")
    with waiting("training", piped=True) as advanced:
        assert capsys.readouterr() == ("", "training\n")
        for second in range(1, 3601):
            advanced(second, 3600)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert lines[:3] == [
        "training: 2/3,600 after 2 s",
        "training: 5/3,600 after 5 s",
        "training: 8/3,600 after 8 s",
    ]
    assert 20 < len(lines) < 40
