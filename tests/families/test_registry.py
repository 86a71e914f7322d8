from __future__ import annotations

import pytest
import torch

from glassformer.core.errors import ConfigError
from glassformer.families.registry import PRESETS, preset
from glassformer.models.arguments import ModelArguments
from glassformer.models.transformer import Transformer


def test_preset_goes_by_its_name():
    for name, arguments in PRESETS.items():
        assert preset(name) is arguments


def test_unknown_preset_names_the_nearest():
    with pytest.raises(ConfigError, match="unknown preset 'paper_base'; did you mean 'paper-base'"):
        preset("paper_base")


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_a_model_that_text_can_spell(name):
    arguments = preset(name)
    assert ModelArguments.parse(arguments.model_dump()) == arguments
    with torch.device("meta"):
        two = {"n_layers": 2, "n_decoder_layers": None}  # the others are equal, and many
        model = Transformer(arguments.model_copy(update=two).resolve(300))
        tokens = torch.zeros(1, 4, dtype=torch.long)
        memory = model.encode(tokens) if model.encoder is not None and model.decoder is not None else None
        assert model(tokens, memory=memory).shape == (1, 4, 300)
