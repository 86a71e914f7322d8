"""The tasks by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glassformer.core.errors import ConfigError, did_you_mean
from glassformer.tasks.language_model import LanguageModelTask
from glassformer.tasks.sequences import SequenceTask
from glassformer.tasks.task import Task

TASKS: Mapping[str, type[SequenceTask] | type[LanguageModelTask]] = {
    "reverse": SequenceTask,
    "copy": SequenceTask,
    "sort": SequenceTask,
    "language_model": LanguageModelTask,
}


def parse_task(settings: Mapping[str, Any]) -> Task:
    """Return the task that settings describe.

    Raises:
        ConfigError: There is no task of that name, or a setting is unknown or impossible.
    """
    if "name" not in settings:
        raise ConfigError(f"task.name is missing; choose one of {', '.join(sorted(TASKS))}")
    name = str(settings["name"])
    if name not in TASKS:
        raise ConfigError(f"task.name is {name!r}, which is not a task{did_you_mean(name, TASKS)}")
    return TASKS[name].parse(settings, "task")
