"""How a model that somebody else wrote wants to be called, found by trying."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from glassformer.core.errors import ConfigError, UnsupportedError
from glassformer.diagnosis.influence import hidden_future, hides_padding, seems_causal
from glassformer.diagnosis.masks import MaskForm, causal_forms, open_forms, padding_forms
from glassformer.diagnosis.native import native_caller
from glassformer.diagnosis.signature import Argument, arguments_of, cache_in, loss_in, outputs_in
from glassformer.diagnosis.subject import GAP, LENGTHS, Caller, Given, Kind, ModelSubject, quietly
from glassformer.diagnosis.torch_modules import torch_caller
from glassformer.models.transformer import Transformer

ROWS = 5
"""Rows of a trial: hardly ever a number of heads, so that a mask of another form is refused and not broadcast."""


def subject_of(model: nn.Module, kind: Kind | None = None) -> ModelSubject:
    """Return a model with the way it is called.

    Args:
        model: Any whole Transformer.
        kind: What it is; None = what its signature and behaviour say.

    Raises:
        ConfigError: It cannot be called in any way that is known here.
    """
    known = native_caller(model) if isinstance(model, Transformer) else torch_caller(model)
    if known is not None:
        if kind is not None and kind != known.kind and "encoder_decoder" in (kind, known.kind):
            raise ConfigError(f"the model is of kind {known.kind}; it cannot be examined as {kind}")
        caller = known if kind is None else replace(known, kind=kind)
        return ModelSubject(model, caller, *usable_length(model, caller))
    return _recognised(model, kind)


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
                    out = caller.outputs(model, _ones(model, caller, length, gap))
                if out.ndim >= 2 and out.shape[1] == length:
                    return length, gap
                problem: Exception = ConfigError(f"the output has shape {tuple(out.shape)} for {length} tokens a row")
            except Exception as error:  # of the subject's own code
                problem = error
            first = first or problem
    assert first is not None, "there are lengths"
    raise first


def looks_up_tokens(model: nn.Module) -> bool:
    """Return whether a module takes token ids: it runs on them, and looks them up in a table."""
    was = model.training
    try:
        plan = _first_plan(model.eval())
        kind: Kind = "encoder" if plan.source is None else "encoder_decoder"
        _, caller = _that_runs(model, plan, kind)
        with _Tables() as seen, quietly(model), torch.no_grad():
            caller.outputs(model, _ones(model, caller, *usable_length(model, caller)))
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


def _ones(model: nn.Module, caller: Caller, length: int, gap: int) -> Given:
    """Ids that every vocabulary has and no token type is; positions count, so they are told apart too."""
    like = next(model.parameters())

    def made(ids: bool, width: int) -> Tensor:
        if ids:
            return torch.ones(ROWS, width, dtype=torch.long, device=like.device)
        return torch.randn(ROWS, width, caller.width).to(like)

    source = made(caller.source_vocab is not None, length - gap) if caller.kind == "encoder_decoder" else None
    return Given(made(caller.vocab is not None, length), source=source)


@dataclass(frozen=True)
class _Plan:
    """Which argument gets what."""

    arguments: Sequence[Argument]
    source: str | None
    inputs: str
    masks: Mapping[str, MaskForm] = field(default_factory=dict)

    def call(self, model: nn.Module, given: Given, **more: Any) -> Any:
        named: dict[str, Any] = {self.inputs: given.inputs}
        if self.source is not None:
            named[self.source] = given.source
        for name, form in self.masks.items():
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

    def with_masks(self, names: Iterable[str], form: MaskForm) -> _Plan:
        return replace(self, masks={**self.masks, **dict.fromkeys(names, form)})

    def outputs(self, model: nn.Module, given: Given) -> Tensor:
        found = outputs_in(self.call(model, given))
        if not found:
            raise UnsupportedError(f"{type(model).__name__} returns no tensor of numbers")
        return found[0]

    def everything(self, model: nn.Module, given: Given) -> list[Tensor]:
        return outputs_in(self.call(model, given))

    def caller(self, kind: Kind) -> Caller:
        """The call as far as it is known."""
        takes = {self.of_source(name) for name, form in self.masks.items() if form.shape not in ("causal", "open")}
        return Caller(
            kind=kind,
            outputs=self.outputs,
            everything=self.everything,
            takes_keep=False in takes,
            takes_source_keep=True in takes,
        )


def _recognised(model: nn.Module, wanted: Kind | None) -> ModelSubject:
    model.eval()
    plan = _first_plan(model)
    kind: Kind = "encoder" if plan.source is None else "encoder_decoder"
    if wanted is not None and (wanted == "encoder_decoder") != (kind == "encoder_decoder"):
        raise ConfigError(f"forward takes {1 + (plan.source is not None)} text(s); this is no {wanted}")
    plan, caller = _that_runs(model, plan, kind)
    subject = ModelSubject(model, caller, *usable_length(model, caller))
    remarks: list[tuple[str, dict[str, Any]]] = []
    plan = _with_masks(subject, plan, wanted)
    caller = _update(subject, plan)
    loss = next((each.name for each in plan.arguments if each.role == "labels"), None)
    with_loss = None if loss is None else _loss_of(subject, plan, loss)
    cached = _cached_of(subject, plan)
    if kind == "encoder":
        kind, reason = _kind(subject, plan, wanted, plain_loss=with_loss == "plain", cached=cached is not None)
        remarks.append((reason, {}))
    remarks += [_mask_remark(name, form) for name, form in plan.masks.items()]
    shifts: tuple[int, ...] = ()
    if loss is not None and with_loss is not None:
        shifts = (0,) if kind != "decoder" or loss != "labels" else (1,) if with_loss == "mapping" else (0, 1)
    pad = None if caller.takes_keep or caller.takes_source_keep else _pad_of(subject)
    subject.caller = replace(
        caller,
        kind=kind,
        loss=None if loss is None or with_loss is None else _Loss(plan, loss),
        shifts=shifts,
        cached=cached if kind != "encoder" else None,
        remarks=tuple(remarks),
    )
    if pad is not None:
        subject.caller = _padded_by_id(subject.caller, pad)
    return subject


def _mask_remark(name: str, form: MaskForm) -> tuple[str, dict[str, Any]]:
    if form.dtype.is_floating_point and form.hides:
        return "mask_added", {"name": name}
    return "mask_hides" if form.hides else "mask_shows", {"name": name}


def _first_plan(model: nn.Module) -> _Plan:
    arguments = arguments_of(model)
    contents = [each for each in arguments if each.role == "content"]
    required = [each for each in contents if each.required]
    optional = [each for each in contents if not each.required]
    chosen = required or optional[:1] + [each for each in optional[1:] if each.side == "target"]
    if not 1 <= len(chosen) <= 2:
        signature = inspect.signature(model.forward)
        raise ConfigError(
            f"{type(model).__name__}.forward{signature} takes {len(chosen)} texts, as far as can be told; a whole "
            "Transformer takes one, or a source and a target. Write down how to call it: "
            "glassformer check FILE.py:NAME --template call.py"
        )
    if len(chosen) == 1:
        return _Plan(arguments, None, chosen[0].name)
    source, inputs = chosen if chosen[0].side != "target" or chosen[1].side == "target" else reversed(chosen)
    return _Plan(arguments, source.name, inputs.name)


def _that_runs(model: nn.Module, plan: _Plan, kind: Kind) -> tuple[_Plan, Caller]:
    """Find what goes in, ids or embeddings, how many ids there are, and a form of the masks that must be given."""
    needed = [each for each in plan.arguments if each.role == "mask" and each.required]
    first: Exception | None = None
    for base in _bases(plan, needed):
        caller = replace(base.caller(kind), vocab=2, source_vocab=2)
        try:
            length, gap = usable_length(model, caller)
        except Exception as error:  # of the subject's own code
            first = first or error
            continue
        with _Tables() as seen, quietly(model), torch.no_grad():
            out = base.outputs(model, _ones(model, caller, length, gap))
        vocab = seen.size(length, last=True) or out.shape[-1]
        source = seen.size(length - gap) or vocab
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


def _bases(plan: _Plan, needed: Sequence[Argument]) -> Iterator[_Plan]:
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
                made = made.with_masks([each.name], shape)
            yield made


class _Tables(TorchFunctionMode):
    """Sees which tables rows of ones are looked up in."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[int, int]] = []

    def size(self, length: int, *, last: bool = False) -> int | None:
        """Rows of the first, or the last, table that rows of some length were looked up in."""
        found = [rows for width, rows in self.seen if width == length]
        return found[-1 if last else 0] if found else None

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


