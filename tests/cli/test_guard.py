"""What becomes of a mistake."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import typer

from glassformer.cli.guard import guarded
from glassformer.core.errors import CheckpointError


def raising(error: BaseException) -> Callable[[], None]:
    def verb() -> None:
        raise error

    return guarded(verb)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (CheckpointError("it is damaged"), 1, "error: it is damaged\n"),
        (KeyboardInterrupt(), 130, "stopped\n"),
        (
            SystemExit(3),
            1,
            "error: the code that is run ended the program, exit(3); it must return or raise an error\n",
        ),
        (BrokenPipeError(32, "Broken pipe"), 141, ""),
        (PermissionError(13, "Permission denied", "book.txt"), 1, "error: Permission denied: book.txt\n"),
        (OSError("something else"), 1, "error: something else\n"),
        (MemoryError(), 1, "error: not enough memory; choose a smaller model, batch or context\n"),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 5368709120 bytes."),
            1,
            "error: not enough memory for 5.0 GiB at once; choose a smaller model, batch or context\n",
        ),
        (
            RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB."),
            1,
            "error: not enough memory; choose a smaller model, batch or context\n",
        ),
    ],
)
def test_a_mistake_is_a_message_and_a_code(
    error: BaseException, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as left:
        raising(error)()
    assert left.value.exit_code == code
    assert capsys.readouterr() == ("", said)


def test_a_long_message_is_cut_but_says_how_much_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        raising(CheckpointError("it does not fit:\n" + "\n".join(f"  layer {n}" for n in range(200))))()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "error: it does not fit:"
    assert lines[6:] == ["  layer 5", "  ... and 194 more"]


@pytest.mark.parametrize("error", [RuntimeError("shapes do not fit"), TypeError("a bug"), AssertionError("a bug")])
def test_a_bug_of_this_project_keeps_its_traceback(error: Exception) -> None:
    with pytest.raises(type(error)):
        raising(error)()


def test_leaving_with_a_code_is_no_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as left:
        raising(typer.Exit(7))()
    assert left.value.exit_code == 7
    assert capsys.readouterr() == ("", "")
