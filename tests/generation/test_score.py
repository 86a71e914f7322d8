from __future__ import annotations

import math

import pytest
import torch

from glassformer.core.errors import DataError, UnsupportedError
from glassformer.generation.config import GenerationConfig
from glassformer.generation.score import score
from glassformer.generation.stream import generate

from .tiny import Letters, bigram, build


def test_score_by_hand() -> None:
    # After "a" the score of "b" is log 4 and that of the 31 others 0: p(b) = 4/35, p(others) = 1/35.
    model = bigram({"a": "b"}, strength=math.log(4))
    tokenizer = Letters(bos=None)
    scored = score(model, tokenizer.encode("aba"), tokenizer=tokenizer)
    assert scored.tokens == tuple(tokenizer.encode("ba"))
    assert scored.logprobs == pytest.approx([math.log(4 / 35), math.log(1 / 32)])
    assert scored.total == pytest.approx(math.log(4 / 35 / 32))


def test_the_begin_token_makes_the_first_token_scored() -> None:
    model = bigram({"<": "a"}, strength=math.log(4))
    scored = score(model, Letters().encode("ab"), tokenizer=Letters())
    assert scored.logprobs == pytest.approx([math.log(4 / 35), math.log(1 / 32)])


def test_o22_one_token_without_begin_is_not_scored() -> None:
    model = build()
    for tokens in ([5], []):
        scored = score(model, tokens, tokenizer=Letters(bos=None))
        assert (scored.tokens, scored.logprobs, scored.total) == ((), (), 0.0)
    assert score(model, [], tokenizer=Letters()).tokens == ()
    assert len(score(model, [5], tokenizer=Letters()).tokens) == 1


def test_score_equals_what_generation_reports() -> None:
    model, tokenizer = build(), Letters(eos=None)
    config = GenerationConfig(max_new_tokens=10, temperature=1.0, top_k=5)
    written = generate(model, [[5, 6]], config, tokenizer=tokenizer)[0]
    scored = score(model, [5, 6, *written.tokens], tokenizer=tokenizer, before=2)
    assert scored.tokens == written.tokens
    assert scored.logprobs == pytest.approx(written.logprobs, abs=1e-5)


def test_a_target_is_scored_with_its_end_given_the_source() -> None:
    model, tokenizer = build("encoder_decoder"), Letters()
    scored = score(model, [5, 6], tokenizer=tokenizer, source=[7, 8, 9])
    assert scored.tokens == (5, 6, 2)
    with torch.no_grad():
        memory = model.encode(torch.tensor([[7, 8, 9]]))
        logits = model(torch.tensor([[1, 5, 6]]), memory=memory)[0]
    expected = logits.log_softmax(-1)[range(3), [5, 6, 2]].tolist()
    assert scored.logprobs == pytest.approx(expected, abs=1e-5)
    other = score(model, [5, 6], tokenizer=tokenizer, source=[9, 8])
    assert other.logprobs != pytest.approx(scored.logprobs, abs=1e-3)


def test_before_only_shortens_what_is_scored() -> None:
    model, tokenizer = build(), Letters()
    whole = score(model, [5, 6, 7, 8], tokenizer=tokenizer)
    for before in range(5):
        rest = score(model, [5, 6, 7, 8], tokenizer=tokenizer, before=before)
        assert rest.tokens == whole.tokens[before:]
        assert rest.logprobs == pytest.approx(whole.logprobs[before:])
    with pytest.raises(DataError, match=r"before is 5, outside 0\.\.4"):
        score(model, [5, 6, 7, 8], tokenizer=tokenizer, before=5)


def test_o07_a_text_longer_than_the_context_is_refused() -> None:
    model = build(max_positions=8)
    assert len(score(model, [5] * 8, tokenizer=Letters()).tokens) == 8  # the last one is only predicted
    with pytest.raises(DataError, match=r"text 9 > context 8"):
        score(model, [5] * 9, tokenizer=Letters())


def test_score_leaves_mode_and_randomness_alone() -> None:
    model = build(dropout=0.8).train()
    state = torch.get_rng_state()
    first = score(model, [5, 6, 7], tokenizer=Letters())
    assert first == score(model, [5, 6, 7], tokenizer=Letters())
    assert model.training
    assert torch.get_rng_state().equal(state)


def test_what_cannot_be_scored_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="not causal"):
        score(build(causal=False), [5, 6], tokenizer=Letters())
    with pytest.raises(UnsupportedError, match="encoder-only"):
        score(build("encoder"), [5, 6], tokenizer=Letters())
    with pytest.raises(DataError, match="decoder-only and reads no source"):
        score(build(), [5, 6], tokenizer=Letters(), source=[5])
    with pytest.raises(DataError, match="reads a source for every row"):
        score(build("encoder_decoder"), [5, 6], tokenizer=Letters())
    with pytest.raises(DataError, match=r"token id 32 at position 1 is outside 0\.\.31 \(vocab size 32\)"):
        score(build(), [5, 32], tokenizer=Letters())
