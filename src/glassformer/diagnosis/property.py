"""A property and how it is tested: each for itself, repeatably, leaving nothing behind."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

import numpy as np
import torch
from torch import nn

from glassformer.core.errors import ConfigError, did_you_mean
from glassformer.core.wording import Catalogue
from glassformer.diagnosis.crash import crash_of
from glassformer.diagnosis.verdict import Finding, Said, Verdict


class Subject(Protocol):
    """What is examined: anything that can say which modules it is made of."""

    def modules(self) -> Sequence[nn.Module]:
        """Return the modules that are put back as they were after every property; none for a function."""
        ...


S_contra = TypeVar("S_contra", bound=Subject, contravariant=True)
S = TypeVar("S", bound=Subject)


def _always(subject: Subject) -> Said | None:
    return None


@dataclass(frozen=True)
class Property(Generic[S_contra]):
    """Something that must be so, and the experiment that shows whether it is.

    Attributes:
        key: Its name, as in `--only KEY`.
        words: Where `KEY.name`, `KEY.why` and `KEY.look` are said.
        examine: The experiment.
        applies: Returns why the property cannot be asked of a subject; None = it can.
        after: Keys of properties whose failure explains a failure of this one.
    """

    key: str
    words: Catalogue
    examine: Callable[[S_contra], Finding]
    applies: Callable[[S_contra], Said | None] = _always
    after: tuple[str, ...] = ()


def examine(
    subject: S,
    properties: Sequence[Property[S]],
    *,
    seed: int = 0,
    advanced: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[Verdict, ...]:
    """Return a verdict on every property, those that explain others first.

    Each property begins with the same state of every generator, in eval mode and without gradients; parameters,
    buffers, modes and generators are put back afterwards. A crash becomes a verdict.

    Args:
        subject: What is examined.
        properties: What it is examined for.
        seed: Of every generator, at the beginning of every property.
        advanced: Told (done, total) after every property.
    """
    found = []
    with _put_back(subject.modules()) as again:
        for number, each in enumerate(properties):
            again()
            _seed(seed)
            found.append(Verdict(each.key, _finding(each, subject), each.words))
            advanced(number + 1, len(properties))
    return _by_cause(found, {each.key: each.after for each in properties})


def chosen(properties: Sequence[Property[S]], only: Sequence[str] | None) -> list[Property[S]]:
    """Return the properties of the given keys, in their own order; all for None.

    Raises:
        ConfigError: There is no property of that key.
    """
    known = [each.key for each in properties]
    for key in only or ():
        if key not in known:
            raise ConfigError(f"there is no property {key!r}{did_you_mean(key, known)}")
    return [each for each in properties if only is None or each.key in only]


def _finding(each: Property[S], subject: S) -> Finding:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the subject's own code; it is not ours to show
            reason = each.applies(subject)
            return each.examine(subject) if reason is None else Finding("not_applicable", reason)
    except Exception as error:
        return crash_of(error, subject.modules())


def _seed(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


@contextmanager
def _put_back(modules: Sequence[nn.Module]) -> Iterator[Callable[[], None]]:
    """Yield what puts the modules back as they were; at the end it is done, and the generators' states are restored."""
    tensors = [t for module in modules for t in (*module.parameters(), *module.buffers())]
    values = [t.detach().clone() for t in tensors]
    flags = [(t.requires_grad, t.grad) for t in tensors]
    modes = [(part, part.training) for module in modules for part in module.modules()]

    def again() -> None:
        with torch.no_grad():
            for tensor, value, (wanted, grad) in zip(tensors, values, flags, strict=True):
                if not torch.equal(tensor, value):
                    tensor.copy_(value)
                if tensor.is_leaf:
                    tensor.requires_grad_(wanted)
                tensor.grad = grad
        for part, training in modes:
            part.training = training

    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        try:
            yield again
        finally:
            again()
            random.setstate(python)
            np.random.set_state(numpy)


def _by_cause(verdicts: Sequence[Verdict], after: dict[str, tuple[str, ...]]) -> tuple[Verdict, ...]:
    """Failures that stand for themselves first, then those that follow from them, then the rest."""
    failed = {verdict.key for verdict in verdicts if verdict.failed}

    def cause(key: str) -> str | None:
        return next((name for name in after[key] if name in failed), None)

    marked = [replace(each, follows=cause(each.key)) if each.failed else each for each in verdicts]
    return tuple(sorted(marked, key=lambda each: (not each.failed, each.follows is not None)))
