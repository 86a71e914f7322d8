"""The third collection of planted bugs: each is a bug, and its twin is healthy, by direct checks.

The models here are called in many ways; `CALLS` brings them to the one way of `test_planted`.
"""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .catalogue import (
    FRESH,
    FRESH_HEALTHY,
    HEALTHY,
    KINDS,
    PLANTED,
    PROPERTIES,
    THIRD,
    THIRD_HEALTHY,
    Healthy,
    Planted,
)
from .test_fresh import Found, attempt, hidden, padding
from .test_planted import (
    CHECKS,
    VOCAB,
    D,
    T,
    build,
    changed,
    differs,
    hand_loss,
    keep_of,
    noise,
    padded_targets,
    same,
    targets_of,
    tokens,
    with_weights_of,
)
from .third_past_gpt import PastGPT
from .third_positions import LoopedEncoder, NotebookRotary
from .third_rope_gpt import RopeGPT, apply_rope

TWINS = {record.name: record for record in THIRD_HEALTHY}
Case = tuple[Healthy | Planted, Any]
ALL = torch.ones(3, T, dtype=torch.bool)


# One way to call each kind -------------------------------------------------------------------------------------------


def lecture(made: nn.Module, ids: Tensor, targets: Tensor | None = None) -> Any:
    logits, loss = made(ids, targets)
    logits = logits.view(*ids.shape, VOCAB)
    return logits if targets is None else (logits, loss)


def rope(made: nn.Module, ids: Tensor, targets: Tensor | None = None) -> Any:
    if targets is None:
        return made(ids, ids)[0]  # one of the two gives all logits with targets only
    return made(ids, targets.masked_fill(targets == -100, -1))


def segment_bert(made: nn.Module, ids: Tensor, keep: Tensor | None = None, labels: Tensor | None = None) -> Any:
    return made(hidden(ids, keep)) if labels is None else made(hidden(ids, keep), labels=labels)


def teacher_forced(made: nn.Module, s: Tensor, t: Tensor, ks: Tensor | None = None, kt: Tensor | None = None) -> Tensor:
    t = torch.cat([hidden(t, kt), torch.full_like(t[:, :1], 3)], dim=1)
    return made(hidden(s, ks), t)[0]


