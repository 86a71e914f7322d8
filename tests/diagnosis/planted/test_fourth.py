"""The fourth collection of planted bugs: each is a bug, and its twin is healthy, by the direct checks of the first.

The models here are called in many ways; `CALLS` brings them to the one way of `test_planted`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .catalogue import FOURTH, FOURTH_HEALTHY, FRESH, KINDS, PLANTED, PROPERTIES, Healthy, Planted
from .fourth_distilbert import LittleDistilBert
from .fourth_encoder_layers import PostLayer
from .fourth_gemma import LittleGemma
from .fourth_gptj import GPTJForCausalLM
from .fourth_marian import LittleMarian
from .fourth_multi_head import DenseGeneralAttention
from .fourth_music import MusicTransformer
from .fourth_positions import NeoXRotary
from .fourth_t5 import LittleT5
from .fourth_vit import TokenViT
from .fourth_zh_translator import ZhTransformer
from .test_fresh import attempt, hidden, place_table
from .test_planted import (
    CHECKS,
    D,
    T,
    build,
    changed,
    differs,
    hand_loss,
    keep_of,
    noise,
    padded_targets,
    probe,
    same,
    targets_of,
    tokens,
    train_a_step,
    with_weights_of,
)

TWINS = {record.name: record for record in FOURTH_HEALTHY}
Found = list[Tensor | Exception]


def shifting(model: nn.Module, ids: Tensor, targets: Tensor | None = None) -> Any:
    """`targets` are shifted: the labels of a model that shifts begin one earlier."""
    if targets is None:
        return model(ids).logits
    found = model(ids, torch.cat([ids[:, :1], targets[:, :-1]], dim=1))
    return found.logits, found.loss


def by_length(model: nn.Module, ids: Tensor, keep: Tensor | None = None) -> Tensor:
    return model(ids, torch.full(ids.shape[:1], ids.size(1)) if keep is None else keep.sum(1))


CALLS: dict[str, Callable[..., Any]] = {
    "GPTJForCausalLM": shifting,
    "MultiQueryGPTJ": shifting,
    "LittleGemma": lambda model, ids: model(ids).logits,
    "WideGemma": lambda model, ids: model(ids).logits,
    "MusicTransformer": lambda model, ids: model(ids),
    "LittleDistilBert": lambda model, ids, keep=None: model(ids, None if keep is None else keep.long()).logits,
    "LittleAlbert": lambda model, ids, keep=None: model(ids, None if keep is None else keep.long()).logits,
    "Tagger": by_length,
    "LittleMarian": lambda model, s, t, ks=None, kt=None: model(s, ks, decoder_input_ids=t).logits,
    "ZhTransformer": lambda model, s, t, ks=None, kt=None: model(hidden(s, ks), hidden(t, kt))[0],
    "DenseGeneralAttention": lambda module, x, mask=None: module(x, None, mask),
}


class Called(nn.Module):
    """A model, called in the way of `test_planted`."""

    def __init__(self, twin: str, made: nn.Module) -> None:
        super().__init__()
        self.made = made
        self.call = CALLS.get(twin, lambda made, *inputs: made(*inputs))
        self.train(made.training)

    def forward(self, x: Tensor, *rest: Any) -> Any:
        return self.call(self.made, x, *rest)


class CalledWithThree(Called):
    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Any:
        return self.call(self.made, q, k, v, mask)


class CalledWithMask(Called):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        return self.call(self.made, x, mask)


class CalledBuiltIn(Called):
    layer = None
    """`probe` gives it no row that begins with padding, for which torch's attention gives NaN."""


def twin_of(record: Healthy | Planted) -> str:
    return record.twin if isinstance(record, Planted) else record.name


def called(record: Healthy | Planted) -> Any:
    made = build(record)
    if not isinstance(made, nn.Module):
        return made
    if record.kind == "part.multi_head":
        wrapper = CalledWithThree if twin_of(record) == "MultiHeadedAttention" else CalledWithMask
        return wrapper(twin_of(record), made)
    wrapper = CalledBuiltIn if twin_of(record) == "BuiltInDecoderLayer" else Called
    return wrapper(twin_of(record), made)


def inner(made: Any) -> Any:
    return made.made if isinstance(made, Called) else made


