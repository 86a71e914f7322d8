"""How a call is put together: which argument gets the text, which the mask, and what length a model bears."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from glassformer.core.errors import ConfigError, UnsupportedError
from glassformer.diagnosis.masks import COUNTS, MaskForm, open_forms, padding_forms
from glassformer.diagnosis.signature import Argument, arguments_of, outputs_in
from glassformer.diagnosis.subject import GAP, LENGTHS, Caller, Given, Kind, ModelSubject, quietly

ROWS = 5
"""Rows of a trial: hardly ever a number of heads, so that a mask of another form is refused and not broadcast."""


NOTHING: Mapping[str, Any] = MappingProxyType({})


class WrongLengthError(Exception):
    """A model gives more or fewer positions than it was given tokens.

    Attributes:
        shape: Of the output.
        length: Tokens of each of `ROWS` texts.
    """

    def __init__(self, shape: tuple[int, ...], length: int) -> None:
        super().__init__(f"the output has shape {shape} for {ROWS} rows of {length} tokens")
        self.shape, self.length = shape, length


@dataclass(frozen=True)
class Plan:
    """Which argument gets what.

    Attributes:
        arguments: All that a `forward` takes.
        source: The one that takes the source, in an encoder-decoder.
        inputs: The one that takes the text.
        masks: The form of each mask that is given.
        pooled: Whether a text gets one row of numbers.
        asks: The argument that takes labels, where only with it there are scores of every token.
        cuts: Whether the last token of the text is left out: what predicts nothing here is taken off inside.
    """

    arguments: Sequence[Argument]
    source: str | None
    inputs: str
    masks: Mapping[str, MaskForm] = field(default_factory=dict)
    pooled: bool = False
    asks: str | None = None
    cuts: bool = False

    @property
    def feeds_itself(self) -> bool:
        """Whether the text of the target may be left out, as where a model makes it of the labels."""
        return self.source is not None and not next(
            each.required for each in self.arguments if each.name == self.inputs
        )

    def call(self, model: nn.Module, given: Given, more: Mapping[str, Any] = NOTHING, *, alone: bool = False) -> Any:
        """Return whatever the model returns.

        Args:
            model: What is called.
            given: The texts.
            more: Other arguments by name.
            alone: Leave out the text of the target, and its mask.
        """
        if self.cuts:
            given = one_more(given)
        named: dict[str, Any] = {} if alone else {self.inputs: given.inputs}
        if self.asks is not None:
            named[self.asks] = given.inputs
        if self.source is not None:
            named[self.source] = given.source
        for name, form in self.masks.items():
            if alone and not self.of_source(name):
                continue
            text, keep = self._text(name, given)
            if keep is not None or self._needed(name, form):
                every = torch.ones(text.shape[:2], dtype=torch.bool, device=text.device) if keep is None else keep
                named[name] = form.build(every)
        return model(**named, **more)

    def _text(self, name: str, given: Given) -> tuple[Tensor, Tensor | None]:
        if self.of_source(name):
            assert given.source is not None
            return given.source, given.source_keep
        return given.inputs, given.keep

    def _needed(self, name: str, form: MaskForm) -> bool:
        return form.causal or next(each.required for each in self.arguments if each.name == name)

    def of_source(self, name: str) -> bool:
        """Whether an argument speaks of the source; where its name does not say it, it is the encoder's."""
        side = next(each.side for each in self.arguments if each.name == name)
        return self.source is not None and side != "target"

    def with_masks(self, names: Iterable[str], form: MaskForm) -> Plan:
        """Return a plan in which some masks have a form."""
        return replace(self, masks={**self.masks, **dict.fromkeys(names, form)})

    def outputs(self, model: nn.Module, given: Given) -> Tensor:
        """Return the logits or states.

        Raises:
            UnsupportedError: There are none.
        """
        found = outputs_in(self.call(model, given))
        if not found:
            raise UnsupportedError(f"{type(model).__name__} returns no tensor of numbers")
        return found[0].unsqueeze(1) if self.pooled else found[0]

    def everything(self, model: nn.Module, given: Given) -> list[Tensor]:
        """Return all tensors of numbers that the model returns."""
        return outputs_in(self.call(model, given))

    def caller(self, kind: Kind) -> Caller:
        """Return the call as far as it is known."""
        takes = {self.of_source(name) for name, form in self.masks.items() if form.shape not in ("causal", "open")}
        return Caller(
            kind=kind,
            outputs=self.outputs,
            everything=self.everything,
            takes_keep=False in takes,
            takes_source_keep=True in takes,
            counts=any(form.shape == "lengths" for form in self.masks.values()),
            pooled=self.pooled,
        )


