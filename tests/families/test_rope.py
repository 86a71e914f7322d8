from __future__ import annotations

import pytest

from glassformer.core.errors import CheckpointError, GlassformerError, UnsupportedError
from glassformer.core.position_config import LinearScaling, Llama3Scaling, RotaryConfig, YarnScaling
from glassformer.families.entries import Foreign
from glassformer.families.rope import Rope

LENGTH = {"max_position_embeddings": 64}

SAID = {
    "default": ({}, None),
    "linear": ({"factor": 4.0}, LinearScaling(factor=4.0)),
    "llama3": (
        {"factor": 8.0, "low_freq_factor": 1.5, "high_freq_factor": 3.0, "original_max_position_embeddings": 16},
        Llama3Scaling(factor=8.0, low=1.5, high=3.0, original_positions=16),
    ),
    "yarn": (
        {
            "factor": 4.0, "original_max_position_embeddings": 16, "attention_factor": 0.7, "beta_fast": 20.0,
            "beta_slow": 2.0, "mscale": 0.9, "mscale_all_dim": 0.8, "truncate": False,
        },
        YarnScaling(
            factor=4.0, original_positions=16, attention_factor=0.7, fast=20.0, slow=2.0, mscale=0.9, mscale_all=0.8,
            truncate=False,
        ),
    ),
}  # fmt: skip

every = pytest.mark.parametrize("kind", SAID)


def read(settings: dict, rope: Rope | None = None) -> RotaryConfig:
    return (rope or Rope()).read(Foreign(LENGTH | settings))["rotary"]


@every
@pytest.mark.parametrize("word", ["type", "rope_type"])
def test_old_spelling_is_read(kind, word):
    said, scaling = SAID[kind]
    settings = {"rope_theta": 500.0, "rope_scaling": {word: kind, **said}}
    assert read(settings) == RotaryConfig(theta=500.0, scaling=scaling)


@every
def test_new_spelling_is_read(kind):
    said, scaling = SAID[kind]
    settings = {"rope_parameters": {"rope_type": kind, "rope_theta": 500.0, **said}}
    assert read(settings) == RotaryConfig(theta=500.0, scaling=scaling)


@every
def test_o32_what_is_written_says_all_again(kind):
    said, scaling = SAID[kind]
    for share in (1.0, 0.25):
        rotary = RotaryConfig(theta=500.0, share=share, scaling=scaling)
        written = Rope(partial=True).write({"rotary": rotary})
        assert written["rope_parameters"].items() >= {"rope_type": kind, "rope_theta": 500.0, **said}.items()
        assert read(written, Rope(partial=True)) == rotary


def test_nothing_said_is_the_familys_default():
    assert read({}) == read({"rope_scaling": None, "rope_parameters": {}}) == RotaryConfig()
    rope = Rope(theta=50.0, share=0.25, partial=True, theta_name="rotary_emb_base", share_name="rotary_pct")
    assert read({}, rope) == RotaryConfig(theta=50.0, share=0.25)
    assert read({"rotary_emb_base": 70, "rotary_pct": 0.5}, rope) == RotaryConfig(theta=70.0, share=0.5)
    assert read(rope.write({"rotary": RotaryConfig()}), rope) == RotaryConfig()


def test_original_length_is_taken_from_where_it_stands():
    said = {"rope_type": "yarn", "factor": 4.0}
    with pytest.warns(UserWarning, match="stretches 64 positions by 4"):
        assert read({"rope_scaling": said}).scaling.original_positions == 64
    assert read({"rope_scaling": said, "original_max_position_embeddings": 16}).scaling.original_positions == 16
    assert "original_max_position_embeddings" in Rope().names


def test_o32_factor_that_disagrees_with_the_lengths_counts_and_is_warned_of():
    said = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 16}
    with pytest.warns(UserWarning, match="by 2.0, which are not the max_position_embeddings of 64; the factor is what"):
        assert read({"rope_scaling": said}).scaling.factor == 2.0


def test_yarn_without_a_factor_has_the_ratio_of_the_lengths():
    said = {"rope_type": "yarn", "factor": None, "original_max_position_embeddings": 16}
    assert read({"rope_scaling": said}).scaling.factor == 4.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"rope_scaling": {"type": "dynamic", "factor": 2.0}},
            "rope type 'dynamic' is not known here; known: default, linear, llama3, yarn",
        ),
        ({"rope_scaling": {"type": "yarm", "factor": 2.0}}, "'yarm' is not known here; did you mean 'yarn'"),
        ({"rope_scaling": {"type": 3}}, "rope type 3 is not known"),
        ({"rope_scaling": {"type": "linear"}}, "'linear' needs a factor"),
        ({"rope_scaling": {"type": "linear", "factor": "4"}}, "factor is '4'; it must be a number"),
        ({"rope_scaling": {"type": "linear", "factor": 0}}, "factor is 0"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0, "beta_fast": 3}}, "the settings beta_fast are not known"),
        (
            {"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "truncate": 1}},
            "trunc",
        ),
        (
            {"rope_scaling": {"type": "llama3", "factor": 8.0, "original_max_position_embeddings": "x"}},
            "a number of tok",
        ),
        ({"rope_scaling": "linear"}, "rope_scaling is 'linear'; it must be settings by name"),
        (
            {"rope_theta": 1e4, "rope_parameters": {"rope_theta": 2e4}},
            "rope_theta is 10000.0 and, in rope_parameters, 2",
        ),
        ({"rope_scaling": {"type": "linear", "rope_type": "yarn", "factor": 2.0}}, "rope_type is 'linear' and"),
        ({"rope_theta": -1.0}, "theta is -1.0"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor is 0.5; in this family whole heads turn"),
    ],
)
def test_o32_what_cannot_be_read_is_an_error(settings, message):
    with pytest.raises(GlassformerError, match=message) as error:
        read(settings)
    if "dynamic" in message:
        assert isinstance(error.value, UnsupportedError)
    if "by name" in message:
        assert isinstance(error.value, CheckpointError)


def test_numbers_paired_side_by_side_are_not_written():
    with pytest.raises(UnsupportedError, match=r"rotary\.pairing is interleaved"):
        Rope().write({"rotary": RotaryConfig(pairing="interleaved")})
