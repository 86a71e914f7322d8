"""`eval`, `generate` and `score`: right answers, every mistake one can make, pipes and scripts."""

from __future__ import annotations

import json
import math
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from glassformer.checkpoint.loading import load
from glassformer.generation.config import GenerationConfig
from glassformer.generation.text import generate_text, score_text
from glassformer.models.transformer import Transformer
from glassformer.text.build import byte_tokenizer

from .calling import call, refused, sets

VERBS: dict[str, list[str]] = {"generate": ["The "], "score": ["The "], "summary": [], "sites": []}


def answer(*arguments: str | Path, **options: Any) -> Any:
    """The JSON value that is all of the standard output."""
    result = call(*arguments, "--json", **options)
    assert result.exit_code == 0, result.output
    assert result.stdout.count("\n") == 1
    return json.loads(result.stdout)


# --- eval


def test_eval_measures_what_training_measured(reverse_run: Path, text_run: Path) -> None:
    for run in (reverse_run, text_run):
        wanted = json.loads((run / "result.json").read_text(encoding="utf-8"))["test"]
        assert answer("eval", run) == {"split": "test", **wanted}
        said = call("eval", run).stdout
        assert f"loss {wanted['loss']:.4f}" in said
        assert said.startswith("test: exact match " if "exact_match" in wanted else "test: loss ")


def test_eval_on_other_data(text_run: Path, book: Path) -> None:
    Path("我的 other.txt").write_text(book.read_text(encoding="utf-8").upper(), encoding="utf-8")
    other = answer("eval", text_run, *sets("task.text=我的 other.txt"))
    assert other["loss"] != answer("eval", text_run)["loss"]
    assert answer("eval", text_run, *sets("task.test=0"))["split"] == "valid"


def test_eval_of_a_number_that_json_cannot_say_is_null(text_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "glassformer.training.run.evaluate_run", lambda *_, **__: ("test", {"loss": 800.0, "perplexity": math.inf})
    )
    assert answer("eval", text_run) == {"split": "test", "loss": 800.0, "perplexity": None}
    assert call("eval", text_run).stdout == "test: loss 800.0000  perplexity inf\n"


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (["--set", "task.text=missing.txt"], "there is no file missing.txt", 1),
        (["--set", "task.txt=book.txt"], "task.txt is not a setting; did you mean 'text'?", 1),
        (["--set", "a=b"], "'a=b' is not a setting", 1),
        (["--set", "training.max_steps=3"], "training.max_steps=3 has no effect", 1),
        (["--precision", "float8"], "precision is 'float8'; choose ", 1),
        (["--device", "gpu"], "device is 'gpu'; choose auto, cpu, cuda or mps", 1),
        (["--threads", "0"], "--threads", 2),
    ],
)
def test_eval_refuses_a_wrong_argument(text_run: Path, arguments: list[str], words: str, code: int) -> None:
    refused(call("eval", text_run, *arguments), words, code=code)


def test_eval_refuses_what_is_no_run(copied: Callable[[Path], Path], text_run: Path) -> None:
    for name in ("missing", "preset:tiny", "."):
        refused(call("eval", name), f"{name} is no run folder: it holds no config.yaml")
    run = copied(text_run)
    (run / "model.safetensors").unlink()
    refused(call("eval", run), "holds no model.safetensors; finish the run first: glassformer train --resume '")


def test_eval_with_characters_the_model_does_not_know_names_the_first(reverse_run: Path) -> None:
    refused(call("eval", reverse_run, *sets("task.alphabet=abcdefghij")), "U+006", "has no id in this vocabulary of 13")


