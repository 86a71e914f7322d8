"""The planted bugs are bugs and their healthy twins are healthy, by direct checks and without glassformer's own."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .annotated_seq2seq import AnnotatedSeq2Seq
from .attention_functions import scaled_dot_product
from .cached_gpt import CachedGPT
from .catalogue import HEALTHY, KINDS, PLANTED, PROPERTIES, Healthy, Planted
from .encoder_layers import TorchLayer
from .multi_head import HeadByHead
from .nano_gpt import NanoGPT
from .positions import LearnedPositions, PositionalEncoding, Rotary
from .schedules import get_lr_jump

VOCAB, D, T = 32, 32, 10
TWINS = {record.name: record for record in HEALTHY}


def build(record: Healthy | Planted) -> Any:
    torch.manual_seed(0)
    made = record.factory()
    return made.eval() if isinstance(made, nn.Module) else made


def tokens(*shape: int, seed: int = 1) -> Tensor:
    return torch.randint(1, VOCAB, shape, generator=torch.Generator().manual_seed(seed))


def noise(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def first(result: Any) -> Tensor:
    return result[0] if isinstance(result, tuple) else result


def changed(ids: Tensor, row: int, place: int) -> Tensor:
    other = ids.clone()
    other[row, place] = other[row, place] % (VOCAB - 1) + 1
    return other


def same(a: Tensor, b: Tensor, tolerance: float = 1e-5) -> bool:
    """Equal up to rounding; NaN is equal to nothing."""
    return a.shape == b.shape and bool(torch.allclose(a, b, atol=tolerance, rtol=1e-4))


def targets_of(ids: Tensor) -> Tensor:
    return torch.cat([ids[:, 1:], tokens(ids.size(0), 1, seed=9)], dim=1)


def padded_targets(ids: Tensor) -> Tensor:
    targets = targets_of(ids)
    targets[0, 3:] = -100
    return targets


# One way to call each kind -------------------------------------------------------------------------------------------


def call_multi_head(module: nn.Module, x: Tensor, mask: Tensor | None = None) -> Tensor:
    """Self-attention, whether the module takes x once or three times."""
    if len(inspect.signature(module.forward).parameters) == 4:
        return first(module(x, x, x, mask))
    return first(module(x, mask))


def output(kind: str, made: Any) -> Callable[[], Tensor]:
    """A call with plain inputs whose result depends on everything the part has."""
    if kind == "model.decoder":
        ids = tokens(3, T)
        return lambda: first(made(ids.clone()))
    if kind == "model.encoder":
        return lambda: made(tokens(3, T), keep_of(3, T))
    if kind == "model.encoder_decoder":
        return lambda: made(tokens(3, T), tokens(3, T, seed=2), keep_of(3, T), torch.ones(3, T, dtype=torch.bool))
    if kind == "part.multi_head":
        return lambda: call_multi_head(made, noise(3, T, D))
    if kind == "part.position" and isinstance(made, nn.Module):
        return lambda: made(noise(3, 2, T, 16) if isinstance(made, Rotary) else noise(3, T, D))
    if kind == "part.encoder_layer":
        return lambda: made(noise(3, T, D), keep_of(3, T))
    if kind == "part.decoder_layer":
        return lambda: made(noise(3, T, D), noise(3, T, D, seed=2), None, keep_of(3, T))
    raise AssertionError(kind)


def keep_of(batch: int, length: int) -> Tensor:
    """The first row ends three tokens early."""
    keep = torch.ones(batch, length, dtype=torch.bool)
    keep[0, -3:] = False
    return keep


def probe(kind: str, made: Any) -> list[Tensor | Exception]:
    """What a thing gives for a few inputs, the inputs afterwards, and what it raises."""
    found: list[Tensor | Exception] = []

    def take(call: Callable[..., Any], *inputs: Any) -> None:
        given = [x.clone() if isinstance(x, Tensor) else x for x in inputs]
        try:
            with torch.no_grad():
                result = call(*given)
        except Exception as error:
            found.append(error)
            return
        parts = result if isinstance(result, tuple) else (result,)
        found.extend(part.clone() for part in parts if isinstance(part, Tensor))
        found.extend(x for x in given if isinstance(x, Tensor) and x.is_floating_point())

    keep = keep_of(3, T)
    if kind == "model.decoder":
        ids = tokens(3, T)
        ids[1, 4] = 0
        take(made, ids)
        if isinstance(made, CachedGPT):
            take(lambda ids: in_chunks(made, ids, [4, 1, 3, 2]), ids)
        else:
            take(made, ids, targets_of(ids))
            take(made, ids, padded_targets(ids))
    elif kind == "model.encoder":
        take(made, tokens(3, T), torch.ones_like(keep))
        take(made, tokens(3, T), keep)
    elif kind == "model.encoder_decoder":
        take(made, tokens(3, T), tokens(3, T, seed=2))
        take(made, tokens(3, T), tokens(3, T, seed=2), keep, keep.flip(0))
        take(made, tokens(3, T), tokens(3, T, seed=2), keep, torch.ones_like(keep))
        if isinstance(made, AnnotatedSeq2Seq):
            take(made, tokens(3, T), tokens(3, T, seed=2), keep, keep.flip(1))
        take(made, tokens(3, T), tokens(3, T - 3, seed=2), keep)
    elif kind == "part.attention":
        q, k, v = (noise(3, 2, T, 16, seed=seed) for seed in (1, 2, 3))
        take(made, q, k, v)
        take(made, q, k, v, torch.ones(T, T, dtype=torch.bool).tril())
        take(made, q, k, v, keep[:, None, None, :])
    elif kind == "part.multi_head":
        take(lambda x: call_multi_head(made, x), noise(3, T, D))
        take(lambda x: call_multi_head(made, x, torch.ones(T, T, dtype=torch.bool).tril()), noise(3, T, D))
        if len(inspect.signature(made.forward).parameters) == 4:
            take(made, noise(3, T, D), noise(3, T, D, seed=2), noise(3, T, D, seed=3))
    elif kind == "part.position":
        if not isinstance(made, nn.Module):
            take(made)
        else:
            take(made, noise(3, 2, T, 16) if isinstance(made, Rotary) else noise(3, T, D))
    elif kind == "part.encoder_layer":
        take(made, noise(3, T, D))
        take(made, noise(3, T, D), keep)
    elif kind == "part.decoder_layer":
        x, memory = noise(3, T, D), noise(3, T, D, seed=2)
        take(made, x, memory)
        take(made, x, memory, keep, keep.flip(0))
        if not hasattr(made, "layer"):
            take(made, x, memory, keep.flip(1), None)
        take(made, x, noise(3, T - 3, D, seed=2))
    elif kind == "part.schedule":
        for step in range(0, 3000, 7):
            take(lambda step: torch.tensor(made(step)), step)
    return found


def differs(a: list[Tensor | Exception], b: list[Tensor | Exception]) -> bool:
    """Somewhere both give numbers, and other numbers; or one gives one tensor more."""
    if any(isinstance(found, Exception) for found in a + b):
        a, b = ([x for x in found if isinstance(x, Tensor)] for found in (a, b))
        return len(a) != len(b) or any(not same(x, y, 1e-4) for x, y in zip(a, b, strict=True))
    return len(a) != len(b) or any(not same(x, y, 1e-4) for x, y in zip(a, b, strict=True))


def with_weights_of(made: nn.Module, twin: nn.Module) -> nn.Module:
    """As many of the twin's weights as there are places for."""
    places = made.state_dict()
    weights = {name: w for name, w in twin.state_dict().items() if name in places and places[name].shape == w.shape}
    made.load_state_dict(weights, strict=False)
    return made


