"""Calling a module that reads sequences of vectors: attention with heads, a layer of an encoder or of a decoder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.diagnosis.parts.calling import (
    MEANINGS,
    MaskForm,
    influence,
    is_length,
    meanings_against,
    modules_of,
    tensors_in,
)
from glassformer.diagnosis.parts.making import D_MODEL, N_HEADS, Thing, parameters_of, required_of
from glassformer.diagnosis.parts.recording import Product

B, T, S = 3, 5, 7
MOVED = 1e-6
"""Smallest change of an output that is more than rounding."""
AGAIN = 12
"""How often a call is made again: what is left out now and then, one row in ten say, shows."""
COUNTS = 1e-4
"""Smallest difference of a padded row from the same row alone that is more than rounding."""

MEMORY_NAMES = (
    "memory",
    "enc_output",
    "encoder_output",
    "enc_out",
    "encoder_out",
    "enc",
    "context",
    "encoder_states",
    "encoder_hidden_states",
    "m",
    "kv",
    "src_enc",
    "mem",
)
KEY_SHAPES, PAIR_SHAPES = ("keys", "keys4", "full", "rows"), ("full", "square", "rows", "heads")


@dataclass(frozen=True)
class MaskWay:
    """Through which argument a mask goes in, and in what form."""

    name: str
    form: MaskForm


@dataclass(frozen=True, eq=False)
class SequenceSubject:
    """A module that reads (B, T, D), and a second sequence (B, S, D) where it takes one.

    Attributes:
        thing: What the user named.
        inputs: What its first arguments are: "x", "x x x" or "x m m" (q, k, v), "x m".
        d_model: D.
        time_first: Whether it wants (T, B, D).
        pairs: How it is told which query may see which key; None = it is not.
        padding: How it is told which keys are padding.
        memory_padding: The same of the second sequence.
        built_in_causal: Whether no position sees a later one without being told.
        memory_length: S, where there is a second sequence.
        expect: What the user says of it: "pre" or "post".
        error: Why no call worked; None = one did.
        told: Whether the user said what kind of part it is.
    """

    thing: Thing
    inputs: str
    d_model: int = D_MODEL
    time_first: bool = False
    pairs: MaskWay | None = None
    padding: MaskWay | None = None
    memory_padding: MaskWay | None = None
    built_in_causal: bool = False
    memory_length: int | None = None
    expect: str | None = None
    error: Exception | None = None
    told: bool = False

    def modules(self) -> Sequence[nn.Module]:
        """Return the module, if it is one."""
        return modules_of(self.thing.instance)

    @property
    def n_heads(self) -> int | None:
        """Number of heads that it was made with; None if that is not known here."""
        heads: int | None = self.thing.sizes.get("n_heads")
        return heads

    def run(self, x: Tensor, memory: Tensor | None = None, **masks: Tensor) -> Any:
        """Return what the module returns, as it is.

        Args:
            x: *Shape:* (B, T, D).
            memory: *Shape:* (B, S, D).
            masks: Arguments, ready made.
        """
        given = {"x": x, "m": x if memory is None else memory}
        return self.call(*(given[each] for each in self.inputs.split()), **masks)

    def call(self, *given: Tensor, **masks: Tensor) -> Any:
        """Return what the module returns for its first arguments, each (B, T, D), and masks ready made."""
        options: dict[str, Any] = dict(masks)
        known = parameters_of(self.thing.instance)
        if "average_attn_weights" in known:
            options["average_attn_weights"] = False
        if "need_weights" in known:
            options["need_weights"] = True
        for name in required_of(self.thing.instance)[len(self.inputs.split()) :]:
            if name not in options:
                options[name] = None  # a mask that it insists on
        return self.thing.instance(*map(self._turned, given), **options)

    def __call__(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        visible: Tensor | None = None,
        real: Tensor | None = None,
        memory_real: Tensor | None = None,
    ) -> Tensor:
        """Return the output (B, T, D), without gradients.

        Args:
            x: *Shape:* (B, T, D).
            memory: *Shape:* (B, S, D).
            visible: True = may be seen. *Shape:* (B, T, T or S).
            real: True = no padding. *Shape:* (B, T).
            memory_real: The same of the memory. *Shape:* (B, S).
        """
        with torch.no_grad():
            return self.output(self.run(x, memory, **self.masks(x.shape[1], visible, real, memory_real)))

    def masks(
        self,
        queries: int,
        visible: Tensor | None = None,
        real: Tensor | None = None,
        memory_real: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Return the arguments that say what is hidden."""
        options: dict[str, Tensor] = {}
        if real is not None and self.padding is not None:
            pad = real[:, None].expand(-1, queries, -1)
            if self.pairs is not None and self.pairs.name == self.padding.name and visible is not None:
                visible = visible & pad  # one argument for both
            else:
                options[self.padding.name] = self.padding.form.of(pad)
        if visible is not None and self.pairs is not None:
            options[self.pairs.name] = self.pairs.form.of(visible)
        if memory_real is not None and self.memory_padding is not None:
            options[self.memory_padding.name] = self.memory_padding.form.of(
                memory_real[:, None].expand(-1, queries, -1)
            )
        return options

    def output(self, result: Any) -> Tensor:
        """Return the first tensor of what came back, with the batch first."""
        tensors = tensors_in(result)
        if not tensors:
            raise TypeError(f"it returned {type(result).__name__}, and not a tensor")
        wide = [each for each in tensors if each.ndim == 3 and each.shape[-1] == self.d_model]
        return self._turned((wide or tensors)[0])

    def weights(self, result: Any) -> Tensor | None:
        """Return the attention weights among what came back, if any."""
        others = [each for each in tensors_in(result)[1:] if each.ndim in (3, 4)]
        return others[0] if others else None

    def drawn(self, length: int = T) -> Tensor:
        """Return a random sequence. *Shape:* (B, T, D)."""
        return torch.randn(B, length, self.d_model)

    def _turned(self, x: Tensor) -> Tensor:
        return x.transpose(0, 1) if self.time_first and x.ndim == 3 else x


