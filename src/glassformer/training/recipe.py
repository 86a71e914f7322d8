"""A recipe: task, model and training, as a YAML file says them and `--set` edits them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from glassformer.core.errors import ConfigError, did_you_mean
from glassformer.core.settings import Config
from glassformer.core.trust import ensure_trusted
from glassformer.families.registry import preset
from glassformer.models.arguments import ModelArguments
from glassformer.models.own import CODE_FOLDER, OwnCode, own_code
from glassformer.tasks.registry import parse_task
from glassformer.tasks.task import Task
from glassformer.training.config import TrainingConfig

SECTIONS = ("task", "model", "training")

NEEDS = "needs"
"""Beside the sections: settings that somebody must give, each with what it is to be and where that comes from."""


@dataclass(frozen=True, eq=False)
class Recipe:
    """What to learn, with which model, and how.

    Attributes:
        task: Its data and metrics.
        model: The architecture in brief.
        training: Steps, optimizer, schedule.
        settings: The three sections as nested text, from which the recipe can be made again.
        start: The checkpoint that the weights and the vocabulary are taken from; None = new ones.
        missing: What has to be named before it can be trained, in words; None = nothing.
        own: The model that a user wrote; None = one of this library, as `model` says.
    """

    task: Task
    model: ModelArguments
    training: TrainingConfig
    settings: Mapping[str, Any]
    start: str | None = None
    missing: str | None = None
    own: OwnCode | None = None


def recipe_names() -> list[str]:
    """Return the names of the recipes that are shipped."""
    folder = resources.files("glassformer.recipes")
    return sorted(item.name.removesuffix(".yaml") for item in folder.iterdir() if item.name.endswith(".yaml"))


def describe_recipe(name: str) -> str:
    """Return the first comment line of a shipped recipe."""
    return _shipped(name).splitlines()[0].removeprefix("# ")


def load_recipe(name: str | Path, edits: Sequence[str] = ()) -> Recipe:
    """Return a recipe by name or from a YAML file, edited.

    Args:
        name: A shipped recipe, or the path of a .yaml file; a run folder's config.yaml is one, too.
        edits: "section.key=value" each, as `--set` takes them.

    Raises:
        ConfigError: The recipe, a key or a value is unknown or impossible.
    """
    text = str(name)
    if text.endswith((".yaml", ".yml")):
        try:
            content = Path(text).read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"cannot read the recipe {text}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise ConfigError(f"the recipe {text} is not UTF-8 (byte {error.start})") from error
    else:
        content = _shipped(text)
    settings = parse_yaml(content, text)
    settings.pop("resolved", None)
    start, needs, own = settings.pop("from", None), settings.pop(NEEDS, None) or {}, settings.pop("own", None)
    if not isinstance(needs, Mapping):
        raise ConfigError(f"{NEEDS} is {needs!r} in {text}; it holds settings, and what each of them is to name")
    recipe = make_recipe(settings, edits)
    recipe = replace(recipe, start=start, missing=_missing(text, needs, recipe, edits))
    if own is None:
        return recipe
    code = Path(text).parent / CODE_FOLDER
    ensure_trusted(code)
    return replace(recipe, own=own_code(str(code / Path(str(own)).name), _sizes(recipe)))


def own_recipe(name: str | Path, model: str, edits: Sequence[str] = ()) -> Recipe:
    """Return a recipe whose model is one that a user wrote; its own model is left aside.

    Args:
        name: The recipe: what to learn and how.
        model: FILE.py:CLASS, an encoder-decoder; see `OwnTransformer`.
        edits: What the user set besides; of the model only what the class's constructor takes.

    Raises:
        ConfigError: There is no such class, or a setting does not fit it.
    """
    own = [edit for edit in edits if edit.strip().startswith("model.")]
    recipe = load_recipe(name, [edit for edit in edits if edit not in own])
    settings = {"task": recipe.settings["task"], "training": recipe.settings["training"], "model": {}}
    changed = make_recipe(settings, own)
    return replace(changed, missing=recipe.missing, own=own_code(model, _sizes(changed)))


def _sizes(recipe: Recipe) -> dict[str, Any]:
    """What was said of the model, as numbers."""
    said = recipe.model.model_dump()
    return {name: said[name] for name in recipe.settings["model"]}


def make_recipe(settings: Mapping[str, Any], edits: Sequence[str] = ()) -> Recipe:
    """Return the recipe that nested settings and edits describe.

    Raises:
        ConfigError: A key or a value is unknown or impossible.
    """
    for section, content in settings.items():
        if section not in SECTIONS:
            raise ConfigError(f"{section} is not a section of a recipe{did_you_mean(section, SECTIONS)}")
        if content and not isinstance(content, Mapping):
            raise ConfigError(f"{section} is {content!r}; a section holds settings, such as task: {{name: reverse}}")
    merged: dict[str, Any] = {section: dict(settings.get(section) or {}) for section in SECTIONS}
    for edit in edits:
        path, equals, value = edit.partition("=")
        keys = path.strip().split(".")
        if not equals or len(keys) < 2:
            raise ConfigError(
                f"{edit!r} is not a setting; write it as section.key=value, such as training.max_steps=200"
            )
        if keys[0] not in SECTIONS:
            raise ConfigError(f"{path} does not start with a section of a recipe{did_you_mean(keys[0], SECTIONS)}")
        _put(merged, keys, _list_or_text(value), path)
    said = {edit.partition("=")[0].strip() for edit in edits}
    if "training.batch_size" in said and "training.batch_tokens" not in said:
        merged["training"].pop("batch_tokens", None)  # beside it rows would not count
    model = dict(merged["model"])
    name = model.pop("preset", None)
    base = ModelArguments() if name is None else preset(str(name))
    return Recipe(
        parse_task(merged["task"]),
        ModelArguments.parse(_overlaid(base.model_dump(), model), "model"),
        TrainingConfig.parse(merged["training"], "training"),
        merged,
    )


def parse_yaml(text: str, where: str) -> dict[str, Any]:
    """Return YAML as nested text: what a value means is decided by the setting it is for.

    Raises:
        ConfigError: It is no YAML, or no mapping.
    """
    try:
        content = yaml.load(text, Loader=yaml.BaseLoader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{where} is not readable YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{where} holds no sections; a recipe has {', '.join(SECTIONS)}")
    return content


def to_yaml(recipe: Recipe, resolved: Config) -> str:
    """Return the recipe and the resolved architecture, as a run folder's config.yaml holds them."""
    content = {
        "task": recipe.settings["task"],
        "model": recipe.settings["model"],
        "training": recipe.settings["training"],
        "resolved": resolved.model_dump(mode="json"),
    }
    if recipe.start is not None:
        content = {"from": recipe.start, **content}
    if recipe.own is not None:
        del content["resolved"]  # it stands in for what only the user's code knows
        content = {"own": f"{recipe.own.file.name}:{recipe.own.name}", **content}
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=110)