def train_a_step(kind: str, made: nn.Module) -> list[Tensor]:
    """One step of gradient descent on something arbitrary, dropout off; the gradient at the memory, if there is one."""
    inputs: list[Tensor] = []
    if kind == "part.decoder_layer":
        inputs = [noise(3, T, D, seed=2).requires_grad_()]
        result = made(noise(3, T, D), *inputs)
    else:
        result = output(kind, made)()
    if result.requires_grad:
        (result * noise(*result.shape, seed=5)).mean().backward()
        torch.optim.SGD([*made.parameters(), *inputs], lr=0.05).step()
    return [torch.zeros_like(x) if x.grad is None else 100 * x.grad for x in inputs]


# The properties, checked directly ------------------------------------------------------------------------------------


def in_chunks(model: nn.Module, ids: Tensor, sizes: list[int]) -> Tensor:
    cache, parts = None, []
    for chunk in ids.split(sizes, dim=1):
        logits, cache = model(chunk, cache)
        parts.append(logits)
    return torch.cat(parts, dim=1)


@torch.no_grad()
def causal(kind: str, made: Any) -> bool:
    """A change at place 6 is seen from there on, and not before."""
    if kind == "part.decoder_layer":
        x, memory = noise(3, T, D), noise(3, T, D, seed=2)
        other = x.clone()
        other[0, 6] += noise(D, seed=4)
        return same(made(x, memory)[:, :6], made(other, memory)[:, :6])
    ids = tokens(3, T)
    if kind == "model.decoder":
        return same(first(made(ids))[:, :6], first(made(changed(ids, 0, 6)))[:, :6])
    source = tokens(3, T, seed=2)
    for keep in (None, torch.ones(3, T, dtype=torch.bool)):
        one, other = made(source, ids, None, keep), made(source, changed(ids, 0, 6), None, keep)
        if not same(one[:, :6], other[:, :6]):
            return False
    return True


