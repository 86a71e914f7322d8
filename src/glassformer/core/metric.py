"""What models are measured by: names, directions, and how a person reads a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from glassformer.core.errors import ConfigError, did_you_mean


@dataclass(frozen=True)
class Metric:
    """One measure of a model.

    Attributes:
        name: As in result.json and metrics.jsonl.
        label: As a person reads it, in English.
        form: "share" from 0 to 1, read as a percentage; "points" from 0 to 100; "nats" from 0, or their exponential;
            "count" or "note", which do not judge.
        higher_is_better: Whether more of it is better.
    """

    name: str
    label: str
    form: Literal["share", "points", "nats", "count", "note"]
    higher_is_better: bool = True

    @property
    def judges(self) -> bool:
        """Whether a model can be chosen by it."""
        return self.form not in ("count", "note")


METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        metric.name: metric
        for metric in (
            Metric("exact_match", "exact match", "share"),
            Metric("bleu", "BLEU", "points"),
            Metric("chrf", "chrF", "points"),
            Metric("accuracy", "accuracy", "share"),
            Metric("f1_macro", "macro F1", "share"),
            Metric("loss", "loss", "nats", higher_is_better=False),
            Metric("perplexity", "perplexity", "nats", higher_is_better=False),
            Metric("tokens", "tokens", "count"),
            Metric("texts", "texts", "count"),
            Metric("pairs", "answers judged", "count"),
            Metric("bleu_signature", "BLEU signature", "note"),
        )
    }
)
"""Every metric, what was most likely asked for first."""

Measured = Mapping[str, float | str]
"""Values by the name of their metric."""


def known_metric(name: str) -> Metric:
    """Return the metric of a name.

    Raises:
        ConfigError: There is none.
    """
    if name not in METRICS:
        raise ConfigError(f"there is no metric {name!r}{did_you_mean(name, METRICS)}")
    return METRICS[name]


def in_order(measured: Measured) -> dict[str, float | str]:
    """Return values in the order in which a person looks for them; those of no known metric come last."""
    known = {name: measured[name] for name in METRICS if name in measured}
    return {**known, **{name: value for name, value in measured.items() if name not in known}}


def spoken(name: str, value: float | str) -> str:
    """Return a value as a person reads it: shares as percentages, points to two places, losses to four."""
    if isinstance(value, str):
        return value
    form = METRICS[name].form if name in METRICS else "count"
    if form == "share":
        return f"{100 * value:.1f} %"
    if form == "points":
        return f"{value:.2f}"
    if form == "nats":
        return f"{value:.4f}" if value < 1e6 else f"{value:.2e}"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