def _update(subject: ModelSubject, plan: _Plan, kind: Kind | None = None) -> Caller:
    old = subject.caller
    fresh = plan.caller(kind or old.kind)
    subject.caller = replace(fresh, vocab=old.vocab, source_vocab=old.source_vocab, width=old.width)
    return subject.caller


def _with_masks(subject: ModelSubject, plan: _Plan, wanted: Kind | None) -> _Plan:
    """Find the form of every mask: the first with which padding is hidden, or the future, or both."""
    masks = [each for each in plan.arguments if each.role == "mask"]
    if plan.source is None and any(each.side == "either" for each in masks):
        masks = [each for each in masks if each.side == "either"]  # the others are for a text that is not there
    for of_source in (True, False):
        group = [each for each in masks if plan.of_source(each.name) == of_source]
        said = [each for each in group if each.pads is not None]
        vague = [each for each in group if each.pads is None][:1]
        writes = not of_source and (plan.source is not None or wanted == "decoder")
        if vague and said:
            forms = list(open_forms()) if of_source else list(causal_forms())
            plan = _first_that(subject, plan, vague, forms, () if of_source else (hidden_future,))
        chosen = said or vague
        if not chosen:
            continue
        hides = _Hides(of_source)
        forms = list(padding_forms(chosen[0].pads, causal=writes))
        plan = _first_that(subject, plan, chosen, forms, (hides, hidden_future) if writes else (hides,))
        if not said and not of_source and not hides(subject):
            plan = _first_that(subject, plan, chosen, list(causal_forms()), (hidden_future,))
    _update(subject, plan)
    return plan