def open_sequence(
    thing: Thing, inputs: Sequence[str], *, crosses: bool = False, memory_length: int = S
) -> SequenceSubject:
    """Return how a module is called, found by trying.

    Args:
        thing: What the user named.
        inputs: Ways to give the sequences, the likeliest first.
        crosses: Whether it is given a second sequence.
        memory_length: How long that is.
    """
    length = memory_length if crosses else None
    if thing.instance is None:
        return SequenceSubject(thing, inputs[0], memory_length=length)
    first: Exception | None = None
    orders = (False, True) if crosses else (False,)  # two lengths in the wrong order do not fit each other
    for width, way, time_first in product(_widths(thing), inputs, orders):
        subject = SequenceSubject(thing, way, width, time_first, memory_length=length)
        try:
            output = subject(subject.drawn(), None if length is None else subject.drawn(length))
        except Exception as error:
            first = first or error
            continue
        if output.ndim == 3:
            return completed(subject, crosses)
    return SequenceSubject(thing, inputs[0], _widths(thing)[0], memory_length=length, error=first)


def _widths(thing: Thing) -> list[int]:
    """What D may be: as it was made, else what its matrices read and write, the most frequent first."""
    if "d_model" in thing.sizes:
        return [int(thing.sizes["d_model"])]
    sizes = [size for parameter in thing.parameters if parameter.ndim >= 2 for size in parameter.shape]
    sizes += [parameter.shape[0] for parameter in thing.parameters if parameter.ndim == 1]
    return sorted(set(sizes), key=lambda size: (-sizes.count(size), size))[:6] or [D_MODEL]


def memory_of(subject: SequenceSubject) -> Tensor | None:
    """Return a random second sequence, where one goes in. *Shape:* (B, S, D)."""
    return subject.drawn(subject.memory_length) if subject.memory_length else None


def memory_mask_names(subject: SequenceSubject) -> list[str]:
    """Return the arguments that are masks of the second sequence."""
    names = [name for name in parameters_of(subject.thing.instance) if _is_mask(name)]
    return [name for name in names if any(word in name for word in ("memory", "src", "enc", "cross", "context"))]


