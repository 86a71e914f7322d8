"""Where each parameter of a model stands in a checkpoint of another library: rules that go both ways."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor


@runtime_checkable
class Layout(Protocol):
    """How one parameter of ours is laid out in one or more tensors of theirs; nothing is lost either way."""

    def to_ours(self, theirs: Sequence[Tensor]) -> Tensor:
        """Return our parameter."""
        ...

    def to_theirs(self, ours: Tensor) -> Sequence[Tensor]:
        """Return their tensors."""
        ...


@dataclass(frozen=True)
class Same:
    """The same tensor."""

    def to_ours(self, theirs: Sequence[Tensor]) -> Tensor:
        """Return the only tensor."""
        return theirs[0]

    def to_theirs(self, ours: Tensor) -> Sequence[Tensor]:
        """Return it alone."""
        return (ours,)


@dataclass(frozen=True)
class Transposed:
    """A matrix that they store (in, out) and we (out, in), as GPT-2's `Conv1D`."""

    def to_ours(self, theirs: Sequence[Tensor]) -> Tensor:
        """Return the transpose."""
        return theirs[0].t()

    def to_theirs(self, ours: Tensor) -> Sequence[Tensor]:
        """Return the transpose."""
        return (ours.t(),)


@dataclass(frozen=True)
class Row:
    """A vector that they store with a dimension of 1 before it."""

    def to_ours(self, theirs: Sequence[Tensor]) -> Tensor:
        """(1, N) -> (N,)."""
        return theirs[0].squeeze(0)

    def to_theirs(self, ours: Tensor) -> Sequence[Tensor]:
        """(N,) -> (1, N)."""
        return (ours.unsqueeze(0),)


@dataclass(frozen=True)
class Joined:
    """One tensor of ours is several of theirs below each other (q, k and v).

    Attributes:
        sizes: Rows of each.
    """

    sizes: tuple[int, ...]

    def to_ours(self, theirs: Sequence[Tensor]) -> Tensor:
        """Return them below each other."""
        return torch.cat(list(theirs))

    def to_theirs(self, ours: Tensor) -> Sequence[Tensor]:
        """Return each by itself."""
        return torch.split(ours, list(self.sizes))


@dataclass(frozen=True)
class PerHead:
    """Theirs is q, k and v of the first head, then of the second ..; ours is all of q, all of k, all of v.

    Attributes:
        n_heads: Number of heads, H; key/value heads are as many.
    """

    n_heads: int

    def to_ours(self, theirs: Sequence[Tensor]) -> Tensor:
        """(H, 3, E, ...) -> (3, H, E, ...), flat."""
        ours: Tensor = theirs[0].unflatten(0, (self.n_heads, 3, -1)).transpose(0, 1).flatten(0, 2)
        return ours

    def to_theirs(self, ours: Tensor) -> Sequence[Tensor]:
        """(3, H, E, ...) -> (H, 3, E, ...), flat."""
        return (ours.unflatten(0, (3, self.n_heads, -1)).transpose(0, 1).flatten(0, 2),)


@dataclass(frozen=True)
class Rule:
    """One parameter of ours, and where it is in their checkpoint.

    Attributes:
        ours: Its name in our model.
        theirs: The names of the tensors that make it up.
        layout: How.
    """

    ours: str
    theirs: tuple[str, ...]
    layout: Layout = field(default_factory=Same)


@dataclass(frozen=True)
class Weights:
    """All about the tensors of one checkpoint.

    Attributes:
        rules: One for each parameter of ours.
        copies: Names under which they may store a tensor again, and whose copy each is; it is read if it is there and
            must be equal, and is not written.
        derived: Ends of names of tensors that hold nothing learned (masks, tables of angles); they are neither read
            nor written.
        unused: Names of tensors of heads that this model does not have and that may stand in the same file (BERT's
            next-sentence head beside that of masked tokens); they are neither read nor written.
        old_ends: What the end of a name was in old files, and what it is now.
        repeated: Those copies that are written nevertheless, as the other library would draw them anew.
    """

    rules: tuple[Rule, ...]
    copies: Mapping[str, str] = field(default_factory=dict)
    derived: tuple[str, ...] = ()
    unused: frozenset[str] = frozenset()
    old_ends: Mapping[str, str] = field(default_factory=dict)
    repeated: frozenset[str] = frozenset()

    def renamed(self, before: str, after: str) -> Weights:
        """Return the same with another beginning of their names, where they begin so."""

        def new(name: str) -> str:
            return after + name.removeprefix(before) if name.startswith(before) else name

        rules = tuple(Rule(rule.ours, tuple(map(new, rule.theirs)), rule.layout) for rule in self.rules)
        copies = {new(name): new(of) for name, of in self.copies.items()}
        repeated, unused = (frozenset(map(new, names)) for names in (self.repeated, self.unused))
        return replace(self, rules=rules, copies=copies, repeated=repeated, unused=unused)

    def spelling(self, name: str) -> str:
        """Return what a tensor of a file is called here: its name, or that which is now its name."""
        for old, end in self.old_ends.items():
            if name.endswith(old):
                return name.removesuffix(old) + end
        return name


def linear(
    ours: str, *theirs: str, bias: bool, layout: Layout | None = None, bias_layout: Layout | None = None
) -> Iterator[Rule]:
    """Yield the rules of a projection: its weight, and its offset where it has one.

    Args:
        ours: Name of our module.
        theirs: Names of theirs, without ".weight".
        bias: Whether it has an offset.
        layout: Of the weight; of the offset too, unless it has its own.
        bias_layout: Of the offset.
    """
    how = layout or Same()
    yield Rule(f"{ours}.weight", tuple(f"{name}.weight" for name in theirs), how)
    if bias:
        yield Rule(f"{ours}.bias", tuple(f"{name}.bias" for name in theirs), bias_layout or how)
