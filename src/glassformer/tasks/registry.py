"""The tasks by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from glassformer.core.errors import ConfigError, did_you_mean
from glassformer.tasks.classification import ClassificationTask
from glassformer.tasks.dates import DatesTask
from glassformer.tasks.language_model import LanguageModelTask
from glassformer.tasks.matching import MatchingTask
from glassformer.tasks.sequences import SequenceTask
from glassformer.tasks.task import Task
from glassformer.tasks.translation import TranslationTask

TASKS: Mapping[str, Callable[[Mapping[str, Any], str], Task]] = {
    "reverse": SequenceTask.parse,
    "copy": SequenceTask.parse,
    "sort": SequenceTask.parse,
    "dates": DatesTask.parse,
    "language_model": LanguageModelTask.parse,
    "translation": TranslationTask.parse,
    "classification": ClassificationTask.parse,
    "matching": MatchingTask.parse,
}
"""How the settings of each task are read."""


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
    return TASKS[name](settings, "task")