@torch.no_grad()
def blind_to_padding(kind: str, made: Any) -> bool:
    """What stands under padding does not reach a real token; nor does it matter to an encoder that it is there."""
    keep = keep_of(3, T)
    if kind == "model.encoder":
        ids = tokens(3, T)
        one, other = made(ids, keep), made(changed(ids, 0, T - 1), keep)
    elif kind == "part.encoder_layer":
        x = noise(3, T, D)
        one, other = made(x, keep), made(x + (~keep).unsqueeze(-1) * noise(D, seed=4), keep)
    elif kind == "part.decoder_layer":
        x, memory = noise(3, T, D), noise(3, T, D, seed=2)
        moved = memory + (~keep).unsqueeze(-1) * noise(D, seed=4)
        if not same(made(x, memory, None, keep), made(x, moved, None, keep)):
            return False
        keep = torch.ones(3, T, dtype=torch.bool)
        keep[0, 1] = False
        one, other = made(x, memory, keep), made(x + (~keep).unsqueeze(-1) * noise(D, seed=4), memory, keep)
    else:
        source, ids, everything = tokens(3, T), tokens(3, T, seed=2), torch.ones_like(keep)
        if not same(made(source, ids, keep, everything), made(changed(source, 0, T - 1), ids, keep, everything)):
            return False
        keep = torch.ones(3, T, dtype=torch.bool)
        keep[0, 1] = False
        one, other = made(source, ids, None, keep), made(source, changed(ids, 0, 1), None, keep)
    if kind in ("model.encoder", "part.encoder_layer"):
        whole = ids if kind == "model.encoder" else x
        alone = made(whole[:1, :-3], torch.ones(1, T - 3, dtype=torch.bool))
        if not same(one[:1, :-3], alone):
            return False
    return same(one[keep], other[keep])


@torch.no_grad()
def alone_as_together(kind: str, made: Any) -> bool:
    """A row gives the same by itself."""
    ids = tokens(3, T)
    if kind == "model.decoder":
        return same(first(made(ids))[1:2], first(made(ids[1:2])))
    if kind == "model.encoder":
        keep = torch.ones(3, T, dtype=torch.bool)
        return same(made(ids, keep)[1:2], made(ids[1:2], keep[:1]))
    if kind == "model.encoder_decoder":
        return same(made(ids, ids)[1:2], made(ids[1:2], ids[1:2]))
    x = noise(3, T, D)
    if kind == "part.decoder_layer":
        return same(made(x, x.flip(0))[1:2], made(x[1:2], x.flip(0)[1:2]))
    return same(made(x)[1:2], made(x[1:2]))


