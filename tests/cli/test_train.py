"""`demo` and `train`: what they say and leave behind, and every mistake one can make."""

from __future__ import annotations

import gzip
import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from glassformer.training.run import claimed

from .calling import BOOK, SEQUENCES, TEXT, call, refused, sets, train

RUN_FILES = {"config.yaml", "metrics.jsonl", "model.safetensors", "report.html", "result.json", "tokenizer.json"}


def test_train_makes_a_numbered_folder_and_names_it() -> None:
    said = train("reverse", *sets(*SEQUENCES)).stdout
    train("reverse", *sets(*SEQUENCES))
    assert {folder.name for folder in Path("runs").iterdir()} == {"reverse-1", "reverse-2"}
    assert {file.name for file in Path("runs/reverse-1").iterdir()} >= RUN_FILES
    assert said.splitlines()[0] == "run      runs/reverse-1"
    assert said.splitlines()[-3:] == [
        "run      runs/reverse-1",
        "report   runs/reverse-1/report.html",
        "next     glassformer generate runs/reverse-1 TEXT",
    ]


def test_train_says_what_it_does_and_what_came_of_it(book: Path) -> None:
    said = train("language_model", "--out", "run", *sets(*TEXT, f"task.text={book}")).stdout
    assert "decoder, " in said
    assert "training 4 updates, batches of 16, " in said
    assert "expect   a loss near ln " in said
    assert f"data     {book}: " in said
    result = json.loads(Path("run/result.json").read_text(encoding="utf-8"))
    assert f"test     loss {result['test']['loss']:.4f}  perplexity {result['test']['perplexity']:.4f}" in said
    assert "kept     update 4, the best loss" in said


def test_one_update_is_not_said_to_be_many() -> None:
    said = train("reverse", *sets(*SEQUENCES, "training.max_steps=1", "task.epoch_size=1")).stdout
    assert "training 1 update, batches of " in said
    assert ", 1 batch an epoch" in said
    assert "trained  1 update in " in said


def test_demo_shows_it_working_and_its_next_commands_can_be_pasted() -> None:
    folder = Path("我的 demo's")
    result = call("demo", "--out", folder, *sets(*SEQUENCES))
    assert result.exit_code == 0
    assert (folder / "report.html").is_file()
    assert result.stdout.count(" -> ") == 5
    assert all(len(line) <= 80 for line in result.stdout.splitlines() if line.startswith("  "))
    commands = [shlex.split(line, comments=True) for line in result.stdout.splitlines() if "  glassformer " in line]
    assert [command[1] for command in commands] == ["generate", "demo", "train"]
    assert call(*commands[0][1:]).exit_code == 0
    for command in commands[1:]:
        tiny = SEQUENCES if command[1] == "demo" else TEXT
        assert call(*command[1:], *sets(*tiny)).exit_code == 0


def test_commands_of_the_report_can_be_pasted(text_run: Path) -> None:
    from html import unescape

    page = unescape((text_run / "report.html").read_text(encoding="utf-8"))
    assert f"glassformer eval {shlex.quote(str(text_run))}" in page


def test_list_names_every_recipe_with_a_line() -> None:
    lines = call("train", "--list").stdout.splitlines()
    assert {"copy", "demo", "language_model", "reverse", "shakespeare", "sort"} <= {line.split()[0] for line in lines}
    assert all(len(line.split()) > 3 for line in lines)


