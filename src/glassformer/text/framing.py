"""What a tokenizer puts around a text before a model reads it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import tokenizers
from tokenizers import processors

from glassformer.core.errors import UnsupportedError

Text = Literal["A", "B"]


@dataclass(frozen=True)
class Framed:
    """The ids of a text, or of two, with what stands around them.

    Attributes:
        ids: All ids.
        types: For each of them which text it belongs to, 0 or 1, as the template counts it.
    """

    ids: list[int]
    types: list[int]


@dataclass(frozen=True)
class Part:
    """One place of a template: ids that always stand there, or one of the texts, and their type."""

    content: tuple[int, ...] | Text
    type: int = 0


@dataclass(frozen=True)
class Template:
    """What stands around one text (A), and around two (A and B).

    Attributes:
        single: The parts, from the first to the last.
        pair: The same for two texts.
    """

    single: tuple[Part, ...] = (Part("A"),)
    pair: tuple[Part, ...] = (Part("A"), Part("B"))

    @property
    def prefix(self) -> tuple[int, ...]:
        """The ids before a single text."""
        before: tuple[int, ...] = ()
        for part in self.single:
            if isinstance(part.content, str):
                break
            before += part.content
        return before

    @property
    def suffix(self) -> tuple[int, ...]:
        """The ids after a single text."""
        after: tuple[int, ...] = ()
        for part in reversed(self.single):
            if isinstance(part.content, str):
                break
            after = part.content + after
        return after

    def frame(self, a: Sequence[int], b: Sequence[int] | None = None) -> Framed:
        """Return the ids of one text or of two in their frame."""
        framed = Framed([], [])
        for part in self.single if b is None else self.pair:
            if isinstance(part.content, str):
                ids = a if part.content == "A" or b is None else b
            else:
                ids = part.content
            framed.ids.extend(ids)
            framed.types.extend([part.type] * len(ids))
        return framed


def template_of(backend: tokenizers.Tokenizer) -> Template | None:
    """Return what a tokenizer's post-processor puts around a text, or None if it has no template.

    Raises:
        UnsupportedError: The post-processor is of a kind that is not known here.
    """
    if backend.post_processor is None:
        return None
    flat: list[dict[str, Any]] = [json.loads(backend.post_processor.__getstate__())]
    while any(step["type"] == "Sequence" for step in flat):
        flat = [inner for step in flat for inner in (step["processors"] if step["type"] == "Sequence" else [step])]
    flat = [step for step in flat if step["type"] != "ByteLevel"]  # which moves offsets only
    if not flat:
        return None
    if len(flat) > 1:
        kinds = " + ".join(step["type"] for step in flat)
        raise UnsupportedError(f"the post-processor {kinds} cannot be used; use a tokenizer with one template")
    return _read(flat[0])


def write_template(backend: tokenizers.Tokenizer, single: str, pair: str, second_type: int = 0) -> None:
    """Give a tokenizer a template.

    Args:
        backend: The tokenizer; it knows every token named.
        single: Names of tokens and '$A' for the text, with spaces between.
        pair: The same, with '$B' for the second text.
        second_type: The type of the second text and of what follows it, 0 or 1.
    """
    first, second = pair.split("$B")
    names = [name for name in f"{single} {pair}".split() if name not in ("$A", "$B")]
    backend.post_processor = processors.TemplateProcessing(
        single=single,
        pair=[*(f"{name}:0" for name in first.split()), *(f"{name}:{second_type}" for name in ("$B", *second.split()))],
        special_tokens=[(name, backend.token_to_id(name)) for name in dict.fromkeys(names)],
    )


def _read(state: dict[str, Any]) -> Template:
    if state["type"] == "TemplateProcessing":
        ids = {name: tuple(token["ids"]) for name, token in state["special_tokens"].items()}

        def parts(pieces: Sequence[dict[str, Any]]) -> tuple[Part, ...]:
            return tuple(
                Part(piece["Sequence"]["id"], piece["Sequence"]["type_id"])
                if "Sequence" in piece
                else Part(ids[piece["SpecialToken"]["id"]], piece["SpecialToken"]["type_id"])
                for piece in pieces
            )

        return Template(parts(state["single"]), parts(state["pair"]))
    if state["type"] not in ("BertProcessing", "RobertaProcessing"):
        raise UnsupportedError(f"the post-processor {state['type']} cannot be used; use one with a template")
    cls, sep = (state["cls"][1],), (state["sep"][1],)
    single = (Part(cls), Part("A"), Part(sep))
    if state["type"] == "BertProcessing":
        return Template(single, (*single, Part("B", 1), Part(sep, 1)))
    return Template(single, (*single, Part(sep), Part("B"), Part(sep)))
