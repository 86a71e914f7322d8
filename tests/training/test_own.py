"""A model that a user wrote is trained, judged, asked and looked at like any other."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
import yaml

import glassformer as gf
from glassformer.checkpoint.loading import load, load_transformer
from glassformer.core.errors import CheckpointError, ConfigError, DataError, UnsupportedError
from glassformer.core.trust import CONSENT
from glassformer.core.wording import LANGUAGES
from glassformer.generation.config import BeamConfig, GenerationConfig
from glassformer.generation.score import score
from glassformer.generation.text import beam_texts, generate_texts, source_ids
from glassformer.inspection.attention import attention_weights
from glassformer.inspection.inspect import Axis, inspect_sample
from glassformer.inspection.trace import trace
from glassformer.inspection.trace_generation import trace_generation
from glassformer.models.own import OwnTransformer, own_code
from glassformer.training.recipe import own_recipe
from glassformer.training.run import evaluate_run, resume, train
from glassformer.training.start import started_from

from .tiny import assert_same_end, interrupt_after, needs_posix

MODEL = """
import torch
from torch import nn
from layers_of_mine import Attention

class Mine(nn.Module):
    def __init__(self, vocab_size, d_model=16, n_heads=2, dropout=0.0, shapes="right"):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.places = nn.Embedding(64, d_model)
        self.own, self.cross = Attention(d_model, n_heads), Attention(d_model, n_heads)
        self.reader = nn.MultiheadAttention(d_model, n_heads, batch_first=True)
        self.head = nn.Linear(d_model, vocab_size)

    def embed(self, tokens):
        return self.embedding(tokens) + self.places(torch.arange(tokens.shape[1]))

    def forward(self, source, target, source_keep=None):
        memory, x = self.embed(source), self.embed(target)
        hidden = None if source_keep is None else ~source_keep
        memory = memory + self.reader(memory, memory, memory, key_padding_mask=hidden, need_weights=False)[0]
        T = target.shape[1]
        x = x + self.own(x, x, torch.ones(T, T).tril().bool())[0]
        keep = None if source_keep is None else source_keep[:, None, None]
        x = x + self.cross(x, memory, keep)[0]
        return self.head(x)
"""

LAYERS = """
from torch import nn

class Attention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.h = n_heads
        self.q, self.o = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.kv = nn.Linear(d_model, 2 * d_model)

    def forward(self, x, memory, mask=None):
        def split(y):
            return y.view(*y.shape[:2], self.h, -1).transpose(1, 2)
        k, v = self.kv(memory).chunk(2, -1)
        scores = split(self.q(x)) @ split(k).mT / (x.shape[-1] / self.h) ** 0.5
        scores = scores if mask is None else scores.masked_fill(~mask, -1e9)
        weights = scores.softmax(-1)
        return self.o((weights @ split(v)).transpose(1, 2).flatten(2)), weights