@dataclass(frozen=True)
class _Hides:
    of_source: bool

    def __call__(self, subject: ModelSubject) -> bool:
        return hides_padding(subject, of_source=self.of_source)


def _first_that(
    subject: ModelSubject,
    plan: _Plan,
    arguments: Sequence[Argument],
    forms: Sequence[MaskForm],
    tests: Sequence[Callable[[ModelSubject], bool]],
) -> _Plan:
    """The plan with the first form that does all that a mask is for, or most of it; as it is, if a mask may be left out
    and does nothing."""
    names = [each.name for each in arguments]
    best, most = plan, -1
    for form in forms:
        trial = plan.with_masks(names, form)
        _update(subject, trial)
        try:
            done = [test(subject) for test in tests]
        except Exception:  # of the subject's own code: it does not take this form
            continue
        if sum(done) > most:
            best, most = trial, sum(done)
        if all(done):
            break
    idle = most == 0 and all(form.shape in ("causal", "open") for form in forms)
    best = plan if idle and not any(each.required for each in arguments) else best
    _update(subject, best)
    return best


def _loss_of(subject: ModelSubject, plan: _Plan, name: str) -> str | None:
    """How a model hands out its loss: "mapping" as the reference library's, "plain" in a tuple; None = not at all."""
    given = subject.draw(2)
    try:
        with quietly(subject.model), torch.no_grad():
            result = plan.call(subject.model, subject.fitted(given, subject.model), **{name: given.inputs})
    except Exception:  # of the subject's own code: it wants other labels
        return None
    if loss_in(result) is None:
        return None
    return "mapping" if isinstance(result, Mapping) else "plain"


@dataclass(frozen=True)
class _Loss:
    plan: _Plan
    name: str

    def __call__(self, model: nn.Module, given: Given, labels: Tensor) -> Tensor:
        found = loss_in(self.plan.call(model, given, **{self.name: labels}))
        assert found is not None, "it returned one when it was tried"
        return found


@dataclass(frozen=True)
class _Cached:
    """A call that goes on from where the last one stopped."""

    plan: _Plan
    cache: str
    empty: Any
    use: str | None
    offset: str | None

    def __call__(self, model: nn.Module, given: Given, state: Any) -> tuple[Tensor, Any]:
        kept, seen = (self.fresh(), 0) if state is None else state
        more: dict[str, Any] = {self.cache: kept}
        if self.use is not None:
            more[self.use] = True
        if self.offset is not None:
            more[self.offset] = seen
        result = self.plan.call(model, given, **more)
        returned = cache_in(result)
        if returned is None:
            returned = kept  # it was filled in place
        return outputs_in(result)[0], (returned, seen + given.inputs.shape[1])

    def fresh(self) -> Any:
        """An empty cache."""
        return type(self.empty)() if isinstance(self.empty, (list, dict)) else self.empty


