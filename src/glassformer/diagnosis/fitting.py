"""Which form each mask of a model has, found by what it hides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from glassformer.diagnosis.influence import hidden_future, hides_padding
from glassformer.diagnosis.masks import COUNTS, MaskForm, causal_forms, open_forms, padding_forms
from glassformer.diagnosis.plan import Plan, update
from glassformer.diagnosis.signature import Argument
from glassformer.diagnosis.subject import Kind, ModelSubject


def with_masks(subject: ModelSubject, plan: Plan, wanted: Kind | None) -> Plan:
    """Return a plan with the form of every mask: the first with which padding is hidden, or the future, or both.

    Args:
        subject: Is called on the way, and called by the plan afterwards.
        plan: Without masks, but for those that must be given.
        wanted: What the user says that the model is.
    """
    masks = [each for each in plan.arguments if each.role == "mask"]
    if plan.source is None and any(each.side == "either" for each in masks):
        masks = [each for each in masks if each.side == "either"]  # the others are for a text that is not there
    for of_source in (True, False):
        group = [each for each in masks if plan.of_source(each.name) == of_source]
        said = [each for each in group if each.pads is not None]
        vague = [each for each in group if each.pads is None][:1]
        writes = not of_source and (plan.source is not None or wanted == "decoder")
        if vague and said:
            forms = list(open_forms()) if of_source else list(causal_forms())
            plan = _first_that(subject, plan, vague, forms, () if of_source else (hidden_future,))
        chosen = said or vague
        if not chosen:
            continue
        hides = _Hides(of_source)
        counts = chosen[0].counts
        forms = [COUNTS] if counts else list(padding_forms(chosen[0].pads, causal=writes))
        plan = _first_that(subject, plan, chosen, forms, (hides, hidden_future) if writes else (hides,))
        if not said and not counts and not of_source and not hides(subject):
            plan = _first_that(subject, plan, chosen, list(causal_forms()), (hidden_future,))
    update(subject, plan)
    return plan


@dataclass(frozen=True)
class _Hides:
    of_source: bool

    def __call__(self, subject: ModelSubject) -> bool:
        return hides_padding(subject, of_source=self.of_source)


def _first_that(
    subject: ModelSubject,
    plan: Plan,
    arguments: Sequence[Argument],
    forms: Sequence[MaskForm],
    tests: Sequence[Callable[[ModelSubject], bool]],
) -> Plan:
    """The plan with the first form that does all that a mask is for, or most of it; as it is, if a mask may be left out
    and does nothing."""
    names = [each.name for each in arguments]
    best, most = plan, -1
    for form in forms:
        trial = plan.with_masks(names, form)
        update(subject, trial)
        try:
            done = [test(subject) for test in tests]
        except Exception:  # of the subject's own code: it does not take this form
            continue
        if sum(done) > most:
            best, most = trial, sum(done)
        if all(done):
            break
    idle = most == 0 and all(form.shape in ("causal", "open") for form in forms)
    best = plan if idle and not any(each.required for each in arguments) else best
    update(subject, best)
    return best