def one_more(given: Given) -> Given:
    """Return a text with its last token once more, for a model that takes off the last one."""
    inputs = torch.cat([given.inputs, given.inputs[:, -1:]], 1)
    keep = None if given.keep is None else torch.cat([given.keep, given.keep[:, -1:]], 1)
    return replace(given, inputs=inputs, keep=keep)


def with_outputs(model: nn.Module, plan: Plan) -> Plan:
    """Return the plan with what is to be known of the outputs' length: whether it is one row, or one too few."""
    needed = [each for each in plan.arguments if each.role == "mask" and each.required]
    kind: Kind = "encoder" if plan.source is None else "encoder_decoder"
    labels = next((each.name for each in plan.arguments if each.role == "labels"), None)
    for base in _bases(plan, needed):
        caller = replace(base.caller(kind), vocab=2, source_vocab=2)
        found = []
        try:
            for length in lengths_for(model)[:3]:
                with quietly(model), torch.no_grad():
                    shape = base.outputs(model, ones(model, caller, length, GAP)).shape
                found.append((tuple(shape), length))
        except Exception:  # of the subject's own code, which wants another mask
            continue
        if all(len(shape) == 3 and shape[:2] == (ROWS, length - 1) for shape, length in found):
            return replace(plan, cuts=plan.source is not None or labels is None)
        one = len({shape for shape, _ in found}) == 1 and found[0][0][:1] == (ROWS,)
        if one and plan.source is None:
            out = found[0][0]
            last = len(out) == 3 and out[1] == 1 and labels is not None
            return replace(plan, asks=labels if last else None, pooled=len(out) == 2)
        return plan
    return plan


def first_plan(model: nn.Module) -> Plan:
    """Return what the names of the arguments say.

    Raises:
        ConfigError: They take no text, or more than two.
    """
    arguments = arguments_of(model)
    contents = [each for each in arguments if each.role == "content"]
    required = [each for each in contents if each.required]
    optional = [each for each in contents if not each.required]
    chosen = required or optional[:1]
    if len(chosen) == 1 and chosen[0].side != "target":  # a target that may be left out: the model makes it of labels
        chosen = chosen + [each for each in optional if each.side == "target" and each not in chosen][:1]
    if not 1 <= len(chosen) <= 2:
        signature = inspect.signature(model.forward)
        raise ConfigError(
            f"{type(model).__name__}.forward{signature} takes {len(chosen)} texts, as far as can be told; a whole "
            "Transformer takes one, or a source and a target. Write down how to call it: "
            "glassformer check FILE.py:NAME --template call.py"
        )
    if len(chosen) == 1:
        return Plan(arguments, None, chosen[0].name)
    source, inputs = chosen if chosen[0].side != "target" or chosen[1].side == "target" else reversed(chosen)
    return Plan(arguments, source.name, inputs.name)


def that_runs(model: nn.Module, plan: Plan, kind: Kind) -> tuple[Plan, Caller]:
    """Return what goes in, ids or embeddings, how many ids there are, and a form of the masks that must be given.

    Raises:
        Exception: What the model's own code raised the first time, where it runs in no way.
    """
    needed = [each for each in plan.arguments if each.role == "mask" and each.required]
    first: Exception | None = None
    for base in _bases(plan, needed):
        caller = replace(base.caller(kind), vocab=2, source_vocab=2)
        try:
            length, gap = usable_length(model, caller)
        except Exception as error:  # of the subject's own code
            first = first or error
            continue
        with Tables() as seen, quietly(model), torch.no_grad():
            out = base.outputs(model, ones(model, caller, length, gap))
        found = seen.sizes(length) or [out.shape[-1]]
        apart = kind != "encoder_decoder" or gap > 0  # else the first table is the source's, the last the target's
        vocab = min(found) if apart else found[-1]
        source = min(seen.sizes(length - gap) or [vocab]) if apart else found[0]
        return base, replace(caller, vocab=vocab, source_vocab=source if kind == "encoder_decoder" else None)
    widths = {size for tensor in model.parameters() if tensor.ndim for size in (tensor.shape[-1],)}
    for base in _bases(plan, needed):
        for width in sorted(widths):
            caller = replace(base.caller(kind), width=width)
            try:
                usable_length(model, caller)
            except Exception:  # of the subject's own code; the first error of the usual call is what is told
                continue
            return base, caller
    assert first is not None, "there is a base"
    raise first


