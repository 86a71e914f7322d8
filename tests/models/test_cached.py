"""A model with a cache is the model without one, and what only a cache can do."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from glassformer.core.errors import DataError, UnsupportedError
from glassformer.core.places import Places
from glassformer.core.tape import Patch, Tape

from .architectures import ARCHITECTURES, TOKENS


@pytest.mark.parametrize("arguments", ARCHITECTURES)
@pytest.mark.parametrize("chunks", [[8, 1], [1] * 9, [3, 4, 1, 1]])
@pytest.mark.parametrize("slots", [9, 64])
def test_o03_cache_reproduces_the_full_forward(tiny, arguments, chunks, slots):
    model = tiny(**arguments)
    tokens = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6, 5]])
    with torch.no_grad():
        memory = model.encode(TOKENS[:1]) if model.encoder is not None else None
        full = model(tokens, memory=memory)
        cache, parts = model.new_cache(1, slots), []
        for chunk in tokens.split(chunks, dim=1):
            parts.append(model(chunk, memory=memory, cache=cache))
            cache.advance([chunk.shape[1]])
    cached = torch.cat(parts, dim=1)
    torch.testing.assert_close(cached, full, atol=1e-5, rtol=1e-5)
    assert torch.equal(cached.argmax(-1), full.argmax(-1))
    assert cache.extent == 9


def test_o31_reordered_cache_goes_on_from_the_named_rows(tiny):
    """Two beams swap their parents; the sentence they look at stays."""
    model = tiny(kind="encoder_decoder")
    with torch.no_grad():
        memory = model.encode(TOKENS[:1].expand(2, -1))
        cache = model.new_cache(2, 8)
        model(TOKENS, memory=memory, cache=cache)
        cache.advance([3, 3])
        cache.reorder([1, 1])
        got = model(torch.tensor([[1], [2]]), memory=memory, cache=cache)
        expected = model(torch.tensor([[8, 9, 10, 1], [8, 9, 10, 2]]), memory=memory)[:, -1:]
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "attention",
    [{"type": "linear"}, {"window": 2}, {"window": 2, "window_layers": (1,)}, {"type": "shaw", "max_distance": 1}],
)
def test_o31_every_kind_of_layer_goes_on_from_the_named_rows(tiny, attention):
    """Two sentences become three beams each, which swap, die and double; each step against the whole text."""
    model = tiny(kind="encoder_decoder", positions="rotary", attention=attention).double()
    texts = [[5, 6, 7], [8, 9]]
    sources = torch.tensor([[5, 6, 7], [8, 9, 10]])

    def check(memory_rows: list[int]) -> None:
        got = model(torch.tensor([[text[-1]] for text in texts]), memory=memory, cache=cache, outputs="last")
        cache.advance([1] * len(texts))
        for row, text in enumerate(texts):
            alone = model.encode(sources[memory_rows[row], None])
            expected = model(torch.tensor([text]), memory=alone, outputs="last")[0]
            torch.testing.assert_close(got[row], expected, atol=1e-10, rtol=1e-10)

    with torch.no_grad():
        cache, memory = model.new_cache(2, 300), model.encode(sources)
        prompt = torch.tensor([[5, 6, 7], [8, 9, 0]])
        model(prompt, places=Places.from_lengths([3, 2]), memory=memory, cache=cache)
        cache.advance([3, 2])
        cache.select([0, 0, 0, 1, 1, 1], [0, 1])
        texts = [[*texts[row], token] for row, token in zip([0, 0, 0, 1, 1, 1], range(11, 17), strict=True)]
        memory = replace(memory, beams=3)
        check([0, 0, 0, 1, 1, 1])
        for step in range(140):
            rows = [[2, 0, 0, 3, 4, 5], [1, 1, 1, 4, 3, 3], [0, 1, 2, 3, 4, 5]][step % 3]
            cache.reorder(rows)
            texts = [[*texts[row], 3 + (step + at) % 29] for at, row in enumerate(rows)]
            if step % 20 == 0:
                check([0, 0, 0, 1, 1, 1])
            else:
                model(torch.tensor([[text[-1]] for text in texts]), memory=memory, cache=cache, outputs="last")
                cache.advance([1] * 6)
        cache.select([5, 3], [1])
        texts = [[*texts[row], 20] for row in (5, 3)]
        memory = replace(memory, states=memory.states[1:], places=memory.places, beams=2)
        check([1, 1])


@pytest.mark.parametrize("attention", [{"type": "linear"}, {"window": 4}])
def test_without_a_layer_that_keeps_all_keys_a_cache_has_no_capacity(tiny, attention):
    model = tiny(attention=attention)
    with torch.no_grad():
        cache = model.new_cache(1, None)
        size = cache.n_bytes
        for _ in range(3):
            model(torch.randint(3, 32, (1, 400)), cache=cache)
            cache.advance([400])
            assert cache.n_bytes == size
    assert cache.lengths == [1200]
    with pytest.raises(DataError, match=r"capacity is None, but layers \[0, 1\] keep the keys of all tokens"):
        tiny().new_cache(1, None)


def test_weights_that_sums_do_not_have_are_refused(tiny):
    """Without a cache they are there."""
    model = tiny(attention={"type": "linear"})
    tape = Tape(model, "*.attention.weights")
    with torch.no_grad():
        model(TOKENS, tape=tape)
        assert tape["decoder.blocks.0.attention.weights"].shape == (2, 2, 3, 3)
        cache = model.new_cache(2, None)
        with pytest.raises(UnsupportedError, match=r"attention.weights is not there.*use_cache=False"):
            model(TOKENS, cache=cache, tape=tape)


def test_cached_bias_of_each_window_can_be_looked_at_and_changed(tiny):
    """A patch that takes the bias away makes the model one without positions, in all its layers."""
    attention = {"window": 3, "window_layers": (0,)}
    model, plain = (tiny(positions=positions, attention=attention) for positions in ("alibi", "none"))
    plain.load_state_dict(model.state_dict())
    tokens = torch.randint(3, 32, (1, 8))
    with torch.no_grad():
        expected, cache = plain(tokens), model.new_cache(1, 8)
        for at, token in enumerate(tokens.split(1, dim=1)):
            tape = Tape(model, "*.bias", patches=[Patch("*.bias", torch.zeros_like)], keep="all")
            logits = model(token, cache=cache, tape=tape)
            cache.advance([1])
            torch.testing.assert_close(logits, expected[:, at : at + 1], atol=1e-5, rtol=1e-5)
            assert [bias.shape[-1] for bias in tape.all("decoder.position_bias.bias")] == [min(at, 2) + 1, at + 1]


@pytest.mark.parametrize("settled", [False, True])
def test_cache_that_starts_again_looks_at_the_new_sentence(tiny, settled):
    """A first pass that never became final, or was truncated to nothing, leaves no memory behind."""
    model = tiny(kind="encoder_decoder")
    with torch.no_grad():
        cache = model.new_cache(2, 4)
        model(TOKENS, memory=model.encode(TOKENS), cache=cache)
        if settled:
            cache.advance([3, 3])
            cache.truncate([0, 0])
        other = model.encode(TOKENS + 1)
        torch.testing.assert_close(model(TOKENS, memory=other, cache=cache), model(TOKENS, memory=other))


def test_cache_works_in_inference_mode_and_after_it(tiny):
    model = tiny()
    with torch.inference_mode():
        full = model(TOKENS)
    cache = model.new_cache(2, 4)
    with torch.inference_mode():
        model(TOKENS[:, :2], cache=cache)
    cache.advance([2, 2])
    with torch.no_grad():
        torch.testing.assert_close(model(TOKENS[:, 2:], cache=cache), full[:, 2:], atol=1e-5, rtol=1e-5)