"""

SMALL = [
    "training.max_steps=6",
    "training.batch_size=4",
    "training.eval_every=3",
    "task.test_size=4",
    "task.valid_size=4",
    "task.max_length=6",
    "task.epoch_size=64",
]


@pytest.fixture
def mine(tmp_path: Path) -> str:
    (tmp_path / "layers_of_mine.py").write_text(LAYERS, encoding="utf-8")
    (tmp_path / "mine.py").write_text(MODEL, encoding="utf-8")
    return f"{tmp_path / 'mine.py'}:Mine"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    (folder / "layers_of_mine.py").write_text(LAYERS, encoding="utf-8")
    (folder / "mine.py").write_text(MODEL, encoding="utf-8")
    run = train(own_recipe("reverse", f"{folder / 'mine.py'}:Mine", [*SMALL, "model.d_model=24"]), folder / "run")
    for file in ("mine.py", "layers_of_mine.py"):
        (folder / file).unlink()  # the run needs them no more
    return run.folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def test_a_run_keeps_the_code_and_is_loaded_with_it(run: Path) -> None:
    loaded = load(run)
    assert isinstance(loaded.model, OwnTransformer)
    assert loaded.model.config.output_stack.input.d_model == 24
    assert loaded.model.inner.embedding.weight.shape == (13, 24)
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    _, metrics = evaluate_run(run)
    assert metrics["loss"] == pytest.approx(result["test"]["loss"], abs=1e-6)
    assert result["parameters"] == sum(parameter.numel() for parameter in loaded.model.inner.parameters())
    assert yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))["own"] == "mine.py:Mine"


def test_it_answers_alone_as_in_a_batch_and_in_a_beam_of_one(run: Path) -> None:
    loaded = load(run)
    texts, config = ["123", "98765", "0"], GenerationConfig(max_new_tokens=8)
    together = generate_texts(loaded, texts, config)
    assert [each.tokens for each in together] == [generate_texts(loaded, [text], config)[0].tokens for text in texts]
    beams = beam_texts(loaded, texts, BeamConfig(beam=1, max_new_tokens=8, length_penalty=0.0))
    assert [found[0].tokens for found in beams] == [each.tokens for each in together]
    wide = beam_texts(loaded, texts, BeamConfig(beam=3, n_best=2, max_new_tokens=8))
    for text, found in zip(texts, wide, strict=True):
        for each in found:
            source, ended = source_ids(loaded.tokenizer, text), each.stop_reason == "eos"
            tokens = list(each.tokens[:-1] if ended else each.tokens)
            said = score(loaded.model, tokens, tokenizer=loaded.tokenizer, source=source)
            total = sum(said.logprobs[: len(each.tokens)])
            assert total == pytest.approx(each.logprob, abs=1e-4)


@needs_posix
def test_a_stopped_run_goes_on_to_the_same_end(mine: str, tmp_path: Path) -> None:
    recipe = own_recipe("reverse", mine, SMALL)
    whole = train(recipe, tmp_path / "whole").folder
    stopped = train(recipe, tmp_path / "part", [interrupt_after(4)])
    assert stopped.exit_code
    resume(stopped.folder)
    assert_same_end(whole, stopped.folder)


def test_o28_its_attention_is_seen_per_head_and_told_apart(run: Path) -> None:
    model = load(run).model
    tokens, sources = [1, 5, 6, 7], [5, 6, 2]
    seen = attention_weights(model, tokens, sources=sources)
    assert list(seen) == [
        "encoder.blocks.0.attention.weights",
        "decoder.blocks.0.attention.weights",
        "decoder.blocks.0.cross_attention.weights",
    ]
    assert [tuple(weights.shape) for weights in seen.values()] == [(2, 3, 3), (2, 4, 4), (2, 4, 3)]
    for weights in seen.values():
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:2]))
    assert not bool(seen["decoder.blocks.0.attention.weights"].triu(1).any())
    whole = inspect_sample(model, tokens, Axis.single("abcd"), sources=sources, source_labels=Axis.single("xyz"))
    assert [layer.part for layer in whole.attention] == ["encoder", "decoder", "cross"]
    assert whole.sizes == ()


def test_a_model_that_shows_nothing_says_so(mine: str, tmp_path: Path) -> None:
    blind = MODEL.replace("self.reader(", "self.read(").replace(", need_weights=False", "")
    blind += "\n    def read(self, q, k, v, key_padding_mask=None):\n        return (q,)\n"
    (tmp_path / "mine.py").write_text(blind, encoding="utf-8")
    layers = LAYERS.replace(".flatten(2)), weights", ".flatten(2)),")
    (tmp_path / "layers_of_mine.py").write_text(layers, encoding="utf-8")
    model = own_code(mine, {}).make(13)
    with pytest.raises(UnsupportedError, match="shows no attention"):
        inspect_sample(model, [1, 5], Axis.single("ab"), sources=[5, 2], source_labels=Axis.single("xy"))


def test_code_that_was_changed_afterwards_is_not_run(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And if the user trusts it, the weights are still not its own."""
    file, ran = run / "code" / "layers_of_mine.py", run / "ran"
    changed = f"\nimport pathlib\npathlib.Path({str(ran)!r}).touch()\n"
    file.write_text(file.read_text(encoding="utf-8") + changed, encoding="utf-8")
    for opened in (load, evaluate_run, resume):
        with pytest.raises(CheckpointError, match="not trained here"):
            opened(run)
    assert not ran.exists()
    monkeypatch.setenv(CONSENT, "1")
    with pytest.raises(CheckpointError, match="is not the code"):
        load(run)


