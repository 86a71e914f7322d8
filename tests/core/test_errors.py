from __future__ import annotations

import pytest

from glassformer.core.errors import (
    CheckpointError,
    ConfigError,
    DataError,
    GlassformerError,
    UnsupportedError,
    did_you_mean,
)


@pytest.mark.parametrize("kind", [ConfigError, DataError, CheckpointError, UnsupportedError])
def test_every_kind_of_mistake_is_a_value_error(kind):
    assert issubclass(kind, GlassformerError)
    assert issubclass(kind, ValueError)


def test_did_you_mean_names_the_nearest():
    assert did_you_mean("n_head", ["n_heads", "d_model"]) == "; did you mean 'n_heads'?"


def test_did_you_mean_lists_what_is_known_when_nothing_is_near():
    assert did_you_mean("xyz", ["b", "a"]) == "; known: a, b"
    assert did_you_mean("xyz", []) == ""


def test_did_you_mean_does_not_print_hundreds_of_names():
    text = did_you_mean("?", [f"name{i:03}" for i in range(300)])
    assert text.startswith("; known: name000, name001")
    assert text.endswith("name019 and 280 more")
