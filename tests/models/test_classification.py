"""A head that pools: one answer a row, which depends on nothing but that row."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from glassformer.checkpoint.native import MODEL_FILE, load_model, save_model
from glassformer.checkpoint.tensors import read_tensors, save_tensors
from glassformer.core.config import InitConfig, InitRule
from glassformer.core.errors import ConfigError, DataError, UnsupportedError
from glassformer.core.places import IGNORED, Places
from glassformer.models.arguments import ModelArguments
from glassformer.models.output import Loss
from glassformer.models.transformer import Transformer
from glassformer.parts.init import init_table

TEXTS = [[5, 6, 7, 8, 9], [10, 11, 12], [13]]
LABELS = torch.tensor([2, 0, 1])
CASES = [
    ("encoder", "mean"),
    ("encoder", "first"),
    ("encoder", "last"),
    ("decoder", "mean"),
    ("decoder", "last"),
    ("encoder_decoder", "mean"),
    ("encoder_decoder", "first"),
    ("encoder_decoder", "last"),
]


def classifier(kind: str = "encoder", pooling: str = "auto", **arguments: object) -> Transformer:
    """Three classes, 32 token ids; every parameter counts."""
    lively = InitRule(kind="normal", std=0.25)
    small = {"d_model": 16, "n_layers": 2, "n_heads": 2, "d_ff": 24, "dropout": 0.0}
    made = ModelArguments(
        kind=kind, pooling=pooling, init=InitConfig(embedding=lively, head=lively), **(small | arguments)
    )
    generator = torch.Generator().manual_seed(1)
    model = Transformer(made.resolve(32, classes=tuple("abc")), generator=generator)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1:
                parameter.normal_(1.0 if name.endswith("norm.weight") else 0.0, 0.2, generator=generator)
    return model.eval()


def padded(texts: Sequence[Sequence[int]], side: str = "right", width: int = 7) -> tuple[Tensor, Places]:
    """What stands in padding is a token id like others."""
    rubbish = [[3] * (width - len(text)) for text in texts]
    rows = [[*text, *more] if side == "right" else [*more, *text] for text, more in zip(texts, rubbish, strict=True)]
    return torch.tensor(rows), Places.from_lengths([len(text) for text in texts], width, side=side)


def run(model: Transformer, tokens: Tensor, places: Places | None = None, **given: object) -> Tensor | Loss:
    """An encoder-decoder reads the text twice, so that its decoder's rows are padded too."""
    if model.config.kind == "encoder_decoder":
        given["memory"] = model.encode(tokens, places=places)
    return model(tokens, places=places, **given)


# --- what it gives


@pytest.mark.parametrize(("kind", "pooling"), CASES)
def test_logits_are_the_head_of_the_pooled_states(kind, pooling):
    model = classifier(kind, pooling)
    tokens, places = padded(TEXTS, "left")
    states = run(model, tokens, places, outputs="hidden")
    assert states.shape == (3, 7, 16)
    rows = [row[-len(text) :] for row, text in zip(states, TEXTS, strict=True)]
    pooled = torch.stack([{"mean": row.mean(0), "first": row[0], "last": row[-1]}[pooling] for row in rows])
    logits = run(model, tokens, places)
    assert logits.shape == (3, 3)
    torch.testing.assert_close(logits, pooled @ model.head.weight.T + model.head.bias)


@pytest.mark.parametrize(("kind", "pooling"), CASES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_answer_and_gradient_do_not_depend_on_padding_or_neighbours(kind, pooling, dtype, tolerance):
    model = classifier(kind, pooling).to(dtype)
    parameters = list(model.parameters())

    def of(batches: Sequence[tuple[Tensor, Places | None, Tensor]]) -> list[Tensor]:
        logits = torch.cat([run(model, tokens, places) for tokens, places, _ in batches])
        total = sum(run(model, tokens, places, labels=labels).sum for tokens, places, labels in batches)
        return [logits, total, *torch.autograd.grad(total, parameters)]

    alone = of([(torch.tensor([text]), None, LABELS[row, None]) for row, text in enumerate(TEXTS)])
    assert all(tensor.ne(0).any() for tensor in alone)
    for side in ("left", "right"):
        together = of([(*padded(TEXTS, side), LABELS)])
        for a, b in zip(together, alone, strict=True):
            torch.testing.assert_close(a, b, atol=tolerance, rtol=tolerance)


def test_encoder_decoder_labels_a_source_with_one_start_token():
    model = classifier("encoder_decoder")
    start = torch.tensor([[1]])
    alone = torch.cat([model(start, memory=model.encode(torch.tensor([text]))) for text in TEXTS])
    assert not torch.allclose(alone[0], alone[1])
    for side in ("left", "right"):
        tokens, places = padded(TEXTS, side)
        together = model(start.expand(3, 1), memory=model.encode(tokens, places=places))
        torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("kind", "pooling"), CASES)
