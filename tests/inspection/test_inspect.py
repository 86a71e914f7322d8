from __future__ import annotations

import gc
import math
from collections.abc import Callable

import pytest
import torch

from glassformer.core.errors import DataError, UnsupportedError
from glassformer.inspection.attention import attention_weights
from glassformer.inspection.inspect import Axis, inspect_sample
from glassformer.models.transformer import Transformer

Make = Callable[..., Transformer]

MERGED = Axis.grouped([(range(1), "a"), (range(1, 4), "闫"), (range(4, 5), "b")])


def letters(number: int) -> Axis:
    return Axis.single("abcdefghijklmnopqrstuvwxyz"[:number])


def test_o28_every_layer_and_head_is_what_attention_weights_gives(tiny: Make):
    model = tiny(kind="encoder_decoder")
    source, target = [5, 6, 7, 8, 9], [1, 2, 3]
    seen = inspect_sample(model, target, letters(3), sources=source, source_labels=letters(5))
    expected = attention_weights(model, target, sources=source)
    assert [(layer.part, layer.layer) for layer in seen.attention] == [
        ("encoder", 0),
        ("encoder", 1),
        ("decoder", 0),
        ("cross", 0),
        ("decoder", 1),
        ("cross", 1),
    ]
    for layer, weights in zip(seen.attention, expected.values(), strict=True):
        assert torch.equal(layer.weights, weights)
        assert layer.weights.shape == (2, len(layer.rows), len(layer.columns))
        assert not layer.weights.requires_grad
    assert [(size.part, size.layer, len(size.labels)) for size in seen.sizes] == [
        ("encoder", 0, 5),
        ("encoder", 1, 5),
        ("decoder", 0, 3),
        ("decoder", 1, 3),
    ]


def test_o28_rows_of_cross_attention_are_called_by_what_is_written(tiny: Make):
    read, written = Axis.single(["<bos>", "x", "y"]), Axis.single(["x", "y", "<eos>"])
    seen = inspect_sample(
        tiny(kind="encoder_decoder"), [1, 2, 3], read, sources=[5, 6], source_labels=letters(2), written_labels=written
    )
    labels = {layer.part: (layer.rows, layer.columns) for layer in seen.attention}
    assert labels == {
        "encoder": (("a", "b"), ("a", "b")),
        "decoder": (read.labels, read.labels),
        "cross": (written.labels, ("a", "b")),
    }


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_o28_rows_sum_to_one_after_merging(tiny: Make, kind: str):
    model = tiny(kind=kind)
    seen = inspect_sample(model, [1, 2, 3, 4, 5], MERGED)
    whole = inspect_sample(model, [1, 2, 3, 4, 5], letters(5))
    for layer, exact in zip(seen.attention, whole.attention, strict=True):
        assert layer.part == kind
        assert layer.rows == layer.columns == ("a", "闫", "b")
        assert layer.weights.shape == (2, 3, 3)
        assert torch.allclose(layer.weights.sum(-1), torch.ones(()), atol=1e-6)
        assert torch.allclose(layer.weights[:, 0, 1], exact.weights[:, 0, 1:4].sum(-1)), "columns are summed"
        assert torch.allclose(layer.weights[:, 1, 0], exact.weights[:, 1:4, 0].mean(-1)), "rows are averaged"
        assert torch.allclose(layer.weights[:, 1, 1], exact.weights[:, 1:4, 1:4].sum(-1).mean(-1))
    for size, exact in zip(seen.sizes, whole.sizes, strict=True):
        assert size.overall == exact.overall
        assert size.tokens[1].item() == pytest.approx(exact.tokens[1:4].square().mean().sqrt().item())
        assert size.overall == pytest.approx(exact.tokens.square().mean().sqrt().item())


def test_merging_by_hand():
    values = torch.tensor([[0.1, 0.2, 0.3, 0.1, 0.3]])
    assert torch.allclose(MERGED.summed(values, 1), torch.tensor([[0.1, 0.6, 0.3]]))
    assert torch.allclose(MERGED.averaged(values, 1), torch.tensor([[0.1, 0.2, 0.3]]))
    spoilt = torch.tensor([[math.nan, 0.2, 0.3, 0.1, 0.3]])
    assert MERGED.summed(spoilt, 1).isnan().tolist() == [[True, False, False]], "a NaN stays where it is"


