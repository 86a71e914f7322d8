"""A family of models as data: presets, the map of a foreign config, the rules of its weights."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Literal

from glassformer.core.config import TransformerConfig
from glassformer.core.errors import CheckpointError, ConfigError, GlassformerError, UnsupportedError, did_you_mean
from glassformer.families.entries import NO_EFFECT, Classes, Entry, Foreign, Values
from glassformer.families.weights import Weights
from glassformer.models.arguments import ModelArguments
from glassformer.models.brief import Brief, differences

Answer = Literal["tokens", "classes", "states"]
"""What a model gives: scores of tokens, scores of classes, or states (with a pooled vector, where it has one)."""


@dataclass(frozen=True)
class Preset:
    """A published size.

    Attributes:
        arguments: The architecture.
        vocab_size: Number of token ids of the published model; None = nobody published one.
        parameters: How many parameters it has, as printed ("6.74B"), or exactly.
        source: Where that is printed.
    """

    arguments: ModelArguments
    vocab_size: int | None = None
    parameters: str | int | None = None
    source: str = ""


@dataclass(frozen=True)
class Architecture:
    """One class of the other library, by what it gives.

    Attributes:
        name: As config.json calls it.
        answer: What comes out.
        constants: Our settings that are always so in it.
        entries: What settings mean that matter in it alone.
    """

    name: str
    answer: Answer = "tokens"
    constants: Mapping[str, Any] = field(default_factory=dict)
    entries: tuple[Entry, ...] = ()


COVERED = frozenset(("bias",))
"""Settings of ours that finer ones cover (attention.bias, out_bias, feed_forward_bias, norm_bias)."""


def _no_weights(config: TransformerConfig) -> Weights:
    raise UnsupportedError("there are no checkpoints of this family in another library's format")


@dataclass(frozen=True, eq=False)
class Family:
    """What makes a family of models out of the bricks; nothing here computes.

    A family that nobody has published weights of has presets alone.

    Attributes:
        name: Ours.
        model_type: What config.json calls it; empty = there is none.
        architectures: Its classes; the first is meant where config.json names none.
        entries: What each of its settings means.
        constants: Our settings that are always so in this family.
        weights: Where each parameter of a model is, under names that begin with `prefix`.
        prefix: What the names of its body begin with wherever a head stands beside it.
        no_effect: Settings that change no number, besides those of all families.
        presets: Its published sizes, and tiny ones.
        extra_ids: How many `<extra_id_N>` follow its vocabulary where the tokenizer's files do not say it (T5).
    """

    name: str
    model_type: str = ""
    architectures: tuple[Architecture, ...] = ()
    entries: tuple[Entry, ...] = ()
    constants: Mapping[str, Any] = field(default_factory=dict)
    weights: Callable[[TransformerConfig], Weights] = _no_weights
    prefix: str = ""
    no_effect: frozenset[str] = frozenset()
    presets: Mapping[str, Preset] = field(default_factory=dict)
    extra_ids: int = 0

    def architecture(self, settings: Mapping[str, Any]) -> Architecture:
        """Return which of its classes a config.json means.

        Raises:
            UnsupportedError: One that is not known here.
        """
        if not self.architectures:
            raise UnsupportedError(f"there are no checkpoints of {self.name} in another library's format")
        named = settings.get("architectures") or [self.architectures[0].name]
        for architecture in self.architectures:
            if architecture.name in named:
                return architecture
        known = ", ".join(architecture.name for architecture in self.architectures)
        raise UnsupportedError(
            f"the architecture {named[0]} cannot be loaded; of {self.model_type} known here are {known}"
        )

    def written_as(self, settings: Mapping[str, Any]) -> Architecture:
        """Return which of its classes a checkpoint is written as: of those that give the same, the first.

        Raises:
            UnsupportedError: What a config.json means is not known here.
        """
        answer = self.architecture(settings).answer
        return next(architecture for architecture in self.architectures if architecture.answer == answer)

    def read(self, settings: Mapping[str, Any], tensors: Collection[str] = ()) -> TransformerConfig:
        """Return the architecture that a config.json describes.

        Args:
            settings: What is in it.
            tensors: The names of the checkpoint's tensors, where they are known.

        Raises:
            CheckpointError: Settings that are unknown, missing, or cannot be done here; all in one message.
        """
        architecture = self.architecture(settings)
        foreign = Foreign(settings, frozenset(tensors))
        values: Values = {**self.constants, **architecture.constants}
        problems = []
        for entry in self._entries(architecture):
            try:
                values |= entry.read(foreign)
            except GlassformerError as error:
                problems.append(str(error))
        others = [entry for known in self.architectures for entry in known.entries]
        entries = (*self.entries, *others, Classes())
        accounted = {name for entry in entries for name in entry.names} | NO_EFFECT | self.no_effect
        problems += [
            f"{name} is {value!r}, and not known here{did_you_mean(name, get_close_matches(name, accounted))}"
            for name, value in settings.items()
            if name not in accounted
        ]
        if problems:
            raise CheckpointError(f"this {self.model_type} config cannot be read:\n  " + "\n  ".join(problems))
        try:
            return _brief(values, architecture).resolve()
        except ConfigError as error:
            raise CheckpointError(f"this {self.model_type} config does not fit together: {error}") from error

    def write(self, config: TransformerConfig) -> dict[str, Any]:
        """Return the config.json of an architecture.

        Raises:
            UnsupportedError: This family cannot say it; the message says what differs.
        """
        try:
            brief = Brief.of(config)
            architecture = self._architecture_for(brief)
            values = _values(brief)
            self._check_constants(values, architecture)
            settings: dict[str, Any] = {"architectures": [architecture.name], "model_type": self.model_type}
            for entry in self._entries(architecture):
                settings |= entry.write(values)
            again = self.read(settings)
            if again.kind == config.kind:  # a config may leave to the tensors what else there is
                names = [name for rule in self.weights_of(config, settings).rules for name in rule.theirs]
                again = self.read(settings, names)
        except GlassformerError as error:
            raise UnsupportedError(f"this model is none that a {self.name} checkpoint can hold: {error}") from error
        differing = differences(_told(again), _told(config))
        if differing:
            raise UnsupportedError(
                f"this model is none that a {self.name} checkpoint can hold:\n  " + "\n  ".join(differing[:10])
            )
        return settings

    def weights_of(
        self, config: TransformerConfig, settings: Mapping[str, Any], tensors: Collection[str] = ()
    ) -> Weights:
        """Return where each parameter is in a checkpoint: with the prefix, or, of a body alone, without it.

        Args:
            config: The architecture.
            settings: Its config.json.
            tensors: The names of the tensors of a checkpoint that is read; none for one that is written.
        """
        weights = self.weights(config)
        bare = self.architecture(settings).answer == "states"
        if tensors:
            bare = not any(name.startswith(self.prefix) for name in tensors)
        return weights.renamed(self.prefix, "") if bare and self.prefix else weights

    def _check_constants(self, values: Values, architecture: Architecture) -> None:
        """What no setting of theirs says must be as it always is; "None" of ours may stand for anything."""
        constants = {**self.constants, **architecture.constants}
        differing = [
            f"{name} is {values[name]}, not {value}"
            for name, value in constants.items()
            if value is not None and name not in COVERED and name in values and values[name] not in (value, None)
        ]
        if differing:
            raise UnsupportedError("; ".join(differing))

    def _entries(self, architecture: Architecture) -> tuple[Entry, ...]:
        classes = (Classes(),) if architecture.answer == "classes" else ()
        return (*self.entries, *architecture.entries, *classes)

    def _architecture_for(self, brief: Brief) -> Architecture:
        answer: Answer = "states" if not brief.scores else "tokens" if brief.classes is None else "classes"
        for architecture in self.architectures:
            if architecture.answer == answer:
                return architecture
        if not self.architectures:
            raise UnsupportedError("there are no checkpoints of it in another library's format")
        raise UnsupportedError(f"of {self.name} no architecture gives {answer}")


def _brief(values: Values, architecture: Architecture) -> Brief:
    """Take apart what belongs to the arguments and what to the data."""
    values = dict(values)
    vocab_size, source = values.pop("vocab_size"), values.pop("source_vocab_size", None)
    classes = values.pop("classes", None)
    return Brief(ModelArguments(**_nested(values)), vocab_size, source, classes, scores=architecture.answer != "states")


def _values(brief: Brief) -> Values:
    """All settings by their dotted names, and the groups of settings by theirs."""
    values: Values = {"vocab_size": brief.vocab_size, "source_vocab_size": brief.source_vocab_size}
    values["classes"] = brief.classes
    for name in ModelArguments.model_fields:
        values[name] = brief.arguments.__dict__[name]
    for name, inner in brief.arguments.attention.__dict__.items():
        values[f"attention.{name}"] = inner
    return values


def _nested(values: Values) -> dict[str, Any]:
    """Turn "attention.bias" into an inner setting."""
    nested: dict[str, Any] = {}
    for name, value in values.items():
        outer, _, inner = name.partition(".")
        if inner:
            nested.setdefault(outer, {})[inner] = value
        else:
            nested[outer] = value
    return nested


def _told(config: TransformerConfig) -> Any:
    """What a checkpoint has to say of an architecture: not how it was drawn, nor how attention is computed."""

    def told(tree: Any) -> Any:
        if isinstance(tree, dict):
            return {name: told(value) for name, value in tree.items() if name not in ("init", "kernel")}
        return [told(value) for value in tree] if isinstance(tree, list | tuple) else tree

    return told(config.model_dump())