@torch.no_grad()
def sees_order(kind: str, made: Any) -> bool:
    """The same token at two places is not the same thing, and the row of the batch does not matter."""
    if kind == "part.position":
        return positions_right(made)
    ids = torch.full((2, T), 7)
    if isinstance(made, CachedGPT):  # relative: shown by one layer, whose last word hears the others in any order
        x, order = noise(2, T, D), torch.tensor([*range(T - 2, -1, -1), T - 1])
        layer = made.layers[0]
        return not same(layer(x, made.freqs)[0][:, -1], layer(x[:, order], made.freqs)[0][:, -1])
    if kind == "model.decoder":
        logits = first(made(ids))
        return not same(logits[:, 0], logits[:, 5], 1e-6) and same(logits[0], logits[1])
    if kind == "model.encoder":
        states = made(ids, torch.ones(2, T, dtype=torch.bool))
        return not same(states[:, 0], states[:, 5]) and same(states[0], states[1])
    source, target = tokens(2, T), tokens(2, T, seed=2)
    turned = source.flip(1)
    one = made(source, ids)
    if same(one[:, 1], one[:, 5]):
        return False
    return not same(made(source, target), made(turned, target))


def positions_right(made: Any) -> bool:
    """The formula for sines; distance and nothing else for rotations; a row for each place for what is learned."""
    if isinstance(made, Rotary):
        x = noise(1, 1, 1, 16).expand(1, 2, T, 16)
        y = noise(1, 1, 1, 16, seed=2).expand(1, 2, T, 16)
        scores = made(x) @ made(y).mT  # all queries and all keys are the same but for their places
        by_distance = all(
            same(scores.diagonal(k, -2, -1), scores.diagonal(k, -2, -1)[..., :1].expand(1, 2, T - abs(k)), 1e-4)
            for k in range(-5, 6)
        )
        turned = (made(x)[0, 0, 1] - x[0, 0, 1]).abs() > 0
        return by_distance and not same(scores[..., 0, 0], scores[..., 0, 3]) and bool(turned.all())
    if isinstance(made, LearnedPositions):
        rows = made(torch.zeros(2, T, D))
        return same(rows[0], rows[1]) and not same(rows[0, 0], rows[0, 1])
    if isinstance(made, PositionalEncoding):
        x = noise(2, T, D)
        table = made(x.clone()) - x
        if not same(table[0], table[1]):
            return False
        table = table[0]
    else:
        table = made(T, D).reshape(T, D)
    p, i = torch.arange(T, dtype=torch.float64)[:, None], torch.arange(0, D, 2, dtype=torch.float64)
    angle = p / 10000 ** (i / D)
    return same(table, torch.stack([angle.sin(), angle.cos()], -1).flatten(1).float(), 1e-4)


@torch.no_grad()
def cached_as_full(kind: str, made: Any) -> bool:
    if not isinstance(made, CachedGPT):
        return True
    ids = tokens(2, T)
    full = made(ids)[0]
    return all(same(full, in_chunks(made, ids, sizes)) for sizes in ([1] * T, [5, 1, 1, 1, 1, 1], [4, 3, 3]))


@torch.no_grad()
def repeatable(kind: str, made: Any) -> bool:
    """Twice the same, and what was given is as it was."""
    if kind == "part.attention":
        q, k, v = (noise(3, 2, T, 16, seed=seed) for seed in (1, 2, 3))
        before = q.clone()
        return same(first(made(q, k, v)), first(made(before, k, v))) and same(q, noise(3, 2, T, 16))
    if kind == "model.decoder":
        ids = tokens(3, T)
        ids[0, 3] = 0
        before = ids.clone()
        return same(first(made(ids)), first(made(ids))) and torch.equal(ids, before)
    if kind == "part.position" and not isinstance(made, nn.Module):
        return same(made(), made())
    if kind in ("part.position", "part.encoder_layer"):
        x = noise(3, T, D) if not isinstance(made, Rotary) else noise(3, 2, T, 16)
        before = x.clone()
        return same(made(x), made(before)) and same(x, noise(*x.shape))
    return same(output(kind, made)(), output(kind, made)())