def test_list_fits_the_terminal_without_breaking_words(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = call("train", "--list").stdout
    monkeypatch.setattr("glassformer.cli.train.terminal_width", lambda: 60)
    lines = call("train", "--list").stdout.splitlines()
    assert max(map(len, lines)) <= 60
    assert " ".join(lines).split() == whole.split()


@pytest.mark.parametrize("recipe", ["shakespeare", "multi30k", "zh_en", "trec", "chnsenticorp"])
def test_recipe_without_its_data_says_what_to_name_and_where_it_comes_from(recipe: str) -> None:
    setting = "task.text" if recipe == "shakespeare" else "task.data"
    refused(call("train", recipe), f"the recipe {recipe} brings no data; name it: --set {setting}=")
    assert not Path("runs").exists() or not any(Path("runs").iterdir())


def test_options_are_settings(reverse_run: Path) -> None:
    train(
        "reverse",
        "--out",
        "run",
        *sets(*SEQUENCES),
        "--device",
        "cpu",
        "--threads",
        "1",
        "--precision",
        "float32",
        "--language",
        "zh",
    )
    config = Path("run/config.yaml").read_text(encoding="utf-8")
    for setting in ("device: cpu", "threads: '1'", "precision: float32", "language: zh"):
        assert setting in config


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        ("foo", "'foo' is not a setting; write it as section.key=value"),
        ("foo=1", "'foo=1' is not a setting"),
        ("=3", "'=3' is not a setting"),
        (".=3", "known: model, task, training"),
        ("training=3", "'training=3' is not a setting"),
        ("traning.max_steps=3", "did you mean 'training'?"),
        ("training.max_step=3", "training.max_step is not a setting; did you mean 'max_steps'?"),
        ("training.=3", "training. is not a setting; known: "),
        ("training.max_steps.deep=3", "max_steps is a value"),
        ("training.max_steps=", "training.max_steps is ''"),
        ("training.max_steps=ten", "training.max_steps is 'ten'"),
        ("training.max_steps=1.5", "training.max_steps is '1.5'"),
        ("training.max_steps=0", "training.max_steps is '0': input should be greater than or equal to 1"),
        ("training.max_steps=-1", "training.max_steps is '-1'"),
        ("training.max_steps=1e30", "training.max_steps is '1e30'"),
        ("training.max_steps=nan", "training.max_steps is 'nan'"),
        ("training.lr=0", "training.lr is '0'"),
        ("training.lr=inf", "training.lr is 'inf'"),
        ("training.lr=none", "schedule=linear needs lr"),
        ("training.seed=1" + 30 * "0", "training.seed is '1"),
        ("training.threads=100000000", "training.threads is '100000000'"),
        ("training.batch_size=0", "training.batch_size is '0'"),
        ("training.optimizer=adan", "input should be 'adamw'"),
        ("training.select_by=exactmatch", "there is no metric 'exactmatch'; did you mean 'exact_match'?"),
        ("training.warmup=100", "warmup takes 100 updates, but max_steps is only 4"),
        ("training.device=gpu", "training.device is 'gpu'"),
        ("task.name=revers", "task.name is 'revers', which is not a task; did you mean 'reverse'?"),
        ("task.name=", "task.name is ''"),
        ("task.alphabet=1", "task.alphabet is '1'"),
        ("task.alphabet=11", "alphabet '11' holds a symbol twice"),
        ("task.min_length=30", "min_length 30 is above max_length 20"),
        ("task.test_size=0", "task.test_size is '0'"),
        ("model.preset=tinny", "unknown preset 'tinny'; did you mean 'tiny'?"),
        ("model.n_heads=3", "d_model 16 cannot be shared out to n_heads 3: choose n_heads from [1, 2, 4, 8, 16]"),
        ("model.n_kv_heads=3", "n_kv_heads must be one of [1, 2]"),
        ("model.d_model=0", "model.d_model is '0'"),
        ("model.d_model=-8", "model.d_model is '-8'"),
        ("model.d_model=1e30", "model.d_model is '1e30'"),
        ("model.dropout=nan", "model.dropout is 'nan'"),
        ("model.dropout=1", "model.dropout is '1': input should be less than 1"),
        ("model.attention=3", "set model.attention.KEY"),
        ("model.attention.scale=big", "model.attention.scale is 'big'"),
        ("model.attention.kernel=fast", "unknown kernel 'fast' of softmax attention; known: auto, blocks, reference"),
        (
            "model.attention.kernel=windowed",
            "layer 0: attention.kernel=windowed cannot do this: it is for a window and no other restriction "
            "(attention.window=64); use attention.kernel=auto",
        ),
        ("model.kind=decoder", "the task reverse trains a model of kind encoder_decoder, but model.kind is decoder"),
        ("model.max_positions=5", "the data has rows of 21 tokens, but model.max_positions is 5"),
    ],
)
def test_a_wrong_setting_is_refused_before_any_work(edit: str, words: str) -> None:
    refused(call("train", "reverse", *sets(*SEQUENCES, edit)), words)
    assert list(Path().rglob("*")) in ([], [Path("runs")])


def test_more_sequences_than_there_are_cannot_be_held_out() -> None:
    few = sets(*SEQUENCES, "task.max_length=3", "task.test_size=2000")
    refused(call("train", "reverse", *few), "cannot hold out 2000 different sequences of 3 to 3 symbols")


def test_a_model_that_no_machine_holds_is_refused() -> None:
    refused(call("train", "reverse", "--out", "run", *sets(*SEQUENCES, f"model.d_model={10**12}")), "not enough memory")
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (["revers"], "unknown recipe 'revers'; did you mean 'reverse'?", 1),
        (["missing.yaml"], "cannot read the recipe missing.yaml: No such file", 1),
        (["."], "unknown recipe '.'; known: ", 1),
        ([], "name a recipe (glassformer train --list shows them), or --resume DIR", 2),
        (["reverse", "--threads", "0"], "--threads", 2),
        (["reverse", "--threads", "100000000"], "--threads", 2),
        (["reverse", "--threads", "two"], "--threads", 2),
        (["reverse", "--precision", "float8"], "training.precision is 'float8'", 1),
        (["reverse", "--device", "gpu"], "training.device is 'gpu'", 1),
        (["reverse", "--set"], "--set", 2),
        (["--resume"], "--resume", 2),
    ],
)
def test_a_wrong_argument_is_refused(arguments: list[str], words: str, code: int) -> None:
    refused(call("train", *arguments), words, code=code)


def test_a_device_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    refused(call("train", "reverse", "--device", "cuda", *sets(*SEQUENCES)), "device=cuda", "it can use: cpu")


