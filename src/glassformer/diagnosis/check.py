"""The examination of a whole model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import nn

from glassformer.core.errors import ConfigError, GlassformerError, did_you_mean
from glassformer.diagnosis.adapt import subject_of
from glassformer.diagnosis.crash import crash_of
from glassformer.diagnosis.model.findings import failed
from glassformer.diagnosis.model.properties import MODEL_PROPERTIES
from glassformer.diagnosis.model.wording import MESSAGES
from glassformer.diagnosis.plan import ROWS, WrongLengthError
from glassformer.diagnosis.property import chosen, examine
from glassformer.diagnosis.report import Report
from glassformer.diagnosis.subject import Kind, ModelSubject, copy_of
from glassformer.diagnosis.verdict import Finding, Said, Verdict

KINDS: tuple[Kind, ...] = ("decoder", "encoder", "encoder_decoder")
"""What a whole model can be."""

CRASHES = {"heads_unmerged": "heads"}
"""Crashes that have a name: the property that they are a failure of."""


def check(
    model: nn.Module | ModelSubject,
    *,
    name: str | None = None,
    kind: Kind | None = None,
    only: Sequence[str] | None = None,
    seed: int = 0,
    advanced: Callable[[int, int], None] = lambda done, total: None,
) -> Report:
    """Examine a Transformer: run it, and say which properties hold and which do not.

    The model may be of this library, of the reference library, of torch, or your own. It is left alone: experiments
    are made on copies.

    Args:
        model: A whole model, or one with the way it is called.
        name: What the report calls it.
        kind: "decoder", "encoder" or "encoder_decoder"; None = what its signature and behaviour say.
        only: Keys of the properties to examine; None = all.
        seed: Of everything random.
        advanced: Told (done, total) after every property.

    Raises:
        ConfigError: There is no such property, or it cannot be found out how the model is called.
    """
    properties = chosen(MODEL_PROPERTIES, only)
    called = name if name is not None else type(model).__name__
    with torch.random.fork_rng():
        if isinstance(model, ModelSubject):
            subject = model
        else:
            copied = copy_of(model)
            try:
                subject = subject_of(copied, kind)
            except GlassformerError:
                raise
            except Exception as error:  # of the subject's own code: it runs on nothing
                finding = _wrong_length(error) if isinstance(error, WrongLengthError) else crash_of(error, [copied])
                key = CRASHES.get(finding.fault or "", "shapes")
                return Report(called, Said(MESSAGES, "kind.unknown"), (Verdict(key, finding, MESSAGES),))
        subject.seed = seed
        verdicts = examine(subject, properties, seed=seed, advanced=advanced)
    remarks = [Said(MESSAGES, key, values) for key, values in subject.caller.remarks]
    remarks += [] if subject.exact else [Said(MESSAGES, "float32")]
    named = tuple(_renamed(verdict) for verdict in verdicts)
    return Report(called, Said(MESSAGES, f"kind.{subject.kind}"), named, tuple(remarks))


def _wrong_length(error: WrongLengthError) -> Finding:
    return failed("shapes.wrong", shape=error.shape, rows=ROWS, length=error.length)


def model_kind(name: str) -> Kind:
    """Return a kind of whole model.

    Raises:
        ConfigError: There is none of that name.
    """
    found = next((kind for kind in KINDS if kind == name), None)
    if found is None:
        raise ConfigError(f"there is no kind of model {name!r}{did_you_mean(name, KINDS)}")
    return found


def _renamed(verdict: Verdict) -> Verdict:
    """A crash with a name is the failure of the property that it names."""
    key = CRASHES.get(verdict.finding.fault or "", verdict.key) if verdict.status == "error" else verdict.key
    return replace(verdict, key=key)
