from __future__ import annotations

import pytest
import torch
from torch import Tensor

from glassformer.core.errors import ConfigError
from glassformer.core.places import Places
from glassformer.parts.stack import Stack

MODES = ["train", "eval", "no_grad", "inference"]


def run(model, mode: str, inputs: Tensor, places: Places) -> Tensor:
    model.train(mode == "train")
    if mode == "inference":
        with torch.inference_mode():
            return model(inputs, places=places, outputs="hidden").clone()
    with torch.set_grad_enabled(mode in ("train", "eval")):
        return model(inputs, places=places, outputs="hidden").detach()


@pytest.mark.parametrize("keep", [[[True, False, False], [True, True, False]], [[True, False, True]] * 2])
@pytest.mark.parametrize("kernel", ["sdpa", "reference"])
def test_o17_every_mode_gives_the_same_numbers_and_the_same_shape(tiny, keep, kernel):
    """Trailing columns that are padding in every row stay; padded positions are exactly zero."""
    model = tiny(kind="encoder", attention={"kernel": kernel})
    places = Places.from_keep(torch.tensor(keep))
    tokens = torch.tensor([[5, 6, 7], [8, 9, 10]])
    expected = run(model, "train", tokens, places)
    assert expected.shape == (2, 3, 16)
    assert expected[~places.is_token].eq(0).all()
    for mode in MODES:
        assert torch.equal(run(model, mode, tokens, places), expected)
        other = torch.where(places.is_token, tokens, 31)
        assert torch.equal(run(model, mode, other, places), expected)


def test_o17_tokens_with_a_gap_are_as_if_the_gap_were_not_there(tiny):
    model = tiny(kind="encoder")
    gap = Places.from_keep(torch.tensor([[True, False, True]]))
    with torch.no_grad():
        got = model(torch.tensor([[5, 9, 7]]), places=gap, outputs="hidden")[:, [0, 2]]
        torch.testing.assert_close(got, model(torch.tensor([[5, 7]]), outputs="hidden"), atol=1e-5, rtol=1e-5)


def test_stack_gives_zeros_for_a_row_without_tokens(tiny):
    model = tiny()
    states = model(torch.tensor([[5, 6], [7, 8]]), places=Places.from_lengths([2, 0], 2), outputs="hidden")
    assert states[1].eq(0).all()
    assert states.isfinite().all()


def test_plain_places_of_one_row_serve_a_whole_batch(tiny):
    model, tokens = tiny(), torch.randint(0, 32, (3, 4))
    with torch.no_grad():
        bare = model(tokens)
        assert torch.equal(model(tokens, places=Places.full(4)), bare)
        one_row = Places(Places.full(4).position, Places.full(4).segment)  # not known to be plain
        torch.testing.assert_close(model(tokens, places=one_row), bare, atol=1e-5, rtol=1e-5)
        padded = Places.from_lengths([3], 4)
        assert model(tokens, places=padded, outputs="last").shape == (3, 32)


def test_non_contiguous_tokens_and_places_are_fine(tiny):
    model = tiny()
    wide = torch.randint(0, 32, (4, 6))
    places = Places.from_lengths([6, 4, 3, 1], 6)
    turned = Places(places.position[::2, :5], places.segment[::2, :5])
    with torch.no_grad():
        expected = model(wide[::2, :5].contiguous(), places=Places(turned.position.clone(), turned.segment.clone()))
        assert torch.equal(model(wide[::2, :5], places=turned), expected)
        assert torch.equal(model(wide.T.contiguous().T[::2, :5], places=turned), expected)


def test_layer_whose_kernel_could_do_nothing_is_named(tiny):
    """A bias of positions is the stack's, so only the stack knows; the second layer has no window."""
    with pytest.raises(ConfigError, match=r"^layer 0: attention\.kernel=windowed cannot do this: it adds no bias"):
        tiny(positions="alibi", attention={"window": 3, "kernel": "windowed"})
    config = tiny(attention={"window": 3, "kernel": "windowed"}).config.decoder
    first, second = config.blocks
    wide = second.model_copy(update={"attention": second.attention.model_copy(update={"window": None})})
    with pytest.raises(ConfigError, match=r"^layer 1: attention\.kernel=windowed cannot do this: it is for a window"):
        Stack(config.model_copy(update={"blocks": (first, wide)}))
