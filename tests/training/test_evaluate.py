from __future__ import annotations

import json
import math
from types import SimpleNamespace

import pytest
import torch

from glassformer.core.config import HeadConfig, TransformerConfig
from glassformer.core.files import to_json
from glassformer.data.batch import Batch
from glassformer.data.labelled import LabelledSource
from glassformer.data.pairs import PairSource
from glassformer.data.windows import WindowSource
from glassformer.generation.answer import answer_texts
from glassformer.generation.config import BeamConfig
from glassformer.generation.hypothesis import Hypothesis
from glassformer.models.output import Loss
from glassformer.models.transformer import Transformer
from glassformer.tasks.task import Judging, Split
from glassformer.text.build import character_tokenizer
from glassformer.training.evaluate import count_unknown, evaluate, greedy, perplexity, source_metrics
from glassformer.training.metrics import f1_macro

BY_LOSS, BY_ANSWERS = Judging(("loss",)), Judging(("loss", "exact_match"))
TOKENIZER = character_tokenizer(["abcdefghijklmnopqrstuvwxyz"], ("<pad>", "<bos>", "<eos>"))


def pair_split(words: list[str]) -> Split:
    ids = [(TOKENIZER.encode(word), TOKENIZER.encode(word[::-1])) for word in words]
    return Split(PairSource(ids, bos=1, eos=2, pad=0), tuple((word, word[::-1]) for word in words))


def rows_of(*losses: float) -> Split:
    """A split whose item i is said to have the loss `losses[i]`, over one token."""
    return Split(PairSource([([], [])] * len(losses), bos=1, eos=2, pad=0))


@pytest.mark.parametrize("batch_tokens", [1, 2, 3, 4, 64])
def test_o08_evaluation_of_hand_made_losses_does_not_depend_on_the_batches(tiny, monkeypatch, batch_tokens):
    """4, 2, 2, 2: the mean is 2.5, the perplexity 12.1825; not 20.0855 (= e^3), not 30.9936 (= (e^4 + e^2) / 2)."""
    losses = (4.0, 2.0, 2.0, 2.0)

    def objective(model: torch.nn.Module, batch: Batch) -> Loss:
        return Loss(torch.tensor(sum(losses[item] for item in batch.items)), torch.tensor(len(batch)))

    monkeypatch.setattr("glassformer.training.evaluate.objective", objective)
    found = source_metrics(tiny(), rows_of(*losses).source, BY_LOSS, batch_tokens)
    assert found == {"loss": 2.5, "perplexity": pytest.approx(12.1825, abs=1e-4), "tokens": 4}
    assert math.exp(3) == pytest.approx(20.0855, abs=1e-4)
    assert (math.exp(4) + math.exp(2)) / 2 == pytest.approx(30.9936, abs=1e-4)


def test_o08_mean_loss_of_a_thousand_has_an_infinite_perplexity(tiny, monkeypatch):
    monkeypatch.setattr(
        "glassformer.training.evaluate.objective",
        lambda model, batch: Loss(torch.tensor(1000.0 * len(batch)), torch.tensor(len(batch))),
    )
    found = source_metrics(tiny(), rows_of(0, 0, 0).source, BY_LOSS, 2)
    assert found == {"loss": 1000.0, "perplexity": math.inf, "tokens": 3}
    assert json.loads(to_json(found)) == found
    assert perplexity(709.0) < math.inf
    assert perplexity(710.0) == perplexity(math.inf) == math.inf


WORDS = ["a", "bcd", "efghij", "kl", "mnopqrs", "t", "uvwxy"]


