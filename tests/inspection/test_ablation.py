from __future__ import annotations

import pytest
import torch

from glassformer.core.errors import ConfigError
from glassformer.inspection.ablation import ablate_heads, estimated_effects
from glassformer.inspection.sample import Sample

from .induction import induction_model
from .whole_texts import classifier, encoder_of_vectors

E = 8  # width of a head of the tiny models


def without(model, site, head):
    """The loss of the model with a head's columns of the output projection set to zero: the same, in its weights."""
    weight = model.get_submodule(site).output.weight
    kept = weight.detach().clone()
    with torch.no_grad():
        weight[:, head * E : (head + 1) * E] = 0
    return kept, weight


@torch.no_grad()
def loss_of(model, tokens):
    logits = model(torch.tensor([tokens[:-1]]))[0]
    return float(torch.nn.functional.cross_entropy(logits, torch.tensor(tokens[1:])))


def test_a_head_taken_away_is_a_model_without_its_columns(tiny):
    model, tokens = tiny(), [3, 1, 4, 1, 5, 9]
    found = ablate_heads(model, Sample.of(model, tokens))
    assert found.loss == pytest.approx(loss_of(model, tokens), abs=1e-6)
    assert [(each.site, each.head) for each in found.effects] == [
        (f"decoder.blocks.{layer}.attention", head) for layer in range(2) for head in range(2)
    ]
    for each in found.effects:
        kept, weight = without(model, each.site, each.head)
        assert each.loss == pytest.approx(loss_of(model, tokens) - found.loss, abs=1e-5)
        weight.data.copy_(kept)
        assert each.exact


def test_a_head_that_nobody_reads_is_worth_exactly_nothing(tiny):
    model = tiny()
    without(model, "decoder.blocks.1.attention", 1)
    found = ablate_heads(model, Sample.of(model, [3, 1, 4, 1, 5]), most_flops=1e12)
    assert {each.head: each.loss for each in found.effects if "1.attention" in each.site}[1] == pytest.approx(
        0, abs=1e-7
    )


def test_rows_side_by_side_do_not_see_each_other(tiny, monkeypatch):
    model = tiny(kind="encoder_decoder")
    sample = Sample.of(model, [1, 2, 3], [4, 5, 6, 7], [2, 3, 9])
    together = ablate_heads(model, sample)
    monkeypatch.setattr("glassformer.inspection.ablation.BATCH_TOKENS", 1)
    alone = ablate_heads(model, sample)
    assert len(together.effects) == 2 * 2 * 3, "encoder, decoder and cross-attention"
    assert [each.loss for each in together.effects] == pytest.approx([each.loss for each in alone.effects], abs=1e-5)


def test_what_each_head_of_the_model_of_induction_is_worth():
    model = induction_model()
    found = ablate_heads(model, Sample.of(model, [0, 3, 5, 1] * 5))
    assert all(each.loss > 0.5 for each in found.effects), "it says nothing without either"


def test_the_mean_leaves_what_is_the_same_everywhere(tiny):
    model = tiny(positions="none")  # then every token of this text is the same to it
    alike = Sample.of(model, [3, 3, 3, 3])
    assert [each.loss for each in ablate_heads(model, alike, value="mean").effects] == pytest.approx([0] * 4, abs=1e-6)
    assert all(abs(each.loss) > 1e-3 for each in ablate_heads(model, alike, value="zero").effects)
    with pytest.raises(ConfigError, match="'zero' or 'mean', not to 'one'"):
        ablate_heads(model, alike, value="one")


def test_beyond_the_budget_heads_are_estimated_and_the_largest_taken_away(tiny):
    model, sample = tiny(n_layers=3, n_heads=4), Sample.of(tiny(), [3, 1, 4, 1, 5, 9, 2, 6])
    whole = ablate_heads(model, sample)
    some = ablate_heads(model, sample, most_heads=3)
    guessed = estimated_effects(model, sample)
    assert (whole.n_exact, some.n_exact) == (12, 3)
    order = sorted(guessed, key=lambda each: -abs(guessed[each]))[:3]
    exact = {(f"{each.site}.heads", each.head): each.loss for each in whole.effects}
    for each in some.effects:
        key = f"{each.site}.heads", each.head
        assert each.exact == (key in order)
        assert each.loss == pytest.approx(exact[key] if each.exact else guessed[key], abs=1e-5)


def test_an_estimate_is_the_slope_of_the_loss(tiny):
    """Heads scaled by 1 - h lose h times the estimate."""
    model, sample = tiny().double(), Sample.of(tiny(), [3, 1, 4, 1, 5])
    guessed = estimated_effects(model, sample)
    for (site, head), estimate in guessed.items():
        losses = []
        for change in (1e-4, -1e-4):
            weight = model.get_submodule(site.removesuffix(".heads")).output.weight
            kept = weight.detach().clone()
            with torch.no_grad():
                weight[:, head * E : (head + 1) * E] *= 1 - change
                losses.append(float(model(torch.tensor([sample.tokens]), labels=torch.tensor([sample.answers])).mean))
                weight.copy_(kept)
        assert (losses[0] - losses[1]) / 2e-4 == pytest.approx(estimate, rel=1e-3, abs=1e-5)


def test_models_of_whole_texts_are_judged_by_their_answer():
    model = classifier()
    found = ablate_heads(model, Sample.of(model, [1, 2, 3]))
    with torch.no_grad():
        expected = -model(torch.tensor([[1, 2, 3]]))[0].log_softmax(-1).max()
    assert (found.kind, found.loss) == ("label", pytest.approx(float(expected), abs=1e-6))
    vectors = encoder_of_vectors()
    found = ablate_heads(vectors, Sample.of(vectors, [1, 2, 3]), most_heads=2)
    assert found.kind == "vector"
    assert [each.loss is None for each in found.effects] == [False, False, True, True], "a cosine has no slope there"
    assert all(each.loss > 0 for each in found.effects if each.loss is not None)


def test_one_token_has_nothing_to_be_judged_by(tiny):
    model = tiny()
    found = ablate_heads(model, Sample.of(model, [3]))
    assert found.answered == 0
    assert {each.loss for each in found.effects} == {None}
    assert not model.training


def test_modes_and_gradients_are_left_alone(tiny):
    model = tiny().train()
    ablate_heads(model, Sample.of(model, [1, 2, 3, 4]), most_heads=1)
    assert all(module.training for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())
