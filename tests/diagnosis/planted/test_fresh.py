"""The second collection of planted bugs: each is a bug, and its twin is healthy, by the direct checks of the first.

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

from .catalogue import FRESH, FRESH_HEALTHY, KINDS, PLANTED, PROPERTIES, Healthy, Planted
from .fresh_alibi import AlibiGPT
from .fresh_bert import LittleBert
from .fresh_llama import LittleLlama
from .fresh_multi_head import MultiQueryAttention
from .fresh_sentence_encoder import SentenceEncoder
from .fresh_t5_encoder import T5Encoder
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

TWINS = {record.name: record for record in FRESH_HEALTHY}
Found = list[Tensor | Exception]


def padding(keep: Tensor | None) -> Tensor | None:
    return None if keep is None else ~keep


def hidden(ids: Tensor, keep: Tensor | None) -> Tensor:
    """Token 0 under the padding."""
    return ids if keep is None else ids.masked_fill(~keep, 0)


def bart(model: nn.Module, source: Tensor, target: Tensor, keep: Tensor | None = None, _: Any = None) -> Tensor:
    return model(source, attention_mask=keep, decoder_input_ids=target)


def shifting(model: nn.Module, ids: Tensor, targets: Tensor | None = None) -> Any:
    """`targets` are shifted: the labels of a model that shifts begin one earlier."""
    if targets is None:
        return model(ids)
    return model(ids, torch.cat([ids[:, :1], targets[:, :-1]], dim=1))


CALLS: dict[str, Callable[..., Any]] = {
    "TimeFirstGPT": shifting,
    "LittleLlama": lambda model, ids: model(ids),
    "FunctionalGPT": lambda model, ids: model(ids),
    "LittleBert": lambda model, ids, keep=None: model(ids, None if keep is None else keep.long()),
    "SentenceEncoder": lambda model, ids, keep=None: model(hidden(ids, keep)),
    "EinsumTranslator": lambda model, s, t, ks=None, kt=None: model(hidden(s, ks), hidden(t, kt)),
    "LittleBart": bart,
    "TorchTranslator": lambda model, s, t, ks=None, kt=None: model(s, t, padding(ks), padding(kt)),
    "KerasMultiHead": lambda module, q, k, v, mask=None: module(q, v, k, mask),
    "ContextAttention": lambda module, x, mask=None: module(x, mask=mask),
    "FusedLayer": lambda layer, x, keep=None: layer(x, padding(keep)),
    "FusedDecoderLayer": lambda layer, x, memory, kx=None, km=None: layer(x, memory, padding(kx), padding(km)),
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


def called(record: Healthy | Planted) -> Any:
    made = build(record)
    if not isinstance(made, nn.Module):
        return made
    twin = record.twin if isinstance(record, Planted) else record.name
    if record.kind == "part.multi_head":
        return CalledWithThree(twin, made) if twin == "KerasMultiHead" else CalledWithMask(twin, made)
    return Called(twin, made)


def inner(made: Any) -> Any:
    return made.made if isinstance(made, Called) else made


# What differs --------------------------------------------------------------------------------------------------------


@torch.no_grad()
def attempt(call: Callable[[], Any]) -> Found:
    try:
        result = call()
    except Exception as error:
        return [error]
    return [part.clone() for part in (result if isinstance(result, tuple) else (result,)) if isinstance(part, Tensor)]


def chunks(model: LittleLlama, ids: Tensor, sizes: list[int]) -> Tensor:
    past, parts = None, []
    for chunk in ids.split(sizes, dim=1):
        logits, past = model(chunk, past, use_cache=True)
        parts.append(logits)
    return torch.cat(parts, dim=1)


def more(kind: str, made: Any) -> Found:
    """What the probes of `test_planted` do not ask for."""
    model = inner(made)
    if kind == "model.decoder":
        found = attempt(lambda: made(tokens(3, T - 3)))
        if isinstance(model, LittleLlama):
            found += attempt(lambda: chunks(model, tokens(3, T), [4, 1, 3, 2]))
        return found
    if isinstance(model, LittleBert):
        ids, labels = tokens(3, T), padded_targets(tokens(3, T))
        found = attempt(lambda: model(ids, token_type_ids=(ids > 9).long()))
        return found + attempt(lambda: model(ids, labels=labels)) + attempt(lambda: model(ids, labels=ids))
    if isinstance(model, SentenceEncoder):
        return attempt(lambda: model(tokens(1, T)))
    if kind == "model.encoder_decoder" and made.call is bart:
        labels = padded_targets(tokens(3, T))
        found = attempt(lambda: model(tokens(3, T), labels=labels))
        return found + attempt(lambda: model(tokens(3, T), labels=labels.clamp(min=5)))
    if kind == "part.attention":
        q, k, v = noise(3, 2, T, 16), noise(3, 2, T + 3, 16, seed=2), noise(3, 2, T + 3, 16, seed=3)
        mask = keep_of(3, T + 3)[:, None, None, :].expand(3, 1, T, T + 3).clone()
        return attempt(lambda: made(q, k, v, mask)) + attempt(lambda: made(q, k, v, mask))
    if kind == "part.multi_head":
        x, source = noise(3, T, D), noise(3, T + 2, D, seed=2)
        keep = torch.ones(3, 1, T, T, dtype=torch.bool)
        keep[0, :, :, 1:3] = False
        found = attempt(lambda: made(*([x] * (3 if isinstance(made, CalledWithThree) else 1)), keep))
        if isinstance(model, MultiQueryAttention):
            return found
        return found + attempt(lambda: model(x, source)) + attempt(lambda: model(x, x.flip(0)))
    if kind == "part.decoder_layer":
        x = noise(3, T, D)
        return attempt(lambda: made(x, noise(3, T + 3, D, seed=2)))
    return []


def positions_probe(made: Any) -> Found:
    if not isinstance(made, nn.Module):
        return attempt(made)
    model = inner(made)
    if "offset" in model.forward.__annotations__:
        return attempt(lambda: model(noise(3, 2, T, 16))) + attempt(lambda: model(noise(3, 2, T, 16), 5))
    return attempt(lambda: model(noise(3, T, D)))


def everything(kind: str, made: Any) -> Found:
    if kind == "part.position":
        return positions_probe(made)
    return probe(kind, made) + (more(kind, made) if isinstance(made, nn.Module) or kind == "part.attention" else [])


# Checks of their own -------------------------------------------------------------------------------------------------


def place_table(T: int, D: int) -> Tensor:
    angle = torch.arange(T)[:, None] / 10000 ** (torch.arange(0, D, 2) / D)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)


@torch.no_grad()
def order_seen(kind: str, made: Any) -> bool:
    model = inner(made)
    if kind == "part.position":
        if not isinstance(made, nn.Module):
            table = made()
            if table.dim() == 2:
                return same(table, place_table(*table.shape), 1e-4)
            i, j = torch.meshgrid(torch.arange(table.size(1)), torch.arange(table.size(1)), indexing="ij")
            return bool(((table < 0) == (i != j)).all())
        if "offset" in model.forward.__annotations__:
            x, y = noise(1, 1, 1, 16).expand(1, 2, T, 16), noise(1, 1, 1, 16, seed=2).expand(1, 2, T, 16)
            scores = model(x) @ model(y).mT
            by_distance = same(scores[..., 0, 3], scores[..., 4, 7], 1e-4)
            return (
                by_distance
                and not same(scores[..., 0, 0], scores[..., 0, 3])
                and same(model(x[:, :, 5:], 5), model(x)[:, :, 5:])
            )
        try:
            rows = model(torch.zeros(2, T, D))
        except RuntimeError:
            return False
        return same(rows[0], rows[1]) and not same(rows[0, 0], rows[0, 1])
    if isinstance(model, (LittleLlama, AlibiGPT, T5Encoder)):
        # relative: seen in the order of others, and, for one word given again and again, in nothing
        ids, order = tokens(2, T), torch.tensor([*range(T - 2, -1, -1), T - 1])
        if isinstance(model, T5Encoder):
            keep = torch.ones(2, T, dtype=torch.bool)
            order = torch.tensor([0, *range(T - 1, 0, -1)])
            block = model.blocks[0]  # one layer: in the next one, words have heard each other already
            x, bias = model.embed_tokens(ids), model.bias(T, keep)
            return not same(block(x, bias)[:, 0], block(x[:, order], bias)[:, 0])
        if isinstance(model, LittleLlama):
            x, alike = noise(2, T, D), model(torch.full((2, T), 7))
            one = model.layers[0](x, None)[0][:, -1]
            return same(alike[:, 0], alike[:, 5]) and not same(one, model.layers[0](x[:, order], None)[0][:, -1])
        x, block = noise(2, T, D), model.blocks[0][1]
        near = block.bias(T)
        return not same(block(x)[:, -1], block(x[:, order])[:, -1]) and bool((near[:, -1, 0] < near[:, -1, -1]).all())
    return CHECKS["position"](kind, made)


@torch.no_grad()
def cached(kind: str, made: Any) -> bool:
    model = inner(made)
    if not isinstance(model, LittleLlama):
        return True
    ids = tokens(2, T)
    try:
        return all(same(model(ids), chunks(model, ids, sizes)) for sizes in ([1] * T, [5, 1, 1, 1, 1, 1], [4, 3, 3]))
    except RuntimeError:
        return False


def learns(kind: str, made: Any) -> bool:
    if not isinstance(made, nn.Module):
        return True
    for module in made.modules():
        if any(isinstance(kept, (Tensor, list)) and kept != [] for kept in vars(module).values()):
            return False
        if any(isinstance(child, nn.Embedding) and not child.weight.requires_grad for child in module.children()):
            return False
    if kind == "part.position":
        return True
    return CHECKS["gradient"](kind, made)


def tied(kind: str, made: Any) -> bool:
    model = inner(made)
    if isinstance(model, LittleLlama):
        return model.lm_head.weight is model.embed_tokens.weight
    if isinstance(model, AlibiGPT):
        ids = torch.full((1, 4), 7)
        model(ids, ids)[1].backward()
        return bool(model.token_emb.weight.grad[8].any())  # a word that was not read learns from the head
    for listed in (module for module in made.modules() if isinstance(module, nn.ModuleList)):
        ids = [id(p) for layer in listed for p in layer.parameters()]
        if len(set(ids)) != len(ids):
            return False
    return True


@torch.no_grad()
def padding_unseen(kind: str, made: Any) -> bool:
    if kind == "model.encoder_decoder":
        source, target, keep = tokens(3, T), tokens(3, T - 3, seed=2), keep_of(3, T)
        try:
            one, other = made(source, target, keep), made(changed(source, 0, T - 1), target, keep)
        except (RuntimeError, AssertionError):
            return False
        if not same(one, other) or not same(one[:1], made(source[:1, :-3], target[:1])):
            return False
        return made.call is bart or CHECKS["padding"](kind, made)  # that one has no mask for the target
    if kind != "model.encoder":
        return CHECKS["padding"](kind, made)
    ids, keep = tokens(3, T), keep_of(3, T).roll(1, 0)
    one, other = made(ids, keep), made(changed(ids, 1, T - 1), keep)
    alone = made(ids[1:2, :-3], keep[1:2, :-3])
    if one.dim() == 2:
        return same(one, other) and same(one[1:2], alone)
    return same(one[keep], other[keep]) and same(one[1:2, :-3], alone)


@torch.no_grad()
def loss_right(kind: str, made: Any, padded: bool) -> bool:
    ids = tokens(3, T)
    targets = padded_targets(ids) if padded else targets_of(ids)
    targets[:, -1] = -100  # a model that shifts has no label there
    model = inner(made)
    try:
        if kind == "model.decoder":
            if made.call in (CALLS["LittleLlama"], CALLS["FunctionalGPT"]):
                return True
            logits, loss = made(ids, targets)
        elif isinstance(model, LittleBert):
            loss, logits = model(ids, labels=targets)
        elif kind == "model.encoder_decoder" and made.call is bart:
            read = torch.cat([torch.full((3, 1), 2), targets[:, :-1]], 1).masked_fill_(
                torch.cat([torch.zeros(3, 1), targets[:, :-1]], 1) == -100, 1
            )
            loss, logits = model(ids, labels=targets)
            if not same(logits, model(ids, decoder_input_ids=read)):
                return False
        else:
            return CHECKS["label_shift"](kind, made)
    except IndexError:
        return False
    return same(loss, hand_loss(logits, targets), 1e-4)


@torch.no_grad()
def shaped(kind: str, made: Any) -> bool:
    """Another length, and a batch of one."""
    try:
        if kind == "model.decoder":
            return all(sized(made(tokens(b, t)), b, t) for b, t in ((3, T), (3, T - 3), (1, T), (4, T + 3)))
        if kind == "model.encoder":
            return all(made(tokens(b, t)).shape[0] == b for b, t in ((3, T), (3, T - 3), (1, T), (4, T + 3)))
        if kind == "model.encoder_decoder":
            return all(made(tokens(b, T), tokens(b, t)).shape[:2] == (b, t) for b, t in ((3, T), (3, T - 3), (1, T)))
        return inner(made)(noise(3, T, D)).shape == (3, T, D)
    except RuntimeError:
        return False


def sized(result: Any, b: int, t: int) -> bool:
    logits = result[0] if isinstance(result, tuple) else result
    return logits.shape[:2] == (b, t)


@torch.no_grad()
def both_sides(kind: str, made: Any) -> bool:
    """In an encoder the first word hears the last; elsewhere masks hold."""
    if kind == "model.encoder":
        ids = tokens(3, T)
        return not same(made(ids)[:, 0], made(changed(ids, 0, T - 1))[:, 0], 1e-6)
    if kind == "part.encoder_layer":
        x = noise(3, T, D)
        other = x.clone()
        other[:, -1] += noise(D, seed=4)
        return not same(made(x)[:, 0], made(other)[:, 0], 1e-6)
    if kind == "model.encoder_decoder":
        seen: list[Tensor] = []
        model = inner(made)
        encoder = model.encoder if made.call is CALLS["TorchTranslator"] else None
        layers = encoder.layers if encoder is not None else model.encoder_layers
        handle = layers[-1].register_forward_hook(lambda _, __, out: seen.append(out))
        source, target = tokens(3, T), tokens(3, T, seed=2)
        made(source, target)
        made(changed(source, 0, T - 1), target)
        handle.remove()
        one, two = (out if encoder is None else out.transpose(0, 1) for out in seen)
        return not same(one[0, 0], two[0, 0], 1e-6)
    if kind == "part.multi_head":
        x, keep = noise(3, T, D), torch.ones(3, 1, T, T, dtype=torch.bool)
        keep[:, :, :, 1] = False
        other = x.clone()
        other[:, 1] += 1
        times = 3 if isinstance(made, CalledWithThree) else 1
        one, two = made(*[x] * times, keep), made(*[other] * times, keep)
        if not same(one[:, 2:], two[:, 2:]):
            return False
    if kind == "part.attention":
        q, k, v = noise(3, 2, T, 16), noise(3, 2, T, 16, seed=2), noise(3, 2, T, 16, seed=3)
        out = made(q, k, v)
        if not same(out[0] if isinstance(out, tuple) else out, F.scaled_dot_product_attention(q, k, v)):
            return False
    return CHECKS["mask"](kind, made)


@torch.no_grad()
def repeats(kind: str, made: Any) -> bool:
    if kind == "part.position":
        return True if not isinstance(made, nn.Module) else not differs(positions_probe(made), positions_probe(made))
    if kind == "part.attention":
        q, k, v = noise(3, 2, T, 16), noise(3, 2, T, 16, seed=2), noise(3, 2, T, 16, seed=3)
        mask = torch.ones(T, T, dtype=torch.bool).tril()
        before = mask.clone()
        one, two = made(q, k, v, mask), made(q, k, v, mask)
        return torch.equal(mask, before) and not differs(attempt(lambda: one), attempt(lambda: two))
    if kind == "part.decoder_layer":
        x, memory, other = noise(3, T, D), noise(3, T, D, seed=2), noise(3, T, D, seed=3)
        one = made(x, memory)
        made(x, other)
        return same(one, made(x, memory)) and not same(one, made(x, other))
    ids = tokens(3, T)
    if kind == "model.encoder":
        before = ids.clone()
        return same(made(ids), made(ids)) and torch.equal(ids, before)
    return CHECKS["determinism"](kind, made)


@torch.no_grad()
def crosses(kind: str, made: Any) -> bool:
    if kind == "part.decoder_layer":
        x, memory = noise(2, T, D), noise(2, T + 3, D, seed=2)
        longer = memory.clone()
        longer[:, -1] += noise(D, seed=4)
        one, other = noise(1, 1, D, seed=5).expand(2, T, D), noise(1, 1, D, seed=6).expand(2, T, D)
        try:  # the end of a longer memory is read, and so is what a memory says that is the same everywhere
            if same(made(x, memory), made(x, longer)) or same(made(x, one), made(x, other)):
                return False
        except RuntimeError:
            return False
    if made.call is bart:
        seen: list[int] = []
        attention = inner(made).decoder_layers[0].encoder_attn
        handle = attention.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[1].size(1)))
        made(tokens(2, T), tokens(2, T - 3))
        handle.remove()
        if seen != [T]:
            return False
    if kind != "part.multi_head":
        return CHECKS["cross_attention"](kind, made)
    model, x, memory = inner(made), noise(2, T, D), noise(2, T + 2, D, seed=2)
    try:
        return not same(model(x, memory)[:, 0], model(x, memory + noise(2, T + 2, D, seed=3))[:, 0])
    except RuntimeError:
        return False


@torch.no_grad()
def future_unseen(kind: str, made: Any) -> bool:
    if kind == "part.decoder_layer":
        x, memory, keep = noise(3, T, D), noise(3, T, D, seed=2), torch.ones(3, T, dtype=torch.bool)
        other = x.clone()
        other[0, 6] += noise(D, seed=4)
        if not same(made(x, memory, keep)[:, :6], made(other, memory, keep)[:, :6]):
            return False
    return CHECKS["causality"](kind, made)


def softmax_right(kind: str, made: Any) -> bool:
    if kind == "part.attention":
        q, k, v = noise(3, 2, T, 16), noise(3, 2, T, 16, seed=2), noise(3, 2, T, 16, seed=3)
        out = made(q, k, v)
        if not same(out[0] if isinstance(out, tuple) else out, F.scaled_dot_product_attention(q, k, v)):
            return False
    return CHECKS["softmax_axis"](kind, made)


OWN = {
    "position": order_seen,
    "cache": cached,
    "gradient": learns,
    "tied": tied,
    "padding": padding_unseen,
    "label_shift": lambda kind, made: loss_right(kind, made, padded=False),
    "loss_padding": lambda kind, made: loss_right(kind, made, padded=True),
    "accumulation": lambda kind, made: loss_right(kind, made, padded=True),
    "shapes": shaped,
    "mask": both_sides,
    "determinism": repeats,
    "cross_attention": crosses,
    "causality": future_unseen,
    "softmax_axis": softmax_right,
}

APPLIES = {
    "model.decoder": (
        "causality batch_mates loss_padding position cache determinism gradient tied label_shift accumulation "
        "initial_loss memorise shapes"
    ),
    "model.encoder": "padding position batch_mates determinism gradient tied shapes label_shift loss_padding",
    "model.encoder_decoder": (
        "causality padding batch_mates determinism gradient tied label_shift initial_loss memorise cross_attention "
        "loss_padding shapes"
    ),
    "part.attention": "determinism scale softmax_axis own_values mask",
    "part.multi_head": "determinism softmax_axis gradient mask",
    "part.position": "position determinism gradient",
    "part.encoder_layer": "padding batch_mates determinism gradient mask",
    "part.decoder_layer": "causality padding batch_mates determinism gradient cross_attention",
    "part.schedule": "schedule",
}


def applies(record: Healthy | Planted, word: str) -> bool:
    twin = record.twin if isinstance(record, Planted) else record.name
    if twin == "SentenceEncoder":
        return word in ("padding", "batch_mates", "determinism", "gradient", "tied", "shapes")
    if twin in ("ContextAttention", "KerasMultiHead") and word == "cross_attention":
        return True
    if word == "label_shift" and record.kind == "model.encoder":
        return twin == "LittleBert"
    if word == "loss_padding":
        return twin in ("TimeFirstGPT", "AlibiGPT", "LittleBert", "LittleBart")
    if word == "position" and record.kind == "model.encoder_decoder":
        return True
    return word in APPLIES[record.kind].split()


def holds(record: Healthy | Planted, word: str, made: Any) -> bool:
    return OWN.get(word, CHECKS.get(word))(record.kind, made)


HEALTHY_CASES = [
    pytest.param(record, word, id=f"{record.name}-{word}")
    for record in FRESH_HEALTHY
    for word in PROPERTIES
    if applies(record, word)
]
PLANTED_CASES = [pytest.param(record, id=record.name) for record in FRESH]
VISIBLE_CASES = [pytest.param(record, id=record.name) for record in FRESH if applies(record, record.property[0])]


def test_fresh_catalogue_is_in_order() -> None:
    names = [record.name for record in (*FRESH, *FRESH_HEALTHY, *PLANTED)]
    assert len(set(names)) == len(names)
    for kind in KINDS:
        assert sum(record.kind == kind for record in FRESH) >= 10
    for record in FRESH:
        assert set(record.property) <= set(PROPERTIES)
        assert TWINS[record.twin].kind == record.kind


@pytest.mark.parametrize(("record", "word"), HEALTHY_CASES)
def test_fresh_healthy_has_the_property(record: Healthy, word: str) -> None:
    assert holds(record, word, called(record))


@pytest.mark.parametrize("record", VISIBLE_CASES)
def test_fresh_planted_breaks_its_first_property(record: Planted) -> None:
    assert not holds(record, record.property[0], called(record))


@pytest.mark.parametrize("record", PLANTED_CASES)
def test_fresh_planted_differs_from_its_twin(record: Planted) -> None:
    bug, twin = called(record), called(TWINS[record.twin])
    if record.shows == "raises":
        found = everything(record.kind, bug)
        healthy = everything(record.kind, twin)
        assert sum(isinstance(part, Exception) for part in found) > sum(isinstance(part, Exception) for part in healthy)
        return
    if isinstance(bug, nn.Module) and record.shows != "initialisation":
        with_weights_of(bug, twin)
    steps: tuple[list[Tensor], list[Tensor]] = [], []
    torch.manual_seed(0)
    if record.shows == "training":
        if record.name != "FrozenPretrained":  # the table has another name and its numbers another place
            assert not differs(everything(record.kind, bug), everything(record.kind, twin))
        if record.kind == "part.position":
            assert any(p.requires_grad for p in twin.parameters())
            assert not any(p.requires_grad for p in bug.parameters())
            return
        if record.twin == "AlibiGPT":
            for made in (bug, twin):
                torch.optim.SGD(made.parameters(), lr=1.0).zero_grad()
                made(tokens(3, T), targets_of(tokens(3, T)))[1].backward()
                torch.optim.SGD(made.parameters(), lr=1.0).step()
        else:
            for _ in range(30):
                steps = train_a_step(record.kind, bug), train_a_step(record.kind, twin)
    found, healthy = [*everything(record.kind, bug), *steps[0]], [*everything(record.kind, twin), *steps[1]]
    assert any(isinstance(part, Tensor) for part in found)
    assert differs(found, healthy)


@pytest.mark.parametrize("record", FRESH_HEALTHY, ids=lambda record: record.name)
def test_fresh_healthy_differs_from_itself_nowhere(record: Healthy) -> None:
    one, other = everything(record.kind, called(record)), everything(record.kind, called(record))
    assert not any(isinstance(part, Exception) for part in one) or record.kind == "model.decoder"
    assert not differs(one, other)
    assert math.isfinite(sum(float(part.sum()) for part in one if isinstance(part, Tensor)))