def test_o28_labels_that_do_not_fit_are_refused_with_both_numbers(tiny: Make):
    model = tiny()
    with pytest.raises(DataError, match="7 labels for 8 positions"):
        inspect_sample(model, range(8), letters(7))
    with pytest.raises(DataError, match="3 labels in 3 groups stand for 5 positions of 8"):
        inspect_sample(model, range(8), MERGED)
    with pytest.raises(DataError, match="stand for 4 positions of 5"):
        inspect_sample(model, range(5), Axis.grouped([(range(2), "a"), (range(3, 5), "b")]))
    cross = tiny(kind="encoder_decoder")
    with pytest.raises(DataError, match="3 labels for 4 positions"):
        inspect_sample(cross, [1], letters(1), sources=range(4), source_labels=letters(3))
    with pytest.raises(DataError, match="2 labels for 1 positions"):
        inspect_sample(cross, [1], letters(1), sources=[1], source_labels=letters(1), written_labels=letters(2))


def test_o29_narrowing_keeps_exactly_what_is_asked_for(tiny: Make):
    model = tiny(n_layers=4, n_heads=8)
    whole = inspect_sample(model, range(9), letters(9))
    seen = inspect_sample(model, range(9), letters(9), layers=[3], heads=[5, 0, 5])
    (layer,) = seen.attention
    assert (layer.layer, layer.heads) == (3, (0, 5))
    assert layer.weights.untyped_storage().nbytes() == 2 * 9 * 9 * 4
    assert torch.equal(layer.weights, whole.attention[3].weights[[0, 5]])
    assert len(seen.sizes) == 4, "the sizes are those of every layer"


def test_o29_estimate_comes_before_the_work(monkeypatch: pytest.MonkeyPatch, tiny: Make):
    model = tiny(d_model=24, n_layers=12, n_heads=12)

    def forward(*arguments: object, **named: object) -> None:
        raise AssertionError("the model was run")

    monkeypatch.setattr(model.decoder, "forward", forward)
    many = Axis.single(map(str, range(4096)))
    with pytest.raises(DataError) as caught:
        inspect_sample(model, [1] * 4096, many)
    kept, at_work = 12 * 12 * 4096 * 4096 * 4 / 2**20, 4 * 8.0  # a layer is made in pieces of 8 MiB and their copies
    for words in (
        "2,415,919,104 attention weights of 12 layers over 4096 tokens",
        f"{kept + at_work:,.1f} MiB ({kept:,.1f} MiB to keep, {at_work:,.1f} MiB while a layer is at work)",
        "the limit is 384.0 MiB",
        "--layers",
        "--heads",
        "--max-tokens 2048",
        "--pool",
        "float16",
        "to disk",
    ):
        assert words in str(caught.value)
    pairs = Axis.grouped([(range(2), "two"), *((range(at, at + 1), "x") for at in range(2, 512))])
    with pytest.raises(AssertionError, match="the model was run"):  # within the limit, also when tokens are merged
        inspect_sample(model, [1] * 512, pairs)


def test_o29_memory_after_many_inspections_is_that_after_one(tiny: Make):
    model = tiny(n_layers=2, n_heads=4)

    def held() -> int:
        gc.collect()
        found = [thing for thing in gc.get_objects() if issubclass(type(thing), torch.Tensor)]
        return sum(tensor.untyped_storage().nbytes() for tensor in found)

    inspect_sample(model, range(16), letters(16))
    after_one = held()
    for _ in range(19):
        seen = inspect_sample(model, range(16), letters(16))
        assert all(layer.weights.grad_fn is None for layer in seen.attention)
    del seen
    assert held() == after_one


def test_modes_are_put_back(tiny: Make):
    model = tiny(dropout=0.3).train()
    model.decoder.blocks[0].eval()
    before = [module.training for module in model.modules()]
    first, second = (inspect_sample(model, [1, 2, 3], letters(3)) for _ in range(2))
    assert all(torch.equal(a.weights, b.weights) for a, b in zip(first.attention, second.attention, strict=True))
    assert [module.training for module in model.modules()] == before


def test_mistakes_are_named(tiny: Make):
    model = tiny(max_positions=8, positions="learned")
    with pytest.raises(DataError, match="the text is empty"):
        inspect_sample(model, [], letters(0))
    with pytest.raises(DataError, match=r"layers \[2\] are not all in 0\.\.1, the layers of this model"):
        inspect_sample(model, [1], letters(1), layers=[2])
    with pytest.raises(DataError, match=r"heads \[0, -1\] are not all in 0\.\.1, the heads of decoder\.blocks\.0"):
        inspect_sample(model, [1], letters(1), heads=[0, -1])
    with pytest.raises(DataError, match="9 tokens are more than the context of 8"):
        inspect_sample(model, range(9), letters(9))
    with pytest.raises(UnsupportedError, match="nothing to encode with"):
        inspect_sample(model, [1], letters(1), sources=[1], source_labels=letters(1))
    with pytest.raises(UnsupportedError, match="needs memory"):
        inspect_sample(tiny(kind="encoder_decoder"), [1], letters(1))
