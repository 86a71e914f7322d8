"""Float64, half precision, autocast and the meta device."""

from __future__ import annotations

import pytest
import torch

from glassformer.core.places import Places
from glassformer.models.transformer import Transformer

TOKENS = torch.tensor([[5, 6, 7, 8, 9], [10, 11, 12, 2, 2]])
PLACES = Places.from_lengths([5, 3])
MODELS = pytest.mark.parametrize(
    "arguments",
    [
        {"positions": "rotary", "norm_place": "pre", "norm": "rms", "gated": True, "n_kv_heads": 1},
        {"positions": "sinusoidal", "attention": {"kernel": "reference"}},
        {"kind": "encoder_decoder", "positions": "learned", "max_positions": 8},
    ],
    ids=["rotary", "sinusoidal-reference", "encoder_decoder"],
)


def run(model: Transformer, **given: object) -> torch.Tensor:
    if model.encoder is not None:
        given["memory"] = model.encode(TOKENS, places=PLACES)
    return model(TOKENS, places=PLACES, **given)


@MODELS
def test_float64_model_is_float64_all_through(tiny, arguments):
    """A cast to float32 anywhere inside would leave an error near 1e-7 between padded and alone; none is 1e-12."""
    model = tiny(**arguments).double()
    logits = run(model)
    assert logits.dtype == torch.float64
    memory = model.encode(TOKENS[1:, :3]) if model.encoder is not None else None
    alone = model(TOKENS[1:, :3], memory=memory)
    torch.testing.assert_close(logits[1, :3], alone[0], atol=1e-12, rtol=1e-12)
    torch.testing.assert_close(logits.float(), run(model.float()), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_float64_model_has_float64_positions(tiny, positions):
    """Angles rounded to float32 would be off by 1e-5 at position 1,000, and shift by shift by another amount."""
    model = tiny(positions=positions, norm_place="pre").double()
    far = Places.from_lengths([5, 3], start=[1000, 1000])
    logits = model(TOKENS, places=far)
    if positions == "rotary":
        torch.testing.assert_close(logits, model(TOKENS, places=PLACES), atol=1e-11, rtol=1e-11)
    else:
        position = far.position.double()[..., None] * 10_000 ** (-torch.arange(0, 16, 2).double() / 16)
        table = torch.stack((position.sin(), position.cos()), -1).flatten(-2)
        stack = model.decoder
        ready = stack.input.embedding(TOKENS) * 4 + table - stack.input.positions(far, torch.float64)
        torch.testing.assert_close(model(ready, places=far), logits, atol=1e-11, rtol=1e-11)


@MODELS
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_keeps_the_answer_and_the_gradients_finite(tiny, arguments, dtype):
    """bfloat16 has 8 bits, so logits near 1 are off by hundredths; weights and loss stay float32."""
    model = tiny(**arguments).train()
    expected = run(model)
    with torch.autocast("cpu", dtype=dtype):
        logits = run(model)
        loss = run(model, labels=torch.where(PLACES.is_token, TOKENS, -100))
    torch.testing.assert_close(logits.float(), expected, atol=0.1, rtol=0.1)
    assert loss.sum.dtype == torch.float32
    loss.mean.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad.dtype == torch.float32, name
        assert parameter.grad.isfinite().all(), name


@MODELS
def test_cache_under_autocast_is_close_to_the_full_forward(tiny, arguments):
    """Half precision rounds differently by shape; equality is promised in float32 only."""
    model = tiny(**arguments)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        memory = model.encode(TOKENS[:1]) if model.encoder is not None else None
        full = model(TOKENS[:1], memory=memory)
        cache, parts = model.new_cache(1, 8), []
        for begin, end in ((0, 3), (3, 4), (4, 5)):
            parts.append(model(TOKENS[:1, begin:end], memory=memory, cache=cache))
            cache.advance([end - begin])
    torch.testing.assert_close(torch.cat(parts, 1).float(), full.float(), atol=0.05, rtol=0.05)


@MODELS
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_model_caches_in_its_own_type(tiny, arguments, dtype):
    model = tiny(**arguments).to(dtype)
    assert run(model).dtype == dtype
    with torch.no_grad():
        memory = model.encode(TOKENS) if model.encoder is not None else None
        cache = model.new_cache(2, 8)
        assert cache.layers[0].keys.dtype == dtype
        assert model(TOKENS, memory=memory, cache=cache).isfinite().all()
        assert model.new_cache(2, 8, dtype=torch.float32).layers[0].keys.dtype == torch.float32


@MODELS
@pytest.mark.parametrize("kernel", ["sdpa", "reference"])
def test_model_on_the_meta_device_has_shapes_and_costs_nothing(tiny, arguments, kernel):
    arguments = arguments | {"attention": {"kernel": kernel}}
    config = tiny(**arguments).config
    with torch.device("meta"):
        model = Transformer(config)
        tokens = torch.zeros(2, 5, dtype=torch.long)
        memory = model.encode(tokens) if model.encoder is not None else None
        assert model(tokens, memory=memory).shape == (2, 5, 32)
        assert model(tokens, memory=memory, labels=tokens).sum.shape == ()
    assert all(parameter.is_meta for parameter in model.parameters())
    assert [name for name, _ in model.named_parameters()] == [
        name for name, _ in Transformer(config).named_parameters()
    ]
