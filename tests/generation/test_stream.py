from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from glassformer.core.attention_config import PatternConfig
from glassformer.core.errors import DataError, UnsupportedError
from glassformer.core.tape import Tape
from glassformer.generation.config import GenerationConfig
from glassformer.generation.stream import Generation, Step, generate, stream
from glassformer.models.transformer import Transformer
from glassformer.text.build import byte_tokenizer

from .tiny import POSITIONS, Letters, bigram, build, naive

PROMPTS = [[5, 6], [5, 6, 7, 8, 9], [7]]
SOURCES = [[9, 8, 7, 6], [5], [6, 7]]


def write(
    model: Transformer,
    prompts: Sequence[Sequence[int]] = ((5, 6),),
    tokenizer: Any = None,
    sources: Sequence[Sequence[int]] | None = None,
    tape: Tape | None = None,
    **settings: Any,
) -> list[Generation]:
    config = GenerationConfig(**{"max_new_tokens": 8, **settings})
    return generate(model, prompts, config, tokenizer=tokenizer or Letters(), sources=sources, tape=tape)


def tokens_of(written: Sequence[Generation]) -> list[list[int]]:
    return [list(one.tokens) for one in written]


# Two ways that must be equal


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("kind", ["decoder", "encoder_decoder"])
def test_o01_a_batch_equals_its_rows_alone(kind: str, positions: str) -> None:
    model = build(kind, positions)
    tokenizer = Letters(eos=None)
    sources = SOURCES if kind == "encoder_decoder" else None
    expected = [
        naive(model, [1, *prompt], 8, None if sources is None else sources[row]) for row, prompt in enumerate(PROMPTS)
    ]
    assert len({tuple(row) for row in expected}) == 3, "rows that differ show a mix-up"
    for rows in ([0], [1], [2], [0, 1], [0, 1, 2], [2, 0, 1]):
        for use_cache in (True, False):
            written = write(
                model,
                [PROMPTS[row] for row in rows],
                tokenizer,
                None if sources is None else [sources[row] for row in rows],
                use_cache=use_cache,
            )
            assert tokens_of(written) == [expected[row] for row in rows]