def test_what_needs_to_know_the_architecture_refuses(run: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"a model of your own, Mine of mine\.py"):
        load_transformer(run)
    with pytest.raises(UnsupportedError, match="what it is made of is not known here"):
        started_from("reverse", str(run))


@pytest.mark.parametrize(
    ("name", "edits", "message"),
    [
        ("mine.py:Mine", ["model.n_layers=2"], "model.n_layers has no effect on Mine"),
        ("mine.py:Mine", ["model.positions=none"], "it takes d_model, n_heads, dropout"),
        ("mine.py:Mina", [], "did you mean 'Mine'"),
        ("layers_of_mine.py:Attention", [], "takes no vocab_size"),
    ],
)
def test_settings_and_names_that_do_not_fit_are_refused(
    name: str, edits: list[str], message: str, mine: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        own_recipe("reverse", str(tmp_path / name), edits)


def test_wrong_shapes_and_constructors_are_named(mine: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Mine\(vocab_size=13, d_model=15\).*failed"):
        own_code(mine, {"d_model": 15}).make(13)
    file = tmp_path / "mine.py"
    file.write_text(MODEL.replace("return self.head(x)", "return self.head(x)[:, -1]"), encoding="utf-8")
    model = own_code(mine, {}).make(13)
    tokens = torch.zeros(2, 3, dtype=torch.long)
    with pytest.raises(DataError, match=r"Mine returned \(2, 13\) for a target \(2, 3\)"):
        model(tokens, memory=model.encode(tokens))


def test_what_its_code_raises_is_told_with_its_line(tmp_path: Path) -> None:
    text = "import torch\nclass M(torch.nn.Linear):\n  def __init__(self, vocab_size): super().__init__(2, 2)\n"
    (tmp_path / "raises.py").write_text(f"{text}  def forward(self, source, target):\n    return [][3]\n")
    with pytest.raises(ConfigError, match=r"called with \(4, \d\), \(4, \d\): IndexError.*\(line 5\)"):
        train(own_recipe("reverse", f"{tmp_path / 'raises.py'}:M", SMALL), tmp_path / "run")


def test_a_model_without_parameters_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text(
        "import torch\nclass M(torch.nn.Module):\n  def __init__(self, vocab_size): super().__init__()\n"
        "  def forward(self, source, target): return target\n"
    )
    with pytest.raises(ConfigError, match="has no parameters"):
        train(own_recipe("reverse", f"{tmp_path / 'empty.py'}:M", SMALL), tmp_path / "run")


def test_it_cannot_be_traced(run: Path) -> None:
    model = load(str(run)).model
    with pytest.raises(UnsupportedError, match="a model of your own"):
        trace(model, [1], sources=[3, 4])
    with pytest.raises(UnsupportedError, match="a model of your own"):
        trace_generation(model, [1], 2, sources=[3, 4])


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_shows_what_it_lets_be_seen(run: Path, tmp_path: Path, language: str) -> None:
    look = gf.inspect(run, "314", "413", contrast="27", language=language)
    assert [layer.site for layer in look.inspection.attention] == [
        "encoder.blocks.0.attention",
        "decoder.blocks.0.attention",
        "decoder.blocks.0.cross_attention",
    ]
    assert all(len(layer.roles) == len(layer.heads) == 2 for layer in look.inspection.attention)
    assert len(look.to_dict()["heads"]) == 6
    assert look.found.lens is look.found.ablation is None
    assert look.save(tmp_path / "page.html") == ()
    assert {"en": "model of your own", "zh": "你自己写的模型"}[language] in look.html()
    assert "decoder.blocks.0.cross_attention" in {each["site"] for each in look.to_dict()["heads"]}
    assert (tmp_path / "page.html").read_text("utf-8") == look.html()


def test_what_cannot_be_looked_into_is_refused(run: Path) -> None:
    for options in ({"patches": ["*=zero"]}, {"generate": 2}):
        with pytest.raises(UnsupportedError, match="shows the attention that it returns"):
            gf.inspect(run, "314", "413", **options)
    with pytest.raises(DataError, match=r"layers \[9\] are not all in 0\.\.0"):
        gf.inspect(run, "314", "413", layers=[9])