def test_empty_row_gets_the_offset_and_no_gradient_of_it_is_a_nan(kind, pooling):
    model = classifier(kind, pooling)
    tokens, places = padded([[], [5, 6]])
    logits = run(model, tokens, places)
    assert torch.equal(logits[0], model.head.bias)
    run(model, tokens, places, labels=torch.tensor([0, 1])).mean.backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_batch_of_one_row_and_one_token_has_the_shape_of_any_other():
    for kind, pooling in CASES:
        model = classifier(kind, pooling)
        one = torch.tensor([[3]])
        assert run(model, one).shape == (1, 3)
        assert run(model, one, labels=torch.tensor([1])).count.item() == 1


# --- its loss


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_loss_counts_rows_with_a_label(smoothing):
    """loss = -(1 - e) log p(label) - e/C sum_c log p(c), written out for rows 0 and 2."""
    model = classifier().double()
    tokens, places = padded(TEXTS)
    logp = model(tokens, places=places).log_softmax(-1)
    labels = torch.tensor([2, IGNORED, 1])
    loss = model(tokens, places=places, labels=labels, label_smoothing=smoothing)
    expected = sum(-(1 - smoothing) * logp[row, labels[row]] - smoothing / 3 * logp[row].sum() for row in (0, 2))
    assert loss.count.item() == 2
    torch.testing.assert_close(loss.sum, expected)
    nothing = model(tokens, places=places, labels=torch.full((3,), IGNORED))
    assert (nothing.count.item(), nothing.mean.item()) == (0, 0.0)


def test_dropout_before_the_head_is_on_in_training_only():
    model = classifier(dropout=0.5)
    assert model.config.head.dropout == 0.5
    tokens = torch.tensor(TEXTS[:1])
    assert torch.equal(model(tokens), model(tokens))
    pooled = torch.ones(1, 16)
    assert torch.equal(model.head(pooled), model.head(pooled))
    model.train()
    assert not torch.equal(model.head(pooled), model.head(pooled))


def test_classes_that_a_token_tells_are_learnt():
    """A causal decoder knows only at its last token whether a 1 stood anywhere in the text."""
    model = classifier("decoder", n_layers=1).train()
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    for _ in range(40):
        tokens = torch.randint(1, 6, (32, 5), generator=generator)
        labels = (tokens == 1).any(1).long()
        optimizer.zero_grad()
        model(tokens, labels=labels).mean.backward()
        optimizer.step()
    tokens = torch.randint(1, 6, (200, 5), generator=generator)
    right = model.eval()(tokens).argmax(1) == (tokens == 1).any(1).long()
    assert right.float().mean().item() > 0.95


# --- what it refuses


TOKENS, PLACES = padded(TEXTS)


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (lambda m: m(TOKENS, outputs="last"), ConfigError, "outputs is 'last', but.*head pools.*ask for 'logits'"),
        (lambda m: m(TOKENS, outputs="last", labels=LABELS), ConfigError, "outputs is 'last'"),
        (lambda m: m(TOKENS, outputs="logit"), ConfigError, "outputs is 'logit'"),
        (lambda m: m(TOKENS, labels=TOKENS), DataError, r"shape \(3, 7\), the inputs \(3, 7\); give one class.*\(3,\)"),
        (lambda m: m(TOKENS, labels=LABELS[:2]), DataError, r"labels have shape \(2,\), the inputs \(3, 7\).*\(3,\)"),
        (lambda m: m(TOKENS, labels=LABELS[:, None]), DataError, r"labels have shape \(3, 1\), the inputs \(3, 7\)"),
        (lambda m: m(TOKENS, labels=LABELS + 1), DataError, r"label 3 in row 0 is outside 0\.\.2.*knows 3 classes"),
        (lambda m: m(TOKENS, labels=LABELS - 1), DataError, r"label -1 in row 1 is outside 0\.\.2"),
        (lambda m: m(TOKENS, labels=LABELS.float()), DataError, "labels have type torch.float32.*torch.int64"),
        (lambda m: m(TOKENS, labels=LABELS, label_smoothing=2.0), ConfigError, "label_smoothing is 2.0"),
        (
            lambda m: m(TOKENS, places=Places.packed([[7], [3, 2], [1]])),
            DataError,
            "row 1 holds several texts.*give each text a row of its own",
        ),
    ],
)
def test_what_a_head_that_pools_cannot_do_is_refused(act, error, message):
    with pytest.raises(error, match=message):
        act(classifier())


