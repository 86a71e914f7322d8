"""What masks do in a layer: the future, padding, and padding of the memory."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from glassformer.diagnosis.parts.calling import Says, difference, influence
from glassformer.diagnosis.parts.layers_wording import WORDS
from glassformer.diagnosis.parts.sequence import (
    COUNTS,
    MOVED,
    B,
    MaskWay,
    SequenceSubject,
    T,
    completed,
    memory_mask_names,
    memory_of,
    padding_badness,
)
from glassformer.diagnosis.verdict import Finding, Said

SAYS = Says(WORDS)


def padding(subject: SequenceSubject) -> Finding:
    """Return whether padding counts for nothing: on the right; where the future is hidden anyway, on the left."""
    way = subject.padding
    assert way is not None, "it applies only with a mask"
    causal = _needs_causal(subject)
    left = causal or subject.built_in_causal
    real = torch.ones(B, T, dtype=torch.bool)
    real[0, slice(0, 2) if left else slice(-2, None)] = False
    memory, x = memory_of(subject), subject.drawn()
    visible = torch.ones(T, T, dtype=torch.bool).tril().expand(B, T, T) if causal else None

    def run(given: Tensor) -> Tensor:
        return subject(given, memory, visible=visible, real=real)

    if way.form.meaning == "length":
        real = real.sort(dim=1, descending=True).values  # lengths cannot say where it begins
    wrong = 0 if left else padding_badness(run, subject.drawn(), real)
    out, changed = run(x), run(torch.where(real[..., None], x, torch.randn_like(x)))
    if wrong or difference(out[real], changed[real]) > MOVED:
        return SAYS.bad("padding_seen", name=way.name, wrong=max(1, int(wrong)))
    kept = real[0]
    alone = subject(
        x[:1, kept],
        None if memory is None else memory[:1],
        visible=None if visible is None else visible[:1, kept][:, :, kept],
    )
    off = difference(out[:1, kept], alone)
    if off > COUNTS:
        return SAYS.bad("padding_counts", name=way.name, off=f"{off:.2g}")
    return SAYS.good("padding_good", name=way.name, meaning=way.form.meaning, shape=way.form.size)


def _needs_causal(subject: SequenceSubject) -> bool:
    both = subject.pairs is not None and subject.padding is not None
    return both and subject.pairs.name == subject.padding.name and subject.memory_length is not None  # type: ignore[union-attr]


def causal(subject: SequenceSubject) -> Finding:
    """Return whether nobody sees the future, with and without a mask of padding."""
    memory = memory_of(subject)
    visible = torch.ones(T, T, dtype=torch.bool).tril().expand(B, T, T)
    moved = influence(lambda x: subject(x, memory, visible=visible), subject.drawn()).gt(MOVED)
    seen = visible[0]
    if bool((moved & ~seen).any()):
        query, other = (moved & ~seen).nonzero()[0].tolist()
        how = "" if subject.pairs is None else subject.pairs.name
        return SAYS.bad("future_seen" if how else "future_unmasked", query=query, other=other, name=how)
    if bool((seen & ~moved).any()):
        query, other = (seen & ~moved).nonzero()[0].tolist()
        return SAYS.bad("past_hidden", query=query, other=other)
    way = subject.padding
    if way is not None and (subject.pairs is None or subject.pairs.name != way.name):
        real = torch.ones(B, T, dtype=torch.bool)
        moved = influence(lambda x: subject(x, memory, visible=visible, real=real), subject.drawn()).gt(MOVED)
        if bool((moved & ~seen).any()):
            query, other = (moved & ~seen).nonzero()[0].tolist()
            return SAYS.bad("future_with_padding", query=query, other=other, name=way.name)
    if subject.built_in_causal:
        return SAYS.good("causal_own")
    assert subject.pairs is not None, "else it would have seen the future"
    return SAYS.good("causal_good", name=subject.pairs.name, meaning=subject.pairs.form.meaning)


def own_over_memory(subject: SequenceSubject) -> str | None:
    """Return the name of a mask of the sequence itself that hides states of the memory too; None if none does."""
    alike = completed(replace(subject, memory_length=T), crosses=True)
    x, memory = alike.drawn(), alike.drawn()
    triangle, real = torch.ones(T, T, dtype=torch.bool).tril().expand(B, T, T), torch.ones(B, T, dtype=torch.bool)
    real[:, -2:] = False
    tried: list[tuple[MaskWay | None, dict[str, Tensor]]] = [
        (alike.pairs, {"visible": triangle}),
        (alike.padding, {"real": real}),
    ]
    for way, given in tried:
        if way is None:
            continue
        for plain in ({}, given):
            moved = influence(lambda other, plain=plain: alike(x, other, **plain), memory).gt(MOVED)  # type: ignore[misc]
            if plain is not given and not bool(moved.all()):
                return None  # some states never count: that is another fault
        hidden = ~triangle[0] if "visible" in given else ~real[:1].expand(T, T)
        if not bool(moved[hidden].any()):
            return way.name
    return None


def memory_padding(subject: SequenceSubject) -> Finding:
    """Return whether padding of the memory counts for nothing, whatever the lengths of the two sequences."""
    way, memory = subject.memory_padding, memory_of(subject)
    assert memory is not None, "decoder layers have one"
    if way is None:
        equal = completed(replace(subject, memory_length=T), crosses=True).memory_padding
        if equal is None:
            return Finding("not_applicable", SAYS.idle("no_mask"))
        return SAYS.bad("memory_padding_length", name=equal.name, T=T, S=memory.shape[1])
    real = torch.ones(B, memory.shape[1], dtype=torch.bool)
    real[0, -2:] = False
    x = subject.drawn()
    wrong = padding_badness(lambda other: subject(x, other, memory_real=real), memory, real, own=False)
    if wrong:
        return SAYS.bad("memory_padding_seen", name=way.name, wrong=int(wrong))
    if subject.memory_length != T:
        off = difference(subject(x, memory, memory_real=real)[:1], subject(x[:1], memory[:1, :-2]))
        if off > COUNTS:
            return SAYS.bad("padding_counts", name=way.name, off=f"{off:.2g}")
    if subject.padding is not None and _contrary(subject.padding, way):
        return SAYS.bad("meanings_differ", own=subject.padding.name, memory=way.name)
    return SAYS.good("padding_good", name=way.name, meaning=way.form.meaning, shape=way.form.size)


def _contrary(a: MaskWay, b: MaskWay) -> bool:
    """Whether True, or 1, shows in one mask and hides in the other, and their names do not say so."""
    meanings = {each.form.meaning.removesuffix("_number") for each in (a, b)}
    return meanings == {"keep", "hide"} and ("pad" in a.name.lower()) == ("pad" in b.name.lower())


def has_padding(subject: SequenceSubject) -> Said | None:
    """Return why there is no mask for padding; None if there is one."""
    return None if subject.padding is not None else SAYS.idle("no_mask")


def has_memory_masks(subject: SequenceSubject) -> Said | None:
    """Return why there is no mask for the memory; None if there is one."""
    return None if memory_mask_names(subject) else SAYS.idle("no_mask")
