from __future__ import annotations

import json
import math
from types import SimpleNamespace

import pytest
import torch

from glassformer.core.files import to_json
from glassformer.data.batch import Batch
from glassformer.data.pairs import PairSource
from glassformer.data.windows import WindowSource
from glassformer.models.output import Loss
from glassformer.tasks.task import Split
from glassformer.text.build import character_tokenizer
from glassformer.training.evaluate import answers, evaluate, loss_metrics, perplexity

TOKENIZER = character_tokenizer(["abcdefghijklmnopqrstuvwxyz"], ("<pad>", "<bos>", "<eos>"))


def pair_split(words: list[str]) -> Split:
    ids = [(TOKENIZER.encode(word), TOKENIZER.encode(word[::-1])) for word in words]
    return Split(PairSource(ids, bos=1, eos=2, pad=0), tuple((word, word[::-1]) for word in words))


def rows_of(*losses: float) -> Split:
    """A split whose item i is said to have the loss `losses[i]`, over one token."""
    return Split(PairSource([([], [])] * len(losses), bos=1, eos=2, pad=0))


@pytest.mark.parametrize("batch_size", [1, 2, 3, 4, 64])
def test_o08_evaluation_of_hand_made_losses_does_not_depend_on_the_batches(tiny, monkeypatch, batch_size):
    """4, 2, 2, 2: the mean is 2.5, the perplexity 12.1825; not 20.0855 (= e^3), not 30.9936 (= (e^4 + e^2) / 2)."""
    losses = (4.0, 2.0, 2.0, 2.0)

    def objective(model: torch.nn.Module, batch: Batch) -> Loss:
        return Loss(torch.tensor(sum(losses[item] for item in batch.items)), torch.tensor(len(batch)))

    monkeypatch.setattr("glassformer.training.evaluate.objective", objective)
    found = loss_metrics(tiny(), rows_of(*losses), batch_size)
    assert found == {"loss": 2.5, "perplexity": pytest.approx(12.1825, abs=1e-4), "tokens": 4}
    assert math.exp(3) == pytest.approx(20.0855, abs=1e-4)
    assert (math.exp(4) + math.exp(2)) / 2 == pytest.approx(30.9936, abs=1e-4)


def test_o08_mean_loss_of_a_thousand_has_an_infinite_perplexity(tiny, monkeypatch):
    monkeypatch.setattr(
        "glassformer.training.evaluate.objective",
        lambda model, batch: Loss(torch.tensor(1000.0 * len(batch)), torch.tensor(len(batch))),
    )
    found = loss_metrics(tiny(), rows_of(0, 0, 0), 2)
    assert found == {"loss": 1000.0, "perplexity": math.inf, "tokens": 3}
    assert json.loads(to_json(found)) == found
    assert perplexity(709.0) < math.inf
    assert perplexity(710.0) == perplexity(math.inf) == math.inf


WORDS = ["a", "bcd", "efghij", "kl", "mnopqrs", "t", "uvwxy"]


@pytest.mark.parametrize("batch_size", [2, 3, 64])
def test_o08_loss_and_answers_do_not_depend_on_the_batch_size(tiny, batch_size):
    loaded = SimpleNamespace(model=tiny(29, kind="encoder_decoder"), tokenizer=TOKENIZER)
    split = pair_split(WORDS)
    one = evaluate(loaded, split, ("loss", "exact_match"), batch_size=1)
    found = evaluate(loaded, split, ("loss", "exact_match"), batch_size=batch_size)
    assert found == pytest.approx(one, rel=1e-6)
    assert found["tokens"] == sum(len(word) + 1 for word in WORDS)
    texts = [source for source, _ in split.pairs]
    assert answers(loaded, texts, batch_size=batch_size) == answers(loaded, texts, batch_size=1)


@pytest.mark.parametrize("batch_size", [1, 2, 5])
def test_o08_every_token_of_a_text_is_scored_once(tiny, batch_size):
    model = tiny(29)
    ids = TOKENIZER.encode("thequickbrownfoxjumpsoverthelazydog")
    loss = loss_metrics(model, Split(WindowSource.evaluation(ids, 8, before=0)), batch_size)
    assert loss["tokens"] == len(ids) == 35
    windows = [[0, *ids][begin : begin + 9] for begin in range(0, 35, 8)]
    alone = [model(torch.tensor([w[:-1]]), labels=torch.tensor([w[1:]])) for w in windows]
    assert loss["loss"] == pytest.approx(sum(row.sum.item() for row in alone) / 35, rel=1e-6)


def test_o12_evaluation_switches_dropout_off_and_the_mode_back(tiny):
    model = tiny(29, kind="encoder_decoder", dropout=0.8).train()
    loaded = SimpleNamespace(model=model, tokenizer=TOKENIZER)
    before = torch.get_rng_state()
    one, other = (evaluate(loaded, pair_split(WORDS), ("loss", "exact_match")) for _ in range(2))
    assert one == other
    assert torch.equal(torch.get_rng_state(), before)
    assert all(module.training for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_only_the_wanted_metrics_are_measured(tiny):
    loaded = SimpleNamespace(model=tiny(29, kind="encoder_decoder"), tokenizer=TOKENIZER)
    assert evaluate(loaded, pair_split(WORDS), ("exact_match",)).keys() == {"exact_match"}
    assert evaluate(loaded, pair_split(WORDS), ("loss",)).keys() == {"loss", "perplexity", "tokens"}


def test_exact_match_is_the_share_of_answers_that_are_right(tiny, monkeypatch):
    written = {"a": "a", "bcd": "dcb", "efghij": "jihgf", "kl": "kl"}
    monkeypatch.setattr(
        "glassformer.training.evaluate.answers",
        lambda loaded, texts, batch_size, advanced: [written[text] for text in texts],
    )
    loaded = SimpleNamespace(model=tiny(29, kind="encoder_decoder"), tokenizer=TOKENIZER)
    assert evaluate(loaded, pair_split(list(written)), ("exact_match",)) == {"exact_match": 0.5}


def test_progress_is_told_to_the_end(tiny):
    told = []
    loss_metrics(tiny(29, kind="encoder_decoder"), pair_split(WORDS), 3, lambda done, of: told.append((done, of)))
    assert told == [(3, 7), (6, 7), (7, 7)]


def test_decoder_that_is_not_causal_is_judged_too(tiny):
    loaded = SimpleNamespace(model=tiny(29, kind="encoder_decoder", causal=False), tokenizer=TOKENIZER)
    assert evaluate(loaded, pair_split(WORDS), ("loss", "exact_match"))["exact_match"] == 0.0
