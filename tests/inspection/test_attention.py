from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from glassformer.core.errors import ConfigError, DataError
from glassformer.core.tape import Tape
from glassformer.inspection.attention import attention_weights, check_labels
from glassformer.models.arguments import ModelArguments
from glassformer.models.transformer import Transformer


def model_of(kind: str, **arguments: object) -> Transformer:
    base = {"kind": kind, "d_model": 16, "n_layers": 2, "n_heads": 4, "dropout": 0.3}
    config = ModelArguments(**(base | arguments)).resolve(32)
    return Transformer(config, generator=torch.Generator().manual_seed(0))


def test_o28_weights_are_per_head_and_of_the_right_shape():
    model = model_of("encoder_decoder").eval()
    tape = Tape(model, "*.weights")
    source, target = torch.randint(0, 32, (2, 5)), torch.randint(0, 32, (2, 3))
    model(target, memory=model.encode(source, tape=tape), tape=tape)
    assert {tuple(tape[site].shape) for site in tape if "cross" in site} == {(2, 4, 3, 5)}
    assert {tuple(tape[site].shape) for site in tape if site.startswith("encoder")} == {(2, 4, 5, 5)}
    one = attention_weights(model, target[1], sources=source[1])
    assert list(one) == list(tape)
    for site, weights in one.items():
        assert torch.allclose(weights, tape[site][1], atol=1e-6)
        assert torch.allclose(weights.sum(-1), torch.ones(()), atol=1e-6)
        averaged = sum(tape[site][1]) / 4
        assert torch.allclose(weights.mean(0), averaged, atol=1e-6)


def test_o28_generated_tokens_have_rows():
    """Row t of the whole matrix is what token t saw when it was computed, three of a prompt and two generated."""
    model = model_of("decoder").eval()
    cache, tape = model.new_cache(1, 8), Tape(model, "*.attention.weights", keep="all")
    tokens, given = [5, 6, 7], torch.tensor([[5, 6, 7]])
    with torch.no_grad():
        for _ in range(3):
            scores = model(given, cache=cache, outputs="last", tape=tape)
            cache.advance([given.shape[1]])
            given = scores.argmax(-1, keepdim=True)
            tokens.append(int(given))
    for site, weights in attention_weights(model, tokens[:5]).items():
        assert weights.shape == (4, 5, 5)
        assert torch.equal(weights, weights.tril())
        rows = torch.cat([F.pad(step[0], (0, 5 - step.shape[-1])) for step in tape.all(site)], dim=1)
        assert torch.allclose(weights, rows, atol=1e-6)


def test_o28_labels_are_as_many_as_positions():
    check_labels(["a"] * 8, 8)
    with pytest.raises(DataError, match="7 labels for 8 positions"):
        check_labels(["a"] * 7, 8)


def test_o29_estimate_comes_before_the_work(monkeypatch: pytest.MonkeyPatch):
    model = model_of("decoder", n_layers=12, n_heads=16)

    def forward(*arguments: object, **named: object) -> None:
        raise AssertionError("the model was run")

    monkeypatch.setattr(model.decoder, "forward", forward)
    tokens = [1] * 1024
    with pytest.raises(DataError) as caught:
        attention_weights(model, tokens)
    kept, at_work = 12 * 16 * 1024 * 1024 * 4 // 2**20, 4 * 16 * 1024 * 1024 * 4 // 2**20
    assert f"{kept + at_work:,}.0 MiB ({kept}.0 MiB to keep, {at_work}.0 MiB while" in str(caught.value)
    for way in ("256.0 MiB", "pattern=", "heads=", "limit_bytes"):
        assert way in str(caught.value)


def test_o29_all_of_512_tokens_is_within_the_limit_by_its_estimate():
    """12 layers and 12 heads over 512 tokens: 37,748,736 weights, 144 MiB."""
    with torch.device("meta"):
        model = model_of("decoder", n_layers=12, n_heads=12, d_model=24)
    with pytest.raises(DataError, match=r"192\.0 MiB \(144\.0 MiB to keep, 48\.0 MiB while"):
        attention_weights(model, [1] * 512, limit_bytes=192 * 2**20 - 1)


def test_o29_narrowing_keeps_exactly_what_is_asked_for():
    model = model_of("decoder", n_layers=4)
    everything = attention_weights(model, range(9))
    narrow = attention_weights(model, range(9), pattern="decoder.blocks.3.*", heads=[0, 2])
    assert list(narrow) == ["decoder.blocks.3.attention.weights"]
    (weights,) = narrow.values()
    assert weights.untyped_storage().nbytes() == 2 * 9 * 9 * 4
    assert torch.equal(weights, everything["decoder.blocks.3.attention.weights"][[0, 2]])
    assert not weights.requires_grad


def test_modes_are_put_back_and_randomness_is_left_alone():
    model = model_of("decoder").train()
    model.decoder.blocks[0].eval()
    before, state = [module.training for module in model.modules()], torch.get_rng_state()
    first, second = attention_weights(model, [1, 2, 3]), attention_weights(model, [1, 2, 3])
    assert all(torch.equal(first[site], second[site]) for site in first)
    assert [module.training for module in model.modules()] == before
    assert torch.equal(torch.get_rng_state(), state)
    with pytest.raises(DataError):
        attention_weights(model, [99])
    assert [module.training for module in model.modules()] == before


def test_mistakes_are_named():
    model = model_of("decoder")
    with pytest.raises(DataError, match=r"tokens have shape \(2, 3\)"):
        attention_weights(model, torch.ones(2, 3, dtype=torch.long))
    with pytest.raises(DataError, match=r"heads \[4\] are not all in 0\.\.3"):
        attention_weights(model, [1, 2], heads=[4])
    with pytest.raises(ConfigError, match="no attention weights"):
        attention_weights(model, [1, 2], pattern="*.residual")
    with pytest.raises(ConfigError, match="no site matches"):
        attention_weights(model, [1, 2], pattern="nothing")
    assert torch.equal(
        attention_weights(model, torch.tensor([[1, 2]]))["decoder.blocks.0.attention.weights"],
        attention_weights(model, [1, 2])["decoder.blocks.0.attention.weights"],
    )
