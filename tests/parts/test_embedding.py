from __future__ import annotations

import torch

from glassformer.core.call import Call
from glassformer.core.config import InputConfig
from glassformer.core.norm_config import NormConfig
from glassformer.core.places import Places
from glassformer.core.position_config import PositionConfig
from glassformer.parts.embedding import Embedding, Input
from glassformer.parts.position import sinusoid


def an_input(**settings: object) -> Input:
    part = Input(InputConfig(vocab_size=5, d_model=4, **settings))
    with torch.no_grad():
        for parameter in part.parameters():
            parameter.normal_()
    return part


TOKENS = torch.tensor([[3, 0], [1, 4]])
CALL = Call(Places.full(2))


def test_embedding_is_a_row_of_the_table():
    table = Embedding(5, 4)
    with torch.no_grad():
        table.weight.copy_(torch.arange(20.0).reshape(5, 4))
    assert table(TOKENS)[0].tolist() == [[12, 13, 14, 15], [0, 1, 2, 3]]


def test_input_scales_the_tokens_and_not_the_positions():
    part = an_input(scale=True)
    expected = part.embedding(TOKENS) * 2 + sinusoid(torch.tensor([[0, 1]]), 4)  # sqrt(4) = 2
    torch.testing.assert_close(part(TOKENS, CALL), expected)


def test_input_without_positions_adds_none():
    part = an_input(positions=PositionConfig(kind="none"))
    assert torch.equal(part(TOKENS, CALL), part.embedding(TOKENS))
    assert set(part.notes) == {"tokens", "output"}
    assert set(an_input().notes) == {"tokens", "positions", "output"}


def test_types_are_added_and_are_zero_when_not_given():
    part = an_input(n_types=2, positions=PositionConfig(kind="none"))
    types = torch.tensor([[0, 1], [1, 0]])
    torch.testing.assert_close(part(TOKENS, CALL, types), part.embedding(TOKENS) + part.types(types))
    torch.testing.assert_close(part(TOKENS, CALL), part(TOKENS, CALL, torch.zeros(2, 2, dtype=torch.long)))


def test_norm_comes_last():
    part = an_input(norm=NormConfig(kind="rms"), positions=PositionConfig(kind="none"))
    torch.testing.assert_close(part(TOKENS, CALL), part.norm(part.embedding(TOKENS)))


def test_ready_embeddings_are_taken_as_they_are():
    """No table and no sqrt(D); positions still count them."""
    part = an_input(scale=True)
    ready = torch.randn(2, 2, 4)
    torch.testing.assert_close(part(ready, CALL), ready + sinusoid(torch.tensor([[0, 1]]), 4))


def test_input_dropout_is_on_in_training_only():
    part = an_input(dropout=0.5)
    assert part(TOKENS, CALL).eq(0).any()
    assert not part.eval()(TOKENS, CALL).eq(0).any()