def test_pooling_takes_rows_of_one_text_whatever_its_number():
    model = classifier()
    one_each = Places.packed([[7], [3], [1]])
    expected = model(TOKENS, places=Places.from_lengths([7, 3, 1]))
    torch.testing.assert_close(model(TOKENS, places=one_each), expected)
    second = Places(one_each.position, torch.where(one_each.is_token, 1, -1))
    torch.testing.assert_close(model(TOKENS, places=second), expected)
    assert model(TOKENS, places=Places.packed([[7], [3, 2], [1]]), outputs="hidden").shape == (3, 7, 16)


def test_cache_has_states_but_no_classes():
    model = classifier("decoder")
    with torch.no_grad():
        states = model(TOKENS, cache=model.new_cache(3, 8), outputs="hidden")
        torch.testing.assert_close(states, model(TOKENS, outputs="hidden"))
        with pytest.raises(UnsupportedError, match=r"cache is for writing.*call without"):
            model(TOKENS, cache=model.new_cache(3, 8))


# --- what it is made of


@pytest.mark.parametrize("kind", ["encoder", "decoder", "encoder_decoder"])
def test_head_is_drawn_by_the_rule_of_an_untied_head(kind):
    init = InitConfig(head=InitRule(kind="xavier_normal", gain=2.0))
    arguments = ModelArguments(kind=kind, d_model=16, n_layers=1, n_heads=2, init=init)
    model = Transformer(arguments.resolve(32, classes=tuple("abc")))
    rows = {row.name: row for row in init_table(model, init)}
    assert (rows["head.weight"].role, rows["head.weight"].kind) == ("head", "xavier_normal")
    assert rows["head.weight"].expected_std == 2.0 * (2 / (16 + 3)) ** 0.5
    assert rows["head.bias"].kind == "zeros"
    assert model.head.bias.eq(0).all()
    assert model.head.weight.shape == (3, 16)


@pytest.mark.parametrize("kind", ["encoder", "decoder", "encoder_decoder"])
@pytest.mark.parametrize("vocab_size", [40, 20])
def test_resize_leaves_the_classes_alone(tmp_path, kind, vocab_size):
    model = classifier(kind)
    head, settings = model.head.weight, model.config.head
    before = run(model, TOKENS, PLACES)
    model.resize_vocabulary(vocab_size)
    assert model.head.weight is head
    assert model.config.head == settings
    assert model.config.output_stack.input.vocab_size == vocab_size
    torch.testing.assert_close(run(model, TOKENS, PLACES), before)
    run(model, torch.tensor([[vocab_size - 1]]))
    save_model(model, tmp_path / MODEL_FILE)
    assert torch.equal(run(load_model(tmp_path), TOKENS, PLACES), before)


@pytest.mark.parametrize(("kind", "pooling"), CASES)
def test_model_that_is_saved_or_copied_gives_the_same_answers(tmp_path, kind, pooling):
    model = classifier(kind, pooling, positions="learned", max_positions=8)
    save_model(model, tmp_path / MODEL_FILE)
    torch.manual_seed(7)
    for twin in (load_model(tmp_path), copy.deepcopy(model)):
        assert twin.config == model.config
        assert twin.head.weight.data_ptr() != model.head.weight.data_ptr()
        assert torch.equal(run(twin, TOKENS, PLACES), run(model, TOKENS, PLACES))


def test_model_that_was_saved_before_heads_could_pool_is_loaded(tiny, tmp_path):
    model = tiny(tied=False, head_bias=True)
    save_model(model, tmp_path / MODEL_FILE)
    tensors, metadata = read_tensors(tmp_path / MODEL_FILE)
    config = json.loads(metadata["config"])
    del config["head"]["pooling"], config["head"]["dropout"], metadata["checksum"]
    save_tensors(tmp_path / MODEL_FILE, tensors, metadata | {"config": json.dumps(config)})
    loaded = load_model(tmp_path)
    assert loaded.config == model.config
    assert torch.equal(loaded(TOKENS), model(TOKENS))
