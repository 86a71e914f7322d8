from __future__ import annotations

import ctypes
import shutil

import pytest

from glassformer.core import native

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")


@pytest.fixture
def load(monkeypatch, tmp_path):
    """The function without its memory, and a cache folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return native.load_library.__wrapped__


@pytest.fixture
def source(tmp_path):
    file = tmp_path / "twice.cpp"
    file.write_text('#include "by.h"\nextern "C" int twice(int x) { return BY * x; }\n')
    (tmp_path / "by.h").write_text("#define BY 2\n")
    return file


@needs_compiler
def test_library_is_compiled_once_and_kept(load, source, tmp_path, monkeypatch):
    assert load(source).twice(21) == 42
    kept = list((tmp_path / "cache" / "glassformer").iterdir())
    assert [file.suffix for file in kept] == [".so"]
    monkeypatch.setattr(native, "_compiled", lambda *arguments: pytest.fail("it was there"))
    again = load(source)
    assert isinstance(again, ctypes.CDLL)
    assert again.twice(4) == 8


@needs_compiler
def test_library_is_made_anew_when_what_it_includes_has_changed(load, source):
    load(source)
    source.with_name("by.h").write_text("#define BY 3\n")
    assert load(source).twice(2) == 6


@needs_compiler
def test_library_needs_no_folder_to_be_kept_in(load, source, tmp_path):
    (tmp_path / "cache").write_text("a file where the folder should be")
    assert load(source).twice(5) == 10


def test_without_a_compiler_there_is_no_library(load, source, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert load(source) is None


@needs_compiler
def test_what_does_not_compile_is_no_library(load, source, tmp_path):
    source.write_text("this is no C++")
    assert load(source) is None
    assert not list((tmp_path / "cache" / "glassformer").iterdir())


@needs_compiler
def test_damaged_library_is_made_again(load, source, tmp_path):
    load(source)
    [kept] = (tmp_path / "cache" / "glassformer").iterdir()
    kept.unlink()  # what is loaded must not change
    kept.write_bytes(b"torn")
    assert load(source).twice(1) == 2


@needs_compiler
def test_without_a_home_it_is_compiled_all_the_same(load, source, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/dev/null/nobody")
    assert load(source).twice(3) == 6