def scaled(kind: str, made: Any) -> bool:
    if kind != "part.attention":
        return True
    q, k, v = noise(3, 4, T, 16), noise(3, 4, T + 2, 16, seed=2), noise(3, 4, T + 2, 16, seed=3)
    return same(first(made(q, k, v)), scaled_dot_product(q, k, v))


def rows_sum_to_one(kind: str, made: Any) -> bool:
    """A weighted mean of equal values is that value."""
    mask = torch.ones(T, T, dtype=torch.bool).tril()
    if kind == "part.attention":
        q, k, v = noise(3, 2, T, 16), noise(3, 2, T, 16, seed=2), torch.ones(3, 2, T, 16)
        return same(first(made(q, k, v)), v) and same(first(made(q, k, v, mask)), v)
    if kind == "part.multi_head":
        out = call_multi_head(made, noise(1, 1, D).expand(2, T, D), mask)
        return same(out, out[:1, :1].expand_as(out))
    return causal(kind, made) if kind == "model.decoder" else True


def masks_hold(kind: str, made: Any) -> bool:
    """With a mask the result is that of the visible keys alone."""
    if kind == "part.attention":
        q, k, v = (noise(3, 2, T, 16, seed=seed) for seed in (1, 2, 3))
        masks = torch.ones(T, T, dtype=torch.bool).tril(), keep_of(3, T)[:, None, None, :]
        return all(same(first(made(q, k, v, mask)), scaled_dot_product(q, k, v, mask)) for mask in masks)
    x = noise(2, T, D)
    other = x.clone()
    other[:, 6] += 1
    mask = torch.ones(T, T, dtype=torch.bool).tril()
    one, two = call_multi_head(made, x, mask), call_multi_head(made, other, mask)
    return same(one[:, :6], two[:, :6]) and not same(one[:, 6:], two[:, 6:])


def values_are_own(kind: str, made: Any) -> bool:
    """No values, no result; in a module, v has weights of its own."""
    if kind == "part.attention":
        q, k = noise(3, 2, T, 16), noise(3, 2, T, 16, seed=2)
        return same(first(made(q, k, torch.zeros_like(k))), torch.zeros_like(q))
    if kind == "part.multi_head" and len(inspect.signature(made.forward).parameters) == 4:
        q, k, v = noise(2, T, D), noise(2, T, D, seed=2), noise(2, T, D, seed=3)
        if same(made(q, k, v), made(q, k, v + noise(1, T, D, seed=4))):
            return False
    return all_learn(kind, made)


def heads_right(kind: str, made: Any) -> bool:
    """Reordering the words reorders the result, every word is heard, and two heads say two things."""
    if kind == "model.decoder":
        ids = tokens(3, T)
        heard = not same(first(made(ids))[0, -1], first(made(changed(ids, 0, 0)))[0, -1])
        return heard and causal(kind, made)
    x, order = noise(2, T, D), torch.randperm(T, generator=torch.Generator().manual_seed(3))
    try:
        out = call_multi_head(made, x)
    except RuntimeError:
        return False
    if not same(call_multi_head(made, x[:, order]), out[:, order]):
        return False
    other = x.clone()
    other[:, 7] += 1
    if same(call_multi_head(made, other)[:, 0], out[:, 0]):
        return False
    if isinstance(made, HeadByHead):
        seen: list[Tensor] = []
        handle = made.proj.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
        made(x)
        handle.remove()
        left, right = seen[0].chunk(2, dim=-1)
        return not same(left, right)
    return True


def feed_forwards(made: nn.Module) -> list[Callable[[Tensor], Tensor]]:
    if hasattr(made, "linear2"):
        return [made.feed_forward]
    names = ("mlp", "feed_forward", "ffn")
    return [module for name, module in made.named_modules() if name.split(".")[-1] in names]