def completed(subject: SequenceSubject, crosses: bool) -> SequenceSubject:
    """Return a subject with all that is found out by trying once a call works: order, causality, masks."""
    torch.manual_seed(0)
    subject = replace(subject, time_first=subject.time_first or _is_time_first(subject, crosses))
    memory = None if subject.memory_length is None else subject.drawn(subject.memory_length)
    torch.manual_seed(0)
    causal = not bool(influence(lambda x: subject(x, memory), subject.drawn()).triu(1).any())
    subject = replace(subject, built_in_causal=causal and T > 1 and not _is_local(subject, memory))
    names = [name for name in parameters_of(subject.thing.instance) if _is_mask(name)]
    of_memory = memory_mask_names(subject)
    own = [name for name in names if not crosses or name not in of_memory]
    keys = [name for name in own if "pad" in name or "key" in name or is_length(name)] or own
    if subject.time_first and memory is None and _rows_first(subject, keys):
        subject = replace(subject, time_first=False)
    pairs = [name for name in own if name not in keys or len(own) == 1] or own
    pairs = [name for name in pairs if not is_length(name)]
    pair_way = _best(subject, pairs, PAIR_SHAPES, _pair_trial(subject, memory))
    subject = replace(subject, pairs=pair_way)
    padding = _best(subject, keys, KEY_SHAPES, _padding_trial(subject, memory))
    if memory is None:
        return replace(subject, padding=padding)
    memory_padding = _best(subject, of_memory, KEY_SHAPES, _memory_trial(subject, memory))
    return replace(subject, padding=padding, memory_padding=memory_padding)


def _is_mask(name: str) -> bool:
    return any(word in name.lower() for word in ("mask", "keep", "visible", "pad", "allow")) or is_length(name)


def _is_local(subject: SequenceSubject, memory: Tensor | None) -> bool:
    """No position sees another one at all."""
    torch.manual_seed(0)
    moved = influence(lambda x: subject(x, memory), subject.drawn())
    return not bool((moved - torch.diag(moved.diagonal())).any())


def _is_time_first(subject: SequenceSubject, crosses: bool) -> bool:
    """Along which of the first two dimensions a change spreads."""
    if subject.thing.sizes.get("batch_first"):
        return False
    x = torch.randn(B, B, subject.d_model)  # square: either reading of it runs
    memory = torch.randn(B, B, subject.d_model) if crosses else None
    other = x.clone()
    other[0, 0] += 1.0
    moved = (subject(other, memory) - subject(x, memory)).abs().amax(-1)  # (B, B)
    return bool(moved[1:, 0].any()) and not bool(moved[0, 1:].any())


def _rows_first(subject: SequenceSubject, names: Sequence[str]) -> bool:
    """Whether a mask of padding says (B, T) where the rest seems to read (T, B, D): no call runs but with the rows of
    both in front."""

    def runs(time_first: bool) -> bool:
        given = replace(subject, time_first=time_first)
        for way in _ways(given, names, ("keys", "keys4")):
            real = torch.ones(B, T, dtype=torch.bool)
            real[0, -2:] = False
            mask = way.form.of(real[:, None].expand(-1, T, -1))
            try:
                with torch.no_grad():
                    given.run(given.drawn(), None, **{way.name: mask})
            except Exception:
                continue
            return True
        return False

    return bool(names) and runs(False) and not runs(True)


Trial = Callable[[str, MaskForm], float]
"""How badly a mask of that form through that argument does what it should; 0 = perfectly."""


def _best(subject: SequenceSubject, names: Sequence[str], shapes: Sequence[str], trial: Trial) -> MaskWay | None:
    found: list[tuple[float, int, MaskWay]] = []
    for way in _ways(subject, names, shapes):
        try:
            badness = trial(way.name, way.form)
        except Exception:
            continue
        if badness == 0 and way.form.meaning == "additive":
            return _read_backwards(way, trial) or way
        if badness == 0:
            return way
        found.append((badness, len(found), way))
    return min(found)[2] if found else None


def _read_backwards(way: MaskWay, trial: Trial) -> MaskWay | None:
    """The way of saying it with True and False, where the name tells what these mean, and they are taken for the
    contrary; numbers to add may be right all the same."""
    if not meanings_against(way.name, ()):
        return None
    told, contrary = (replace(way, form=replace(way.form, meaning=each)) for each in ("hide", "keep"))
    if told.form.meaning in meanings_against(way.name, ()):
        told, contrary = contrary, told
    try:
        return told if trial(contrary.name, contrary.form) == 0 < trial(told.name, told.form) else None
    except Exception:
        return None


