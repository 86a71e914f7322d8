from __future__ import annotations

from typing import Any

import pytest

from glassformer.core.errors import ConfigError
from glassformer.generation.config import BeamConfig, GenerationConfig


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"temperature": -1.0}, "temperature is -1.0"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"top_k": -3}, "top_k is -3"),
        ({"top_p": 1.5}, "top_p is 1.5"),
        ({"top_p": -0.1}, "top_p is -0.1"),
        ({"repetition_penalty": 0.0}, "repetition_penalty is 0.0"),
        ({"max_new_tokens": -1}, "max_new_tokens is -1"),
        ({"stop": ("x", "")}, "stop: an empty text"),
        ({"when_full": "wrap"}, "when_full is 'wrap'"),
        ({"seed": -1}, "seed is -1"),
        ({"prefill_chunk": -1}, "prefill_chunk is -1"),
    ],
)
def test_o16_impossible_settings_are_named(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        GenerationConfig(**settings)


@pytest.mark.parametrize("settings", [{"top_k": 0}, {"top_k": None}, {"top_p": 0.0}, {"top_p": 1.0}])
def test_o16_limits_of_the_ranges_are_accepted(settings: dict[str, Any]) -> None:
    GenerationConfig(**settings)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"beam": 0}, "beam is 0"),
        ({"length_penalty": -0.1}, "length_penalty is -0.1"),
        ({"length_penalty": float("inf")}, "length_penalty is inf"),
        ({"n_best": 0}, "n_best is 0"),
        ({"beam": 1001}, "beam is 1001: input should be less than or equal to 1000"),
        ({"beam": 2, "n_best": 3}, "n_best is 3, more than the beam of 2; raise beam or lower n_best"),
        ({"max_new_tokens": -1}, "max_new_tokens is -1"),
        ({"prefill_chunk": -1}, "prefill_chunk is -1"),
    ],
)
def test_o19_impossible_settings_of_a_search_are_named(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        BeamConfig(**settings)


@pytest.mark.parametrize("config", [GenerationConfig, BeamConfig])
def test_o07_contradicting_limits_name_both(config: Any) -> None:
    with pytest.raises(ConfigError, match=r"min_new_tokens is 5, more than max_new_tokens 3"):
        config(min_new_tokens=5, max_new_tokens=3)


def test_settings_can_be_spelled_out_as_text() -> None:
    config = GenerationConfig.parse({"temperature": "0.7", "top_k": "none", "stop": ["a", "b"], "seed": "3"})
    assert config == GenerationConfig(temperature=0.7, top_k=None, stop=("a", "b"), seed=3)