KINDS: dict[str, dict[str, Any]] = {
    "linear": {"type": "linear"},
    "window": {"window": 3},
    "window_in_a_layer": {"window": 2, "window_layers": (1,)},
    "shaw": {"type": "shaw", "max_distance": 2},
    "soft_cap": {"soft_cap": 2.0},
    "pattern": {"pattern": PatternConfig(block=2, near=0, first=1)},
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("kind", ["decoder", "encoder_decoder"])
def test_o01_o03_every_kind_of_attention_writes_in_a_batch_what_it_writes_alone(kind: str, name: str) -> None:
    """Rows of other lengths, of which the short ones leave early, far beyond what a window holds."""
    model = build(kind, "rotary", attention=KINDS[name])
    sources = SOURCES if kind == "encoder_decoder" else None
    prompts, tokenizer = [[5 + i % 20 for i in range(n)] for n in (2, 131, 1)], Letters(eos=None)
    expected = [
        naive(model, [1, *prompt], 20, None if sources is None else sources[row]) for row, prompt in enumerate(prompts)
    ]
    assert len({tuple(row) for row in expected}) == 3, "rows that differ show a mix-up"
    for use_cache in (True, False):
        written = write(model, prompts, tokenizer, sources, max_new_tokens=20, use_cache=use_cache)
        assert tokens_of(written) == expected
    long = write(model, prompts[:1], tokenizer, sources and sources[:1], max_new_tokens=150)
    context = [1, *prompts[0], *long[0].tokens[:-1]]
    assert long[0].tokens[-1] == naive(model, context, 1, None if sources is None else sources[0])[0]


@pytest.mark.parametrize("name", KINDS)
def test_a_full_context_slides_for_every_kind_of_attention(name: str) -> None:
    """Rows slide at different steps: of one all is forgotten, while the others go on."""
    model, tokenizer = build("decoder", "learned", max_positions=7, attention=KINDS[name]), Letters(eos=None)
    prompts, settings = [[5, 6], [7, 8, 9, 10, 11], [12]], {"max_new_tokens": 20, "when_full": "slide"}
    written, again = (write(model, prompts, tokenizer, use_cache=cache, **settings) for cache in (True, False))
    assert tokens_of(written) == tokens_of(again)
    assert {row.stop_reason for row in written} == {"length"}


def test_looking_at_weights_that_a_cache_of_sums_does_not_have_names_the_way_out() -> None:
    model = build("decoder", "rotary", attention={"type": "linear"})
    tape = Tape(model, "*.weights", keep="all")
    with pytest.raises(UnsupportedError, match="use_cache=False"):
        write(model, tape=tape)
    write(model, tape=tape, use_cache=False, max_new_tokens=2)
    assert [weights.shape[-1] for weights in tape.all("decoder.blocks.0.attention.weights")] == [3, 4]


def test_o01_first_logprobs_of_a_batch_equal_those_alone() -> None:
    model = build()
    together = write(model, PROMPTS, top=32)
    for prompt, row in zip(PROMPTS, together, strict=True):
        alone = write(model, [prompt], top=32)[0]
        assert dict(row.top[0]) == pytest.approx(dict(alone.top[0]), abs=1e-5)


@pytest.mark.parametrize("kind", ["decoder", "encoder_decoder"])
def test_sampled_rows_do_not_depend_on_the_others(kind: str) -> None:
    model = build(kind, "rotary")
    prompts = [[row % 5 + 5] * (row % 4 + 1) for row in range(8)]
    sources = [[row + 9, 5] for row in range(8)] if kind == "encoder_decoder" else None
    settings: dict[str, Any] = {
        "temperature": 3.0,
        "max_new_tokens": 30,
        "top_p": 0.99,
        "repetition_penalty": 1.1,
    }
    together = write(model, prompts, sources=sources, seed=7, **settings)
    assert len({len(row.tokens) for row in together}) > 2, "rows that end at different steps show a mix-up"
    assert write(model, prompts, sources=sources, seed=7, use_cache=False, **settings) == [
        Generation(row.text, row.tokens, row.stop_reason, pytest.approx(row.logprobs, abs=1e-4), row.top)
        for row in together
    ]
    for row, prompt in enumerate(prompts):
        source = None if sources is None else [sources[row]]
        alone = write(model, [prompt], sources=source, seed=7 + row, **settings)[0]
        assert (alone.tokens, alone.text) == (together[row].tokens, together[row].text)


def test_equal_prompts_in_a_batch_get_different_samples() -> None:
    assert len({row.text for row in write(build(), [[5, 6]] * 4, temperature=2.0, max_new_tokens=20)}) == 4


def test_rows_leave_the_batch_when_they_end() -> None:
    tokenizer = Letters()
    model = bigram({"a": "b", "b": "c", "c": ">", "x": ">", "m": "n", "n": "m"})
    tape = Tape(model, "decoder.output", keep="all")
    prompts = [tokenizer.encode(text) for text in ("a", "x", "m")]
    steps = list(stream(model, prompts, GenerationConfig(max_new_tokens=5), tokenizer=tokenizer, tape=tape))
    assert [(step.row, step.text, step.stop_reason) for step in steps] == [
        (0, "b", None), (1, "", "eos"), (2, "n", None),
        (0, "c", None), (2, "m", None),
        (0, "", "eos"), (2, "n", None),
        (2, "m", None),
        (2, "n", "length"),
    ]  # fmt: skip
    assert [value.shape[0] for value in tape.all("decoder.output")] == [3, 2, 2, 1, 1]


# Ends and limits


@pytest.mark.parametrize(
    ("prompt", "max_new", "n_new", "reason"),
    [
        (6, 5, 2, "context"),
        (8, 1, 0, "context"),
        (6, 2, 2, "length"),
        (6, 0, 0, "length"),
        (8, 0, 0, "length"),
    ],
)
def test_o07_limits(prompt: int, max_new: int, n_new: int, reason: str) -> None:
    tokenizer = Letters(bos=None, eos=None)
    for use_cache in (True, False):
        row = write(build(max_positions=8), [[5] * prompt], tokenizer, max_new_tokens=max_new, use_cache=use_cache)[0]
        assert (len(row.tokens), row.stop_reason) == (n_new, reason)
        assert len(row.text) == len(row.logprobs) == n_new


def test_o07_a_prompt_longer_than_the_context_is_refused_at_once() -> None:
    model = build(max_positions=8)
    with pytest.raises(DataError, match=r"prompt 9 > context 8 .*row 1.* shorten it, or use a model"):
        stream(model, [[5], [5] * 9], GenerationConfig(), tokenizer=Letters(bos=None))
    with pytest.raises(DataError, match=r"prompt 9 > context 8"):  # 8 and the begin token
        stream(model, [[5] * 8], GenerationConfig(when_full="slide"), tokenizer=Letters())


def test_o07_new_tokens_are_counted_without_the_prompt() -> None:
    assert len(write(build(), [[5] * 50], Letters(eos=None), max_new_tokens=10)[0].tokens) == 10


def test_a_row_without_room_yields_one_step_without_token() -> None:
    config = GenerationConfig(max_new_tokens=4)
    model = build(max_positions=8)
    steps = list(stream(model, [[5] * 8, [5] * 7], config, tokenizer=Letters(bos=None, eos=None)))
    assert steps[0] == Step(0, None, "", stop_reason="context")
    assert [(step.row, step.stop_reason) for step in steps[1:]] == [(1, "context")]


@pytest.mark.parametrize("bos", [1, None])
@pytest.mark.parametrize("limit", [1, 2, 3, 8])
def test_a_full_context_slides(limit: int, bos: int | None) -> None:
    model, tokenizer = build(max_positions=limit), Letters(bos=bos, eos=None)
    begin = [] if bos is None else [bos]
    lengths = sorted({1 - len(begin), limit - len(begin), limit // 2})
    prompts = [[5 + i for i in range(n)] for n in lengths if begin or n]
    expected = []
    for prompt in prompts:
        context, new = [*begin, *prompt], []
        for _ in range(20):
            if len(context) > limit:
                kept = max(limit // 2, 1)
                context = begin[: limit - kept] + context[-kept:]
            new.append(naive(model, context, 1)[0])
            context.append(new[-1])
        expected.append(new)
    for use_cache in (True, False):
        written = write(model, prompts, tokenizer, max_new_tokens=20, when_full="slide", use_cache=use_cache)
        assert tokens_of(written) == expected
        assert {row.stop_reason for row in written} == {"length"}


def test_stop_strings_end_a_row_and_are_not_shown() -> None:
    model, tokenizer = bigram({"a": "b", "b": "c", "c": "d", "d": "a"}), Letters()
    config = GenerationConfig(max_new_tokens=20, stop=("cda", "zz"))
    steps = list(stream(model, [tokenizer.encode("d")], config, tokenizer=tokenizer))
    assert [step.text for step in steps] == ["a", "b", "", "", ""]
    assert steps[-1].stop_reason == "stop string"
    row = write(model, [tokenizer.encode("d")], stop=("cda",), max_new_tokens=4)[0]
    assert (row.text, row.stop_reason) == ("abcd", "length")  # what was held back is flushed
    assert write(model, [tokenizer.encode("d")], stop=("cda",), max_new_tokens=5)[0].text == "ab"


def test_the_end_token_has_no_text() -> None:
    row = write(bigram({"a": "b", "b": "c"}), [[3]], Letters(eos=5))[0]
    assert (row.text, row.tokens, row.stop_reason) == ("b", (4, 5), "eos")


def test_the_end_token_waits_for_min_new_tokens() -> None:
    model = bigram({})
    assert model.head is not None
    with torch.no_grad():
        model.head.weight[2, :] = 20.0  # the end token is the best everywhere, all others are equal
    assert write(model, [[5]])[0].tokens == (2,)
    assert write(model, [[5]], min_new_tokens=3)[0].tokens == (0, 0, 0, 2)


def test_o16_nothing_left_to_choose_names_the_step() -> None:
    only_end = Letters(1, bos=None, eos=0)
    with pytest.raises(DataError, match=r"step 1, row 0: all 32 tokens are forbidden.*min_new_tokens"):
        write(build(), [[5]], only_end, min_new_tokens=1)


def test_o16_a_score_that_is_no_number_names_step_and_row() -> None:
    model = bigram({"a": "b", "b": "c", "x": "x"})
    assert model.head is not None
    with torch.no_grad():
        model.output_stack.input.embedding.weight[5, 5] = 100.0
        model.head.weight[7, 5] = 3e38  # after "c", the score of 7 overflows
    prompts = [Letters().encode("x"), Letters().encode("a")]
    with pytest.raises(DataError, match=r"step 3, row 1: the score of token 7 is inf"):
        list(stream(model, prompts, GenerationConfig(), tokenizer=Letters()))


# What is chosen and reported


def test_o06_padded_rows_of_the_table_are_never_written() -> None:
    model, tokenizer = build(tied=False, head_bias=True), Letters(30, eos=None)
    assert model.head is not None
    assert model.head.bias is not None
    with torch.no_grad():
        model.head.bias[30:] = 50.0
    for settings in ({}, {"temperature": 5.0}, {"temperature": 5.0, "top_k": 2}):
        row = write(model, [[5]], tokenizer, max_new_tokens=40, top=32, **settings)[0]
        assert max(row.tokens) < 30
        assert all(id < 30 for top in row.top for id, _ in top)


def test_top_reports_the_models_own_distribution() -> None:
    row = write(build(), [[5, 6]], Letters(eos=None), top=3)[0]
    for token, logprob, top in zip(row.tokens, row.logprobs, row.top, strict=True):
        assert len(top) == 3
        assert top[0][0] == token
        assert top[0][1] == pytest.approx(torch.tensor(logprob).exp().item())
        assert [p for _, p in top] == sorted((p for _, p in top), reverse=True)
        assert sum(p for _, p in top) <= 1 + 1e-6
    everything = write(build(), [[5, 6]], Letters(eos=None), top=100)[0]
    assert [len(top) for top in everything.top] == [32] * 8
    assert sum(p for _, p in everything.top[0]) == pytest.approx(1.0)
    assert write(build(), [[5, 6]], Letters(eos=None))[0].top == ((),) * 8


def test_a_penalty_looks_at_prompt_and_new_tokens() -> None:
    model, tokenizer = bigram(dict.fromkeys("abc", "b"), strength=1.0), Letters()
    assert model.head is not None
    with torch.no_grad():
        model.head.weight[5, :] = 0.7  # "c" is second best everywhere
    ids = [tokenizer.encode("a")]
    assert write(model, ids, max_new_tokens=3)[0].text == "bbb"
    assert write(model, ids, max_new_tokens=3, repetition_penalty=2.0)[0].text == "bcb"
    assert write(model, [tokenizer.encode("ba")], max_new_tokens=1, repetition_penalty=2.0)[0].text == "c"


def test_a_penalty_spares_the_begin_token() -> None:
    """Where one token begins and ends, a penalty on the beginning would be one on ending."""
    model = bigram({"a": "<"}, strength=1.0)
    assert model.head is not None
    with torch.no_grad():
        model.head.weight[4, 3] = 0.9
    row = write(model, [[3]], Letters(bos=1, eos=1), repetition_penalty=1.5)[0]
    assert (row.tokens, row.stop_reason) == ((1,), "eos")


@pytest.mark.parametrize("settings", [{"top_k": 1}, {"top_p": 0.0}, {"temperature": 1e-8}])
def test_limits_of_sampling_are_greedy(settings: dict[str, Any]) -> None:
    greedy = write(build(), PROMPTS, max_new_tokens=20)
    assert write(build(), PROMPTS, max_new_tokens=20, **{"temperature": 1.0, **settings}) == greedy


def test_a_seed_repeats_and_another_does_not() -> None:
    model = build()
    first, again, other = (write(model, temperature=2.0, max_new_tokens=20, seed=seed) for seed in (0, 0, 100))
    assert first == again
    assert first != other


# Text as it comes


def test_o10_streamed_bytes_equal_the_whole() -> None:
    tokenizer = byte_tokenizer(["<bos>"])
    model = Transformer(build(d_model=32).config.model_copy(), generator=torch.Generator().manual_seed(0))
    model.resize_vocabulary(tokenizer.vocab_size)
    config = GenerationConfig(max_new_tokens=60, temperature=3.0)
    steps = list(stream(model, [[], [200]], config, tokenizer=tokenizer))
    for row in (0, 1):
        mine = [step for step in steps if step.row == row]
        new = [step.token for step in mine if step.token is not None]
        assert len(new) == 60
        assert "".join(step.text for step in mine) == tokenizer.decode(new)
        assert any(step.text == "" for step in mine[:-1]), "some bytes wait for the rest of their character"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_precisions_write_too(dtype: torch.dtype) -> None:
    row = write(build().to(dtype), [[5, 6]], Letters(eos=None), temperature=0.5, top_p=0.9, top=3)[0]
    assert len(row.tokens) == 8


# Empty input


def test_o22_an_empty_prompt_starts_from_the_begin_token() -> None:
    model = build()
    assert tokens_of(write(model, [[]], Letters(eos=None))) == [naive(model, [1], 8)]
    with pytest.raises(DataError, match=r"row 1 is empty and there is no begin token"):
        stream(model, [[5], []], GenerationConfig(), tokenizer=Letters(bos=None))


def test_o22_an_empty_prompt_changes_no_other_row() -> None:
    model = build()
    assert write(model, [[], [5, 6, 7]])[1].tokens == write(model, [[5, 6, 7]])[0].tokens


def test_o22_an_empty_source_changes_no_other_row() -> None:
    model = build("encoder_decoder", "sinusoidal")
    together = write(model, [[], []], sources=[[], [5, 6]])
    assert together[1].tokens == write(model, [[]], sources=[[5, 6]])[0].tokens
    assert together[0].tokens == write(model, [[]], sources=[[]])[0].tokens


def test_o22_no_prompts_give_nothing() -> None:
    assert write(build(), []) == []
    assert write(build("encoder_decoder"), [], sources=[]) == []


# What does not fit


def test_o06_ids_outside_the_vocabulary_are_named() -> None:
    model = build()
    write(model, [[1, 31]])
    for bad in (32, -1):
        with pytest.raises(DataError, match=rf"prompt in row 1: token id {bad} at position 1 .*vocab size 32"):
            stream(model, [[5], [1, bad]], GenerationConfig(), tokenizer=Letters())
    with pytest.raises(DataError, match="source in row 0: token id 32 at position 0"):
        stream(build("encoder_decoder"), [[]], GenerationConfig(), tokenizer=Letters(), sources=[[32]])


def test_o06_a_tokenizer_larger_than_the_model_is_refused() -> None:
    with pytest.raises(DataError, match=r"tokenizer has 33 ids, the model only 32"):
        stream(build(), [[5]], GenerationConfig(), tokenizer=Letters(33))


def test_models_that_cannot_write_are_refused() -> None:
    config = GenerationConfig()
    with pytest.raises(UnsupportedError, match="encoder-only"):
        stream(build("encoder"), [[5]], config, tokenizer=Letters())
    headless = Transformer(build().config.model_copy(update={"head": None}))
    with pytest.raises(UnsupportedError, match="no head"):
        stream(headless, [[5]], config, tokenizer=Letters())


def test_a_decoder_that_is_not_causal_writes_without_a_cache() -> None:
    for use_cache in (True, False):
        written = write(build(causal=False), [[5]], Letters(eos=None), use_cache=use_cache)
        assert tokens_of(written) == [naive(build(causal=False), [1, 5], 8)]


def test_sources_are_for_encoder_decoders_one_a_prompt() -> None:
    config, translator = GenerationConfig(), build("encoder_decoder", max_positions=8)
    with pytest.raises(DataError, match="decoder-only and reads no source"):
        stream(build(), [[5]], config, tokenizer=Letters(), sources=[[5]])
    with pytest.raises(DataError, match="reads a source for every row"):
        stream(translator, [[5]], config, tokenizer=Letters())
    with pytest.raises(DataError, match="2 sources for 1 rows"):
        stream(translator, [[5]], config, tokenizer=Letters(), sources=[[5], [5]])
    with pytest.raises(DataError, match="source 9 > context 8"):
        stream(translator, [[]], config, tokenizer=Letters(), sources=[[5] * 9])


# The model is left as it was


def modes(model: Transformer) -> list[bool]:
    return [module.training for module in model.modules()]


@pytest.mark.parametrize("kind", ["decoder", "encoder_decoder"])
def test_o12_a_model_in_train_mode_writes_without_dropout(kind: str) -> None:
    sources = [[5, 6]] if kind == "encoder_decoder" else None
    model = build(kind, dropout=0.8).train()
    model.output_stack.blocks[0].eval()
    before, expected = modes(model), write(build(kind), sources=sources)
    state = torch.get_rng_state()
    assert write(model, sources=sources) == expected
    write(model, sources=sources, temperature=1.0)
    assert modes(model) == before
    assert torch.get_rng_state().equal(state)


def test_o12_the_mode_is_restored_after_an_error() -> None:
    model = build(dropout=0.8).train()
    before = modes(model)
    with torch.no_grad():
        model.output_stack.input.embedding.weight.fill_(torch.nan)
    with pytest.raises(DataError, match="step 1, row 0"):
        write(model)
    assert modes(model) == before
    assert torch.is_grad_enabled()


def test_between_two_steps_the_model_is_the_callers() -> None:
    model = build(dropout=0.8).train()
    before = modes(model)
    steps = stream(model, PROMPTS, GenerationConfig(), tokenizer=Letters())
    for _ in range(4):
        next(steps)
        assert modes(model) == before
        assert torch.is_grad_enabled()
    assert model(torch.tensor([[5]])).requires_grad
    del steps  # given up half way
    assert modes(model) == before
    assert torch.is_grad_enabled()


def test_looking_changes_nothing_and_sees_every_step() -> None:
    model = build("encoder_decoder")
    tape = Tape(model, "*.weights", keep="all")
    assert write(model, [[]], sources=[[5, 6]], tape=tape) == write(model, [[]], sources=[[5, 6]])
    assert len(tape.all("decoder.blocks.0.attention.weights")) == 8
    assert len(tape.all("encoder.blocks.0.attention.weights")) == 1


def test_draws_come_from_the_host_whatever_the_default_device() -> None:
    model, config = build(), GenerationConfig(temperature=1.0, max_new_tokens=5)
    expected = generate(model, [[5], [6, 7]], config, tokenizer=Letters())
    with torch.device("meta"):
        assert generate(model, [[5], [6, 7]], config, tokenizer=Letters()) == expected
