"""Healthy models pass, faulty ones fail at the right place, and the subject is left as it was."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any

import pytest
import torch
from torch import nn

from glassformer.core.errors import ConfigError
from glassformer.diagnosis.check import check
from glassformer.diagnosis.model.properties import MODEL_PROPERTIES
from glassformer.families.registry import FAMILIES, PRESETS
from glassformer.models.arguments import ModelArguments
from glassformer.models.quantise import quantise_model
from glassformer.models.transformer import Transformer

from .faulty import FAULTY
from .healthy import GPT, TORCH, WRITTEN, KeepSeq2Seq, V, reference_models

QUICK = [each.key for each in MODEL_PROPERTIES if each.key != "memorise"]
"""All but the short training, which takes as long as the others together."""

SMALL: dict[str, Any] = {"d_model": 32, "n_layers": 2, "n_heads": 4, "d_ff": 48}


def small(name: str) -> Callable[[], nn.Module]:
    """A preset in its own way, but small."""
    arguments = PRESETS[name]
    sizes = dict(SMALL)
    if arguments.n_decoder_layers:
        sizes["n_decoder_layers"] = 2
    if arguments.n_kv_heads:
        sizes["n_kv_heads"] = min(arguments.n_kv_heads, 2)
    if arguments.d_head:
        sizes["d_head"] = 8
    return lambda: Transformer(arguments.model_copy(update=sizes).resolve(V))


FIRST = [next(iter(family.presets)) for family in FAMILIES if family.presets]


def slow_but(names: Collection[str], quick: Collection[str]) -> list[Any]:
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]


def healthy(make: Callable[[], nn.Module], seed: int, only: list[str] | None = None) -> None:
    torch.manual_seed(seed)
    report = check(make(), seed=seed, only=only)
    assert report.ok, "\n".join(report.lines())


@pytest.mark.parametrize("name", WRITTEN)
def test_check_passes_what_is_written_well(name: str) -> None:
    healthy(WRITTEN[name], 0, None if name in ("gpt", "encoder", "keep_seq2seq") else QUICK)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("name", TORCH)
def test_check_passes_the_stacks_of_torch(name: str) -> None:
    healthy(TORCH[name], 0, QUICK)


@pytest.mark.parametrize("name", slow_but(FIRST, ["paper-base", "t5-tiny", "llama-tiny"]))
def test_check_passes_every_family(name: str) -> None:
    healthy(small(name), 0, QUICK)


@pytest.mark.parametrize("name", slow_but(["bert", "bert_masked", "gpt2", "t5", "llama", "marian"], ["gpt2"]))
def test_check_passes_the_reference_library(name: str) -> None:
    pytest.importorskip("transformers")
    healthy(reference_models()[name], 0, QUICK)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("seed", range(1, 6))
def test_check_raises_no_false_alarm_with_other_seeds(seed: int) -> None:
    pytest.importorskip("transformers")
    for make in (*WRITTEN.values(), *TORCH.values(), *reference_models().values(), *map(small, FIRST)):
        healthy(make, seed)


KNOWN = {
    "mask_transposed": "causality.transposed",
    "mask_one_ahead": "causality.one_ahead",
    "mask_hides_itself": "causality.strict",
    "mask_after_softmax": "causality.late",
    "no_scale": "scale.none",
    "scale_by_d_k": "scale.by_d_k",
    "scale_by_d_model": "scale.by_d_model",
    "padding_inverted": "padding.inverted",
    "padding_on_queries": "padding.queries",
    "padding_after_softmax": "padding.late",
    "positions_over_rows": "position.rows",
    "double_shift": "label_shift.twice",
    "cross_mask_missing": "cross_attention.padding",
    "cross_values_from_target": "cross_attention.roles",
    "cache_learned_from_one": "cache.position",
}
"""Faults that are told from others of their property."""


ONE_EACH = {wanted: name for name, (wanted, _) in FAULTY.items()}.values()
"""One fault of every property; the others take longer."""


@pytest.mark.parametrize("name", slow_but(FAULTY, ONE_EACH))
def test_check_names_the_property_that_fails(name: str) -> None:
    wanted, make = FAULTY[name]
    report = check(make(), only=QUICK)
    assert [verdict.key for verdict in report.failures][:1] == [wanted], "\n".join(report.lines())


def fault(name: str) -> str | None:
    return check(FAULTY[name][1](), only=[FAULTY[name][0]]).failures[0].finding.fault


@pytest.mark.parametrize(("name", "expected"), list(KNOWN.items()))
def test_check_says_which_fault_it_is(name: str, expected: str) -> None:
    assert fault(name) == expected


def test_check_names_the_layer_that_leaks() -> None:
    report = check(FAULTY["mask_missing_in_one_layer"][1](), only=["causality"])
    assert report["causality"].finding.where == "h.1.attn"
    assert report["causality"].numbers["gap"] > 0.01


def test_check_turns_a_crash_into_shapes() -> None:
    report = check(FAULTY["heads_never_merged"][1]())
    seen = report["heads"].seen("en")
    assert "(5, 4, 11, 8) reached h.0.attn.c_proj" in seen
    assert "32 = 4 heads x 8" in seen


def test_check_says_what_follows_from_what() -> None:
    report = check(FAULTY["softmax_over_queries"][1](), only=QUICK)
    assert [(each.key, each.follows) for each in report.failures] == [
        ("softmax_axis", None),
        ("causality", "softmax_axis"),
    ]


def test_check_leaves_model_and_generators_alone() -> None:
    model = GPT(dropout=0.1)
    model.h[0].eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    modes = [part.training for part in model.modules()]
    state = torch.get_rng_state()
    check(model)
    assert torch.equal(state, torch.get_rng_state())
    assert [part.training for part in model.modules()] == modes
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(part._forward_hooks for part in model.modules())


def test_check_is_the_same_every_time() -> None:
    model = KeepSeq2Seq()
    assert check(model, only=QUICK).as_dict() == check(model, only=QUICK).as_dict()


def test_o40_check_does_not_accuse_a_model_in_8_bits() -> None:
    model = quantise_model(Transformer(PRESETS["tiny"].resolve(259)))
    statuses = {verdict.key: verdict.finding.status for verdict in check(model).verdicts}
    assert statuses["memorise"] == "not_applicable"
    assert "fail" not in statuses.values()


def test_o40_check_sees_matrices_in_8_bits_for_what_they_are() -> None:
    """They are found, and learn nothing; a missing activation between two of them is found, too."""
    model = quantise_model(Transformer(PRESETS["tiny"].resolve(259)))
    matrices = sum(parameter.dtype == torch.int8 for parameter in model.parameters())
    layers = len(model.decoder.blocks)
    only = ["position_wise", "feed_forward", "gradient"]
    report = check(model, only=only)
    said = {each["property"]: each["seen"] for each in report.as_dict()["verdicts"]}
    assert f"feed-forward networks: {layers}" in said["position_wise"]
    assert report["feed_forward"].finding.status == "pass"
    assert said["gradient"].endswith(f"which do not learn: {matrices}")
    for block in model.decoder.blocks:
        block.feed_forward.activation = lambda x: x
    assert check(model, only=only)["feed_forward"].finding.status == "fail"
    for parameter in model.parameters():
        parameter.requires_grad_(requires_grad=False)
    assert check(model, only=only)["gradient"].finding.status == "not_applicable"


@pytest.mark.parametrize("kind", ["decoder", "encoder_decoder"])
def test_check_asks_no_classifier_for_a_cache(kind: str) -> None:
    """What answers for a whole text writes no token by token."""
    arguments = ModelArguments(kind=kind, d_model=16, n_layers=1, n_heads=2, dropout=0.0)
    model = Transformer(arguments.resolve(259, classes=("a", "b")))
    report = check(model)
    assert report["cache"].finding.status == "not_applicable"
    assert {each.finding.status for each in report.verdicts} == {"pass", "not_applicable"}


def test_check_takes_your_word_for_what_a_model_is() -> None:
    model = GPT()
    assert check(model, kind="encoder", only=["causality"])["causality"].finding.fault == "causality.one_sided"
    with pytest.raises(ConfigError, match="no encoder_decoder"):
        check(model, kind="encoder_decoder")


def test_check_refuses_an_unknown_property() -> None:
    with pytest.raises(ConfigError, match="did you mean 'causality'"):
        check(GPT(), only=["causalty"])


@pytest.mark.parametrize("language", ["en", "zh"])
def test_report_can_be_read_and_parsed(language: str) -> None:
    report = check(FAULTY["mask_transposed"][1](), only=["causality", "padding", "scale"])
    lines = list(report.lines(language, 100))
    assert any("h.0.attn" in line for line in lines)
    assert max(map(len, lines)) <= 100
    assert json.loads(json.dumps(report.as_dict(language)))["verdicts"][0]["status"] == "fail"


def test_properties_and_faults_are_explained_in_both_languages() -> None:
    for each in MODEL_PROPERTIES:
        for what in ("name", "why", "look"):
            assert each.words.say(f"{each.key}.{what}", "en") != each.words.say(f"{each.key}.{what}", "zh")
        assert all(cause in {other.key for other in MODEL_PROPERTIES} for cause in each.after)
