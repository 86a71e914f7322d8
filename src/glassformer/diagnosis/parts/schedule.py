"""Examining a schedule of the learning rate: a function of the step, or a scheduler of torch."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from glassformer.diagnosis.parts.calling import Says
from glassformer.diagnosis.parts.making import ROLES, SIZES, Thing, parameters_of, required_of
from glassformer.diagnosis.parts.other_wording import WORDS
from glassformer.diagnosis.property import Property
from glassformer.diagnosis.verdict import Finding, Said
from glassformer.training.schedule import paper

SAYS = Says(WORDS)
MOST = 20_000
"""Updates that are looked at: five warm-ups of the paper."""


@dataclass(frozen=True, eq=False)
class ScheduleSubject:
    """A schedule, and how it is asked.

    Attributes:
        thing: What the user named.
        rate: Step, from 1 -> learning rate; None for a scheduler of torch.
        scheduler: Optimizer -> scheduler; None for a function.
        sizes: What it was given, by role.
        expect: "paper", or the word for its fall.
        error: Why no call worked; None = one did.
        asked: Rates that are known already, by how many were asked for.
    """

    thing: Thing
    rate: Callable[[int], float] | None
    scheduler: Callable[[torch.optim.Optimizer], Any] | None = None
    sizes: dict[str, Any] | None = None
    expect: str | None = None
    error: Exception | None = None
    asked: dict[int, list[float]] = field(default_factory=dict)

    def modules(self) -> Sequence[nn.Module]:
        """Return nothing: a schedule is no module."""
        return []

    def rates(self, most: int = MOST) -> list[float]:
        """Return the rate of each update, from the first, up to where the schedule ends; asked once for all."""
        if most not in self.asked:
            self.asked[most] = self._rates(most)
        return self.asked[most]

    def _rates(self, most: int) -> list[float]:
        if self.scheduler is not None:
            return used_rates(self.scheduler, most)
        assert self.rate is not None, "one of the two"
        found: list[float] = []
        for step in range(1, most + 1):
            try:
                found.append(float(self.rate(step)))
            except Exception:
                if step < 3:
                    raise
                break  # it is over
        return found


def used_rates(scheduler: Callable[[torch.optim.Optimizer], Any], most: int) -> list[float]:
    """Return the rate that each update is made with when a scheduler of torch is stepped behind every update."""
    optimizer = _Watched()
    advance = _advance(scheduler(optimizer))
    advance()
    steps_itself = bool(optimizer.used)  # an optimizer in an optimizer: its step makes the update
    optimizer = _Watched()
    advance = _advance(scheduler(optimizer))
    for _ in range(min(most, 4000)):
        if not steps_itself:
            optimizer.step()
        advance()
    return optimizer.used


class _Watched(torch.optim.SGD):
    """Keeps the rate of each update."""

    def __init__(self) -> None:
        super().__init__([nn.Parameter(torch.zeros(1))], lr=1.0)
        self.used: list[float] = []

    def step(self, closure: Any = None) -> Any:
        """Make an update, which changes nothing."""
        self.used.append(float(self.param_groups[0]["lr"]))
        return super().step(closure)


def _advance(schedule: Any) -> Callable[[], Any]:
    name = "step_and_update_lr" if "step_and_update_lr" in dir(schedule) else "step"
    advance: Callable[[], Any] = getattr(schedule, name)
    return advance


def rate_method(value: Any) -> Callable[..., Any] | None:
    """Return the method that tells the rate of a step, of an object that cannot be called itself."""
    if value is None or callable(value):
        return None
    for name in ("get_lr", "get_rate", "lr_at", "rate", "lr", "learning_rate"):
        method: Any = getattr(value, name) if name in dir(value) else None
        if callable(method) and len(required_of(method)) == 1:
            found: Callable[..., Any] = method
            return found
    return None


def open_schedule(thing: Thing) -> ScheduleSubject:
    """Return how a schedule is asked, found by trying."""
    value = rate_method(thing.instance) or (thing.instance if callable(thing.instance) else thing.value)
    names = list(parameters_of(value))
    sizes, options = _options(value)
    if any("optim" in name.lower() or name == "opt" for name in names):
        optimizer = next(name for name in names if "optim" in name.lower() or name == "opt")

        def scheduler(given: torch.optim.Optimizer) -> Any:
            return value(**{optimizer: given}, **options)

        return ScheduleSubject(thing, None, scheduler, sizes)
    step = next((name for name in names if name.lower() in STEPS), names[0] if names else None)
    options.pop(step or "", None)
    first: Exception | None = None
    for call in (lambda n: value(n, **options), lambda n: value(**{step or "step": n}, **options)):
        try:
            float(call(5))  # type: ignore[no-untyped-call]
            return ScheduleSubject(thing, call, None, sizes)
        except Exception as error:
            first = first or error

    def fails(step: int) -> float:
        assert first is not None, "it was tried"
        raise first

    return ScheduleSubject(thing, fails, None, sizes, error=first)


STEPS = (
    "step",
    "step_num",
    "t",
    "it",
    "iter",
    "iteration",
    "n",
    "update",
    "current_step",
    "global_step",
    "i",
    "epoch",
    "steps",
)


def _options(value: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    sizes: dict[str, Any] = {}
    options: dict[str, Any] = {}
    for name, each in parameters_of(value).items():
        role = "d_model" if name in ("d_model", "model_size", "dim") else ROLES.get(name.lower())
        if role in ("d_model", "warmup", "max_steps", "peak", "factor") and name.lower() not in (
            "t",
            "n",
            "step",
            "steps",
        ):
            default = None if each.default is inspect.Parameter.empty else each.default
            given = SIZES[role][0] if role != "warmup" or default is None else default
            given = default if default is not None and role in ("peak", "max_steps") else given
            options[name] = given
            if not (role == "warmup" and 0 < given < 1):  # a share of the training, which nobody knows here
                sizes[role] = given
    if "warmup" not in sizes:
        held = {} if inspect.isroutine(value) or inspect.isclass(value) else vars(value)
        kept = [each for name, each in held.items() if "warm" in name.lower() and type(each) is int and each > 0]
        sizes |= {"warmup": kept[0]} if len(kept) == 1 else {}
    return sizes, options


def _runs(subject: ScheduleSubject) -> Finding:
    rates = subject.rates(50)
    bad = next((step for step, rate in enumerate(rates, 1) if not math.isfinite(rate) or rate < 0), None)
    if bad is not None:
        return SAYS.bad("schedule_negative", step=bad, rate=rates[bad - 1])
    return SAYS.good("schedule_runs", first=f"{rates[0]:.3g}", tenth=f"{rates[9]:.3g}")


def _first(subject: ScheduleSubject) -> Finding:
    rate = subject.rates(3)[0]
    return SAYS.good("first_good", rate=f"{rate:.3g}") if rate > 0 else SAYS.bad("schedule_first")


def _zero(subject: ScheduleSubject) -> Finding:
    assert subject.rate is not None, "it applies to functions"
    try:
        rate = float(subject.rate(0))
    except Exception as error:
        return SAYS.bad("schedule_zero", what=type(error).__name__)
    if isinstance(subject.rate(0), complex) or not math.isfinite(rate) or rate < 0:
        return SAYS.bad("schedule_zero", what=rate)
    return SAYS.good("zero_good", rate=f"{rate:.3g}")


def _once(subject: ScheduleSubject) -> Finding:
    """Asking twice for the same step gives the same rate; nothing is counted inside."""
    assert subject.rate is not None, "it applies to functions"
    first, second = subject.rate(7), subject.rate(7)
    if first != second:
        return SAYS.bad("schedule_counts", first=f"{first:.3g}", second=f"{second:.3g}")
    return SAYS.good("once_good")


def _rises(subject: ScheduleSubject) -> Finding:
    rates = subject.rates()
    peak = _peak(rates)
    if peak <= 1:
        return SAYS.bad("schedule_no_warmup")
    top = rates[peak - 1]
    off = max(abs(rate - top * step / peak) for step, rate in enumerate(rates[:peak], 1)) / top
    steps = [b - a for a, b in pairwise(rates[:peak])]
    # A smooth rise, a warm-up times a cosine say, may be meant; one that stands still or leaps on its way is not.
    most = max(steps)
    leaps = any(abs(b - a) > 0.5 * most for a, b in pairwise(steps[2:]))
    even = most - min(steps) <= 1e-4 * top or (min(steps) > 1e-6 * most and not leaps)
    if rates[0] == rates[1] < top:
        return SAYS.bad("schedule_twice", step=1)
    if not even:
        return SAYS.bad("schedule_bent", peak=peak, off=f"{off:.2g}")
    return SAYS.good("rises_good", peak=peak, top=f"{top:.4g}")


def _peak(rates: Sequence[float]) -> int:
    """The first step, from 1, of the largest rate."""
    top = max(rates)
    return next(step for step, rate in enumerate(rates, 1) if rate >= top * (1 - 1e-9))


def _falls(subject: ScheduleSubject) -> Finding:
    rates = subject.rates()
    bad = next((step for step, rate in enumerate(rates, 1) if not math.isfinite(rate) or rate < 0), None)
    if bad is not None:
        return SAYS.bad("schedule_negative", step=bad, rate=f"{rates[bad - 1]:.3g}")
    peak = _peak(rates)
    if peak == len(rates):
        return SAYS.bad("schedule_only_rises", most=peak)
    after = rates[peak - 1 :]
    rise = next((step for step, (a, b) in enumerate(pairwise(after), peak) if b > a * (1 + 1e-9)), None)
    if rise is not None:
        return SAYS.bad("schedule_rises_again", step=rise + 1)
    jump = max((abs(a - b) for a, b in pairwise(after)), default=0.0)
    if jump > 0.2 * after[0] and peak > 10:
        return SAYS.bad("schedule_jumps", jump=f"{jump / after[0]:.0%}")
    first, second = after[0] - after[1], after[1] - after[min(2, len(after) - 1)]
    if peak > 10 and first > 5e-3 * after[0] and first > 5 * second > 0:
        return SAYS.bad("schedule_jumps", jump=f"{first / after[0]:.1%}")
    shape = _shape(after, peak)
    claim = next((role for role in ("max_steps", "d_model") if role in (subject.sizes or {})), None)
    if shape == "constant" and claim is not None and subject.expect != "constant":
        return SAYS.bad("schedule_never_falls", top=f"{after[0]:.3g}", claim=claim)
    if shape == "no_pi":
        return SAYS.bad("schedule_no_pi")
    if subject.expect not in (None, "paper", shape):
        return SAYS.bad("schedule_other_shape", shape=shape, expected=subject.expect)
    if shape == "other":
        return SAYS.good("falls_other")
    return SAYS.good("falls_good", shape=shape)


def _shape(after: Sequence[float], peak: int) -> str:
    top, n = after[0], len(after)
    if max(after) - min(after) < 1e-9 * top:
        return "constant"
    if all(
        abs(rate * math.sqrt(peak + i) - top * math.sqrt(peak)) < 1e-3 * top * math.sqrt(peak)
        for i, rate in enumerate(after)
    ):
        return "inverse_sqrt"
    end = next((i for i in range(1, n) if abs(after[i] - after[-1]) <= 1e-9 * top), n - 1)
    low = after[-1]
    for begin in (0, 1):  # the top may be there twice
        n = max(end - begin, 1)
        share = (top - after[end]) / (1 - math.cos(1))
        turned = [top - share * (1 - math.cos(max(0, i - begin) / n)) for i in range(end)]
        if end > 20 and all(abs(a - b) < 1e-4 * top for a, b in zip(turned, after, strict=False)):
            return "no_pi"
    for shape in ("cosine", "linear"):
        for last in (end, end + 1):
            left = [(1 + math.cos(math.pi * i / last)) / 2 if shape == "cosine" else 1 - i / last for i in range(end)]
            if all(
                abs(rate - (low + (top - low) * share)) < 2e-2 * top for rate, share in zip(after, left, strict=False)
            ):
                return shape
    return "other"


def _paper(subject: ScheduleSubject) -> Finding:
    rates = subject.rates()
    warmup = int((subject.sizes or {}).get("warmup", _peak(rates)))
    d_model = int((subject.sizes or {}).get("d_model", 0)) or round(1 / (max(rates) ** 2 * warmup))
    for step in (1, 2, warmup, 2 * warmup):
        if step > len(rates):
            continue
        wanted = paper(step, d_model, warmup)
        if abs(rates[step - 1] - wanted) > 1e-5 * wanted:
            if step > 1 and abs(rates[step - 1] - paper(step - 1, d_model, warmup)) <= 1e-5 * wanted:
                return SAYS.bad("schedule_late", step=step)
            return SAYS.bad("schedule_not_paper", step=step, rate=f"{rates[step - 1]:.4g}", wanted=f"{wanted:.4g}")
    return SAYS.good("schedule_paper_good", d_model=d_model, warmup=warmup)


def _warmup_kept(subject: ScheduleSubject) -> Finding:
    warmup, peak = int((subject.sizes or {})["warmup"]), _peak(subject.rates())
    if abs(peak - warmup) > 1:
        return SAYS.bad("schedule_peak", peak=peak, warmup=warmup)
    return SAYS.good("peak_good", peak=peak, warmup=warmup)


def _is_function(subject: ScheduleSubject) -> Said | None:
    return None if subject.scheduler is None else SAYS.idle("is_scheduler")


def _is_claimed(subject: ScheduleSubject) -> Said | None:
    return None if subject.expect == "paper" else SAYS.idle("not_claimed")


def _has_warmup(subject: ScheduleSubject) -> Said | None:
    return None if (subject.sizes or {}).get("warmup") else SAYS.idle("no_warmup_named")


PROPERTIES: tuple[Property[ScheduleSubject], ...] = (
    Property("schedule_run", WORDS, _runs),
    Property("schedule_once", WORDS, _once, _is_function, ("schedule_run",)),
    Property("schedule_first", WORDS, _first, after=("schedule_run",)),
    Property("schedule_zero", WORDS, _zero, _is_function, ("schedule_run",)),
    Property("schedule_rises", WORDS, _rises, after=("schedule_run", "schedule_once", "schedule_first")),
    Property("schedule_peak", WORDS, _warmup_kept, _has_warmup, ("schedule_run", "schedule_once", "schedule_rises")),
    Property("schedule_falls", WORDS, _falls, after=("schedule_run", "schedule_once", "schedule_rises")),
    Property(
        "schedule_paper",
        WORDS,
        _paper,
        _is_claimed,
        ("schedule_run", "schedule_once", "schedule_rises", "schedule_falls"),
    ),
)
"""What a schedule is examined for."""