def _bases(plan: Plan, needed: Sequence[Argument]) -> Iterator[Plan]:
    """The plan with every required mask in one of the usual forms; all of them in the same, but square for targets."""
    if not needed:
        yield plan
        return
    for form in chain(padding_forms(None, causal=False), open_forms()):
        for square in (False, True):
            made = plan
            for each in needed:
                bare = square and not made.of_source(each.name)
                shape = MaskForm("square", form.hides, form.dtype, True) if bare else form
                made = made.with_masks([each.name], COUNTS if each.counts else shape)
            yield made


class Tables(TorchFunctionMode):
    """Sees which tables rows of ones are looked up in."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[int, int]] = []

    def sizes(self, length: int) -> list[int]:
        """Rows of each table that rows of some length were looked up in, in their order."""
        return [rows for width, rows in self.seen if width == length]

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func.__name__ == "embedding" and len(args) > 1:
            self._see(args[0], args[1])
        elif func.__name__ == "__getitem__" and isinstance(args[1], Tensor) and args[0].ndim == 2:
            self._see(args[1], args[0])
        return func(*args, **dict(kwargs or {}))

    def _see(self, ids: Any, table: Any) -> None:
        if isinstance(ids, Tensor) and ids.ndim == 2 and ids.dtype == torch.long and bool((ids == 1).all()):
            self.seen.append((ids.shape[1], table.shape[0]))


def usable_length(model: nn.Module, caller: Caller) -> tuple[int, int]:
    """Return the first length that a model runs on, if possible one that none of its sizes equals, and the gap.

    The gap, by how much a source is shorter, is 0 only where the model runs on nothing else.

    Raises:
        Exception: What the model's own code raised, where it runs on no length.
    """
    first: Exception | None = None
    for gap in (GAP, 0) if caller.kind == "encoder_decoder" else (GAP,):
        for length in lengths_for(model):
            try:
                with quietly(model), torch.no_grad():
                    out = caller.outputs(model, ones(model, caller, length, gap))
                if out.ndim >= 2 and out.shape[1] == (1 if caller.pooled else length):
                    return length, gap
                what = f"the output has shape {tuple(out.shape)} for {ROWS} rows of {length} tokens"
                cut = out.ndim == 3 and out.shape[0] == ROWS and abs(out.shape[1] - length) <= 2
                if cut or (out.ndim == 2 and out.shape[0] in (length, length + 1)):
                    raise WrongLengthError(tuple(out.shape), length)
                problem: Exception = ConfigError(
                    f"{what}; a whole model is examined by what it says of every token. Name the stack inside that "
                    "does, or write down how to get its states: --template FILE"
                )
            except Exception as error:  # of the subject's own code
                problem = error
            first = first or problem
    assert first is not None, "there are lengths"
    raise first


def looks_up_tokens(model: nn.Module) -> bool:
    """Return whether a module takes token ids: it runs on them, and looks them up in a table."""
    was = model.training
    try:
        plan = first_plan(model.eval())
        kind: Kind = "encoder" if plan.source is None else "encoder_decoder"
        _, caller = that_runs(model, with_outputs(model, plan), kind)
        with Tables() as seen, quietly(model), torch.no_grad():
            caller.outputs(model, ones(model, caller, *usable_length(model, caller)))
    except Exception:  # of the user's own code, or none that can be called so
        return False
    finally:
        model.train(was)
    return caller.vocab is not None and bool(seen.seen)


def lengths_for(model: nn.Module) -> list[int]:
    """Return the lengths to try, those that are no size of the model first."""
    sizes = {size for tensor in model.parameters() for size in tensor.shape}
    sizes |= {value for part in model.modules() for value in vars(part).values() if type(value) is int}
    return sorted(LENGTHS, key=lambda length: bool({length, length - GAP} & sizes))


def ones(model: nn.Module, caller: Caller, length: int, gap: int) -> Given:
    """Ids that every vocabulary has and no token type is; positions count, so they are told apart too."""
    like = next(model.parameters())

    def made(ids: bool, width: int) -> Tensor:
        if ids:
            return torch.ones(ROWS, width, dtype=torch.long, device=like.device)
        return torch.randn(ROWS, width, caller.width).to(like)

    source = made(caller.source_vocab is not None, length - gap) if caller.kind == "encoder_decoder" else None
    return Given(made(caller.vocab is not None, length), source=source)


def update(subject: ModelSubject, plan: Plan) -> Caller:
    """Let a subject be called by a plan."""
    old = subject.caller
    fresh = plan.caller(old.kind)
    subject.caller = replace(fresh, vocab=old.vocab, source_vocab=old.source_vocab, width=old.width)
    return subject.caller