def booked(made: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    return made(q, k, v, None if mask is None else mask[:, 0, 0].sum(-1))


def over(keep: Tensor | None) -> Tensor | None:
    return None if keep is None else keep[:, None, None, :]


def triangle(x: Tensor, keep: Tensor | None) -> Tensor:
    seen = torch.ones(x.size(1), x.size(1), dtype=torch.bool).tril()
    return seen[None, None] if keep is None else (seen & keep[:, None, None, :]) | torch.eye(x.size(1)).bool()


def long(keep: Tensor | None) -> Tensor | None:
    return None if keep is None else keep.long()


CALLS: dict[str, Callable[..., Any]] = {
    "LectureGPT": lecture,
    "PastGPT": lambda made, ids: made(ids)[0],
    "RopeGPT": rope,
    "LastWordGPT": rope,
    "SegmentBert": segment_bert,
    "TextClassifier": lambda made, ids, keep=None: made(ids, long(keep)),
    "VideoTransformer": lambda made, s, t, ks=None, kt=None: made(hidden(s, ks), hidden(t, kt)),
    "Multi30kTransformer": lambda made, s, t, ks=None, kt=None: made(hidden(s, ks), hidden(t, kt))[0],
    "ForumTranslator": lambda made, s, t, ks=None, kt=None: made(hidden(s, ks), hidden(t, kt)),
    "TeacherForced": teacher_forced,
    "tutorial_attention": lambda made, q, k, v, mask=None: made(q, k, v, None if mask is None else (~mask).float())[0],
    "notebook_attention": lambda made, q, k, v, mask=None: made(q, k, v, mask)[0],
    "book_attention": booked,
    "AnnotatedMultiHead": lambda made, x, mask=None: made(x, x, x, mask),
    "PortedLayer": lambda made, x, keep=None: made(x, over(keep)),
    "VisionBlock": lambda made, x, keep=None: made(x),
    "KerasStyleLayer": lambda made, x, keep=None: made(x, long(keep)),
    "PortedDecoderLayer": lambda made, x, m, kx=None, km=None: made(x, m, triangle(x, kx), over(km)),
    "LambdaDecoderBlock": lambda made, x, m, kx=None, km=None: made(x, m, over(km), triangle(x, kx)),
    "TriangleDecoderLayer": lambda made, x, m, kx=None, km=None: made(x, m, padding(kx), padding(km)),
}


def twin_of(record: Healthy | Planted) -> str:
    return record.twin if isinstance(record, Planted) else record.name


def caller(case: Case) -> Callable[..., Any]:
    record, made = case
    call = CALLS.get(twin_of(record))
    return made if call is None else lambda *inputs: call(made, *inputs)


def output(case: Case) -> Tensor:
    """A call with plain inputs whose result depends on everything the part has."""
    kind, call = case[0].kind, caller(case)
    if kind == "model.decoder":
        return call(tokens(3, T))
    if kind == "model.encoder":
        return call(tokens(3, T), keep_of(3, T))
    if kind == "model.encoder_decoder":
        return call(tokens(3, T), tokens(3, T, seed=2), keep_of(3, T), ALL)
    if kind == "part.multi_head":
        return call(noise(3, T, D))
    if kind == "part.position":
        if not isinstance(case[1], nn.Module):
            return call()
        return call(noise(3, 2, T, 16) if isinstance(case[1], NotebookRotary) else noise(3, T, D))
    if kind == "part.encoder_layer":
        return call(noise(3, T, D), keep_of(3, T))
    if kind == "part.decoder_layer":
        return call(noise(3, T, D), noise(3, T, D, seed=2), None, keep_of(3, T))
    return call(*(noise(3, 2, T, 16, seed=seed) for seed in (1, 2, 3)), keep_of(3, T)[:, None, None, :])


# What differs --------------------------------------------------------------------------------------------------------


def chunks(model: PastGPT, ids: Tensor, sizes: list[int]) -> Tensor:
    past, parts = None, []
    for chunk in ids.split(sizes, dim=1):
        logits, past = model(chunk, past)
        parts.append(logits)
    return torch.cat(parts, dim=1)


def losses(case: Case) -> list[Callable[[], Any]]:
    name, call, ids = twin_of(case[0]), caller(case), tokens(3, T)
    if name in ("LectureGPT", "RopeGPT", "LastWordGPT"):
        return [lambda: call(ids, targets_of(ids)), lambda: call(ids, padded_targets(ids))]
    if name == "SegmentBert":
        return [lambda: call(ids, None, targets_of(ids)), lambda: call(ids, None, padded_targets(ids))]
    if name == "TeacherForced":
        padded = hidden(tokens(3, T, seed=2), keep_of(3, T))
        return [lambda: case[1](ids, tokens(3, T, seed=2)), lambda: case[1](ids, padded)]
    return []


def everything(case: Case) -> Found:
    """What a thing gives for inputs of several lengths and masks, and what it raises."""
    (record, made), call, keep = case, caller(case), keep_of(3, T)
    if record.kind == "part.schedule":
        return attempt(lambda: torch.tensor([made(step) for step in range(0, 3000, 7)]))
    x, memory, other = noise(3, T, D), noise(3, T, D, seed=2), noise(3, T - 3, D, seed=2)
    ids, target = tokens(3, T), tokens(3, T, seed=2)
    calls: list[Callable[[], Any]] = [lambda: output(case)]
    if record.kind == "model.decoder":
        calls += [lambda: call(ids[:, :-3])]
        if isinstance(made, PastGPT):
            calls += [lambda: chunks(made, ids, [4, 1, 3, 2])]
    elif record.kind == "model.encoder":
        calls += [lambda: call(ids, ALL), lambda: call(ids[:, :-3])]
    elif record.kind == "model.encoder_decoder":
        calls += [lambda: call(ids, target), lambda: call(ids, target, keep, keep.flip(0))]
        calls += [lambda: call(ids, target[:, :-3], keep)]
    elif record.kind == "part.attention":
        q, k, v = (noise(3, 2, T, 16, seed=seed) for seed in (1, 2, 3))
        calls += [lambda: call(q, k, v), lambda: call(q[:, :, :-3], k, v, keep[:, None, None, :])]
        if twin_of(record) != "book_attention":
            calls += [lambda: call(q, k, v, torch.ones(T, T, dtype=torch.bool).tril())]
    elif record.kind == "part.multi_head":
        calls += [lambda: call(x, torch.ones(T, T, dtype=torch.bool).tril())]
        if len(inspect.signature(made.forward).parameters) == 4:
            calls += [lambda: made(x, other, other), lambda: made(x, memory, memory.flip(0))]
    elif record.kind == "part.encoder_layer":
        calls += [lambda: call(x), lambda: call(x, ALL)]
    elif record.kind == "part.decoder_layer":
        calls += [lambda: call(x, memory), lambda: call(x, memory, keep, keep.flip(0)), lambda: call(x, other)]
    return [part for each in (*calls, *losses(case)) for part in attempt(each)]


def trained(case: Case) -> None:
    """Three steps of plain gradient descent on something arbitrary, dropout off."""
    made = case[1]
    for _ in range(3):
        made.zero_grad()
        result = output(case)
        (result * noise(*result.shape, seed=5)).mean().backward()
        torch.optim.SGD(made.parameters(), lr=3.0).step()


# Checks --------------------------------------------------------------------------------------------------------------


def causality(case: Case) -> bool:
    kind, call = case[0].kind, caller(case)
    if kind == "part.decoder_layer":
        x, memory = noise(3, T, D), noise(3, T, D, seed=2)
        other = x.clone()
        other[0, 6] += noise(D, seed=4)
        return all(same(call(x, memory, None, k)[:, :6], call(other, memory, None, k)[:, :6]) for k in (None, ALL))
    ids, source = tokens(3, T), tokens(3, T, seed=2)
    given = () if kind == "model.decoder" else (source,)
    return same(call(*given, ids)[:, :6], call(*given, changed(ids, 0, 6))[:, :6])


def batch_mates(case: Case) -> bool:
    kind, call = case[0].kind, caller(case)
    if kind.startswith("model"):
        ids = tokens(3, T)
        inputs: tuple[Tensor, ...] = (ids, ids.flip(0)) if kind == "model.encoder_decoder" else (ids,)
    else:
        x = noise(3, T, D)
        inputs = (x, x.flip(0)) if kind == "part.decoder_layer" else (x,)
    return same(call(*inputs)[1:2], call(*(x[1:2] for x in inputs)))


def padding_unseen(case: Case) -> bool:
    """A padded row is what it is alone, and what is under the padding does not matter."""
    kind, call, keep = case[0].kind, caller(case), keep_of(3, T)
    if kind == "model.encoder_decoder":
        source, target = tokens(3, T), tokens(3, T, seed=2)
        one, other = call(source, target, keep, ALL), call(changed(source, 0, T - 1), target, keep, ALL)
        late = call(source, target, None, keep)
        return (
            same(one, other)
            and same(one[:1], call(source[:1, :-3], target[:1]))
            and same(late[:1, :-3], call(source[:1], target[:1, :-3]))
        )
    if kind == "part.decoder_layer":
        x, memory = noise(3, T, D), noise(3, T, D, seed=2)
        moved = memory + (~keep).unsqueeze(-1) * noise(D, seed=4)
        one = call(x, memory, None, keep)
        return same(one, call(x, moved, None, keep)) and same(one[:1], call(x[:1], memory[:1, :-3]))
    if kind == "model.encoder":
        whole, moved = tokens(3, T), changed(tokens(3, T), 0, T - 1)
    else:
        whole = noise(3, T, D)
        moved = whole + (~keep).unsqueeze(-1) * noise(D, seed=4)
    one, other, alone = call(whole, keep), call(moved, keep), call(whole[:1, :-3], ALL[:1, :-3])
    if one.dim() == 2:
        return same(one, other) and same(one[:1], alone)
    return same(one[keep], other[keep]) and same(one[:1, :-3], alone)


def by_distance(turn: Callable[[Tensor], Tensor]) -> bool:
    """With equal vectors everywhere a score depends on the distance, and it does depend on it."""
    q, k = noise(1, 1, 1, 16).expand(1, 2, T, 16), noise(1, 1, 1, 16, seed=2).expand(1, 2, T, 16)
    scores = turn(q) @ turn(k).mT
    return same(scores[..., 0, 3], scores[..., 4, 7], 1e-4) and not same(scores[..., 0, 0], scores[..., 0, 3])


def sines(width: int = D) -> Tensor:
    angle = torch.arange(T)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)