def test_ctrl_c_ends_an_evaluation(text_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassformer.training.run.evaluate", lambda *_, **__: signal.raise_signal(signal.SIGINT))
    refused(call("eval", text_run), "stopped", code=130)


# --- generate


def test_generate_prints_what_the_library_writes(text_run: Path, reverse_run: Path) -> None:
    for run, prompt in ((text_run, "The "), (reverse_run, "31415")):
        wanted = generate_text(load(run), prompt, GenerationConfig(max_new_tokens=9))
        shown = call("generate", run, prompt, "--max-new-tokens", "9").stdout
        assert shown == wanted.text + "\n"
        assert call("generate", run, prompt, "--max-new-tokens", "9", "--stream").stdout == shown
        assert answer("generate", run, prompt, "--max-new-tokens", "9") == {
            "text": wanted.text,
            "tokens": list(wanted.tokens),
            "stop_reason": wanted.stop_reason,
        }


def test_generate_reads_the_prompt_in_chunks(text_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    forward = Transformer.forward

    def noted(self: Transformer, inputs: torch.Tensor, **named: Any) -> Any:
        read.append(inputs.shape[1])
        return forward(self, inputs, **named)

    monkeypatch.setattr(Transformer, "forward", noted)
    for ways in ([], ["--stream"], ["--beam", "2"]):
        few = ["generate", text_run, "The man", "--max-new-tokens", "2", *ways]
        assert call(*few, "--prefill-chunk", "3").stdout == call(*few, "--prefill-chunk", "0").stdout
        assert read == [1, 3, 3, 1, 7, 1]
        read.clear()


def test_generate_shows_candidates_only_when_asked(text_run: Path) -> None:
    few = ["generate", text_run, "The ", "--max-new-tokens", "3"]
    assert len(call(*few).stdout.splitlines()) == 1
    lines = call(*few, "--probs", "2").stdout.splitlines()
    assert len(lines) == 4
    assert all(line.count(" %") == 2 for line in lines[1:])
    everything = answer(*few, "--probs", "1000")["top"]
    assert len(everything) == 3
    assert sum(candidate["p"] for candidate in everything[0]) == pytest.approx(1)
    assert set(everything[0][0]) == {"token", "id", "p"}


def test_generate_with_a_seed_can_be_repeated(text_run: Path) -> None:
    drawn = ["generate", text_run, "The ", "--max-new-tokens", "9", "--temperature", "1.5", "--seed"]
    assert call(*drawn, "1").stdout == call(*drawn, "1").stdout != call(*drawn, "2").stdout


def test_generate_reads_the_standard_input_as_utf_8(text_run: Path) -> None:
    wanted = answer("generate", text_run, "天上", "--max-new-tokens", "5")
    for typed in ("天上", "天上\n", "天上\r\n", b"\xef\xbb\xbf" + "天上".encode()):
        assert answer("generate", text_run, "-", "--max-new-tokens", "5", typed=typed) == wanted


def test_generate_refuses_a_standard_input_that_is_no_text(text_run: Path) -> None:
    refused(call("generate", text_run, "-", typed=b"ab\xff"), "the standard input is not UTF-8: byte 0xFF at offset 2")


def test_generate_says_why_it_stops_early_and_slides_when_asked(text_run: Path) -> None:
    full = call("generate", text_run, "The ")
    assert full.stderr == "note: the context of 16 tokens is full; --when-full slide goes on\n"
    slid = answer("generate", text_run, "The ", "--max-new-tokens", "40", "--when-full", "slide")
    assert (len(slid["tokens"]), slid["stop_reason"]) == (40, "length")
    assert answer("generate", text_run, "The ")["stop_reason"] == "context"


def test_generate_nothing(text_run: Path) -> None:
    assert call("generate", text_run, "The ", "--max-new-tokens", "0").stdout == "\n"
    nothing = {"text": "", "tokens": [], "stop_reason": "length"}
    assert answer("generate", text_run, "The ", "--max-new-tokens", "0") == nothing


def test_generate_notes_what_has_no_effect(text_run: Path) -> None:
    few = ["generate", text_run, "The ", "--max-new-tokens", "1"]
    said = call(*few, "--top-k", "5", "--seed", "3").stderr
    assert said == "note: without effect at temperature 0, which takes the most probable token: --top-k, --seed\n"
    assert "--stream" in call(*few, "--stream", "--probs", "2").stderr
    both = call(*few, "--stream", "--json")
    assert "--stream" in both.stderr
    json.loads(both.stdout)


def test_generate_says_when_it_compiles_and_when_not(text_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassformer.generation.fast.compiled", lambda function: function)
    monkeypatch.setattr("glassformer.core.compilers.shutil.which", lambda name: "/compiler")

    def said(*options: str, model: str | Path = text_run) -> str:
        return call("generate", model, "The ", "--fast", "on", *options).stderr

    few = ("--max-new-tokens", "3")
    for shown in ((), ("--stream",), ("--json",)):
        assert said(*few, *shown).startswith("note: the steps are compiled first")
    assert said(*few, "--no-cache") == "note: without effect together with --no-cache: --fast\n"
    for number in "01":
        assert said("--max-new-tokens", number).startswith("note: without effect below 2 new tokens")
    monkeypatch.setattr("glassformer.models.transformer.Transformer.can_cache", False)
    assert said(*few).startswith("note: without effect on a model that reads all anew")
    monkeypatch.undo()
    monkeypatch.setattr("glassformer.core.compilers.shutil.which", lambda name: None)
    with pytest.warns(UserWarning, match="^not compiled, "):
        assert said(*few) == ""


def test_generate_notes_unknown_characters(text_run: Path) -> None:
    said = call("generate", text_run, "é∑", "--max-new-tokens", "1").stderr
    assert said == "note: 2 tokens of the text are unknown to this model\n"


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--max-new-tokens", "-1", "--max-new-tokens is -1: input should be greater than or equal to 0"),
        ("--max-new-tokens", "1" + 20 * "0", "--max-new-tokens is 1"),
        ("--max-new-tokens", "x", "--max-new-tokens"),
        ("--min-new-tokens", "-1", "--min-new-tokens is -1"),
        ("--min-new-tokens", "999", "--min-new-tokens is 999, more than --max-new-tokens 256; raise --max-new-tokens"),
        ("--temperature", "-1", "--temperature is -1.0"),
        ("--temperature", "nan", "--temperature is nan: input should be a finite number"),
        ("--temperature", "inf", "--temperature is inf"),
        ("--temperature", "hot", "--temperature"),
        ("--top-k", "-1", "--top-k is -1"),
        ("--top-k", "1.5", "--top-k"),
        ("--top-p", "1.5", "--top-p is 1.5: input should be less than or equal to 1"),
        ("--top-p", "-0.5", "--top-p is -0.5"),
        ("--top-p", "nan", "--top-p is nan"),
        ("--repetition-penalty", "0", "--repetition-penalty is 0.0: input should be greater than 0"),
        ("--repetition-penalty", "nan", "--repetition-penalty is nan"),
        ("--seed", "-1", "--seed is -1"),
        ("--seed", "1" + 30 * "0", "--seed is 1"),
        ("--probs", "-1", "--probs is -1"),
        ("--prefill-chunk", "-1", "--prefill-chunk is -1: input should be greater than or equal to 0"),
        ("--stop", "", "--stop: an empty text stands everywhere"),
        ("--when-full", "burst", "--when-full is 'burst': input should be 'stop' or 'slide'"),
        ("--threads", "0", "--threads"),
        ("--threads", "100000000", "--threads"),
    ],
)
def test_generate_names_a_wrong_option_as_it_was_typed(text_run: Path, option: str, value: str, words: str) -> None:
    refused(call("generate", text_run, "The ", option, value), words, code=2)


def test_generate_refuses_what_a_model_cannot_read(text_run: Path, reverse_run: Path) -> None:
    refused(call("generate", text_run), "is empty and there is no begin token")
    refused(call("generate", text_run, "-", typed=""), "is empty and there is no begin token")
    refused(call("generate", text_run, 43 * "a"), "prompt 43 > context 16", "shorten it")
    refused(call("generate", text_run, 43 * "a", "--when-full", "slide"), "prompt 43 > context 16")
    refused(call("generate", reverse_run, "12a"), "character 'a' (U+0061) at offset 2 has no id in this vocabulary")
    assert call("generate", reverse_run, "", "--max-new-tokens", "3").exit_code == 0, "it has a begin token"


def test_a_device_that_is_not_there_is_refused(text_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for verb, rest in {**VERBS, "eval": []}.items():
        refused(call(verb, text_run, *rest, "--device", "cuda"), "device=cuda, but torch finds none", "cpu")


def test_generate_with_extreme_but_possible_settings(text_run: Path) -> None:
    few = ["generate", text_run, "The ", "--max-new-tokens", "3"]
    for more in (
        ["--temperature", "1e-300"],
        ["--temperature", "1e300"],
        ["--top-k", "1000000", "--temperature", "1"],
        ["--top-p", "0", "--temperature", "1"],
        ["--repetition-penalty", "1e30"],
        ["--stop", "no such text", "--stop", "🎉"],
        ["--no-cache"],
        ["--precision", "bf16"],
        ["--precision", "auto"],
        ["--threads", "1"],
        ["--device", "cpu"],
    ):
        assert call(*few, *more).exit_code == 0


# --- score


def test_score_prints_what_the_library_says(text_run: Path, reverse_run: Path) -> None:
    for run, text, more in ((text_run, "The 天", []), (reverse_run, "123", ["--target", "321"])):
        wanted = score_text(load(run), text, more[1] if more else None)
        found = answer("score", run, text, *more)
        assert found["total"] == pytest.approx(wanted.total)
        assert [token["id"] for token in found["tokens"]] == list(wanted.tokens)
        lines = call("score", run, text, *more).stdout.splitlines()
        assert lines[-1] == f"{wanted.total:10.4f}  in all, {len(wanted.tokens)} tokens"
        assert len(lines) == len(wanted.tokens) + 1


def test_score_reads_the_standard_input(text_run: Path) -> None:
    assert answer("score", text_run, "-", typed="天上有云\n") == answer("score", text_run, "天上有云")


def test_score_of_nothing_says_so(text_run: Path, reverse_run: Path) -> None:
    for text in ("T", ""):
        result = call("score", text_run, text)
        assert result.stdout == "    0.0000  in all, 0 tokens\n"
        assert "nothing is scored" in result.stderr
        assert answer("score", text_run, text) == {"total": 0.0, "tokens": []}
    assert [token["token"] for token in answer("score", reverse_run, "", "--target", "")["tokens"]] == ["<eos>"]


def test_score_of_one_token_is_not_said_to_be_many(text_run: Path) -> None:
    assert call("score", text_run, "Th").stdout.splitlines()[-1].endswith("in all, 1 token")


def test_score_refuses_what_a_model_cannot_read(text_run: Path, reverse_run: Path) -> None:
    refused(call("score", text_run, "The", "--target", "x"), "decoder-only", "without --target")
    refused(call("score", reverse_run, "123"), "say which with --target")
    refused(call("score", reverse_run, "123", "--target", "abc"), "character 'a'")
    refused(call("score", text_run, 60 * "a"), "> context 16", "shorten it")
    refused(call("score", text_run, "The", "--precision", "float8"), "precision is 'float8'")
    refused(call("score", text_run, "The", "--threads", "0"), "--threads", code=2)
    refused(call("score", text_run, "-", typed=b"\xff"), "the standard input is not UTF-8")


def test_score_notes_unknown_characters(text_run: Path) -> None:
    assert call("score", text_run, "Te∑").stderr == "note: 1 token of the text is unknown to this model\n"


# --- MODEL


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("missing", "there is no folder missing; give a run folder, a checkpoint folder or preset:NAME"),
        ("file", "there is no folder file"),
        ("empty", "empty holds no model.safetensors"),
        ("preset:tinny", "unknown preset 'tinny'; did you mean 'tiny'?"),
        ("preset:", "unknown preset ''; known: "),
    ],
)
def test_a_model_that_is_not_there_is_refused(verb: str, name: str, words: str) -> None:
    Path("file").touch()
    Path("empty").mkdir()
    refused(call(verb, name, *VERBS[verb]), words)


