"""Each experiment finds the fault that it is made for, and says which it is."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.core.errors import ConfigError
from glassformer.diagnosis.check import check
from glassformer.diagnosis.flow import record
from glassformer.diagnosis.model.norms import wrong_norm
from glassformer.diagnosis.probe import attentions
from glassformer.diagnosis.template import write_template
from glassformer.diagnosis.user_model import examine_named, is_whole

from .healthy import GPT, CachedGPT, CausalAttention, D, Encoder, GPTBlock, H, KeepSeq2Seq, RotaryAttention, V, rotate
from .planted.catalogue import PLANTED

Loss = Callable[[Tensor, Tensor], Tensor]


def losing(compute: Loss) -> Callable[[], nn.Module]:
    class Losing(GPT):
        def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
            return compute(logits, targets)

    return Losing


def crossed(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.view(logits.shape[0], logits.shape[2], -1), targets)


class TrainedOpen(CausalAttention):
    def mix(self, q: Tensor, k: Tensor, v: Tensor, T: int) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=not self.training)


class OtherInTraining(GPT):
    def embed(self, idx: Tensor) -> Tensor:
        x = super().embed(idx)
        return x * D**0.5 if self.training else x


class FromTheStart(GPTBlock):
    def forward(self, x: Tensor) -> Tensor:
        return x + self.mlp(self.ln_2(x + self.attn(self.ln_1(x))))


class MeanOfHeads(CausalAttention):
    def mix(self, q: Tensor, k: Tensor, v: Tensor, T: int) -> Tensor:
        return super().mix(q, k, v, T).mean(1, keepdim=True).expand_as(q)


class OverTime(GPTBlock):
    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(F.layer_norm(x, x.shape[1:]))
        return x + self.mlp(self.ln_2(x))


class HalfPlaces(GPT):
    def embed(self, idx: Tensor) -> Tensor:
        return self.wte(idx) + self.wpe(torch.arange(idx.shape[1]) // 2)


class PlainPlaces(GPT):
    def __init__(self) -> None:
        super().__init__()
        self.places = torch.randn(64, D)

    def embed(self, idx: Tensor) -> Tensor:
        return self.wte(idx) + self.places[: idx.shape[1]]


class WrongWaves(GPT):
    def __init__(self) -> None:
        super().__init__()
        angles = torch.arange(64)[:, None] / 10000.0 ** (torch.arange(D) / D)
        self.register_buffer("places", torch.stack([angles[:, ::2].sin(), angles[:, 1::2].cos()], -1).flatten(1))

    def embed(self, idx: Tensor) -> Tensor:
        return self.wte(idx) + self.places[: idx.shape[1]]


class ValuesTurned(RotaryAttention):
    def forward(self, x: Tensor, past: Any = None) -> Any:
        q, k, v = (y.unflatten(-1, (H, D // H)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(rotate(q, 0), rotate(k, 0), rotate(v, 0), is_causal=True)
        return self.o(y.transpose(1, 2).flatten(2)), None


class KeysUnturned(RotaryAttention):
    def forward(self, x: Tensor, past: Any = None) -> Any:
        q, k, v = (y.unflatten(-1, (H, D // H)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(rotate(q, 0), k, v, is_causal=True)
        return self.o(y.transpose(1, 2).flatten(2)), None


class OpenChunk(RotaryAttention):
    """Right for one token at a time: behind a cache nothing is hidden."""

    def forward(self, x: Tensor, past: Any = None) -> Any:
        q, k, v = (y.unflatten(-1, (H, D // H)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        start = 0 if past is None else past[0].size(2)
        q, k = rotate(q, start), rotate(k, start)
        if past is not None:
            k, v = self.join(past[0], k), self.join(past[1], v)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=past is None)
        return self.o(y.transpose(1, 2).flatten(2)), (k, v)


class CausalSource(KeepSeq2Seq):
    """The triangle of the target is laid over the source as well."""

    def run(self, src: Tensor, tgt: Tensor, src_mask: Tensor | None, tgt_mask: Tensor | None) -> Tensor:
        triangle = torch.ones(src.size(1), src.size(1), dtype=torch.bool).tril()
        memory = self.src_embed(src)
        for layer in self.encoder:
            memory = layer(memory, triangle if src_mask is None else triangle & src_mask)
        x = self.tgt_embed(tgt)
        for layer in self.decoder:
            x = layer(x, memory, src_mask, tgt_mask)
        return self.generator(x)


class CausalAcross(KeepSeq2Seq):
    """The triangle of the target is laid between the texts."""

    def run(self, src: Tensor, tgt: Tensor, src_mask: Tensor | None, tgt_mask: Tensor | None) -> Tensor:
        memory = self.src_embed(src)
        for layer in self.encoder:
            memory = layer(memory, src_mask)
        triangle = torch.ones(tgt.size(1), src.size(1), dtype=torch.bool).tril()
        x = self.tgt_embed(tgt)
        for layer in self.decoder:
            x = layer(x, memory, triangle if src_mask is None else triangle & src_mask, tgt_mask)
        return self.generator(x)


FAULTS: dict[str, tuple[str, Callable[[], nn.Module]]] = {
    "label_shift.scrambled": ("label_shift", losing(crossed)),
    "label_shift.few": ("label_shift", losing(lambda x, y: F.cross_entropy(x[:, -1], y[:, -1]))),
    "label_shift.raw": ("label_shift", losing(lambda x, y: F.nll_loss(x.flatten(0, 1), y.flatten()))),
    "label_shift.softmaxed": (
        "label_shift",
        losing(lambda x, y: F.cross_entropy(x.softmax(-1).flatten(0, 1), y.flatten())),
    ),
    "label_shift.unread": ("label_shift", losing(lambda x, y: x.logsumexp(-1).mean())),
    "causality.training": ("causality", lambda: GPT(attention=TrainedOpen)),
    "dropout.modes": ("dropout", OtherInTraining),
    "residual.dropped": ("residual", lambda: GPT(FromTheStart)),
    "heads.copied": ("heads", lambda: GPT(attention=MeanOfHeads)),
    "position_wise.before": ("position_wise", lambda: GPT(OverTime)),
    "position.same": ("position", HalfPlaces),
    "position.unregistered": ("position", PlainPlaces),
    "shift_none": ("position", WrongWaves),
    "position.values": ("position", lambda: CachedGPT(ValuesTurned)),
    "position.absolute": ("position", lambda: CachedGPT(KeysUnturned)),
    "cache.chunk": ("cache", lambda: CachedGPT(OpenChunk)),
    "cross_attention.one_sided": ("cross_attention", CausalSource),
    "cross_attention.hidden": ("cross_attention", CausalAcross),
}
"""By what is found: the property that fails, and a model."""


@pytest.mark.parametrize("fault", FAULTS)
def test_check_finds_the_fault_by_its_experiment(fault: str) -> None:
    key, make = FAULTS[fault]
    torch.manual_seed(0)
    report = check(make(), only=[key])
    assert report[key].finding.fault == fault, report[key]


@pytest.mark.parametrize(
    ("compute", "said"),
    [
        (lambda x, y: F.cross_entropy(x.flatten(0, 1), y.flatten(), label_smoothing=0.1), "pass"),
        (lambda x, y: F.cross_entropy(x.flatten(0, 1), y.flatten()) + 1e-4 * x.logsumexp(-1).square().mean(), "pass"),
        (lambda x, y: F.cross_entropy(x.flatten(0, 1), y.flatten(), weight=torch.linspace(1, 2, V).to(x)), "pass"),
        (lambda x, y: F.cross_entropy(x[:, :-1].flatten(0, 1), y[:, 1:].flatten(), label_smoothing=0.1), "fail"),
    ],
    ids=["smoothed", "with a penalty", "weighed", "smoothed and shifted twice"],
)
def test_label_shift_reads_any_loss(compute: Loss, said: str) -> None:
    assert check(losing(compute)(), only=["label_shift"])["label_shift"].status == said


def test_causality_asks_an_encoder_for_both_sides() -> None:
    assert check(Encoder(), kind="encoder", only=["causality"])["causality"].status == "not_applicable"
    assert check(GPT(), kind="encoder", only=["causality"])["causality"].finding.fault == "causality.one_sided"


PARTS = {
    "ValuesOfTheQuery": "argument_ignored",
    "NoOutputMatrix": "no_gradient",
    "PositionsInPlace": "input_changed",
    "PositionsBackwards": "position_of_length",
    "LearnedNotAParameter": "position_unregistered",
    "SaysPreIsPost": "norm_other_side",
    "ConvFeedForward": "feed_forward_mixes",
    "LayerTargetPadding": "padding_seen",
    "ResidualFromTheStart": "residual_dropped",
    "rate_never_falls": "schedule_never_falls",
}


@pytest.mark.parametrize("name", PARTS)
def test_part_is_found_wrong_by_its_experiment(name: str) -> None:
    record = next(each for each in PLANTED if each.name == name)
    torch.manual_seed(0)
    report = examine_named(record.factory(), name, kind=record.kind.partition(".")[2])
    assert report.failures[0].finding.fault == PARTS[name], "\n".join(report.lines())


def first_row_only(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, None if mask is None else mask[:1])


def always_causal(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    seen = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
    return F.scaled_dot_product_attention(q, k, v, seen if mask is None else mask & seen)


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def turn_queries(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    return rotate(q, 0), k


def doubled_exponent(n: int, d_model: int) -> Tensor:
    angles = torch.arange(n)[:, None] / 10000.0 ** (2 * torch.arange(0, d_model, 2) / d_model)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


def without_pi(step: int) -> float:
    share = min(1.0, max(0, step - 40) / 400)
    return min(step / 40, 0.1 + 0.45 * (1 + math.cos(share)))


def identity(x: Any) -> Any:
    return x


@pytest.mark.parametrize(
    ("part", "fault"),
    [
        (first_row_only, "mask_row"),
        (always_causal, "mask_always"),
        (causal, None),
        (turn_queries, "rotary_absolute"),
        (doubled_exponent, "position_exponent"),
        (identity, "schedule_only_rises"),
        (without_pi, "schedule_no_pi"),
    ],
)
def test_function_is_told_what_is_wrong_with_it(part: Callable[..., Any], fault: str | None) -> None:
    failures = examine_named(part, part.__name__).failures
    assert (failures[0].finding.fault if failures else None) == fault


def test_guess_is_said() -> None:
    said = [each.say("en") for each in examine_named(identity, "identity").remarks]
    assert said == ["taken for schedule by what it does; --as says otherwise"]
    assert not examine_named(identity, "identity", kind="schedule").remarks
    assert not examine_named(causal, "causal").remarks


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(V, D)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.table(tokens)


class Classifier(Encoder):
    def forward(self, tokens: Tensor, *masks: Tensor) -> Tensor:
        return super().forward(tokens).mean(1)


def test_table_of_words_is_no_model() -> None:
    assert not is_whole(Words())
    assert is_whole(Encoder())


def test_classifier_is_asked_what_can_be_asked_of_one_row() -> None:
    report = check(Classifier())
    assert report.ok
    asked = {each.key for each in report.verdicts if each.status == "pass"}
    assert {"batch_mates", "position", "gradient"} <= asked
    assert "memorise" not in asked


def test_template_is_written_only_for_what_is_there(tmp_path: Any) -> None:
    code, file = tmp_path / "mine.py", tmp_path / "call.py"
    code.write_text("class Model: ...\n")
    with pytest.raises(ConfigError, match="has no 'Modle'"):
        write_template(file, f"{code}:Modle")
    assert not file.exists()
    write_template(file, f"{code}:Model")
    assert file.exists()


def test_report_keeps_to_narrow_terminals() -> None:
    lines = list(check(GPT(), only=["causality", "padding"]).lines("en", 60))
    assert max(map(len, lines)) <= 60


class Powers(Encoder):
    """p is an exponent, and no share that is dropped."""

    def __init__(self) -> None:
        super().__init__()
        self.p = 2.0

    def forward(self, tokens: Tensor, *masks: Tensor) -> Tensor:
        return super().forward(tokens).abs().pow(self.p)


def test_exponent_is_no_share_that_is_dropped() -> None:
    assert "dropout" not in [each.key for each in check(Powers(), kind="encoder").failures]


class OneNumber(Encoder):
    def forward(self, tokens: Tensor, *masks: Tensor) -> Tensor:
        return super().forward(tokens).mean()


def test_model_that_returns_one_number_is_told_so() -> None:
    with pytest.raises(ConfigError, match=r"the output has shape \(\)"):
        check(OneNumber())


class Standing(nn.Module):
    """RMSNorm with an offset whose name says nothing."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.g, self.b = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.g * x / (x.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() + self.b


