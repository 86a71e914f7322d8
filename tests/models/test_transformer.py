"""The Transformer at its border: what it gives, what it refuses, and what it is made of."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from glassformer.core.attention_config import PatternConfig
from glassformer.core.call import Memory
from glassformer.core.errors import ConfigError, DataError, UnsupportedError
from glassformer.core.places import Places
from glassformer.core.tape import Patch, Tape
from glassformer.models.transformer import Transformer

TOKENS = torch.tensor([[5, 6, 7], [8, 9, 10]])
KINDS = ["decoder", "encoder", "encoder_decoder"]


def run(model: Transformer, tokens: Tensor = TOKENS, **given: object) -> Tensor:
    if model.encoder is not None and model.decoder is not None:
        given["memory"] = model.encode(tokens)
    return model(tokens, **given)


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


ARCHITECTURES = [
    {"kind": "decoder", "positions": "learned", "max_positions": 16, "norm_place": "pre", "activation": "gelu"},
    {"kind": "decoder", "positions": "rotary", "norm_place": "pre", "parallel": True, "n_kv_heads": 1, "bias": False},
    {"kind": "decoder", "positions": "rotary", "norm_place": "pre", "norm": "rms", "gated": True, "n_kv_heads": 1},
    {"kind": "encoder_decoder"},
    {"kind": "decoder", "attention": {"window": 3}},
    {"kind": "decoder", "positions": "alibi", "norm_place": "pre"},
    {"kind": "encoder_decoder", "positions": "relative", "norm_place": "pre", "attention": {"scale": "none"}},
    {"kind": "decoder", "positions": "rotary", "attention": {"type": "linear"}, "n_kv_heads": 1},
    {"kind": "encoder_decoder", "attention": {"type": "linear"}},
    {"kind": "decoder", "positions": "alibi", "attention": {"window": 3, "window_layers": (0,)}},
    {"kind": "decoder", "positions": "none", "attention": {"type": "shaw", "max_distance": 3, "window": 4}},
    {"kind": "decoder", "attention": {"soft_cap": 1.0}},
    {"kind": "decoder", "attention": {"pattern": PatternConfig(block=2, near=0, first=1, random=1)}},
]


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


# --- what it is made of: O11, weight tying


def assert_tied(model: Transformer) -> None:
    table = model.output_stack.input.embedding.weight
    assert model.head.weight is table
    assert model.head.weight.data_ptr() == table.data_ptr()
    shared = model.config.share_embeddings
    if model.encoder is not None and model.decoder is not None:
        assert (model.encoder.input.embedding.weight is table) == shared


def meta_and_back(model: Transformer) -> Transformer:
    with torch.device("meta"):
        empty = Transformer(model.config)
    empty.to_empty(device="cpu")
    empty.load_state_dict(model.state_dict())
    return empty


def resized(model: Transformer, vocab_size: int = 40) -> Transformer:
    model.resize_vocabulary(vocab_size)
    return model


MOVES = {
    "built": lambda model: model,
    "deepcopy": copy.deepcopy,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "to_dtype": lambda model: model.to(torch.float64),
    "half": lambda model: model.half().float(),
    "meta": meta_and_back,
    "resize": resized,
    "resize_and_copy": lambda model: copy.deepcopy(resized(model).double()),
}


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("kind", ["decoder", "encoder_decoder"])
def test_o11_tie_survives_every_move(tiny, kind, move):
    model = MOVES[move](tiny(kind=kind))
    assert_tied(model)
    dtype = model.head.weight.dtype
    before = model.head.weight.detach().clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    counted = [parameter.data_ptr() for parameter in optimizer.param_groups[0]["params"]]
    assert counted.count(model.head.weight.data_ptr()) == 1
    run(model, labels=TOKENS).mean.backward()
    optimizer.step()
    assert_tied(model)
    assert model.head.weight.dtype == dtype
    assert not torch.equal(model.head.weight, before)
    assert torch.equal(model.head.weight, model.output_stack.input.embedding.weight)


@pytest.mark.parametrize("move", MOVES)
def test_o11_untied_stays_untied(tiny, move):
    model = MOVES[move](tiny(kind="encoder_decoder", tied=False, share_embeddings=False))
    tables = [model.head.weight, model.decoder.input.embedding.weight, model.encoder.input.embedding.weight]
    assert len({table.data_ptr() for table in tables}) == 3
    before = [table.detach().clone() for table in tables]
    run(model, labels=TOKENS).mean.backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    changes = [table.detach() - old for table, old in zip(tables, before, strict=True)]
    assert all(change.ne(0).any() for change in changes)
    assert not torch.equal(changes[0], changes[1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("vocab_size", [40, 20])
def test_o11_resized_vocabulary_is_used_and_remembered(tiny, kind, tied, vocab_size):
    model = tiny(kind=kind, tied=tied, head_bias=True)
    old, old_bias = model.head.weight.detach().clone(), model.head.bias.detach().clone()
    expected = run(model)[..., : min(32, vocab_size)]
    model.resize_vocabulary(vocab_size)
    logits = run(model)
    assert logits.shape == (2, 3, vocab_size)
    torch.testing.assert_close(logits[..., : min(32, vocab_size)], expected)
    kept = min(32, vocab_size)
    assert torch.equal(model.head.weight[:kept], old[:kept])
    assert torch.equal(model.head.bias[:kept], old_bias[:kept])
    if vocab_size > 32:
        assert model.head.bias[32:].eq(0).all()
        assert model.head.weight[32:].std().item() == pytest.approx(old.std().item(), rel=0.25)
    run(model, torch.tensor([[vocab_size - 1]]))
    with pytest.raises(DataError, match=f"vocab size {vocab_size}"):
        run(model, torch.tensor([[vocab_size]]))
    rebuilt = Transformer(type(model.config).parse(model.config.model_dump()))
    rebuilt.load_state_dict(model.state_dict())
    assert torch.equal(run(rebuilt.eval()), logits)


def test_resize_of_separate_tables_leaves_the_encoders_alone(tiny):
    model = tiny(kind="encoder_decoder", share_embeddings=False)
    model.resize_vocabulary(40)
    assert (model.config.encoder.input.vocab_size, model.config.decoder.input.vocab_size) == (32, 40)
    model.encode(torch.tensor([[31]]))
    with pytest.raises(DataError, match="vocab size 32"):
        model.encode(torch.tensor([[32]]))


def test_resize_keeps_a_frozen_table_frozen(tiny):
    model = tiny(tied=False)
    model.decoder.input.embedding.weight.requires_grad_(False)
    model.resize_vocabulary(40)
    assert not model.decoder.input.embedding.weight.requires_grad
    assert model.head.weight.requires_grad


def test_copy_shares_nothing(tiny):
    model = tiny()
    twin = copy.deepcopy(model)
    with torch.no_grad():
        twin.head.weight.add_(1)
    assert not torch.equal(run(model), run(twin))
    twin.load_state_dict(model.state_dict())
    assert torch.equal(run(model), run(twin))


def test_state_names_say_what_a_tensor_is(tiny):
    names = set(tiny(n_layers=1).state_dict())
    block = "decoder.blocks.0"
    assert names == {
        "decoder.input.embedding.weight",
        f"{block}.attention.qkv.weight",
        f"{block}.attention.qkv.bias",
        f"{block}.attention.output.weight",
        f"{block}.attention.output.bias",
        f"{block}.attention_norm.weight",
        f"{block}.attention_norm.bias",
        f"{block}.feed_forward.inner.weight",
        f"{block}.feed_forward.inner.bias",
        f"{block}.feed_forward.output.weight",
        f"{block}.feed_forward.output.bias",
        f"{block}.feed_forward_norm.weight",
        f"{block}.feed_forward_norm.bias",
        "head.weight",
    }


def test_every_part_knows_where_it_stands(tiny):
    model = tiny(kind="encoder_decoder")
    for name, module in model.named_modules():
        if hasattr(module, "site"):
            assert module.site == name
