from __future__ import annotations

import pytest
import torch

from glassformer.core.config import HeadConfig, TransformConfig
from glassformer.core.errors import ConfigError, UnsupportedError
from glassformer.core.norm_config import NormConfig
from glassformer.core.places import Places
from glassformer.models.arguments import ModelArguments
from glassformer.models.transformer import Transformer
from glassformer.parts.embedding import Embedding
from glassformer.parts.head import Head, Transform


def test_tied_head_is_the_embedding():
    table = Embedding(5, 3)
    head = Head(HeadConfig(vocab_size=5), 3, table)
    assert head.weight is table.weight
    assert [matrix.name for matrix in head.matrices()] == []


def test_untied_head_may_have_another_size_and_an_offset():
    head = Head(HeadConfig(vocab_size=7, tied=False, bias=True), 3, Embedding(5, 3))
    with torch.no_grad():
        head.weight.normal_()
        head.bias.normal_()
    x = torch.randn(2, 3)
    torch.testing.assert_close(head(x), x @ head.weight.T + head.bias)
    assert [matrix.name for matrix in head.matrices()] == ["weight", "bias"]


def test_dropout_of_what_the_head_reads_is_for_training_only():
    """Half of the numbers are 0, the others doubled: sums of the identity's rows are 0 or 2."""
    head = Head(HeadConfig(vocab_size=50, tied=False, pooling="mean", dropout=0.5), 50, Embedding(5, 50))
    with torch.no_grad():
        head.weight.copy_(torch.eye(50))
        assert set(head(torch.ones(50)).tolist()) == {0.0, 2.0}
        assert set(head.eval()(torch.ones(50)).tolist()) == {1.0}


TRANSFORM = TransformConfig(activation="gelu", norm=NormConfig(eps=1e-12))


def drawn(head: Head) -> Head:
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.normal_()
    return head


def test_transform_is_an_activation_of_a_projection_and_a_norm_of_that():
    """By hand: W = [[2, 0], [0, -1]], b = [0, 1], x = [1, 3] gives relu([2, -2]) = [2, 0], whose norm is [1, -1]."""
    transform = Transform(TransformConfig(activation="relu", norm=NormConfig(eps=1e-12)), 2)
    with torch.no_grad():
        transform.linear.weight.copy_(torch.tensor([[2.0, 0.0], [0.0, -1.0]]))
        transform.linear.bias.copy_(torch.tensor([0.0, 1.0]))
        torch.testing.assert_close(transform(torch.tensor([1.0, 3.0])), torch.tensor([1.0, -1.0]))
        transform.norm.weight.fill_(3.0)
        transform.norm.bias.fill_(0.5)
        torch.testing.assert_close(transform(torch.tensor([1.0, 3.0])), torch.tensor([3.5, -2.5]))


def test_transform_without_a_norm_has_none():
    transform = Transform(TransformConfig(activation="tanh"), 3)
    assert transform.norm is None
    x = torch.randn(2, 4, 3)
    torch.testing.assert_close(transform(x), torch.tanh(x @ transform.linear.weight.T + transform.linear.bias))


def test_head_scores_what_its_transform_makes():
    head = drawn(Head(HeadConfig(vocab_size=5, bias=True, transform=TRANSFORM), 3, Embedding(5, 3)))
    x = torch.randn(2, 4, 3)
    torch.testing.assert_close(head(x), head.transform(x) @ head.weight.T + head.bias)
    torch.testing.assert_close(head.scored(x), head.transform(x))
    assert [matrix.name for matrix in head.transform.matrices()] == ["linear.weight", "linear.bias"]


def test_scaled_head_divides_by_the_root_of_the_width():
    table = Embedding(5, 16)
    plain, scaled = (drawn(Head(HeadConfig(vocab_size=5, scaled=scaled), 16, table)) for scaled in (False, True))
    x = torch.randn(2, 16)
    torch.testing.assert_close(scaled(x), plain(x) / 4)
    torch.testing.assert_close(plain(x), x @ table.weight.T)


def test_head_without_scores_hands_out_what_it_pools_and_transforms():
    config = HeadConfig(vocab_size=None, tied=False, pooling="first", transform=TransformConfig(activation="tanh"))
    head = drawn(Head(config, 3, Embedding(5, 3)))
    x = torch.randn(2, 3)
    assert torch.equal(head(x), head.transform(x))
    assert head.weight is None
    assert head.bias is None
    assert [matrix.name for matrix in head.matrices()] == []
    assert {name for name, _ in head.named_parameters()} == {"transform.linear.weight", "transform.linear.bias"}


@pytest.mark.parametrize(
    "missing",
    [{"pooling": None}, {"transform": None}, {"tied": True}, {"bias": True}],
    ids=["pooling", "transform", "tied", "bias"],
)
def test_head_without_scores_must_have_something_to_hand_out(missing):
    right = {"vocab_size": None, "tied": False, "pooling": "first", "transform": TransformConfig()}
    HeadConfig(**right)
    with pytest.raises(ConfigError, match=r"vocab_size is none.*set pooling and transform|pooling is first in a tied"):
        HeadConfig(**right | missing)


def test_model_without_scores_gives_a_vector_for_each_text():
    """The pooler of the first token, whatever the padding; states are there too, and labels are refused."""
    small = {"kind": "encoder", "d_model": 16, "n_layers": 1, "n_heads": 2, "dropout": 0.0}
    arguments = ModelArguments(**small, pooling="first", transform=TransformConfig(activation="tanh"))
    model = Transformer(arguments.resolve(32, scores=False)).eval()
    tokens = torch.tensor([[5, 6, 7], [8, 9, 2]])
    with torch.no_grad():
        vectors = model(tokens, places=Places.from_lengths([3, 2]))
        left = model(torch.tensor([[5, 6, 7], [2, 8, 9]]), places=Places.from_lengths([3, 2], side="left"))
        states = model(tokens, places=Places.from_lengths([3, 2]), outputs="hidden")
    assert vectors.shape == (2, 16)
    torch.testing.assert_close(vectors, model.head.transform(states[:, 0]))
    torch.testing.assert_close(left, vectors)
    with pytest.raises(UnsupportedError, match="head scores nothing"):
        model(tokens, labels=torch.tensor([0, 1]))
