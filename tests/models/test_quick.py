"""A quick copy writes what the model writes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from glassformer.kernels.operators import has_operators
from glassformer.kernels.registry import choose_kernel
from glassformer.kernels.softmax import choose_quick_kernel
from glassformer.models import quick as quick_module
from glassformer.models.quantise import quantise_model
from glassformer.models.quick import quick_copy
from glassformer.parts import product as product_module
from glassformer.parts.norm import QuickRMSNorm
from glassformer.parts.product import QuickLinear, product, quick_product
from glassformer.parts.quantised import quantise
from glassformer.parts.rotary import quick_rotate

from .architectures import ARCHITECTURES, TOKENS

pytestmark = pytest.mark.skipif(not has_operators(), reason="there is no C++ compiler")


def steps(model, rows):
    """Logits of a row's 9 tokens, three read at once and the others one by one."""
    tokens = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6, 5]]).repeat(rows, 1)
    tokens[:, 0] = torch.arange(rows) + 3
    with torch.no_grad():
        memory = model.encode(TOKENS[:1].expand(rows, -1)) if model.encoder is not None else None
        cache, parts = model.new_cache(rows, 9), []
        for chunk in tokens.split([3, 1, 1, 1, 1, 1, 1], dim=1):
            parts.append(model(chunk, memory=memory, cache=cache))
            cache.advance([chunk.shape[1]] * rows)
    return torch.cat(parts, dim=1)


@pytest.mark.parametrize("rows", [1, 5, 13])
@pytest.mark.parametrize("arguments", ARCHITECTURES)
def test_o03_quick_copy_gives_the_same_scores(tiny, arguments, rows, monkeypatch):
    monkeypatch.setattr(product_module, "LARGE", 1)  # small matrices, too
    model = tiny(**arguments)
    expected, found = steps(model, rows), steps(quick_copy(model), rows)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    assert torch.equal(found.argmax(-1), expected.argmax(-1))


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kind", ["decoder", "encoder_decoder"])
def test_o40_quick_copy_of_a_model_in_8_bits_uses_its_levels(tiny, kind, tied, monkeypatch):
    """With the attention of always, whose last digit may decide between two levels, it is the same to the last bit."""
    monkeypatch.setattr(quick_module, "choose_quick_kernel", choose_kernel)
    model = quantise_model(tiny(kind=kind, tied=tied))
    quick = quick_copy(model)
    expected, found = steps(model, 3), steps(quick, 3)
    assert torch.equal(found, expected)
    with torch.no_grad():
        model.decoder.blocks[0].feed_forward.inner.weight.zero_()
    assert not torch.equal(steps(quick, 3), found)
    assert torch.equal(steps(quick, 3), steps(model, 3))


def test_quick_copy_shares_what_is_learned_and_leaves_the_model_alone(tiny):
    model = tiny(kind="encoder_decoder", tied=True).train()
    names, kinds = list(model.state_dict()), [type(module) for module in model.modules()]
    quick = quick_copy(model)
    assert all(one is other for one, other in zip(model.parameters(), quick.parameters(), strict=True))
    assert list(quick.state_dict()) == names
    assert quick.head.weight is quick.decoder.input.embedding.weight
    quick.eval()
    assert model.training
    assert all(module.training for module in model.modules())
    assert [type(module) for module in model.modules()] == kinds
    assert model.head.product is product
    assert quick.head.product is quick_product
    assert {type(module) for module in quick.modules() if isinstance(module, nn.Linear)} == {QuickLinear}


def test_hooks_of_a_model_are_called_in_its_quick_copy(tiny):
    model, seen = tiny(), []
    hook = model.decoder.blocks[1].attention.qkv.register_forward_hook(lambda *given: seen.append(given[2].shape))
    steps(quick_copy(model), 1)
    assert len(seen) == 7
    hook.remove()
    steps(quick_copy(model), 1)
    assert len(seen) == 7


def test_quick_copy_drops_nothing_and_leaves_the_model_in_its_mode(tiny):
    model = tiny(dropout=0.5).train()
    quick = quick_copy(model)
    assert not any(module.training for module in quick.modules())
    assert all(module.training for module in model.modules())


def test_quick_copy_has_the_quick_form_of_all_that_there_is_one_of(tiny):
    quick = quick_copy(tiny(norm="rms", positions="rotary"))
    block = quick.decoder.blocks[0]
    assert isinstance(block.attention.qkv, QuickLinear)
    assert (block.attention.rotate, block.attention.choose) == (quick_rotate, choose_quick_kernel)
    assert isinstance(block.attention_norm, QuickRMSNorm)
    assert quick.head.product is quick_product


def test_projection_of_another_kind_stays_what_it_is(tiny):
    class Doubled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    model = tiny()
    inner = model.decoder.blocks[0].feed_forward.inner
    model.decoder.blocks[0].feed_forward.inner = Doubled(inner.in_features, inner.out_features)
    torch.testing.assert_close(steps(quick_copy(model), 2), steps(model, 2), atol=1e-5, rtol=1e-5)


def test_without_a_compiler_and_elsewhere_the_model_is_its_own_quick_copy(tiny, monkeypatch):
    assert quick_copy(tiny().to("meta")).device.type == "meta"
    monkeypatch.setattr(quick_module, "has_operators", lambda: False)
    model = tiny()
    assert quick_copy(model) is model


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_o13_other_numbers_go_the_readable_way(dtype):
    x, weight, bias = torch.randn(4, 20).to(dtype), torch.randn(7, 20).to(dtype), torch.randn(7).to(dtype)
    levels, step = quantise(weight)
    assert torch.equal(quick_product(x, weight, None, bias), product(x, weight, None, bias))
    assert torch.equal(quick_product(x, levels, step, bias), product(x, levels, step, bias))


def test_no_rows_and_matrices_that_lie_otherwise_go_the_readable_way():
    weight = torch.randn(600, 600).t()
    for x in (torch.randn(5, 600), torch.randn(0, 600)):
        assert torch.equal(quick_product(x, weight, None, None), product(x, weight, None, None))
