from __future__ import annotations

import pytest
import torch

from glassformer.core.config import TransformConfig
from glassformer.core.errors import UnsupportedError
from glassformer.inspection.lens import lens
from glassformer.inspection.sample import Sample
from glassformer.models.transformer import Transformer

from .induction import induction_model
from .whole_texts import classifier


@pytest.mark.parametrize("kind", ["decoder", "encoder", "encoder_decoder"])
@pytest.mark.parametrize("norm_place", ["pre", "post"])
@torch.no_grad()
def test_the_last_layer_is_what_the_model_says(tiny, kind, norm_place):
    model = tiny(kind=kind, norm_place=norm_place, transform=TransformConfig(activation="gelu"))
    tokens, sources = [1, 2, 3, 4], [5, 6, 7] if kind == "encoder_decoder" else None
    found = lens(model, Sample.of(model, tokens, sources), top=32)
    memory = None if sources is None else model.encode(torch.tensor([sources]))
    expected = model(torch.tensor([tokens]), memory=memory)[0].softmax(-1)
    assert found.ids.shape == (2, 4, 32)
    torch.testing.assert_close(found.probabilities[-1], expected.gather(-1, found.ids[-1]), atol=1e-6, rtol=0)
    assert torch.equal(found.ids[-1, :, 0], expected.argmax(-1))
    assert found.shift == (kind != "encoder")


def test_a_guess_settles_where_it_stays():
    """Only the second layer of the model of induction says anything."""
    model = induction_model()
    found = lens(model, Sample.of(model, [0, 3, 5, 1, 0, 3, 5]))
    assert found.ids[1, 4:, 0].tolist() == [3, 5, 1]
    assert found.probabilities[1, 4:, 0].min() > 0.999
    assert found.probabilities[0].max() == pytest.approx(1 / 8)
    assert set(found.settled[4:].tolist()) <= {0, 1}
    assert found.settled[4] == 1, "before, all tokens are equally probable, and the first of them is not 3"


def test_only_so_many_positions_are_read(tiny):
    model = tiny()
    sample = Sample.of(model, list(range(1, 11)))
    whole = lens(model, sample)
    some = lens(model, sample, most_products=3 * 2 * model.head.weight.numel())
    assert (some.first, some.ids.shape[1]) == (7, 3)
    assert torch.equal(some.ids, whole.ids[:, 7:])
    torch.testing.assert_close(some.probabilities, whole.probabilities[:, 7:])


def test_a_model_of_whole_texts_has_no_guesses(tiny):
    model = classifier()
    with pytest.raises(UnsupportedError, match="nothing of its single tokens"):
        lens(model, Sample.of(model, [1, 2]))
    assert isinstance(model, Transformer)