def _shipped(name: str) -> str:
    if name not in recipe_names():
        raise ConfigError(f"unknown recipe {name!r}{did_you_mean(name, recipe_names())}")
    return (resources.files("glassformer.recipes") / f"{name}.yaml").read_text(encoding="utf-8")


def _missing(name: str, needs: Mapping[str, str], recipe: Recipe, edits: Sequence[str]) -> str | None:
    """What a recipe lacks; whoever names files of their own for the task needs none of its."""
    named = {edit.partition("=")[0].strip() for edit in edits}
    if named & {f"task.{file}" for file in recipe.task.files}:
        return None
    for path, what in needs.items():
        section, _, key = path.partition(".")
        if recipe.settings.get(section, {}).get(key) in (None, "none", "null"):
            return f"the recipe {name} brings no data; name it: --set {path}={what}"
    return None


def _list_or_text(value: str) -> Any:
    """What is in brackets is a list, as in the file: [0, 2]."""
    if not value.strip().startswith("["):
        return value
    with suppress(yaml.YAMLError):
        return yaml.load(value, Loader=yaml.BaseLoader)
    return value


def _put(settings: dict[str, Any], keys: Sequence[str], value: Any, path: str) -> None:
    place = settings
    for key in keys[:-1]:
        inner = place.get(key)
        if inner in (None, "none", "null"):
            inner = {}
        if not isinstance(inner, dict):
            raise ConfigError(f"{path}: {key} is a value and has no settings inside")
        place[key] = dict(inner)
        place = place[key]
    place[keys[-1]] = value


def _overlaid(base: Mapping[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in top.items():
        inner = merged.get(key)
        merged[key] = _overlaid(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return merged
