from __future__ import annotations

import sys
from pathlib import Path

import pytest

from glassformer.core.errors import ConfigError
from glassformer.core.user_code import is_user_code, load_user_code


def test_a_name_in_a_file_is_found_with_what_it_imports_beside_it(tmp_path: Path) -> None:
    (tmp_path / "helper_of_mine.py").write_text("seven = 7\n", encoding="utf-8")
    file = tmp_path / "mine.py"
    file.write_text("from helper_of_mine import seven\n\ndef number():\n    return seven\n", encoding="utf-8")
    found = load_user_code(f"{file}:number")
    assert found.value() == 7
    assert found.neighbours == (tmp_path / "helper_of_mine.py",)
    assert "helper_of_mine" not in sys.modules


def test_two_folders_may_have_helpers_of_one_name(tmp_path: Path) -> None:
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "helper_of_mine.py").write_text(f"value = {number}\n", encoding="utf-8")
        (folder / "mine.py").write_text("from helper_of_mine import value\n", encoding="utf-8")
        assert load_user_code(f"{folder / 'mine.py'}:value").value == number


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("def f(:\n", "SyntaxError.*line 1"),
        ("x = 1\n\ny = 1 / 0\n", r"ZeroDivisionError: division by zero \(line 3\)"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3"),
        ("import nothing_of_that_name\n", "No module named"),
    ],
)
def test_a_file_that_cannot_be_imported_is_a_mistake_with_its_line(content: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        load_user_code(f"{file}:f")


def test_names_that_are_not_there_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def attention():\n    pass\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="did you mean 'attention'"):
        load_user_code(f"{file}:atention")
    with pytest.raises(ConfigError, match="there is no file"):
        load_user_code(f"{tmp_path / 'other.py'}:attention")
    assert is_user_code("a/b.py:C")
    assert not is_user_code("preset:tiny")


def test_the_line_is_told_of_a_file_that_is_named_from_where_one_stands(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "mine.py").write_text("x = 1\nraise ValueError('boom')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"ValueError: boom \(line 2\)"):
        load_user_code("mine.py:x")