# What differs --------------------------------------------------------------------------------------------------------


def chunks(model: LittleGemma, ids: Tensor, sizes: list[int]) -> Tensor:
    past, parts = None, []
    for chunk in ids.split(sizes, dim=1):
        out = model(chunk, past)
        past = out.past_key_values
        parts.append(out.logits)
    return torch.cat(parts, dim=1)


def with_labels(model: nn.Module, ids: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    found = model(ids, labels=labels)
    return found.logits, found.loss


def everything(kind: str, made: Any) -> Found:
    """What the probes of `test_planted` give, and what they do not ask for."""
    model = inner(made)
    if kind == "part.position":
        if not isinstance(made, nn.Module):
            return attempt(made)
        x = noise(3, 2, T, 16) if isinstance(model, NeoXRotary) else noise(3, T, D)
        return attempt(lambda: model(x)) + attempt(lambda: model(x))
    if kind == "part.schedule":
        return [
            part for step in range(0, 3000, 7) for part in attempt(lambda step=step: torch.tensor(1e3 * made(step)))
        ]
    found = probe(kind, made)
    if isinstance(model, LittleGemma):
        return found + attempt(lambda: chunks(model, tokens(3, T), [4, 1, 3, 2]))
    if kind == "model.decoder":
        return found + attempt(lambda: made(tokens(3, T - 3)))
    if isinstance(model, TokenViT):
        return found + attempt(lambda: model(tokens(3, T)))
    if isinstance(model, (LittleDistilBert, LittleMarian)):
        ids = tokens(3, T)
        found += attempt(lambda: with_labels(model, ids, padded_targets(ids)))
        return found + attempt(lambda: with_labels(model, ids, targets_of(ids)))
    if isinstance(model, DenseGeneralAttention):
        return found + attempt(lambda: model(noise(3, T, D), noise(3, T + 2, D, seed=2)))
    return found


# Checks of their own -------------------------------------------------------------------------------------------------


def by_distance(turn: Callable[[Tensor], Tensor], width: int) -> bool:
    """With one query and one key everywhere, a score is a matter of distance, and of nothing else."""
    x, y = noise(1, 1, 1, width).expand(1, 2, T, width), noise(1, 1, 1, width, seed=2).expand(1, 2, T, width)
    scores = turn(x) @ turn(y).mT
    return all(
        same(scores.diagonal(k, -2, -1), scores.diagonal(k, -2, -1)[..., :1].expand(1, 2, T - abs(k)), 1e-4)
        for k in range(-5, 6)
    ) and not same(scores[..., 0, 0], scores[..., 0, 3])


@torch.no_grad()
def order_seen(kind: str, made: Any) -> bool:
    model = inner(made)
    if kind == "part.position":
        return part_right(made, model)
    if isinstance(model, GPTJForCausalLM):
        return by_distance(model.h[0].attn.rotary, model.h[0].attn.head_dim)
    if isinstance(model, LittleGemma):
        x, order = noise(2, 4, D), torch.tensor([2, 1, 0, 3])
        return not same(model.layers[0](x, None)[0][:, -1], model.layers[0](x[:, order], None)[0][:, -1])
    if isinstance(model, MusicTransformer):
        attention = model.enc_layers[0].rga
        if not same(attention.left_embedding(T)[-1], attention.left_embedding(T + 2)[-1]):
            return False
        by_row = noise(1, 1, T, T)
        skewed = attention.skew(by_row)
        return all(skewed[0, 0, i, j] == by_row[0, 0, i, T - 1 - (i - j)] for i in range(T) for j in range(i + 1))
    if isinstance(model, LittleT5):
        for stack, ahead in ((model.encoder, True), (model.decoder, False)):
            row = stack.bucket(stack.relative_position(T, torch.device("cpu")))[5]
            if len({int(b) for b in row[2:6]}) < 4 or (ahead and row[4] == row[6]):
                return False
        return True
    if isinstance(model, TokenViT):
        return not same(made(tokens(2, T)), made(tokens(2, T).flip(1)))
    return CHECKS["position"](kind, made)


def part_right(made: Any, model: Any) -> bool:
    if isinstance(model, NeoXRotary):
        x = noise(1, 2, T, 16)
        shifted = [model(x[:, :, i : i + 1], i) for i in range(T)]
        return by_distance(model, 16) and same(model(x), torch.cat(shifted, 2))
    if isinstance(model, nn.Module):
        rows = model(torch.zeros(2, T, D))
        if not hasattr(model, "pe"):
            return same(rows[0], rows[1]) and not same(rows[0, 0], rows[0, 1])
        return same(rows, place_table(T, D).expand(2, T, D), 1e-4)
    table = made()
    if table.is_floating_point():
        pairs = place_table(*table.shape)
        return same(table, torch.cat([pairs[:, 0::2], pairs[:, 1::2]], 1), 1e-4)
    left, right = table[20, :20], table[20, 21:]
    falls = bool((left[:-1] >= left[1:]).all()) and len(left.unique()) > 4
    rises = bool((right[:-1] <= right[1:]).all()) and len(right.unique()) > 4
    return falls and rises and not set(left.tolist()) & set(right.tolist())


@torch.no_grad()
def cached(kind: str, made: Any) -> bool:
    model, ids = inner(made), tokens(2, T)
    if not isinstance(model, LittleGemma):
        return True
    full = model(ids).logits
    return all(same(full, chunks(model, ids, sizes)) for sizes in ([1] * T, [5, 1, 1, 1, 1, 1], [4, 3, 3]))


def learns(kind: str, made: Any) -> bool:
    if not isinstance(made, nn.Module):
        return True
    kept = (value for module in made.modules() for value in vars(module).values())
    if any(isinstance(value, (Tensor, list)) and value != [] for value in kept):
        return False
    if any(isinstance(value, dict) and "q" in value for value in vars(inner(made)).values()):
        return False  # what torch does not know of
    if kind == "part.position":
        made(noise(3, 2, T, 16) if isinstance(inner(made), NeoXRotary) else noise(3, T, D))
        return True
    return CHECKS["gradient"](kind, made)


def tied(kind: str, made: Any) -> bool:
    model = inner(made)
    if isinstance(model, LittleMarian):
        return model.lm_head.weight is model.shared.weight
    for listed in (module for module in made.modules() if isinstance(module, (nn.ModuleList, nn.Sequential))):
        ids = [id(p) for layer in listed for p in layer.parameters()]
        if len(set(ids)) != len(ids):
            return False
    return True


@torch.no_grad()
def padding_unseen(kind: str, made: Any) -> bool:
    if kind == "model.encoder_decoder":
        source, target, keep = tokens(3, T), tokens(3, T - 3, seed=2), keep_of(3, T)
        one, other = made(source, target, keep), made(changed(source, 0, T - 1), target, keep)
        if not same(one, other) or not same(one[:1], made(source[:1, :-3], target[:1])):
            return False
        return isinstance(inner(made), LittleMarian) or CHECKS["padding"](kind, made)  # it has no mask for the target
    if kind != "model.encoder":
        return CHECKS["padding"](kind, made)
    ids, keep = tokens(3, T), keep_of(3, T).roll(1, 0)
    one, other = made(ids, keep), made(changed(changed(ids, 1, T - 1), 1, T - 3), keep)
    alone = made(ids[1:2, :-3], keep[1:2, :-3])
    if one.dim() == 2:
        return same(one, other) and same(one[1:2], alone)
    return same(one[keep], other[keep]) and same(one[1:2, :-3], alone)


@torch.no_grad()
def loss_right(kind: str, made: Any, padded: bool) -> bool:
    ids = tokens(3, T)
    targets = padded_targets(ids) if padded else targets_of(ids)
    model = inner(made)
    if kind == "model.decoder":
        targets[:, -1] = -100  # a model that shifts has no label there
        logits, loss = made(ids, targets)
    else:
        given = targets.clone()
        logits, loss = with_labels(model, ids, given)
        if not torch.equal(given, targets):
            return False
        if isinstance(model, LittleMarian):
            read = torch.cat([torch.zeros(3, 1, dtype=torch.long), targets[:, :-1].clamp(min=0)], 1)
            if not same(logits, made(ids, read)):
                return False
    return same(loss, hand_loss(logits, targets), 1e-4)


@torch.no_grad()
def shaped(kind: str, made: Any) -> bool:
    """Another length, a batch of one, and a mask."""
    sizes = ((3, T), (3, T - 3), (1, T), (4, T + 3))
    if kind == "model.decoder":
        results = [made(tokens(b, t)) for b, t in sizes]
        logits = [found[0] if isinstance(found, tuple) else found for found in results]
        return all(found.shape[:2] == size for found, size in zip(logits, sizes, strict=True))
    if kind == "model.encoder":
        whole = (torch.ones(b, t, dtype=torch.bool) for b, t in sizes)
        return all(made(tokens(*keep.shape), keep).size(0) == keep.size(0) for keep in whole)
    return all(made(tokens(b, T), tokens(b, t)).shape[:2] == (b, t) for b, t in sizes)


@torch.no_grad()
def masks_right(kind: str, made: Any) -> bool:
    """An encoder hears both ways; elsewhere masks hold."""
    model, source = inner(made), tokens(3, T)
    if isinstance(model, ZhTransformer):
        return all(bool((attention > 0).all()) for attention in model(source, source)[1])
    if kind == "model.encoder_decoder":
        one, other = model.encode(source, None), model.encode(changed(source, 0, T - 1), None)
        return not same(one[0, 0], other[0, 0], 1e-6)
    if kind == "model.encoder":
        return not same(made(source)[0], made(changed(source, 0, T - 1))[0], 1e-6)
    return CHECKS["mask"](kind, made)


@torch.no_grad()
def future_unseen(kind: str, made: Any) -> bool:
    if kind == "model.decoder":
        ids = tokens(3, T)
        logits, fewer = made(ids), made(ids[:, :6])
        logits, fewer = (found[0] if isinstance(found, tuple) else found for found in (logits, fewer))
        if not same(logits[:, :6], fewer):
            return False
    return CHECKS["causality"](kind, made)


@torch.no_grad()
def crosses(kind: str, made: Any) -> bool:
    model = inner(made)
    if kind != "part.multi_head":
        return CHECKS["cross_attention"](kind, made)
    x, memory = noise(2, T, D), noise(2, T + 2, D, seed=2)
    return not same(model(x, memory)[:, 0], model(x, memory + noise(2, T + 2, D, seed=3))[:, 0])


@torch.no_grad()
def softmax_right(kind: str, made: Any) -> bool:
    if kind == "part.attention":
        q, k, v = noise(3, 2, T, 16), noise(3, 2, T, 16, seed=2), noise(3, 2, T, 16, seed=3)
        out = made(q, k, v)
        return same(out[0] if isinstance(out, tuple) else out, F.scaled_dot_product_attention(q, k, v))
    return CHECKS["softmax_axis"](kind, made)


@torch.no_grad()
def bends(kind: str, made: Any) -> bool:
    if not isinstance(inner(made), PostLayer):
        return True
    ffn, x = inner(made).ffn, noise(2, T, D)
    zero = ffn(torch.zeros_like(x))
    return not same(ffn(2 * x) - zero, 2 * (ffn(x) - zero), 1e-6)


@torch.no_grad()
def repeats(kind: str, made: Any) -> bool:
    if kind != "part.attention" and not isinstance(made, nn.Module):
        return True
    if kind == "part.decoder_layer":
        x, memory = noise(3, T, D), noise(3, T, D, seed=2)
        return same(made(x, memory), made(x, memory))
    if kind == "part.position":
        return not differs(everything(kind, made), everything(kind, made))
    return CHECKS["determinism"](kind, made)


OWN: dict[str, Callable[[str, Any], bool]] = {
    "position": order_seen,
    "cache": cached,
    "gradient": learns,
    "tied": tied,
    "padding": padding_unseen,
    "label_shift": lambda kind, made: loss_right(kind, made, padded=False),
    "loss_padding": lambda kind, made: loss_right(kind, made, padded=True),
    "shapes": shaped,
    "mask": masks_right,
    "causality": future_unseen,
    "cross_attention": crosses,
    "softmax_axis": softmax_right,
    "position_wise": bends,
    "determinism": repeats,
    "own_values": learns,
}

APPLIES = {
    "model.decoder": "causality batch_mates position cache determinism gradient tied initial_loss memorise shapes",
    "model.encoder": "padding position batch_mates determinism gradient tied shapes mask",
    "model.encoder_decoder": (
        "causality padding batch_mates position determinism gradient tied initial_loss memorise cross_attention shapes "
        "mask own_values"
    ),
    "part.attention": "determinism scale softmax_axis own_values mask",
    "part.multi_head": "determinism softmax_axis heads gradient mask tied",
    "part.position": "position determinism gradient",
    "part.encoder_layer": "padding batch_mates determinism gradient position_wise",
    "part.decoder_layer": "causality padding batch_mates determinism gradient cross_attention",
    "part.schedule": "schedule",
}
WITH_LOSS = ("GPTJForCausalLM", "MultiQueryGPTJ", "MinGPT", "LittleDistilBert", "LittleAlbert", "LittleMarian")


def applies(record: Healthy | Planted, word: str) -> bool:
    if word in ("label_shift", "loss_padding"):
        return twin_of(record) in WITH_LOSS
    if word == "cross_attention" and record.kind == "part.multi_head":
        return twin_of(record) == "DenseGeneralAttention"
    return word in APPLIES[record.kind].split()


def holds(record: Healthy | Planted, word: str, made: Any) -> bool:
    check = OWN.get(word) or CHECKS[word]
    return check(record.kind, made)


HEALTHY_CASES = [
    pytest.param(record, word, id=f"{record.name}-{word}")
    for record in FOURTH_HEALTHY
    for word in PROPERTIES
    if applies(record, word)
]
PLANTED_CASES = [pytest.param(record, id=record.name) for record in FOURTH]
VISIBLE_CASES = [pytest.param(record, id=record.name) for record in FOURTH if applies(record, record.property[0])]


def test_fourth_catalogue_is_in_order() -> None:
    names = [record.name for record in (*FOURTH, *FOURTH_HEALTHY, *FRESH, *PLANTED)]
    assert len(set(names)) == len(names)
    assert 80 <= len(FOURTH) <= 90
    assert len(FOURTH_HEALTHY) >= 30
    for kind in KINDS:
        assert sum(record.kind == kind for record in FOURTH) >= 6
    for record in FOURTH:
        assert set(record.property) <= set(PROPERTIES)
        assert TWINS[record.twin].kind == record.kind


@pytest.mark.parametrize(("record", "word"), HEALTHY_CASES)
def test_fourth_healthy_has_the_property(record: Healthy, word: str) -> None:
    assert holds(record, word, called(record))


@pytest.mark.parametrize("record", VISIBLE_CASES)
def test_fourth_planted_breaks_its_first_property(record: Planted) -> None:
    try:
        held = holds(record, record.property[0], called(record))
    except (RuntimeError, AssertionError):
        held = False  # it raises where its twin does not
    assert not held


@pytest.mark.parametrize("record", PLANTED_CASES)
def test_fourth_planted_differs_from_its_twin(record: Planted) -> None:
    bug, twin = called(record), called(TWINS[record.twin])
    if record.shows == "raises":
        found, healthy = everything(record.kind, bug), everything(record.kind, twin)
        assert sum(isinstance(part, Exception) for part in found) > sum(isinstance(part, Exception) for part in healthy)
        return
    if isinstance(bug, nn.Module) and record.shows != "initialisation":
        with_weights_of(bug, twin)
    steps: tuple[list[Tensor], list[Tensor]] = [], []
    torch.manual_seed(0)
    if record.shows == "training":
        assert not differs(everything(record.kind, bug), everything(record.kind, twin))
        for _ in range(30):
            steps = train_a_step(record.kind, bug), train_a_step(record.kind, twin)
    found, healthy = [*everything(record.kind, bug), *steps[0]], [*everything(record.kind, twin), *steps[1]]
    assert any(isinstance(part, Tensor) for part in found)
    assert differs(found, healthy)


@pytest.mark.parametrize("record", FOURTH_HEALTHY, ids=lambda record: record.name)
def test_fourth_healthy_differs_from_itself_nowhere(record: Healthy) -> None:
    one, other = everything(record.kind, called(record)), everything(record.kind, called(record))
    assert not any(isinstance(part, Exception) for part in one) or record.kind == "model.decoder"
    assert not differs(one, other)
    assert math.isfinite(sum(float(part.sum()) for part in one if isinstance(part, Tensor)))