def _damage(run: Path, kind: str) -> str:
    """Damage a run; return what is to be said."""
    model, tokenizer = run / "model.safetensors", run / "tokenizer.json"
    whole = model.read_bytes()
    match kind:
        case "truncated":
            model.write_bytes(whole[: len(whole) // 2])
        case "header only":
            model.write_bytes(whole[:100])
        case "empty":
            model.write_bytes(b"")
        case "random":
            model.write_bytes(bytes(range(256)) * 100)
        case "foreign":
            save_file({"weight": torch.zeros(3)}, model, {"format": "pt"})
            return "holds weights that were not written by glassformer, and no config.json"
        case "other shapes":
            loaded = load(run)
            config = loaded.model.config
            assert config.decoder is not None
            wider = replace_width(config.model_dump(mode="json"))
            save_file(
                {name: tensor.clone() for name, tensor in loaded.model.state_dict().items()},
                model,
                {"format": "glassformer 1", "config": json.dumps(wider)},
            )
            return "does not fit the model:"
        case "no tokenizer":
            tokenizer.unlink()
            return "cannot read the tokenizer"
        case "torn tokenizer":
            tokenizer.write_bytes(tokenizer.read_bytes()[:100])
            return "is not a whole tokenizer.json"
        case "binary tokenizer":
            tokenizer.write_bytes(b"\xff\xfe")
            return "is not a whole tokenizer.json"
        case "large tokenizer":
            byte_tokenizer().save(tokenizer)
            return "has 256 entries, the model's embedding "
    return "damaged checkpoint "


def replace_width(config: dict[str, Any]) -> dict[str, Any]:
    """The same architecture, twice as wide."""
    config["decoder"]["input"]["d_model"] *= 2
    return config


@pytest.mark.parametrize("verb", ["generate", "sites"])
@pytest.mark.parametrize(
    "kind",
    [
        "truncated",
        "header only",
        "empty",
        "random",
        "foreign",
        "other shapes",
        "no tokenizer",
        "torn tokenizer",
        "binary tokenizer",
        "large tokenizer",
    ],
)
def test_a_damaged_model_is_refused(verb: str, kind: str, text_run: Path, copied: Callable[[Path], Path]) -> None:
    run = copied(text_run)
    words = _damage(run, kind)
    if verb == "sites" and "tokenizer" in kind:  # what needs no text does without
        assert call(verb, run).exit_code == 0
        return
    said = refused(call(verb, run, *VERBS[verb]), words)
    assert str(run) in said
    if verb == "generate":
        refused(call("eval", run), str(run))


def test_a_model_with_weights_that_are_no_numbers_is_refused(text_run: Path, copied: Callable[[Path], Path]) -> None:
    from glassformer.checkpoint.native import save_model

    run = copied(text_run)
    loaded = load(run)
    with torch.no_grad():
        next(loaded.model.parameters()).fill_(math.nan)
    save_model(loaded.model, run / "model.safetensors")
    refused(call("generate", run, "The "), "step 1, row 0: the score of token ", "is nan")
    found = answer("score", run, "The ")
    assert found["total"] is None


def test_a_preset_can_be_used_at_once() -> None:
    assert len(answer("generate", "preset:tiny", "闫🎉", "--max-new-tokens", "4")["tokens"]) == 4
    assert len(answer("score", "preset:tiny", "闫🎉")["tokens"]) == 7
    refused(call("generate", "preset:tiny", 300 * "a"), "prompt 301 > context 256")


def test_a_checkpoint_folder_is_enough(text_run: Path) -> None:
    Path("mine").mkdir()
    for name in ("model.safetensors", "tokenizer.json"):
        shutil.copy(text_run / name, "mine")
    assert call("generate", "mine", "The ", "--max-new-tokens", "2").exit_code == 0
