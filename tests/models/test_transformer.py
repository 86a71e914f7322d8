"""The Transformer at its border: what it gives, and what it refuses."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from glassformer.core.call import Memory
from glassformer.core.errors import ConfigError, DataError, UnsupportedError
from glassformer.core.places import Places
from glassformer.models.transformer import Transformer

from .architectures import ARCHITECTURES, KINDS, TOKENS, run

# --- what it gives


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_have_the_shapes_of_their_names(tiny, kind):
    model = tiny(kind=kind)
    logits, hidden = run(model), run(model, outputs="hidden")
    assert (logits.shape, hidden.shape) == ((2, 3, 32), (2, 3, 16))
    assert torch.equal(model.head(hidden), logits)
    torch.testing.assert_close(run(model, outputs="last"), logits[:, -1])


def test_one_row_of_one_token(tiny):
    for kind in KINDS:
        model = tiny(kind=kind)
        one = torch.tensor([[3]])
        assert run(model, one).shape == (1, 1, 32)
        assert run(model, one, labels=one).count.item() == 1


def test_last_token_of_an_empty_row_is_zero(tiny):
    model = tiny()
    last = model(TOKENS, places=Places.from_lengths([0, 2], 3, side="left"), outputs="last")
    assert last[0].eq(0).all()
    assert last[1].ne(0).any()


def test_ready_embeddings_equal_the_tokens_they_stand_for(tiny):
    for kind in ("decoder", "encoder_decoder"):
        model = tiny(kind=kind, positions="rotary")
        stack = model.output_stack
        ready = stack.input.embedding(TOKENS) * stack.input.scale
        memory = None if kind == "decoder" else model.encode(ready)
        torch.testing.assert_close(model(ready, memory=memory), run(model), atol=1e-6, rtol=1e-6)
        with torch.no_grad():
            cache = model.new_cache(2, 4)
            torch.testing.assert_close(model(ready, memory=memory, cache=cache), run(model), atol=1e-5, rtol=1e-5)
    (gradient,) = torch.autograd.grad(model(ready.requires_grad_(), memory=memory).sum(), ready, retain_graph=True)
    assert gradient.ne(0).any()


def test_o02_loss_counts_targets_by_length_and_not_by_id(tiny):
    """End and padding are both 2. Rows [5, 6, 2] and [7, 2] have three targets: 6 and 2, and the first 2."""
    model = tiny()
    inputs, labels = torch.tensor([[5, 6], [7, 2]]), torch.tensor([[6, 2], [2, -100]])
    loss = model(inputs, places=Places.from_lengths([2, 1], 2), labels=labels)
    assert loss.count.item() == 3
    logp = model(inputs, places=Places.from_lengths([2, 1], 2)).log_softmax(-1)
    expected = -(logp[0, 0, 6] + logp[0, 1, 2] + logp[1, 0, 2])
    torch.testing.assert_close(loss.sum, expected)


def test_o02_labels_are_what_each_position_predicts_and_are_shifted_nowhere(tiny):
    """A head that gives all mass to token + 1 has no loss when labels[t] = tokens[t] + 1."""
    model = tiny(d_model=32, n_heads=2, tied=False, positions="none", embedding_scale=False, norm="none")
    with torch.no_grad():
        for block in model.decoder.blocks:
            for layer in (block.attention.output, block.feed_forward.output):
                layer.weight.zero_()
                layer.bias.zero_()
        model.decoder.input.embedding.weight.copy_(torch.eye(32))
        model.head.weight.copy_(50 * torch.eye(32).roll(1, 0))
    tokens = torch.tensor([[5, 6, 7, 8], [1, 2, 3, 4]])
    labels = torch.tensor([[6, 7, 8, -100], [2, 3, 4, -100]])
    loss = model(tokens, labels=labels)
    assert loss.count.item() == 6
    assert loss.sum.item() == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("arguments", ARCHITECTURES[:3])
def test_recomputed_blocks_give_the_same_gradients(tiny, arguments):
    """Activation recompute runs a block twice with the same call: what was made once serves both."""
    places = Places.from_lengths([3, 2])
    results = []
    for recompute in (False, True):
        model = tiny(**arguments)
        if recompute:
            for block in model.decoder.blocks:
                block.forward = partial(checkpoint, block.forward, use_reentrant=False)
        loss = model(TOKENS, places=places, labels=TOKENS)
        results.append([loss.sum, *torch.autograd.grad(loss.sum, list(model.parameters()))])
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("arguments", ARCHITECTURES)
def test_o12_dropout_is_off_in_eval(tiny, arguments):
    """Every dropout at 0.8, in the fused kernel too: equal to no dropout at all, and no random number is drawn."""
    attention = arguments.get("attention", {})
    weights = {} if attention.get("type") == "linear" else {"dropout": 0.8}  # there are none to drop
    wet = tiny(**(arguments | {"dropout": 0.8, "attention": attention | weights}))
    dry = tiny(**arguments)
    state = torch.get_rng_state()
    outputs = [run(wet), run(wet), run(dry)]
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(outputs[0], outputs[1])
    assert torch.equal(outputs[0], outputs[2])
    wet.train()
    assert not torch.equal(run(wet), run(wet))


@pytest.mark.parametrize("kernel", ["sdpa", "reference"])
def test_o12_attention_dropout_alone_is_on_in_training(tiny, kernel):
    model = tiny(attention={"dropout": 0.5, "kernel": kernel})
    assert torch.equal(run(model), run(model))
    model.train()
    assert not torch.equal(run(model), run(model))


def test_o13_model_in_half_precision_has_finite_padded_rows(tiny):
    places = Places.from_lengths([2, 0], 3, side="left")
    for dtype in (torch.float16, torch.bfloat16):
        for kernel in ("sdpa", "reference"):
            model = tiny(attention={"kernel": kernel}).to(dtype)
            assert model(TOKENS, places=places).isfinite().all()


# --- what it refuses


@pytest.mark.parametrize("kind", KINDS)
def test_o06_id_outside_the_vocabulary_is_named(tiny, kind):
    model = tiny(kind=kind)
    run(model, torch.tensor([[1, 31]]))
    for bad in (32, -1, -100):
        with pytest.raises(DataError, match=rf"token id {bad} in row 1, column 0 .*vocab size 32"):
            run(model, torch.tensor([[1, 31], [bad, 1]]))
    with pytest.raises(DataError, match=r"label 32 in row 0, column 1 .*vocab size 32"):
        run(model, torch.tensor([[1, 31]]), labels=torch.tensor([[1, 32]]))
    with pytest.raises(DataError, match=r"label -1 in row 0, column 0"):
        run(model, torch.tensor([[1, 31]]), labels=torch.tensor([[-1, 3]]))
    assert run(model, torch.tensor([[1, 31]]), labels=torch.tensor([[-100, 3]])).count.item() == 1


def test_o06_source_id_outside_its_own_vocabulary_is_named(tiny):
    model = Transformer(tiny(kind="encoder_decoder").config)
    with pytest.raises(DataError, match="token id 40 in row 0, column 1"):
        model.encode(torch.tensor([[1, 40]]))


def test_o18_context_that_is_exceeded_is_refused_with_both_numbers(tiny):
    for positions in ("learned", "sinusoidal", "rotary"):
        model = tiny(positions=positions, max_positions=4)
        assert model.max_positions == 4
        model(torch.zeros(1, 4, dtype=torch.long))
        with pytest.raises(DataError, match="5 tokens are more than the context of 4"):
            model(torch.zeros(1, 5, dtype=torch.long))
        # Padding is no token, wherever it is.
        for side in ("left", "right"):
            model(torch.zeros(2, 9, dtype=torch.long), places=Places.from_lengths([4, 1], 9, side=side))
        with torch.no_grad():
            cache = model.new_cache(1, 8)
            model(torch.zeros(1, 3, dtype=torch.long), cache=cache)
            cache.advance([3])
            with pytest.raises(DataError, match="5 tokens are more than the context of 4"):
                model(torch.zeros(1, 2, dtype=torch.long), cache=cache)


def test_o18_sinusoid_without_a_limit_is_computed_for_any_position(tiny):
    assert tiny().max_positions is None
    assert tiny()(torch.zeros(1, 600, dtype=torch.long)).isfinite().all()


@pytest.mark.parametrize(
    ("kind", "act", "error", "message"),
    [
        ("decoder", lambda m: m.encode(TOKENS), UnsupportedError, "decoder-only.*call it on the tokens"),
        ("encoder_decoder", lambda m: m(TOKENS), UnsupportedError, r"needs memory=model.encode\(source\)"),
        (
            "decoder",
            lambda m: m(TOKENS, memory=Memory(torch.zeros(2, 3, 16), Places.full(3))),
            UnsupportedError,
            "no cross-attention",
        ),
        (
            "encoder_decoder",
            lambda m: m(TOKENS, memory=m.encode(TOKENS[:1])),
            DataError,
            "memory has 1 rows, the inputs 2",
        ),
        ("encoder", lambda m: m(TOKENS, cache=m.new_cache(2, 4)), UnsupportedError, "causal stacks"),
        ("decoder", lambda m: m(TOKENS, cache=m.new_cache(3, 4)), DataError, "cache has 3 rows, the inputs 2"),
        ("decoder", lambda m: m(TOKENS[:1], cache=m.new_cache(3, 4)), DataError, "cache has 3 rows, the inputs 1"),
        ("decoder", lambda m: m(TOKENS, cache=m.new_cache(2, 4)), UnsupportedError, "no_grad"),
        ("decoder", lambda m: m(TOKENS, outputs="logit"), ConfigError, "outputs is 'logit'"),
        ("decoder", lambda m: m(TOKENS, types=TOKENS), UnsupportedError, "n_types is 0"),
        ("decoder", lambda m: m(TOKENS, places=Places.full(4)), DataError, r"\(1, 4\) slots, the inputs are \(2, 3\)"),
        ("decoder", lambda m: m(TOKENS, places=Places.from_lengths([1, 2, 3])), DataError, r"\(3, 3\) slots"),
        ("decoder", lambda m: m(TOKENS[0]), DataError, r"shape \(3,\); expected"),
        ("decoder", lambda m: m(torch.zeros(2, 3)), DataError, r"shape \(2, 3\); expected"),
        ("decoder", lambda m: m(torch.zeros(2, 3, 8)), DataError, r"\(2, 3, 8\).*\(batch, length, 16\)"),
        ("decoder", lambda m: m(TOKENS[:, :0]), DataError, "no token in them"),
        ("decoder", lambda m: m(TOKENS[:0]), DataError, "no token in them"),
        ("decoder", lambda m: m(TOKENS > 5), DataError, "torch.bool.*torch.int64"),
        ("decoder", lambda m: m(TOKENS, labels=TOKENS[:, :2]), DataError, r"labels have shape \(2, 2\)"),
        ("decoder", lambda m: m(TOKENS, labels=TOKENS.float()), DataError, "labels have type torch.float32"),
        ("decoder", lambda m: m(TOKENS, labels=TOKENS, label_smoothing=1.5), ConfigError, "label_smoothing is 1.5"),
        ("decoder", lambda m: m.resize_vocabulary(0), ConfigError, "vocab_size is 0"),
    ],
)
def test_what_a_model_cannot_do_is_refused(tiny, kind, act, error, message):
    with pytest.raises(error, match=message):
        act(tiny(kind=kind))


def test_model_without_a_head_gives_states_and_nothing_else(tiny):
    config = tiny(kind="encoder").config.model_copy(update={"head": None})
    model = Transformer(config)
    assert model(TOKENS, outputs="hidden").shape == (2, 3, 16)
    for given in ({}, {"labels": TOKENS}, {"labels": TOKENS, "outputs": "hidden"}):
        with pytest.raises(UnsupportedError, match="no head; ask for outputs='hidden'"):
            model(TOKENS, **given)


def test_token_types_are_checked_and_change_the_result(tiny):
    config = tiny(kind="encoder").config
    settings = config.encoder.input.model_copy(update={"n_types": 2})
    config = config.model_copy(update={"encoder": config.encoder.model_copy(update={"input": settings})})
    model = Transformer(config).eval()
    zeros = torch.zeros_like(TOKENS)
    assert torch.equal(model(TOKENS, types=zeros), model(TOKENS))
    assert not torch.equal(model(TOKENS, types=zeros + 1), model(TOKENS))
    with pytest.raises(DataError, match=r"token type 2 in row 0, column 0 is outside 0\.\.1$"):
        model(TOKENS, types=zeros + 2)
    with pytest.raises(DataError, match=r"types have shape \(2, 2\), the inputs \(2, 3\)"):
        model(TOKENS, types=zeros[:, :2])