@pytest.mark.parametrize("batch_tokens", [10, 17, 640])
def test_o08_loss_and_answers_do_not_depend_on_the_batch_size(tiny, batch_tokens):
    loaded = SimpleNamespace(model=tiny(29, kind="encoder_decoder"), tokenizer=TOKENIZER)
    split = pair_split(WORDS)
    one = evaluate(loaded, split, BY_ANSWERS, batch_tokens=1)
    found = evaluate(loaded, split, BY_ANSWERS, batch_tokens=batch_tokens)
    assert found == pytest.approx(one, rel=1e-6)
    assert found["tokens"] == sum(len(word) + 1 for word in WORDS)
    texts = [source for source, _ in split.pairs]
    alone, together = (
        [found[0].text for found in answer_texts(loaded, texts, batch_tokens=n)] for n in (1, batch_tokens)
    )
    assert together == alone


@pytest.mark.parametrize("batch_tokens", [1, 16, 40])
def test_o08_every_token_of_a_text_is_scored_once(tiny, batch_tokens):
    model = tiny(29)
    ids = TOKENIZER.encode("thequickbrownfoxjumpsoverthelazydog")
    loss = source_metrics(model, WindowSource.evaluation(ids, 8, before=0), BY_LOSS, batch_tokens)
    assert loss["tokens"] == len(ids) == 35
    windows = [[0, *ids][begin : begin + 9] for begin in range(0, 35, 8)]
    alone = [model(torch.tensor([w[:-1]]), labels=torch.tensor([w[1:]])) for w in windows]
    assert loss["loss"] == pytest.approx(sum(row.sum.item() for row in alone) / 35, rel=1e-6)