def _ways(subject: SequenceSubject, names: Sequence[str], shapes: Sequence[str]) -> Iterator[MaskWay]:
    known = parameters_of(subject.thing.instance)
    against = {name: meanings_against(name, known) for name in names}
    heads = subject.n_heads or next((n for n in (4, 2, 8, 1) if subject.d_model % n == 0), N_HEADS)
    lengths = [name for name in names if is_length(name)] if "keys" in shapes else []
    yield from (MaskWay(name, MaskForm("length", "lengths")) for name in lengths)
    for shape in shapes:
        for meaning in MEANINGS:
            for name in names:
                if is_length(name) or meaning in against[name]:
                    continue
                yield MaskWay(name, MaskForm(meaning, shape, heads))


def _pair_trial(subject: SequenceSubject, memory: Tensor | None) -> Trial:
    visible = torch.ones(T, T, dtype=torch.bool).tril().expand(B, T, T)

    def badness(name: str, form: MaskForm) -> float:
        torch.manual_seed(0)
        mask = form.of(visible)

        def run(x: Tensor) -> Tensor:
            with torch.no_grad():
                return subject.output(subject.run(x, memory, **{name: mask}))

        moved = influence(run, subject.drawn())
        if not bool(torch.isfinite(moved).all()):
            return T * T
        return float((moved.gt(MOVED) != visible[0]).sum())

    return badness


def _padding_trial(subject: SequenceSubject, memory: Tensor | None) -> Trial:
    real = torch.ones(B, T, dtype=torch.bool)
    real[0, -2:] = False

    def badness(name: str, form: MaskForm) -> float:
        torch.manual_seed(0)
        options = {name: form.of(real[:, None].expand(-1, T, -1))}

        def run(x: Tensor) -> Tensor:
            with torch.no_grad():
                return subject.output(subject.run(x, memory, **options))

        return padding_badness(run, subject.drawn(), real)

    return badness


def _memory_trial(subject: SequenceSubject, memory: Tensor) -> Trial:
    real = torch.ones(B, memory.shape[1], dtype=torch.bool)
    real[0, -2:] = False

    def badness(name: str, form: MaskForm) -> float:
        torch.manual_seed(0)
        x = subject.drawn()
        mask = form.of(real[:, None].expand(-1, T, -1))

        def run(other: Tensor) -> Tensor:
            with torch.no_grad():
                return subject.output(subject.run(x, other, **{name: mask}))

        return padding_badness(run, memory, real, own=False)

    return badness


def padding_badness(run: Callable[[Tensor], Tensor], x: Tensor, real: Tensor, *, own: bool = True) -> float:
    """Return in how many places padding moves what is none, or a real position does not.

    Args:
        run: From (B, T, D) to (B, T', D).
        x: What is changed.
        real: True = no padding. *Shape:* (B, T).
        own: Whether `x` is the sequence itself, whose padding may do as it likes at its own place.
    """
    before = run(x)
    keep = real[0] if own else torch.ones(before.shape[1], dtype=torch.bool)
    wrong = 0.0
    for position in range(x.shape[1]):
        other = x.clone()
        other[0, position] = torch.randn_like(other[0, position])
        change = (run(other) - before)[0][keep].abs().nan_to_num(torch.inf).amax(-1)
        moved = change > MOVED
        if own and bool(real[0, position]):
            moved[position] = True
        wrong += float((moved != real[0, position]).sum())
    return wrong


def overwrites(subject: SequenceSubject, x: Tensor, memory: Tensor | None = None) -> bool:
    """Return whether a call writes to what it was given."""
    given = [each for each in (x, memory) if each is not None]
    before = [each.clone() for each in given]
    subject(x, memory)
    return not all(map(torch.equal, before, given))


def folded(made: Product, subject: SequenceSubject) -> tuple[Tensor, Tensor]:
    """Return what went into a product and came out of it, with the batch first."""

    def turned(x: Tensor) -> Tensor:
        if x.ndim == 2 and x.shape[0] % B == 0:  # (T B, D), as torch's own attention folds it
            return x.view(x.shape[0] // B, B, -1).transpose(0, 1)
        if x.ndim == 3 and (subject.time_first or x.shape[1] == B != x.shape[0]):
            return x.transpose(0, 1)
        return x

    return turned(made.x), turned(made.y)
