"""Going on from a checkpoint: its model and vocabulary in the place of new ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from glassformer.checkpoint.loading import Loaded, load, refuse_own
from glassformer.checkpoint.weights import aliases, weights_of
from glassformer.core.config import HeadConfig, TransformConfig
from glassformer.core.errors import ConfigError
from glassformer.models.arguments import ModelArguments
from glassformer.models.brief import Brief
from glassformer.models.meaning import other_meaning
from glassformer.models.quantise import refuse_learning
from glassformer.models.transformer import Transformer
from glassformer.training.recipe import Recipe, load_recipe, make_recipe

CHANGEABLE = (
    "dropout",
    "input_dropout",
    "head_dropout",
    "inner_dropout",
    "pooling",
    "attention.dropout",
    "attention.kernel",
    "attention.window",
    "attention.window_layers",
    "attention.pattern",
)
"""Settings of a model that change no parameter of it, and none's meaning: attention may see less than it did."""

HEADS = ("head", "vocab_size", "share_embeddings")
"""What a task decides: the head, and how many tokens there are."""

VOCABULARY = ("task.tokenizer", "task.vocab_size", "task.min_count")
"""Settings of tasks that make a new vocabulary."""


def started_from(name: str | Path, source: str, edits: Sequence[str] = ()) -> Recipe:
    """Return a recipe whose model is that of a checkpoint.

    Args:
        name: The recipe: what to learn and how; its own model is left aside.
        source: A run folder, a checkpoint folder or one of the Hugging Face kind.
        edits: What the user set besides; of the model only what changes no parameter.

    Raises:
        CheckpointError: There is no checkpoint, or it is damaged.
        ConfigError: An edit asks for another architecture or vocabulary, or its layers differ.
        UnsupportedError: It is in 8 bits.
    """
    own = [edit for edit in edits if edit.strip().startswith("model.")]
    recipe = load_recipe(name, [edit for edit in edits if edit not in own])
    for edit in own:
        key = edit.partition("=")[0].strip().removeprefix("model.")
        if not any(key == free or key.startswith(f"{free}.") for free in CHANGEABLE):
            raise ConfigError(
                f"model.{key} cannot be set together with --from: the architecture is that of {source}, and its "
                f"weights mean nothing in another; of it only {', '.join(CHANGEABLE)} can be chosen. For another "
                "architecture train a new model, without --from"
            )
    for edit in edits:
        key = edit.partition("=")[0].strip()
        if key in VOCABULARY:
            raise ConfigError(f"{key} cannot be set together with --from: the vocabulary is that of {source}")
    folder = Path(source)
    theirs = load(source).model
    refuse_own(theirs, source)
    refuse_learning(theirs)
    arguments = _for_texts(Brief.of(theirs.config).arguments)
    settings = {
        "task": recipe.settings["task"],
        "training": recipe.settings["training"],
        "model": _told(arguments),
    }
    changed = make_recipe(settings, own)
    return replace(changed, start=str(folder.resolve()) if folder.is_dir() else source, missing=recipe.missing)


def begun(recipe: Recipe) -> Loaded | None:
    """Return the checkpoint that a recipe starts from; None = it starts from nothing.

    Raises:
        CheckpointError: It is no longer there, or damaged.
    """
    return None if recipe.start is None else load(recipe.start)


def take_over(model: Transformer, start: Loaded) -> list[str]:
    """Copy a checkpoint's parameters into a new model; return which parameters it has none for.

    Those are a head's, where the task asks for another one: for other labels, or of another build. Rows of a table that
    the vocabulary does not use are left behind. Attention may see less than it did.

    Args:
        model: Made for the task.
        start: The checkpoint; its vocabulary is cut to that of its tokenizer.

    Raises:
        ConfigError: Its parameters would mean something else in the model.
    """
    differing = other_meaning(start.model.config, model.config, HEADS, narrower=True)
    if differing:
        raise ConfigError(
            f"the weights of {start.source} would mean something else in this model:\n  {differing}\n"
            "leave these settings as they are there, or train a new model without --from"
        )
    if start.tokenizer.vocab_size < start.model.config.output_stack.input.vocab_size:
        start.model.resize_vocabulary(start.tokenizer.vocab_size)
    theirs, targets = weights_of(start.model), dict(model.state_dict())
    names = dict.fromkeys(aliases(model).values())
    other = _differing(model.config.head, start.model.config.head)
    taken = [
        name
        for name in names
        if name in theirs and theirs[name].shape == targets[name].shape and not name.startswith(other)
    ]
    with torch.no_grad():
        for name in taken:
            targets[name].copy_(theirs[name])
    return [name for name in names if name not in taken]


def _differing(head: HeadConfig | None, other: HeadConfig | None) -> tuple[str, ...]:
    """What the names begin with of those parameters of a head that mean something else in another one."""
    if head is None or other is None or (head.pooling, head.transform) != (other.pooling, other.transform):
        return ("head.",)
    return ("head.weight", "head.bias") if head.classes != other.classes else ()


def _for_texts(arguments: ModelArguments) -> ModelArguments:
    """An encoder that scores tokens can only learn to label texts: as BERT's own classifier, by its first state.

    What its head does to a token goes with that head.

    Source: Devlin et al. 2018, arXiv:1810.04805, appendix A.5 and the published code.
    """
    if arguments.kind != "encoder" or arguments.transform is None or arguments.pooling != "auto":
        return arguments
    return arguments.model_copy(update={"transform": TransformConfig(activation="tanh"), "pooling": "first"})


def _told(arguments: ModelArguments) -> dict[str, Any]:
    """All arguments as a recipe says them."""

    def told(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: told(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [told(inner) for inner in value]
        return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)

    said: dict[str, Any] = told(arguments.model_dump(mode="json"))
    return said
