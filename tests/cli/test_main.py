"""The program as a whole: help, start-up, pipes, streams."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from glassformer.cli.main import app, main
from glassformer.version import __version__

from .calling import PROGRAM, SEQUENCES, call, process, refused, sets

VERBS = (
    "demo",
    "train",
    "eval",
    "translate",
    "predict",
    "generate",
    "score",
    "inspect",
    "trace",
    "check",
    "embed",
    "convert",
    "verify",
    "summary",
    "sites",
)


def test_help_names_every_verb_and_cuts_no_description(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns in ("40", "80", "200"):
        monkeypatch.setenv("COLUMNS", columns)
        shown = call("--help").stdout
        assert "..." not in shown.replace("[ARGS]...", "")
        for verb in VERBS:
            assert re.search(rf"^  {verb} +[A-Z]", shown, re.MULTILINE)


def test_every_verb_is_known_here() -> None:
    assert {command.name for command in app.registered_commands} == set(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_has_an_example_that_begins_with_it(verb: str) -> None:
    shown = call(verb, "--help").stdout
    assert re.search(rf"Example: glassformer {verb}\b", shown)
    assert shown.startswith(f"Usage: glassformer {verb} ")
    assert call(verb, "-h").stdout == shown


def test_version_is_told() -> None:
    assert call("--version").stdout == f"glassformer {__version__}\n"


def test_unknown_verb_and_option_name_the_nearest() -> None:
    refused(call("trian"), "'trian'", "'train'", code=2)
    refused(call("train", "reverse", "--sett", "a=b"), "--sett", "--set", code=2)


def test_missing_argument_is_named() -> None:
    refused(call("generate"), "MODEL", code=2)
    refused(call("score", "preset:tiny"), "TEXT", code=2)
    refused(call("eval"), "RUN", code=2)


def test_start_up_loads_nothing_heavy() -> None:
    heavy = ("torch", "numpy", "rich", "yaml", "tokenizers", "matplotlib", "safetensors")
    program = f"""
import sys
import glassformer
from glassformer.cli.main import main
for arguments in (["--help"], ["train", "--help"], ["--version"]):
    sys.argv = ["glassformer", *arguments]
    try:
        main()
    except SystemExit as left:
        assert left.code == 0, left.code
print([name for name in {heavy} if name in sys.modules])
"""
    command, environment = process(program)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == "[]"


def test_what_compiles_nothing_needs_no_compiler(tmp_path: Path) -> None:
    """It takes a second to import, and cannot be where its cache folder cannot be made."""
    no_folder = tmp_path / "file"
    no_folder.touch()
    arguments = ("generate", "preset:tiny", "a", "--max-new-tokens", "2", "--fast", "off")
    command, environment = process(
        "import sys\nfrom glassformer.cli.main import main\ntry:\n    main()\n"
        "finally:\n    print('torch._dynamo' in sys.modules)",
        *arguments,
    )
    environment["TORCHINDUCTOR_CACHE_DIR"] = str(no_folder / "cache")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == "False"


def test_reader_that_leaves_ends_the_program_quietly() -> None:
    command, environment = process(PROGRAM, "sites", "preset:small")
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        said = running.stderr.read()
    assert said == b""
    assert running.returncode == 141


class Full(io.RawIOBase):
    """A disk that takes nothing."""

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        raise OSError(28, "No space left on device")


def test_output_that_cannot_be_written_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    full = io.TextIOWrapper(io.BufferedWriter(Full(), buffer_size=1), encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", full)
    monkeypatch.setattr(sys, "argv", ["glassformer", "sites", "preset:tiny"])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 1
    assert capsys.readouterr().err == "error: No space left on device\n"
    monkeypatch.undo()
    full.detach().detach()  # so that nothing is written when it is collected


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "gbk"])
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_any_text_can_be_printed_in_any_encoding(
    text_run: Path, monkeypatch: pytest.MonkeyPatch, encoding: str, form: list[str]
) -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding=encoding)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "argv", ["glassformer", "score", str(text_run), "x天🎉", *form])
    with pytest.raises(SystemExit) as left:
        main()
    out.flush()
    assert left.value.code == 0
    assert b"in all" in raw.getvalue() or b'"total"' in raw.getvalue()


def test_streams_may_be_closed(text_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["glassformer", "sites", str(text_run)])
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 0


def test_no_colours_when_piped(reverse_run: Path, text_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    for arguments in (
        ["train", "reverse", *sets(*SEQUENCES)],
        ["eval", reverse_run],
        ["generate", text_run, "The ", "--max-new-tokens", "3"],
        ["score", text_run, "The "],
        ["summary", text_run],
        ["sites", text_run],
        ["--help"],
    ):
        result = call(*arguments)
        assert result.exit_code == 0
        assert "\x1b" not in result.output


def test_warning_is_one_line_on_the_standard_error(
    text_run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import warnings

    def warn(source: str) -> None:
        warnings.warn("the sky is low", stacklevel=1)
        raise typer.Exit(0)

    monkeypatch.setattr("glassformer.checkpoint.loading.load", lambda source, device, dtype: warn(source))
    monkeypatch.setattr(sys, "argv", ["glassformer", "sites", "preset:tiny"])
    before = warnings.showwarning
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with pytest.raises(SystemExit):
            main()
    warnings.showwarning = before
    assert capsys.readouterr().err == "warning: the sky is low\n"
