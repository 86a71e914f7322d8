"""Settings: frozen, strict, and wrong ones explained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, Self, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Tag, ValidationError, field_validator

from glassformer.core.errors import ConfigError, GlassformerError, did_you_mean

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)  # the same class, by its public way


class _Explaining(ModelMetaclass):
    """Makes `SomeConfig(...)` raise this project's ConfigError in place of pydantic's own error."""

    def __call__(cls, *args: Any, **settings: Any) -> Any:  # noqa: N805 - a class is what it makes
        try:
            return super().__call__(*args, **settings)
        except ValidationError as error:
            raise _explained(cls, error) from None  # type: ignore[arg-type]


class Config(BaseModel, metaclass=_Explaining):
    """Base of all settings: frozen, no unknown key, no silent conversion.

    Made from Python, types are strict (`"3"` is no number). Made from a file or from `--set`, every value is
    text and the field's type decides what it means: `1e-3` is a number, `no` is a word where a word is
    expected.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @classmethod
    def parse(cls, settings: Mapping[str, Any], where: str = "") -> Self:
        """Return the settings that a file or a command line spells out as text.

        Args:
            settings: Nested names and texts.
            where: Prefix of the names in error messages, such as "training".

        Raises:
            ConfigError: An unknown name (with the nearest known one), or a value of the wrong kind.
        """
        try:
            return cls.model_validate(settings, strict=False)
        except ValidationError as error:
            raise _explained(cls, error, where) from None

    @field_validator("*", mode="before")
    @classmethod
    def _none_from_text(cls, value: Any, info: Any) -> Any:
        """The texts `none` and `null` mean None where None is possible and "none" is not a choice itself."""
        if value in ("none", "null"):
            annotation = cls.model_fields[info.field_name].annotation
            if type(None) in _alternatives(annotation) and "none" not in _words(annotation):
                return None
        return value


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


def _words(annotation: Any) -> tuple[Any, ...]:
    literals = [alternative for alternative in _alternatives(annotation) if get_origin(alternative) is Literal]
    return tuple(word for literal in literals for word in get_args(literal))


@dataclass
class _Place:
    """Where a setting is.

    Attributes:
        names: The names that lead to it.
        known: Those that may stand where the last one does.
        inside: The settings that it can hold itself, by their kind; "" where there is one kind.
    """

    names: list[str]
    known: list[str]
    inside: dict[str, type[BaseModel]]


def _located(schema: type[BaseModel], path: Sequence[int | str]) -> _Place:
    """Where pydantic's path leads. It also names the alternative of a union that was tried ("float", or the kind of
    several kinds of settings); no user wrote that."""
    place = _Place([], list(schema.model_fields), {"": schema})
    for step in path:
        if isinstance(step, int):
            place.names.append(str(step))
        elif step and step in place.inside:
            place.inside = {"": place.inside[step]}
        elif "" in place.inside:
            fields = place.inside[""].model_fields
            place.names.append(step)
            place.known = list(fields)
            place.inside = _schemas_in(fields[step].annotation) if step in fields else {}
    return place


def _schemas_in(annotation: Any) -> dict[str, type[BaseModel]]:
    """The settings that a field holds, also in a tuple or beside None, by their kind."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {"": annotation}
    parts = get_args(annotation)
    kind = next((part.tag for part in parts if isinstance(part, Tag)), "")
    return {kind or inner: schema for part in parts for inner, schema in _schemas_in(part).items()}


def _explained(schema: type[BaseModel], error: ValidationError, where: str = "") -> GlassformerError:
    """One ConfigError that lists everything pydantic found, in words for a user."""
    lines = []
    for problem in error.errors():
        cause = problem.get("ctx", {}).get("error")
        place = _located(schema, problem["loc"])
        name = ".".join([where, *place.names] if where else place.names)
        if problem["type"] == "extra_forbidden":
            lines.append(f"{name} is not a setting{did_you_mean(place.names[-1], place.known)}")
        elif problem["type"].startswith("union_tag") and isinstance(problem["input"], Mapping):
            lines += _explained_kind(name, problem["input"], place.inside)
        elif isinstance(cause, GlassformerError):
            lines.append(f"{name}: {cause}" if name else str(cause))
        elif problem["type"] == "missing":
            lines.append(f"{name} is missing")
        elif problem["type"] in ("model_type", "union_tag_not_found") and name:
            lines.append(f"{name} is {problem['input']!r}, but it holds settings of its own: set {name}.KEY")
        else:
            lines.append(f"{name or schema.__name__} is {problem['input']!r}: {_lower_first(problem['msg'])}")
    return ConfigError("\n".join(dict.fromkeys(lines)))


def _explained_kind(name: str, settings: Mapping[str, Any], kinds: Mapping[str, type[BaseModel]]) -> Iterator[str]:
    """What is wrong with settings of several kinds that name none of them."""
    *most, last = map(repr, kinds)
    said = f"is {settings['kind']!r}" if "kind" in settings else "is missing"
    yield f"{name}.kind {said}; it must be {', '.join(most)} or {last}"
    known = {field for schema in kinds.values() for field in schema.model_fields}
    for unknown in (str(setting) for setting in settings if setting not in known):
        yield f"{name}.{unknown} is not a setting{did_you_mean(unknown, known)}"


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]