def test_a_text_in_place_of_a_recipe_shows_the_right_command(book: Path) -> None:
    said = refused(call("train", book), "is a file but no .yaml recipe", code=2)
    command = shlex.split(said[said.index("glassformer train language_model") :])
    assert call(*command[1:], *sets(*TEXT)).exit_code == 0


def test_a_recipe_file_names_the_folder() -> None:
    lines = [f"{section}:\n  {key}: {value}\n" for section, key, value in (("task", "name", "copy"),)]
    Path("mine.yaml").write_text("# my own\n" + "".join(lines), encoding="utf-8")
    train("mine.yaml", *sets(*SEQUENCES))
    assert Path("runs/mine-1/result.json").is_file()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"task: [", "mine.yaml is not readable YAML"),
        (b"- 1", "mine.yaml holds no sections"),
        (b"", "mine.yaml holds no sections"),
        (b"\xff\xfe", "mine.yaml is not UTF-8"),
        (b"task: 3", "task is '3'"),
        (b"tusk: {name: copy}", "tusk is not a section of a recipe; did you mean 'task'?"),
    ],
)
def test_a_damaged_recipe_file_is_named(content: bytes, words: str) -> None:
    Path("mine.yaml").write_bytes(content)
    refused(call("train", "mine.yaml"), words)


def _texts() -> dict[str, tuple[bytes | None, str]]:
    packed = gzip.compress(BOOK.encode())
    return {
        "missing.txt": (None, "there is no file missing.txt"),
        "nowhere/x.txt": (None, "there is no file nowhere/x.txt, nor the folder nowhere"),
        "~/there is no such file.txt": (None, "there is no file /"),
        "": (None, "task.text is ''"),
        ".": (None, ". is a folder"),
        "empty.txt": (b"", "empty.txt is empty"),
        "short.txt": (b"short", "short.txt has 5 characters, too few"),
        "few.txt": (40 * b"few", "tokens, but windows of context 60 need 120; give more text or a smaller context"),
        "latin.txt": ("Grüße".encode("latin-1"), "latin.txt is not UTF-8: byte 0xFC in line 1, at byte offset 2"),
        "cut.txt.gz": (packed[: len(packed) // 2], "cut.txt.gz is not a whole gzip file"),
        "plain.txt.gz": (BOOK.encode(), "plain.txt.gz is not a whole gzip file"),
        "flipped.txt.gz": (packed[:60] + bytes([packed[60] ^ 255]) + packed[61:], "flipped.txt.gz is not a whole gzip"),
    }


@pytest.mark.parametrize("name", _texts())
def test_a_text_that_cannot_be_used_is_refused(name: str) -> None:
    content, words = _texts()[name]
    if content is not None:
        Path(name).write_bytes(content)
    edits = (*TEXT, "task.context=60", f"task.text={name}")
    refused(call("train", "language_model", "--out", "run", *sets(*edits)), words)
    assert not Path("run").exists()


def test_a_gzipped_text_is_read() -> None:
    Path("book.txt.gz").write_bytes(gzip.compress(BOOK.encode()))
    train("language_model", *sets(*TEXT, "task.text=book.txt.gz"))


def test_a_folder_that_holds_something_is_left_alone(reverse_run: Path, copied: Callable[[Path], Path]) -> None:
    run = copied(reverse_run)
    before = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    said = refused(
        call("train", "reverse", "--out", run, *sets(*SEQUENCES)), "is not empty", "go on with it: glassformer"
    )
    assert shlex.split(said)[-1] == str(run)
    assert before == {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    Path("mine").mkdir()
    Path("mine/thesis.txt").write_text("important", encoding="utf-8")
    said = refused(
        call("train", "reverse", "--out", "mine", *sets(*SEQUENCES)), "mine is not empty; choose another --out"
    )
    assert "--resume" not in said


def test_an_empty_folder_is_taken() -> None:
    Path("run").mkdir()
    train("reverse", "--out", "run", *sets(*SEQUENCES))


def test_an_impossible_folder_is_refused() -> None:
    Path("file").write_text("important", encoding="utf-8")
    refused(call("train", "reverse", "--out", "file", *sets(*SEQUENCES)), "file is a file, and a run is a folder")
    refused(call("train", "reverse", "--out", "file/run", *sets(*SEQUENCES)), "cannot write in file/run", "--out")
    refused(call("train", "reverse", "--out", 300 * "x", *sets(*SEQUENCES)), "File name too long")
    assert Path("file").read_text(encoding="utf-8") == "important"


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_folder_without_permission_is_refused() -> None:
    Path("closed").mkdir(mode=0o500)
    refused(call("train", "reverse", "--out", "closed/run", *sets(*SEQUENCES)), "cannot write in closed/run")


def test_two_trainings_never_take_the_same_number() -> None:
    with claimed(None, "reverse") as one, claimed(None, "reverse") as other:
        assert one != other
        (one / "config.yaml").touch()
    assert one.exists()
    assert not other.exists(), "what was never begun leaves nothing behind"


def test_numbers_cannot_be_claimed_where_runs_is_a_file() -> None:
    Path("runs").touch()
    refused(call("train", "reverse", *sets(*SEQUENCES)), "cannot make runs/reverse-1: Not a directory")
