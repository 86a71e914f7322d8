"""`inspect`: what is written and said for every kind of model, and every mistake one can make."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.checkpoint.loading import Loaded, load
from glassformer.core.config import HeadConfig, TransformerConfig
from glassformer.generation.config import GenerationConfig
from glassformer.generation.text import generate_text
from glassformer.inspection import canvas
from glassformer.inspection.wording import word
from glassformer.models.arguments import ModelArguments
from glassformer.models.transformer import Transformer
from glassformer.text.build import byte_tokenizer

from .calling import call, refused


def data_of(page: Path) -> Any:
    """What the script of a page is given."""
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page.read_text("utf-8"))
    return json.loads(found)


def axes_of(page: Path) -> dict[str, tuple[list[str], list[str]]]:
    """The labels of rows and columns of every stack."""
    data = data_of(page)
    return {each["part"]: (data["axes"][each["rows"]], data["axes"][each["columns"]]) for each in data["attention"]}


def test_inspect_writes_a_page_and_says_where(text_run: Path) -> None:
    result = call("inspect", text_run, "The 山")
    assert result.exit_code == 0, result.output
    assert result.stdout == "inspect.html\n"
    tokenizer = load(text_run).tokenizer
    labels = [label for _, label in tokenizer.label_groups(tokenizer.encode("The 山"))]
    begin = [] if tokenizer.bos_id is None else [tokenizer.label(tokenizer.bos_id)]
    assert axes_of(Path("inspect.html")) == {"decoder": ([*begin, *labels], [*begin, *labels])}


def test_bytes_of_one_character_are_shown_as_one() -> None:
    call("inspect", "preset:tiny", "a山é🎉")
    labels = ["<bos>", "a", "山", "é", "🎉"]
    assert axes_of(Path("inspect.html")) == {"decoder": (labels, labels)}


def test_inspect_shows_an_encoder_decoder_with_its_own_output(reverse_run: Path) -> None:
    own = generate_text(load(reverse_run), "314", GenerationConfig(max_new_tokens=4))
    result = call("inspect", reverse_run, "314", "--out", "folder/my page.html", "--max-tokens", "4")
    assert result.stdout == f"{Path('folder/my page.html')}\n"
    assert result.stderr == f"note: The output is the model's own, as no --target was given: {own.text}\n"
    axes = axes_of(Path("folder/my page.html"))
    assert axes["encoder"] == (["3", "1", "4", "<eos>"],) * 2
    written = [load(reverse_run).tokenizer.label(token) for token in own.tokens]
    assert axes["cross"] == (written, ["3", "1", "4", "<eos>"])
    assert axes["decoder"] == (["<bos>", *written[:-1]],) * 2


def test_inspect_shows_a_given_target(reverse_run: Path) -> None:
    result = call("inspect", reverse_run, "314", "--target", "41")
    assert result.stderr == ""
    axes = axes_of(Path("inspect.html"))
    assert axes["cross"] == (["4", "1", "<eos>"], ["3", "1", "4", "<eos>"])
    assert axes["decoder"] == (["<bos>", "4", "1"],) * 2


def test_inspect_writes_pictures_and_no_page(reverse_run: Path) -> None:
    result = call("inspect", reverse_run, "31", "--target", "13", "--png", "pictures", "--language", "zh")
    names = ["encoder-layer-00.png", "decoder-layer-00.png", "cross-layer-00.png", "norms.png"]
    assert result.stdout.splitlines() == [str(Path("pictures") / name) for name in names]
    assert sorted(file.name for file in Path("pictures").iterdir()) == sorted(names)
    assert not Path("inspect.html").exists()


def test_labels_that_cannot_be_drawn_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canvas, "CJK", ())
    result = call("inspect", "preset:tiny", "山", "--png", "pictures", "--layers", "1", "--out", "page.html")
    assert result.stdout.splitlines() == [str(Path("pictures") / n) for n in ("decoder-layer-01.png", "norms.png")] + [
        "page.html"
    ]
    assert "note: no installed font has all of 山; the pictures show □ there" in result.stderr


@pytest.mark.parametrize("language", ["en", "zh"])
def test_inspect_reads_only_so_many_tokens(language: str) -> None:
    result = call("inspect", "preset:tiny", "a山b", "--max-tokens", "3", "--language", language)
    # the bytes of 山 would be the tokens 2 to 4: no character is read in part
    assert axes_of(Path("inspect.html"))["decoder"][0] == ["<bos>", "a"]
    said = word("cut_input", language).format(read=1, all=5)
    assert result.stderr == f"note: {said}\n"
    assert said in Path("inspect.html").read_text("utf-8")


def test_source_and_target_are_cut_alike(reverse_run: Path) -> None:
    result = call("inspect", reverse_run, "31415", "--target", "51413", "--max-tokens", "2")
    axes = axes_of(Path("inspect.html"))
    assert axes["cross"] == (["5", "1", "<eos>"], ["3", "1", "<eos>"])
    assert "input only the first 2 of 5" in result.stderr
    assert "output only the first 2 of 5" in result.stderr
    call("inspect", reverse_run, "31415", "--max-tokens", "2")
    assert len(axes_of(Path("inspect.html"))["cross"][0]) <= 2, "nor does it write more"


def test_a_page_is_called_after_its_model_wherever_one_stands(
    reverse_run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(reverse_run)
    call("inspect", ".", "314", "--out", tmp_path / "page.html")
    assert "<h1>reverse</h1>" in (tmp_path / "page.html").read_text("utf-8")


def test_layers_and_heads_are_chosen() -> None:
    call("inspect", "preset:tiny", "abc", "--layers", "1", "--heads", "0, 3")
    (layer,) = data_of(Path("inspect.html"))["attention"]
    assert (layer["layer"], layer["heads"]) == (1, [0, 3])


def test_inspect_reads_the_standard_input() -> None:
    assert call("inspect", "preset:tiny", "-", typed="ab\n").exit_code == 0
    assert axes_of(Path("inspect.html"))["decoder"][0] == ["<bos>", "a", "b"]


@pytest.mark.parametrize("text", ["", "</script><img src=x onerror=alert(1)>"])
def test_any_text_can_be_inspected(text: str) -> None:
    assert call("inspect", "preset:tiny", text).exit_code == 0
    page = Path("inspect.html").read_text("utf-8")
    assert page.count("</script>") == 2, "the data's and the script's own"
    assert "<img" not in page


@pytest.mark.parametrize(
    ("kind", "pooling", "axes"),
    [
        ("encoder", None, {"encoder": 3}),
        ("encoder", "mean", {"encoder": 4}),
        ("decoder", "last", {"decoder": 4}),
        ("encoder_decoder", "last", {"encoder": 4, "decoder": 1, "cross": 1}),
    ],
)
def test_models_that_write_nothing_are_shown_too(
    monkeypatch: pytest.MonkeyPatch, kind: str, pooling: str | None, axes: dict[str, int]
) -> None:
    tokenizer = byte_tokenizer(("<pad>", "<bos>", "<eos>"))
    config = ModelArguments(kind=kind, d_model=16, n_layers=1, n_heads=2).resolve(tokenizer.vocab_size)
    if pooling is not None:
        head = HeadConfig(vocab_size=4, tied=False, pooling=pooling)
        config = TransformerConfig(encoder=config.encoder, decoder=config.decoder, head=head)
    model = Transformer(config, generator=torch.Generator().manual_seed(0)).eval()
    monkeypatch.setattr("glassformer.checkpoint.loading.load", lambda *_, **__: Loaded(model, tokenizer, "a model"))
    result = call("inspect", "a model", "ab")
    assert result.exit_code == 0, result.output
    assert result.stderr.startswith("note: labelled ") if pooling else result.stderr == ""
    assert {part: len(rows) for part, (rows, _) in axes_of(Path("inspect.html")).items()} == axes


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (["--layers", "2"], "layers [2] are not all in 0..1, the layers of this model", 1),
        (["--heads", "0,4"], "heads [0, 4] are not all in 0..3, the heads of decoder.blocks.0.attention", 1),
        (["--layers", "one"], "--layers is 'one'; give numbers from 0", 2),
        (["--heads", ""], "--heads is ''; give numbers from 0", 2),
        (["--max-tokens", "0"], "--max-tokens", 2),
        (["--language", "fr"], "there is no language 'fr'", 1),
        (["--target", "x"], "this model reads one text and no target: give it without --target", 1),
        (["--out", "."], "--out . is a folder; name a file in it, such as inspect.html", 2),
    ],
)
def test_inspect_refuses_a_wrong_argument(arguments: list[str], words: str, code: int) -> None:
    refused(call("inspect", "preset:tiny", "abc", *arguments), words, code=code)
    assert not list(Path().iterdir())


def test_inspect_names_the_option_of_a_folder_that_cannot_be_written() -> None:
    Path("file").write_bytes(b"")
    for option in ("--png", "--out"):
        refused(call("inspect", "preset:tiny", "abc", option, "file/x"), f"choose another folder with {option}")


def test_inspect_refuses_a_text_that_does_not_fit(text_run: Path) -> None:
    refused(call("inspect", text_run, "The fox " * 10), "context has room for 16", "--max-tokens 16")
    if load(text_run).tokenizer.bos_id is None:
        refused(call("inspect", text_run, ""), "the text is empty")


def test_inspect_says_what_a_classifier_decided(label_run: Path) -> None:
    found = json.loads(call("predict", label_run, "how many dogs", "--json").stdout)
    said = f"{100 * found['probabilities'][found['label']]:.1f} %"
    result = call("inspect", label_run, "how many dogs", "--language", "zh")
    assert result.stderr == f"note: 判为 {found['label']}，{said}\n"
    assert f"<dt>{found['label']}</dt><dd>{said}</dd>" in Path("inspect.html").read_text("utf-8")


def test_patches_are_told_line_by_line(text_run: Path) -> None:
    result = call("inspect", text_run, "The fox", "--patch", "decoder.*.attention.output=zero", "--ablate", "none")
    lines = result.stdout.splitlines()
    assert lines[0] == "decoder.*.attention.output=zero: 1 value changed"
    assert re.fullmatch(
        r"  loss [\d.]+ -> [\d.]+ nats, mean KL [\d.]+ nats, \d+ of \d+ answers changed",
        lines[1],
    )
    assert lines[-2].startswith("  attention moved most in decoder.blocks.0.attention 0.000")
    assert lines[-1] == "inspect.html"
    assert "decoder.*.attention.output=zero" in Path("inspect.html").read_text("utf-8")


def test_two_texts_are_told_line_by_line(text_run: Path) -> None:
    result = call("inspect", text_run, "The quick fox", "--contrast", "The lazy fox", "--token", "x")
    lines = result.stdout.splitlines()
    assert lines[0].startswith("heads whose attention from x changes most")
    assert re.match(r"  layer 0 head [01]  x: change \d\.\d{3}, ", lines[1])


def test_lines_are_chinese_where_that_is_asked_for(text_run: Path) -> None:
    options = ("--contrast", "The lazy fox", "--patch", "decoder.*.attention.output=zero", "--language", "zh")
    lines = call("inspect", text_run, "The quick fox", *options).stdout.splitlines()
    assert re.fullmatch(r"从 .+ 出发的注意力变化最大的头（第一段文本中的权重 -> 第二段中的）：", lines[0])
    assert re.match(r"  第 \d 层第 [01] 头  .+：变化 \d\.\d{3}, ", lines[1])
    assert "decoder.*.attention.output=zero：改动了 1 处" in lines
    assert re.match(r"  注意力变动最大之处：decoder", lines[-2])


def test_steps_of_what_is_written_are_on_the_page(text_run: Path) -> None:
    assert call("inspect", text_run, "The ", "--generate", "3").stdout == "inspect.html\n"
    more = data_of(Path("inspect.html"))["more"]
    assert len(more["steps"]["read"]) == more["steps"]["prompt"] + 3
    assert "steps" not in data_of_plain(text_run)["more"]


def data_of_plain(run: Path) -> Any:
    call("inspect", run, "The ", "--out", "plain.html")
    return data_of(Path("plain.html"))


def test_json_holds_what_was_found(text_run: Path) -> None:
    result = call("inspect", text_run, "The fox", "--json", "--out", "page.html")
    found = json.loads(result.stdout)
    assert found["files"] == ["page.html"]
    assert {"site", "head", "role", "shares", "entropy", "effect", "exact"} <= set(found["heads"][0])
    assert found["heads"][0]["effect"] is not None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--patch", "decoder.blocks.0.residual"], "write SITE=zero"),
        (["--patch", "decoder.blocks.9.residual=zero"], "no site matches"),
        (["--patch", "decoder.blocks.0.residual=none.npy"], "there is no file none.npy"),
        (["--token", "a"], "--contrast"),
        (["--contrast", "abc"], "the same tokens"),
    ],
)
def test_mistakes_of_findings_are_named(options: list[str], says: str) -> None:
    refused(call("inspect", "preset:tiny", "abc", *options), says)
    assert not Path("inspect.html").exists()


def test_ablate_is_zero_mean_or_none() -> None:
    refused(call("inspect", "preset:tiny", "abc", "--ablate", "one"), "give zero, mean or none", code=2)
