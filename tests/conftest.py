"""What every test may use: a fixed seed and tiny models."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import settings

from glassformer.core.config import InitConfig, InitRule
from glassformer.models.arguments import AttentionArguments, ModelArguments
from glassformer.models.transformer import Transformer

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background inherits that it is ignored
torch.set_num_threads(1)  # tiny tensors gain nothing from more, and on a shared processor wait for them

settings.register_profile("glassformer", deadline=None, derandomize=True, database=None, max_examples=60)
settings.load_profile("glassformer")

VOCAB_SIZE = 32

LIVELY = InitConfig(embedding=InitRule(kind="normal", std=0.25), head=InitRule(kind="normal", std=0.25))
"""Logits that differ by ones, not by thousandths, whatever the defaults are."""


def tiny_arguments(**arguments: Any) -> ModelArguments:
    """Two layers of width 16 with two heads and no dropout; every argument can be given anew."""
    attention = AttentionArguments(**arguments.pop("attention", {}))
    small = {"kind": "decoder", "d_model": 16, "n_layers": 2, "n_heads": 2, "d_ff": 24, "dropout": 0.0, "init": LIVELY}
    return ModelArguments(**(small | arguments), attention=attention)


@pytest.fixture(autouse=True, scope="session")
def _state_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What is noted for the user who runs the tests is noted elsewhere; programs that a test starts inherit it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def tiny() -> Callable[..., Transformer]:
    """Makes a tiny model in eval mode; every weight, gains and offsets too, is drawn anew, so that each counts."""

    def make(vocab_size: int = VOCAB_SIZE, **arguments: Any) -> Transformer:
        generator = torch.Generator().manual_seed(1)
        model = Transformer(tiny_arguments(**arguments).resolve(vocab_size), generator=generator)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if parameter.ndim == 1:
                    middle = 1.0 if name.endswith("norm.weight") else 0.0
                    parameter.normal_(middle, 0.2, generator=generator)
        return model.eval()

    return make
