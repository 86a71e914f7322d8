"""Findings in the words of whole models."""

from __future__ import annotations

from typing import Any

from glassformer.diagnosis.model.wording import MESSAGES
from glassformer.diagnosis.verdict import Finding, Said


def passed(key: str, **values: Any) -> Finding:
    """The property holds."""
    return Finding("pass", Said(MESSAGES, key, values))


def failed(key: str, where: str = "", fault: str | None = None, **values: Any) -> Finding:
    """The property does not hold."""
    return Finding("fail", Said(MESSAGES, key, values), where, fault)


def skipped(key: str, **values: Any) -> Finding:
    """The property cannot be asked."""
    return Finding("not_applicable", Said(MESSAGES, key, values))


def reason(key: str, **values: Any) -> Said:
    """Why the property cannot be asked."""
    return Said(MESSAGES, key, values)