@torch.no_grad()
def position_wise(kind: str, made: Any) -> bool:
    """The feed-forward does the same to each word by itself, and is no linear map."""
    for feed_forward in feed_forwards(made):
        x = noise(2, T, D)
        together = feed_forward(x)
        if not same(feed_forward(x[:, 4:5]), together[:, 4:5]):
            return False
        zero = feed_forward(torch.zeros_like(x))
        if same(feed_forward(2 * x) - zero, 2 * (together - zero), 1e-6):
            return False
    return True


@torch.no_grad()
def wired(kind: str, made: Any) -> bool:
    """Residual and norm are where the formula of the layer has them."""
    if kind != "part.encoder_layer":
        return True
    x = noise(3, T, D)

    def norm(x: Tensor) -> Tensor:
        return F.layer_norm(x, (D,))

    if isinstance(made, TorchLayer):
        y = norm(x + made.self_attn(x, x, x)[0])
        expected = norm(y + made.ffn(y))
    elif made.norm_first:
        y = x + made.attn(norm(x))
        expected = y + made.feed_forward(norm(y))
    else:
        y = norm(x + made.attn(x))
        expected = norm(y + made.feed_forward(y))
    return same(made(x), expected)


def all_learn(kind: str, made: Any) -> bool:
    """Every parameter of the code has a gradient, and every matrix one that is not zero."""
    if not isinstance(made, nn.Module):
        return True
    if any(isinstance(kept, (Tensor, list)) for kept in vars(made).values()):
        return False  # what torch does not know of
    if not list(made.parameters()):
        return True
    if kind == "part.decoder_layer":
        memory = noise(3, T, D, seed=2).requires_grad_()
        made(noise(3, T, D), memory).square().sum().backward()
        if memory.grad is None:
            return False
    made.zero_grad()
    result = output(kind, made)()
    (result * noise(*result.shape, seed=5)).sum().backward()
    return all(p.grad is not None and (p.dim() == 1 or bool(p.grad.any())) for p in made.parameters())


def hand_loss(logits: Tensor, targets: Tensor) -> Tensor:
    log_probs = logits.log_softmax(-1)
    rows = [-log_probs[b, t, targets[b, t]] for b, t in (targets != -100).nonzero().tolist()]
    return torch.stack(rows).mean()


@torch.no_grad()
def loss_by_hand(kind: str, made: Any, padded: bool) -> bool:
    ids = tokens(3, T)
    if kind == "model.encoder_decoder":
        return not same(made(ids, ids)[:, 5], made(ids, changed(ids, 0, 5))[:, 5])
    if isinstance(made, CachedGPT):
        return True
    # the rows are unequally hard, so that a mean of rows differs from the mean of tokens
    for name, p in made.named_parameters():
        if "wte" in name or "head.weight" in name:
            p.mul_(20)
    targets = padded_targets(ids) if padded else targets_of(ids)
    logits, loss = made(ids, targets)
    return same(loss, hand_loss(logits, targets), 1e-4)


def ties_hold(kind: str, made: Any) -> bool:
    """As many different tensors as the settings say; for a model that ties, the very same matrix."""
    if isinstance(made, NanoGPT):
        return made.wte.weight is made.lm_head.weight and len({id(block) for block in made.h}) == len(made.h)
    if isinstance(made, AnnotatedSeq2Seq):
        return made.source_embed.weight is made.target_embed.weight is made.out.weight
    layers = [list(module) for module in made.modules() if isinstance(module, nn.ModuleList)]
    return all(len({id(layer) for layer in listed}) == len(listed) for listed in layers)


@torch.no_grad()
def begins_at_ln_v(kind: str, made: Any) -> bool:
    ids, other = tokens(16, 24), tokens(16, 24, seed=2)
    if kind == "model.decoder":
        logits = first(made(ids))
    elif kind == "model.encoder":
        logits = made(ids, torch.ones(16, 24, dtype=torch.bool))
        if logits.size(-1) != VOCAB or not hasattr(made, "lm_head"):
            return True  # states, no logits
    else:
        logits = made(other, ids)
    return abs(F.cross_entropy(logits.flatten(0, 1), other.flatten()).item() - math.log(VOCAB)) < 1.0