@pytest.mark.parametrize(
    "norm", [nn.Identity(), nn.Dropout(0.1), Standing(16), nn.Sequential(nn.LayerNorm(16), nn.Dropout(0.1), nn.GELU())]
)
def test_what_stands_in_the_place_of_a_norm_is_not_accused(norm: nn.Module) -> None:
    model = nn.Module()
    model.norm = norm.eval()
    x = torch.randn(2, 7, 16, dtype=torch.float64)
    assert wrong_norm(record(model.double(), lambda: model.norm(x))) is None


def test_norm_that_divides_by_something_else_is_accused() -> None:
    class Norm(Standing):
        def forward(self, x: Tensor) -> Tensor:
            return self.g * x / (x.abs().mean() * 0 + 2) + self.b

    model = nn.Module()
    model.norm = Norm(16).double()
    x = torch.randn(2, 7, 16, dtype=torch.float64)
    found = wrong_norm(record(model, lambda: model.norm(x)))
    assert found is not None
    assert found.fault == "norm.none"


@pytest.mark.parametrize(("added", "found"), [(1e-9, False), (torch.ones(7, 7), True)])
def test_only_a_tensor_is_something_that_is_added_to_weights(added: Any, found: bool) -> None:
    q, k, v = (torch.randn(2, 3, 7, 4) for _ in range(3))
    [call] = attentions(lambda: ((q @ k.mT).softmax(-1) + added) @ v)
    assert call.added == found
