from __future__ import annotations

import pytest

from glassformer.core.errors import ConfigError
from glassformer.tasks.registry import TASKS, parse_task
from glassformer.tasks.task import KINDS, Task

METRICS = {
    "translation": ("loss", "bleu", "chrf", "exact_match"),
    "classification": ("loss", "accuracy", "f1_macro"),
    "matching": ("loss", "accuracy", "f1_macro"),
    "language_model": ("loss",),
}


@pytest.mark.parametrize("name", TASKS)
def test_every_task_is_found_by_its_name(name: str) -> None:
    task = parse_task({"name": name})
    assert isinstance(task, Task)
    assert task.name == name
    assert set(task.kinds) <= set(KINDS)
    assert task.judging.metrics == METRICS.get(name, ("loss", "exact_match"))


def test_unknown_names_and_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"task\.name is 'srot', which is not a task; did you mean 'sort'"):
        parse_task({"name": "srot"})
    with pytest.raises(ConfigError, match=r"task\.name is missing; choose one of classification, copy, dates"):
        parse_task({})
    with pytest.raises(ConfigError, match=r"task\.context is not a setting"):
        parse_task({"name": "copy", "context": "4"})
    with pytest.raises(ConfigError, match=r"task\.made_size is not a setting"):
        parse_task({"name": "classification", "made_size": "40"})