def memorises(kind: str, made: Any) -> bool:
    """Two sentences are learned by heart."""
    ids = tokens(2, 8)
    targets = targets_of(ids)
    optimizer = torch.optim.Adam(made.parameters(), lr=1e-2)
    loss = torch.tensor(0.0)
    for _ in range(60):
        optimizer.zero_grad()
        if kind == "model.decoder":
            logits = first(made(ids))
        elif kind == "model.encoder":
            return True
        else:
            logits = made(tokens(2, 8, seed=4), ids)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
    return loss.item() < 0.5


@torch.no_grad()
def reads_memory(kind: str, made: Any) -> bool:
    """From its first place on a target reads the whole source, which may be of another length."""
    if kind == "part.decoder_layer":
        x, memory = noise(2, T, D), noise(2, T - 3, D, seed=2)
        other = memory.clone()
        other[:, -1] += noise(D, seed=4)
        uneven = memory[:, torch.tensor([0, 0, 0, 1, 2, 3, 4, 5, 6])]  # mean moves, words stay
        centred = torch.cat([memory + 5, memory - 5], 1), torch.cat([memory + 1, memory - 1], 1)  # one mean
        try:
            one = made(x, memory)
            if same(made(x, centred[0]), made(x, centred[1]), 1e-3):
                return False
            return one.shape == x.shape and not same(one[:, 0], made(x, other)[:, 0]) and not same(one, made(x, uneven))
        except RuntimeError:
            return False
    source, target = tokens(2, T), tokens(2, T - 3, seed=2)
    try:
        one = made(source, target)
        two = made(changed(changed(source, 0, T - 1), 1, T - 1), target)
    except RuntimeError:
        return False
    if one.shape[:2] != target.shape or same(one[:, 0], two[:, 0], 1e-6):
        return False
    if isinstance(made, AnnotatedSeq2Seq):  # the memory's last word, by itself
        memory = noise(2, T, D)
        other = memory.clone()
        other[:, -1] += 1
        mask = made.target_mask(target, None)
        one, two = made.decode(target, memory, mask, None), made.decode(target, other, mask, None)
        return not same(one[:, 0], two[:, 0], 1e-6)
    return True


def schedule_right(kind: str, made: Any) -> bool:
    """Up to one peak, where it is meant to be, then down and never up, never a jump, never below zero."""
    warmup = 500 if made is get_lr_jump else 100
    try:
        rates = [made(step) for step in range(3000)]
        again = [made(step) for step in (0, 50, 500)]
    except ZeroDivisionError:
        return False
    peak = max(range(3000), key=rates.__getitem__)
    rises = all(a <= b for a, b in pairwise(rates[: peak + 1]))
    falls = all(a >= b for a, b in pairwise(rates[peak:]))
    jump = max(abs(a - b) for a, b in pairwise(rates))
    in_place = abs(peak - warmup) <= 1
    low_at_the_end = rates[1000] < rates[peak] * 0.4
    return (
        rises
        and falls
        and in_place
        and low_at_the_end
        and jump < 0.05 * rates[peak]
        and min(rates) >= 0
        and again == [rates[0], rates[50], rates[500]]
    )


CHECKS: dict[str, Callable[[str, Any], bool]] = {
    "causality": causal,
    "padding": blind_to_padding,
    "batch_mates": alone_as_together,
    "loss_padding": lambda kind, made: loss_by_hand(kind, made, padded=True),
    "position": sees_order,
    "cache": cached_as_full,
    "determinism": repeatable,
    "scale": scaled,
    "softmax_axis": rows_sum_to_one,
    "own_values": values_are_own,
    "heads": heads_right,
    "position_wise": position_wise,
    "residual": wired,
    "norm": wired,
    "gradient": all_learn,
    "tied": ties_hold,
    "label_shift": lambda kind, made: loss_by_hand(kind, made, padded=False),
    "accumulation": lambda kind, made: loss_by_hand(kind, made, padded=True),
    "initial_loss": begins_at_ln_v,
    "memorise": memorises,
    "cross_attention": reads_memory,
    "mask": masks_hold,
    "schedule": schedule_right,
}