def test_o12_evaluation_switches_dropout_off_and_the_mode_back(tiny):
    model = tiny(29, kind="encoder_decoder", dropout=0.8).train()
    loaded = SimpleNamespace(model=model, tokenizer=TOKENIZER)
    before = torch.get_rng_state()
    one, other = (evaluate(loaded, pair_split(WORDS), BY_ANSWERS) for _ in range(2))
    assert one == other
    assert torch.equal(torch.get_rng_state(), before)
    assert all(module.training for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_only_the_wanted_metrics_are_measured(tiny):
    loaded = SimpleNamespace(model=tiny(29, kind="encoder_decoder"), tokenizer=TOKENIZER)
    assert evaluate(loaded, pair_split(WORDS), Judging(("exact_match",))).keys() == {"exact_match", "pairs"}
    assert evaluate(loaded, pair_split(WORDS), BY_LOSS).keys() == {"loss", "perplexity", "tokens"}


def test_exact_match_is_the_share_of_answers_that_are_right(tiny, monkeypatch):
    written = {"a": "a", "bcd": "dcb", "efghij": "jihgf", "kl": "kl"}
    monkeypatch.setattr(
        "glassformer.training.evaluate.answer_texts",
        lambda loaded, texts, config, advanced: [[Hypothesis(written[text], (), 0.0, 0.0, "eos")] for text in texts],
    )
    loaded = SimpleNamespace(model=tiny(29, kind="encoder_decoder"), tokenizer=TOKENIZER)
    assert evaluate(loaded, pair_split(list(written)), Judging(("exact_match",))) == {"exact_match": 0.5, "pairs": 4}


def test_progress_is_told_to_the_end(tiny):
    told = []
    model = tiny(29, kind="encoder_decoder")
    source_metrics(model, pair_split(WORDS).source, BY_LOSS, 17, lambda done, of: told.append((done, of)))
    assert told == [(2, 7), (4, 7), (7, 7)], "the longest first: 8 and 7, 6 and 4, then 3, 2 and 2 tokens"


def test_decoder_that_is_not_causal_is_judged_too(tiny):
    loaded = SimpleNamespace(model=tiny(29, kind="encoder_decoder", causal=False), tokenizer=TOKENIZER)
    assert evaluate(loaded, pair_split(WORDS), BY_ANSWERS)["exact_match"] == 0.0


# --- answers as the judging says


def test_answers_are_searched_for_as_wide_as_the_judging_says(tiny, monkeypatch):
    asked = []

    def answer(loaded: object, texts: list[str], config: BeamConfig, advanced: object) -> list[list[Hypothesis]]:
        asked.append((config.beam, config.length_penalty))
        return [[Hypothesis("x", (), 0.0, 0.0, "eos")] for _ in texts]

    monkeypatch.setattr("glassformer.training.evaluate.answer_texts", answer)
    loaded = SimpleNamespace(model=tiny(29, kind="encoder_decoder"), tokenizer=TOKENIZER)
    judging = Judging(("bleu",), beam=4, length_penalty=0.6)
    for how in (judging, greedy(judging)):
        assert evaluate(loaded, pair_split(WORDS), how).keys() == {"bleu", "bleu_signature", "pairs"}
    assert asked == [(4, 0.6), (1, 0.6)]


# --- labels


def labelling(tiny, kind: str) -> Transformer:
    """A model of some kind with three classes."""
    config = tiny(29, kind=kind).config
    pooling = "first" if kind == "encoder_decoder" else "last"
    head = HeadConfig(vocab_size=3, tied=False, pooling=pooling)
    config = TransformerConfig(encoder=config.encoder, decoder=config.decoder, head=head)
    return Transformer(config, generator=torch.Generator().manual_seed(3)).eval()


def labelled(kind: str) -> Split:
    rows = [TOKENIZER.encode(word) for word in WORDS]
    start = 1 if kind == "encoder_decoder" else None
    source = LabelledSource(rows, [0, 1, 2, 0, 1, 2, 0], pad=0, begin=[1], end=[2], decoder_start=start)
    return Split(source, tuple((word, str(n % 3)) for n, word in enumerate(WORDS)))


@pytest.mark.parametrize("kind", ["encoder", "decoder", "encoder_decoder"])
@pytest.mark.parametrize("batch_tokens", [1, 14, 640])
def test_o08_labels_are_judged_row_by_row(tiny, kind, batch_tokens):
    model, split = labelling(tiny, kind), labelled(kind)
    loaded = SimpleNamespace(model=model, tokenizer=TOKENIZER)
    found = evaluate(loaded, split, Judging(("loss", "accuracy", "f1_macro")), batch_tokens=batch_tokens)
    outputs, loss = [], 0.0
    for item in range(7):
        batch = split.source.batch([item], 0)
        memory = None if batch.source is None else model.encode(batch.source, places=batch.source_places)
        logits = model(batch.inputs, places=batch.places, memory=memory)[0]
        outputs.append(int(logits.argmax()))
        loss -= logits.log_softmax(-1)[item % 3].item()
    right = [output == item % 3 for item, output in enumerate(outputs)]
    assert 0 < sum(right) < 7
    assert list(found) == ["loss", "perplexity", "texts", "accuracy", "f1_macro"]
    assert found["texts"] == 7
    assert found["loss"] == pytest.approx(loss / 7, rel=1e-5)
    assert found["perplexity"] == pytest.approx(math.exp(loss / 7), rel=1e-5)
    assert found["accuracy"] == sum(right) / 7
    assert found["f1_macro"] == f1_macro(outputs, [0, 1, 2, 0, 1, 2, 0])


# --- what the vocabulary does not know


def test_unknown_tokens_are_counted_once():
    tokenizer = character_tokenizer(["ab"], ("<pad>", "<bos>", "<eos>", "<unk>"))
    ids = [tokenizer.encode(text) for text in ("axb", "yzzz", "ab", "x")]
    assert count_unknown(tokenizer, PairSource([(ids[0], ids[1]), (ids[2], ids[3])], bos=1, eos=2, pad=0)) == 6
    assert count_unknown(tokenizer, LabelledSource(ids, [0] * 4, pad=0, begin=[1], end=[2])) == 6
    assert count_unknown(tokenizer, LabelledSource(ids, [0] * 4, pad=0, begin=[1], end=[2], decoder_start=1)) == 6
    text = tokenizer.encode("axbyzzzabx")
    assert count_unknown(tokenizer, WindowSource.evaluation(text, 3)) == 6
    assert count_unknown(TOKENIZER, pair_split(WORDS).source) == 0