def _cached_of(subject: ModelSubject, plan: _Plan) -> _Cached | None:
    name = next((each.name for each in plan.arguments if each.role == "cache"), None)
    if name is None:
        return None
    use = next((each.name for each in plan.arguments if each.role == "use_cache"), None)
    offset = next((each.name for each in plan.arguments if each.role == "offset"), None)
    given = subject.fitted(subject.draw(2), subject.model)
    empties: tuple[Any, ...] = (None, [], {})
    for empty in empties:
        trial = _Cached(plan, name, empty, use, offset)
        try:
            with quietly(subject.model), torch.no_grad():
                start = replace(given, inputs=given.inputs[:, :4])
                _, state = trial(subject.model, start, None)
                if not isinstance(state[0], Tensor) and (state[0] is None or not _filled(state[0])):
                    continue
                out, _ = trial(subject.model, replace(given, inputs=given.inputs[:, 4:5]), state)
        except Exception:  # of the subject's own code: it wants another kind of cache
            continue
        if out.shape[1] == 1:
            return trial
    return None


def _filled(state: Any) -> bool:
    return not isinstance(state, (list, dict, tuple)) or len(state) > 0


def _kind(
    subject: ModelSubject, plan: _Plan, wanted: Kind | None, *, plain_loss: bool, cached: bool
) -> tuple[Kind, str]:
    """Whether one stack predicts what comes next or reads both sides, with the reason."""
    if wanted is not None:
        return wanted, "kind_said"
    if cached:
        return "decoder", "kind_cache"
    if plain_loss:
        return "decoder", "kind_targets"
    if any(form.causal for form in plan.masks.values()):
        return "decoder", "kind_mask"
    if _has_triangle(subject.model):
        return "decoder", "kind_triangle"
    if seems_causal(subject):
        return "decoder", "kind_causal"
    if not subject.caller.takes_keep and _scores_tokens(subject):
        return "decoder", "kind_guess"
    return "encoder", "kind_both"


def _scores_tokens(subject: ModelSubject) -> bool:
    return subject.caller.vocab is not None and subject.run(subject.draw(1)).shape[-1] == subject.caller.vocab


def _has_triangle(model: nn.Module) -> bool:
    """Whether a buffer is a mask of the future."""
    for buffer in model.buffers():
        if buffer.ndim < 2 or buffer.shape[-1] != buffer.shape[-2] or buffer.shape[-1] < 2:
            continue
        square = buffer.reshape(-1, *buffer.shape[-2:])[0]
        marked = square != square[0, 0] if square.dtype != torch.bool else square ^ square[0, 0]
        marked = marked.fill_diagonal_(False)
        upper, lower = marked.triu(1), marked.tril(-1)
        if bool(upper.any()) != bool(lower.any()):
            return True
    return False


def _pad_of(subject: ModelSubject) -> int | None:
    """The id that is padding: one that the model declares, or that hides itself where it is tried."""
    if subject.caller.vocab is None or subject.caller.kind == "decoder":
        return None
    declared = [part.padding_idx for part in subject.model.modules() if isinstance(part, nn.Embedding)]
    named = [
        value
        for name, value in vars(subject.model).items()
        if type(value) is int and "pad" in name and 0 <= value < subject.caller.vocab
    ]
    known = next((each for each in [*declared, *named] if each is not None), None)
    if known is not None:
        return known
    trial = replace(subject) if False else None
    del trial
    before = subject.caller
    subject.caller = _padded_by_id(before, 0)
    try:
        return 0 if hides_padding(subject, of_source=before.kind == "encoder_decoder") else None
    except Exception:  # of the subject's own code, which does not bear a shorter text
        return None
    finally:
        subject.caller = before


def _padded_by_id(caller: Caller, pad: int) -> Caller:
    """The call of a model that knows padding by its id."""

    def padded(given: Given) -> Given:
        inputs, source = given.inputs, given.source
        if given.keep is not None:
            inputs = inputs.masked_fill(~given.keep, pad)
        if given.source_keep is not None and source is not None:
            source = source.masked_fill(~given.source_keep, pad)
        return Given(inputs, source=source)

    return replace(
        caller,
        outputs=lambda model, given: caller.outputs(model, padded(given)),
        everything=lambda model, given: caller.everything(model, padded(given)),
        takes_keep=caller.kind == "encoder",
        takes_source_keep=caller.kind == "encoder_decoder",
        pad=pad,
        remarks=(*caller.remarks, ("pad_id", {"id": pad})),
    )
