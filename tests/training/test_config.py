from __future__ import annotations

import pytest

from glassformer.core.errors import ConfigError
from glassformer.training.config import TrainingConfig


def test_numbers_and_words_are_what_the_setting_says_they_are():
    config = TrainingConfig.parse(
        {
            "lr": "1e-3",
            "max_steps": "200",
            "clip": "none",
            "eval_every": "null",
            "betas": "0.9,0.95",
            "schedule": "linear",
            "language": "zh",
        }
    )
    assert (config.lr, config.max_steps, config.clip, config.eval_every) == (1e-3, 200, None, None)
    assert config.betas == (0.9, 0.95)


@pytest.mark.parametrize("betas", ["0.9,0.95", "[0.9, 0.95]", "0.9, 0.95", ["0.9", "0.95"], [0.9, 0.95], (0.9, 0.95)])
def test_two_betas_may_be_one_text(betas):
    assert TrainingConfig.parse({"betas": betas}).betas == (0.9, 0.95)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"betas": "0.9"}, "betas"),
        ({"betas": "0.9,x"}, "betas"),
        ({"betas": "0.9,1.0"}, r"betas are \(0\.9, 1\.0\); both must be from 0 to below 1"),
        ({"max_steps": "0"}, "greater than or equal to 1"),
        ({"max_steps": "1e3"}, "valid integer"),
        ({"lr": "nan"}, "finite"),
        ({"lr": "-1"}, "greater than 0"),
        ({"lr": "none"}, "schedule=cosine needs lr; only schedule=paper has a rate of its own"),
        ({"accumulate": "0"}, "greater than or equal to 1"),
        ({"optimizer": "adma"}, "'adamw', 'adam', 'sgd' or 'muon'"),
        ({"precision": "fp8"}, "'auto', 'float32', 'bf16' or 'fp16'"),
        ({"label_smoothing": "1.0"}, "less than 1"),
        ({"max_step": "5"}, "max_step is not a setting; did you mean 'max_steps'?"),
        ({"workers": "-1"}, "greater than or equal to 0"),
        ({"seed": "-1"}, "greater than or equal to 0"),
        ({"seed": "no"}, "valid integer"),
        ({"clip": "0"}, "greater than 0"),
        ({"patience": "3"}, "set eval_every as well"),
        ({"warmup": "0.5", "max_steps": "1", "lr": "1e400"}, "finite"),
    ],
)
def test_impossible_settings_are_refused_by_name(settings, message):
    with pytest.raises(ConfigError, match=message):
        TrainingConfig.parse(settings, "training")


def test_every_mistake_is_said_at_once():
    with pytest.raises(ConfigError) as caught:
        TrainingConfig.parse({"max_steps": "x", "lr": "y", "optimiser": "sgd"}, "training")
    text = str(caught.value)
    assert "training.max_steps is 'x'" in text
    assert "training.lr is 'y'" in text
    assert "training.optimiser is not a setting; did you mean 'optimizer'?" in text
