from __future__ import annotations

import pytest

from glassformer.core.errors import UnsupportedError
from glassformer.generation.config import GenerationConfig
from glassformer.generation.score import score
from glassformer.generation.stream import stream
from glassformer.models.arguments import ModelArguments
from glassformer.models.transformer import Transformer

from .tiny import Letters


@pytest.mark.parametrize("kind", ["encoder", "decoder", "encoder_decoder"])
def test_model_that_labels_texts_neither_writes_nor_scores(kind: str) -> None:
    arguments = ModelArguments(kind=kind, d_model=16, n_layers=1, n_heads=2)
    model = Transformer(
        arguments.resolve(32, classes=[str(i) for i in range(40)])
    )  # more classes than tokens are no reason to try
    with pytest.raises(UnsupportedError, match="labels texts and cannot write; use predict"):
        stream(model, [[5]], GenerationConfig(), tokenizer=Letters())
    with pytest.raises(UnsupportedError, match="labels texts and cannot write; use predict"):
        score(model, [5, 6], tokenizer=Letters())
