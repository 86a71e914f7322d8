"""The work of the contests is what its description says."""

from __future__ import annotations

import pytest
import torch

from glassformer.bench.contest_table import describe
from glassformer.bench.workloads import LLAMA_110M, WORK, Decoding, PairTraining, Training, Translation, tokens_of, work
from glassformer.core.errors import ConfigError
from glassformer.core.wording import LANGUAGES

from .tiny import decoding, pair_training, training, translation


@pytest.mark.parametrize("verb", WORK)
@pytest.mark.parametrize("size", ["small", "medium"])
def test_every_work_can_be_said_and_counted(verb: str, size: str) -> None:
    for each in work(verb, size):
        assert each.parameters > 0
        assert each.flops() > 0
        assert all(describe(each, language) for language in LANGUAGES)


def test_medium_sizes_are_those_that_are_compared_elsewhere() -> None:
    sizes = {each.name: each.parameters for verb in WORK for each in work(verb, "medium")}
    in_millions = {name: round(sizes[name] / 1e6, 1) for name in ("6x384", "4x128", "pairs", "one", "256", "beam5")}
    assert in_millions == {"6x384": 10.8, "4x128": 0.8, "pairs": 7.6, "one": 109.5, "256": 109.5, "beam5": 7.6}


def test_training_rows_predict_their_next_token() -> None:
    job = training()
    batches = job.batches()
    assert len(batches) == 4
    for batch in batches:
        assert batch.inputs.shape == batch.labels.shape == (2, 16)
        assert torch.equal(batch.inputs[:, 1:], batch.labels[:, :-1])
        assert tokens_of(batch) == 32
    assert torch.equal(batches[1].inputs, job.batches()[1].inputs)


def test_pair_batches_hold_at_most_their_tokens_a_side_and_little_padding() -> None:
    job = WORK["train"]["medium"][2]
    assert isinstance(job, PairTraining)
    padded = real = 0
    for batch in job.batches():
        assert batch.source is not None
        assert max(batch.source.numel(), batch.inputs.numel()) <= job.tokens
        padded += batch.source.numel() + batch.inputs.numel()
        real += tokens_of(batch)
        for row, n in enumerate(batch.lengths):
            assert batch.inputs[row, 0] == 0
            assert batch.labels[row, n - 1] == 1
            assert (batch.labels[row, n:] == -100).all()
            assert torch.equal(batch.inputs[row, 1:n], batch.labels[row, : n - 1])
        for row, n in enumerate(batch.source_lengths):
            assert batch.source[row, n - 1] == 1
    assert real / padded > 0.75


def test_flops_of_training_are_three_forward_passes() -> None:
    # 1 layer of width 32 over 16 tokens, multiply-adds count 2: q, k, v, out 4 x 32 x 32; feed-forward 2 x 32 x 128;
    # head 32 x 65; scores and mixing 2 x 16 x 32
    forward = 2 * (4 * 32 * 32 + 2 * 32 * 128 + 32 * 65 + 2 * 16 * 32)
    assert training().flops() == 3 * forward


def test_flops_of_translation_count_every_beginning() -> None:
    one, five = translation(1).flops(), translation(5).flops()
    encoder = one - (five - one) / 4
    assert encoder == pytest.approx(_encoder_flops(), rel=1e-6)


def _encoder_flops() -> float:
    return 2 * 2 * (4 * 64 * 64 + 2 * 64 * 256 + 2 * 5 * 64)


def test_decoding_reads_every_weight_once_for_all_rows() -> None:
    job = decoding()
    assert job.tokens == 8
    assert job.bytes("float32") == job.parameters * 4 / 2
    assert job.bytes("bf16") == job.parameters
    one = WORK["decode"]["medium"][0]
    assert isinstance(one, Decoding)
    assert 75e9 / one.bytes("float32") == pytest.approx(171, abs=1)


def test_prefill_counts_the_prompt_and_scores_its_last_token_only() -> None:
    job = decoding(new=1)
    assert job.reads
    assert job.tokens == 12
    # 2 layers of width 64 over 6 tokens: 4 x 64 x 64, gate, inner and output 3 x 64 x 96, scores and mixing 2 x 6 x 64;
    # the head for one of 6 tokens
    layers = 2 * 2 * (4 * 64 * 64 + 3 * 64 * 96 + 2 * 6 * 64)
    assert job.flops() == pytest.approx(layers + 2 * 64 * 128 / 6)


def test_weights_are_the_same_every_time() -> None:
    job = pair_training()
    first, second = job.build().state_dict(), job.build().state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_kinds_of_work_are_told_apart() -> None:
    kinds = {verb: {type(each) for each in work(verb, "medium")} for verb in WORK}
    assert kinds == {
        "train": {Training, PairTraining},
        "decode": {Decoding},
        "prefill": {Decoding},
        "translate": {Translation},
    }
    assert LLAMA_110M.tied


@pytest.mark.parametrize(
    ("size", "only", "says"), [("large", [], "no size 'large'"), ("small", ["beem5"], "did you mean 'beam5'")]
)
def test_unknown_sizes_and_names_are_refused(size: str, only: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        work("translate", size, only)
