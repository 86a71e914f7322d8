from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.tasks.files import located


def test_a_name_is_relative_to_the_folder_and_an_absolute_one_to_nothing(tmp_path: Path) -> None:
    assert located("a/b.txt", "data") == Path("data/a/b.txt")
    assert located("b.txt", None) == Path("b.txt")
    assert located(str(tmp_path / "b.txt"), "data") == tmp_path / "b.txt"


def test_a_packed_file_stands_in_where_the_plain_one_is_missing(tmp_path: Path) -> None:
    assert located("b.txt", str(tmp_path)) == tmp_path / "b.txt"
    (tmp_path / "b.txt.gz").touch()
    assert located("b.txt", str(tmp_path)) == tmp_path / "b.txt.gz"
    assert located("b.txt.gz", str(tmp_path)) == tmp_path / "b.txt.gz"
    (tmp_path / "b.txt").touch()
    assert located("b.txt", str(tmp_path)) == tmp_path / "b.txt"


def test_the_home_folder_may_be_written_short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert located("~/b.txt", "data") == located("b.txt", "~") == tmp_path / "b.txt"


@pytest.mark.parametrize("name", [".", "..", "/"])
def test_names_of_folders_are_left_to_whoever_reads_them(name: str) -> None:
    assert located(name, None) == Path(name)
