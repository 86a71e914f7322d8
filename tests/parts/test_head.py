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