APPLIES = {
    "model.decoder": (
        "causality batch_mates loss_padding position cache determinism softmax_axis own_values heads position_wise "
        "gradient tied label_shift accumulation initial_loss memorise"
    ),
    "model.encoder": "padding batch_mates position determinism own_values position_wise gradient tied initial_loss",
    "model.encoder_decoder": (
        "causality padding batch_mates position determinism gradient tied label_shift initial_loss memorise "
        "cross_attention"
    ),
    "part.attention": "determinism scale softmax_axis own_values mask",
    "part.multi_head": "determinism softmax_axis own_values heads gradient mask",
    "part.position": "position determinism gradient",
    "part.encoder_layer": "padding batch_mates determinism position_wise residual norm gradient",
    "part.decoder_layer": "causality padding batch_mates determinism gradient cross_attention",
    "part.schedule": "schedule",
}
"""What can be checked from outside in each kind; the rest shows in the comparison with the twin."""

HEALTHY_CASES = [
    pytest.param(record, word, id=f"{record.name}-{word}")
    for record in HEALTHY
    for word in APPLIES[record.kind].split()
]
PLANTED_CASES = [pytest.param(record, id=record.name) for record in PLANTED]
VISIBLE_CASES = [
    pytest.param(record, id=record.name) for record in PLANTED if record.property[0] in APPLIES[record.kind].split()
]


def test_catalogue_is_in_order() -> None:
    names = [record.name for record in PLANTED] + [record.name for record in HEALTHY]
    assert len(set(names)) == len(names)
    assert {record.kind for record in PLANTED} == {record.kind for record in HEALTHY} == set(KINDS)
    assert len(PLANTED) >= 52
    for record in PLANTED:
        assert record.property
        assert set(record.property) <= set(PROPERTIES)
        assert TWINS[record.twin].kind == record.kind


@pytest.mark.parametrize("record", [*HEALTHY, *PLANTED], ids=lambda record: record.name)
def test_factory_builds_a_fresh_one(record: Healthy | Planted) -> None:
    one, other = record.factory(), record.factory()
    assert callable(one)
    if isinstance(one, nn.Module):
        assert one is not other
        assert one.training


@pytest.mark.parametrize(("record", "word"), HEALTHY_CASES)
def test_healthy_has_the_property(record: Healthy, word: str) -> None:
    assert CHECKS[word](record.kind, build(record))


@pytest.mark.parametrize("record", VISIBLE_CASES)
def test_planted_breaks_its_first_property(record: Planted) -> None:
    assert not CHECKS[record.property[0]](record.kind, build(record))


@pytest.mark.parametrize("record", PLANTED_CASES)
def test_planted_differs_from_its_twin(record: Planted) -> None:
    bug, twin = build(record), build(TWINS[record.twin])
    if record.shows == "raises":
        assert all(isinstance(found, Exception) for found in probe(record.kind, bug))
        assert not any(isinstance(found, Exception) for found in probe(record.kind, twin))
        return
    if isinstance(bug, nn.Module) and record.shows != "initialisation":
        with_weights_of(bug, twin)
    steps: tuple[list[Tensor], list[Tensor]] = [], []
    if record.shows == "training":
        assert not differs(probe(record.kind, bug), probe(record.kind, twin))
        steps = train_a_step(record.kind, bug), train_a_step(record.kind, twin)
    found, healthy = [*probe(record.kind, bug), *steps[0]], [*probe(record.kind, twin), *steps[1]]
    assert any(isinstance(part, Tensor) for part in found)
    assert differs(found, healthy)


@pytest.mark.parametrize("record", HEALTHY, ids=lambda record: record.name)
def test_healthy_differs_from_itself_nowhere(record: Healthy) -> None:
    assert not differs(probe(record.kind, build(record)), probe(record.kind, build(record)))
