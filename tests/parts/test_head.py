from __future__ import annotations

import torch

from glassformer.core.config import HeadConfig
from glassformer.parts.embedding import Embedding
from glassformer.parts.head import Head


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