def position(case: Case) -> bool:
    (record, made), call = case, caller(case)
    if record.kind == "part.position":
        if isinstance(made, NotebookRotary):
            return by_distance(made)
        if isinstance(made, nn.Module):
            x = noise(3, T, D)
            added = made(x) - x * (math.sqrt(D) if isinstance(made, LoopedEncoder) else 1)
            return all(same(row, sines(), 1e-4) for row in added)
        table = made().squeeze(0)[:T]
        if twin_of(record) == "timing_signal":
            angle = torch.arange(T)[:, None] * 10000 ** (-torch.arange(D // 2) / (D // 2 - 1))
            return same(table, torch.cat([angle.sin(), angle.cos()], 1), 1e-4)
        return same(table, sines(), 1e-4)
    if isinstance(made, RopeGPT):
        attn, x, order = made.blocks[0].attn, noise(2, T, D), torch.tensor([*range(T - 2, -1, -1), T - 1])
        ordered = not same(attn(x)[:, -1], attn(x[:, order])[:, -1])
        return ordered and by_distance(lambda x: apply_rope(x, attn.cos, attn.sin))
    if twin_of(record) == "TextClassifier":
        return not same(call(tokens(2, T)), call(tokens(2, T).flip(1)))
    ids = torch.full((2, T), 7)
    one = call(tokens(1, T).expand(2, T), ids) if record.kind == "model.encoder_decoder" else call(ids)
    return not same(one[:, 1], one[:, 5]) and same(one[0], one[1])


def cache(case: Case) -> bool:
    ids = tokens(2, T)
    return all(same(case[1](ids)[0], chunks(case[1], ids, sizes)) for sizes in ([1] * T, [5, 1, 1, 3], [4, 3, 3]))


def determinism(case: Case) -> bool:
    return not differs(everything(case), everything(case))


def against_torch(case: Case, masked: bool) -> bool:
    call, (q, k, v) = caller(case), (noise(3, 2, T + i, 16, seed=i) for i in (1, 4, 4))
    keep = keep_of(3, T + 4)[:, None, None, :]
    masks = [keep] if masked else [None]
    if masked and twin_of(case[0]) != "book_attention":
        masks.append(torch.ones(T + 1, T + 4, dtype=torch.bool).tril())
    return all(same(call(q, k, v, m), F.scaled_dot_product_attention(q, k, v, attn_mask=m)) for m in masks)


def softmax_axis(case: Case) -> bool:
    kind, call = case[0].kind, caller(case)
    if kind == "part.attention":
        q, k, v = noise(3, 2, T, 16), noise(3, 2, T, 16, seed=2), torch.ones(3, 2, T, 16)
        return same(call(q, k, v), v)
    if kind == "part.multi_head":
        out = call(noise(1, 1, D).expand(2, T, D), torch.ones(T, T, dtype=torch.bool).tril())
        return same(out, out[:1, :1].expand_as(out))
    sums = output(case).exp().sum(-1)
    return same(sums, torch.ones_like(sums))


def gradient(case: Case) -> bool:
    made = case[1]
    if not isinstance(made, nn.Module):
        return True
    if any(isinstance(kept, list) for module in made.modules() for kept in vars(module).values()):
        return False
    made.zero_grad()
    with torch.enable_grad():
        result = output(case)
        if not list(made.parameters()):
            return True
        (result * noise(*result.shape, seed=5)).sum().backward()
    return all(p.grad is not None and (p.dim() == 1 or bool(p.grad.any())) for p in made.parameters())


def own_values(case: Case) -> bool:
    if case[0].kind == "part.multi_head" and twin_of(case[0]) == "AnnotatedMultiHead":
        q, k, v = noise(2, T, D), noise(2, T, D, seed=2), noise(2, T, D, seed=3)
        if same(case[1](q, k, v), case[1](q, k, v + noise(1, T, D, seed=4))):
            return False
    return gradient(case)


def heads(case: Case) -> bool:
    """Reordering the words reorders the result, and every word is heard."""
    call, x, order = caller(case), noise(2, T, D), torch.randperm(T, generator=torch.Generator().manual_seed(3))
    other = x.clone()
    other[:, 7] += 1
    return same(call(x[:, order]), call(x)[:, order]) and not same(call(x)[:, 0], call(other)[:, 0])


def tied(case: Case) -> bool:
    made = case[1]
    if isinstance(made, PastGPT) and made.lm_head.weight is not made.wte.weight:
        return False
    lists = [list(module) for module in made.modules() if isinstance(module, nn.ModuleList)]
    return all(len({id(each) for each in listed}) == len(listed) for listed in lists)


def loss_right(case: Case, padded: bool) -> bool:
    name = twin_of(case[0])
    logits, loss = losses(case)[padded]()
    if name == "TeacherForced":
        target = tokens(3, T, seed=2)
        target = (hidden(target, keep_of(3, T)) if padded else target)[:, 1:]
        targets = target.masked_fill(target == 0, -100)
    else:
        targets = padded_targets(tokens(3, T)) if padded else targets_of(tokens(3, T))
    return logits.shape[:2] == targets.shape and same(loss, hand_loss(logits, targets), 1e-4)


def initial_loss(case: Case) -> bool:
    logits = caller(case)(tokens(16, 24))
    loss = F.cross_entropy(logits.flatten(0, 1), tokens(16, 24, seed=2).flatten())
    return abs(loss.item() - math.log(VOCAB)) < 1.0


def shapes(case: Case) -> bool:
    kind, call = case[0].kind, caller(case)
    for b, t in ((3, T), (3, T - 3), (1, T), (4, T + 3)):
        if kind == "model.encoder_decoder":
            if call(tokens(b, T), tokens(b, t)).shape[:2] != (b, t):
                return False
        elif (
            call(tokens(b, t)).shape[: 1 if twin_of(case[0]) == "TextClassifier" else 2]
            != (b, t)[: 1 if twin_of(case[0]) == "TextClassifier" else 2]
        ):
            return False
    return True


def cross_attention(case: Case) -> bool:
    """From its first place on a target reads the whole source, which may be of another length."""
    kind, call = case[0].kind, caller(case)
    if kind == "model.encoder_decoder":
        source = tokens(2, T)
        return all(
            not same(call(source, t)[0, 0], call(changed(source, 0, T - 1), t)[0, 0], 1e-6)
            for t in (tokens(2, T, seed=2), tokens(2, T - 3, seed=2))
        )
    x, memory = noise(2, T, D), noise(2, T + 3, D, seed=2)
    other = memory.clone()
    other[:, -1] += noise(D, seed=4)
    if kind == "part.multi_head":
        return not same(case[1](x, memory, memory)[:, 0], case[1](x, other, other)[:, 0])
    return not same(call(x, memory)[:, 0], call(x, other)[:, 0])


def mask(case: Case) -> bool:
    kind, call = case[0].kind, caller(case)
    if kind == "part.attention":
        return against_torch(case, masked=True)
    if kind == "model.encoder":
        ids = tokens(3, T)
        one, other = call(ids), call(changed(ids, 0, T - 1))
        return not same(one[0] if one.dim() == 2 else one[:, 0], other[0] if one.dim() == 2 else other[:, 0], 1e-6)
    if kind == "part.encoder_layer":
        x = noise(3, T, D)
        other = x.clone()
        other[:, -1] += noise(D, seed=4)
        return not same(call(x)[:, 0], call(other)[:, 0], 1e-6)
    if kind == "model.encoder_decoder":
        seen: list[Tensor] = []
        handle = case[1].transformer.encoder.layers[-1].register_forward_hook(lambda _, __, out: seen.append(out))
        source, target = tokens(3, T), tokens(3, T, seed=2)
        call(source, target)
        call(changed(source, 0, T - 1), target)
        handle.remove()
        return not same(seen[0][0, 0], seen[1][0, 0], 1e-6)
    x, triangular = noise(2, T, D), torch.ones(T, T, dtype=torch.bool).tril()
    other = x.clone()
    other[:, 6] += 1
    one, two = call(x, triangular), call(other, triangular)
    return same(one[:, :6], two[:, :6]) and not same(one[:, 6:], two[:, 6:])


def position_wise(case: Case) -> bool:
    """The feed-forward is no linear map."""
    feed_forward, x = case[1].mlp, noise(2, T, D)
    zero = feed_forward(torch.zeros_like(x))
    return not same(feed_forward(2 * x) - zero, 2 * (feed_forward(x) - zero), 1e-6)


MADE: dict[str, Callable[[Case], bool]] = {
    "causality": causality,
    "batch_mates": batch_mates,
    "padding": padding_unseen,
    "position": position,
    "cache": cache,
    "determinism": determinism,
    "scale": lambda case: against_torch(case, masked=False),
    "softmax_axis": softmax_axis,
    "gradient": gradient,
    "own_values": own_values,
    "heads": heads,
    "tied": tied,
    "label_shift": lambda case: loss_right(case, padded=False),
    "loss_padding": lambda case: loss_right(case, padded=True),
    "initial_loss": initial_loss,
    "shapes": shapes,
    "cross_attention": cross_attention,
    "mask": mask,
    "position_wise": position_wise,
    "schedule": lambda case: CHECKS["schedule"](case[0].kind, case[1]),
}

APPLIES = {
    "model.decoder": "causality batch_mates position determinism gradient own_values tied initial_loss shapes",
    "model.encoder": "padding batch_mates position determinism gradient tied shapes mask",
    "model.encoder_decoder": (
        "causality padding batch_mates position determinism gradient own_values tied shapes cross_attention"
    ),
    "part.attention": "determinism scale softmax_axis mask",
    "part.multi_head": "determinism softmax_axis own_values heads gradient tied mask",
    "part.position": "position determinism",
    "part.encoder_layer": "batch_mates padding determinism gradient tied mask",
    "part.decoder_layer": "causality padding batch_mates determinism gradient tied cross_attention",
    "part.schedule": "schedule",
}
MORE = {
    "LectureGPT": "label_shift loss_padding",
    "PastGPT": "cache",
    "RopeGPT": "label_shift loss_padding",
    "LastWordGPT": "label_shift loss_padding",
    "TutorialLM": "softmax_axis",
    "SegmentBert": "label_shift loss_padding",
    "TextClassifier": "softmax_axis",
    "ForumTranslator": "mask",
    "TeacherForced": "label_shift loss_padding",
    "AnnotatedMultiHead": "cross_attention",
    "VisionBlock": "position_wise",
}
LESS = {"VisionBlock": ("padding",)}  # it has no mask


def applies(record: Healthy | Planted, word: str) -> bool:
    twin = twin_of(record)
    if word in LESS.get(twin, ()):
        return False
    return word in APPLIES[record.kind].split() or word in MORE.get(twin, "").split()


@torch.no_grad()
def holds(case: Case, word: str) -> bool:
    try:
        return MADE[word](case)
    except (RuntimeError, IndexError, ZeroDivisionError):
        return False


HEALTHY_CASES = [
    pytest.param(record, word, id=f"{record.name}-{word}")
    for record in THIRD_HEALTHY
    for word in PROPERTIES
    if applies(record, word)
]
VISIBLE_CASES = [pytest.param(record, id=record.name) for record in THIRD if applies(record, record.property[0])]


def test_third_catalogue_is_in_order() -> None:
    names = [record.name for record in (*THIRD, *THIRD_HEALTHY, *FRESH, *FRESH_HEALTHY, *PLANTED, *HEALTHY)]
    assert [name for name, times in Counter(names).items() if times > 1] == []
    kinds = Counter(record.kind for record in THIRD)
    assert all(kinds[kind] >= 8 for kind in KINDS)
    assert sum(kinds[kind] for kind in KINDS if kind.startswith("model")) >= 45
    for record in THIRD:
        assert set(record.property) <= set(PROPERTIES)
        assert TWINS[record.twin].kind == record.kind


@pytest.mark.parametrize(("record", "word"), HEALTHY_CASES)
def test_third_healthy_has_the_property(record: Healthy, word: str) -> None:
    assert holds((record, build(record)), word)


@pytest.mark.parametrize("record", VISIBLE_CASES)
def test_third_planted_breaks_its_first_property(record: Planted) -> None:
    assert not holds((record, build(record)), record.property[0])


@pytest.mark.parametrize("record", THIRD, ids=lambda record: record.name)
def test_third_planted_differs_from_its_twin(record: Planted) -> None:
    bug, twin = (record, build(record)), (TWINS[record.twin], build(TWINS[record.twin]))
    if isinstance(bug[1], nn.Module) and record.shows != "initialisation":
        with_weights_of(bug[1], twin[1])
    if record.shows == "training":
        assert not differs(everything(bug), everything(twin))
        trained(bug)
        trained(twin)
    found = everything(bug)
    assert any(isinstance(part, Tensor) for part in found)
    assert differs(found, everything(twin))


@pytest.mark.parametrize("record", THIRD_HEALTHY, ids=lambda record: record.name)
def test_third_healthy_raises_nothing_and_differs_from_itself_nowhere(record: Healthy) -> None:
    one, other = everything((record, build(record))), everything((record, build(record)))
    assert all(isinstance(part, Tensor) and bool(part.isfinite().all()) for part in one)
    assert not differs(one, other)
