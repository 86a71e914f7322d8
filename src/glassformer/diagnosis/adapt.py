"""How a model that somebody else wrote wants to be called, found by trying."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from glassformer.core.errors import ConfigError
from glassformer.diagnosis.extras import OwnLoss, cached_of, feeds, loss_of, told_of
from glassformer.diagnosis.fitting import with_masks
from glassformer.diagnosis.influence import hides_padding, marks_padding, seems_causal
from glassformer.diagnosis.masks import MaskForm
from glassformer.diagnosis.native import native_caller
from glassformer.diagnosis.plan import Plan, first_plan, that_runs, update, usable_length, with_outputs
from glassformer.diagnosis.subject import Caller, Given, Kind, ModelSubject
from glassformer.diagnosis.torch_modules import torch_caller
from glassformer.models.transformer import Transformer


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


def _recognised(model: nn.Module, wanted: Kind | None) -> ModelSubject:
    model.eval()
    plan = first_plan(model)
    kind: Kind = "encoder" if plan.source is None else "encoder_decoder"
    if wanted is not None and (wanted == "encoder_decoder") != (kind == "encoder_decoder"):
        raise ConfigError(f"forward takes {1 + (plan.source is not None)} text(s); this is no {wanted}")
    plan, caller = that_runs(model, with_outputs(model, plan), kind)
    subject = ModelSubject(model, caller, *usable_length(model, caller))
    remarks: list[tuple[str, dict[str, Any]]] = []
    plan = with_masks(subject, plan, wanted)
    caller = update(subject, plan)
    loss = next((each.name for each in plan.arguments if each.role == "labels"), None)
    with_loss = None if loss is None else loss_of(subject, plan, loss)
    cached = cached_of(subject, plan)
    if plan.cuts:
        remarks.append(("cuts", {}))
    if plan.asks is not None:
        remarks.append(("asks", {"name": plan.asks}))
    if plan.pooled:
        remarks.append(("pooled", {}))
    elif kind == "encoder":
        kind, reason = _kind(subject, plan, wanted, plain_loss=with_loss == "plain", cached=cached is not None)
        remarks.append((reason, {}))
    remarks += [_mask_remark(name, form) for name, form in plan.masks.items()]
    shifts: tuple[int, ...] = ()
    if loss is not None and with_loss is not None:
        shifts = (0,) if kind != "decoder" or loss != "labels" else (1,) if with_loss == "mapping" else (0, 1)
    known = kind == "decoder" or caller.takes_keep or caller.takes_source_keep
    pad = None if known else _pad_of(subject)
    own = None if loss is None or with_loss is None else OwnLoss(plan, loss)
    told = told_of(subject, plan) if plan.cuts else None
    fed = None if own is None or not (plan.feeds_itself and feeds(subject, own)) else own.fed
    subject.caller = replace(
        caller,
        kind=kind,
        loss=own,
        scored=None if own is None else own.scored,
        fed=fed,
        told=told,
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


def _kind(
    subject: ModelSubject, plan: Plan, wanted: Kind | None, *, plain_loss: bool, cached: bool
) -> tuple[Kind, str]:
    """Whether one stack predicts what comes next or reads both sides, with the reason."""
    if wanted is not None:
        return wanted, "kind_said"
    if cached:
        return "decoder", "kind_cache"
    segments = any(each.role == "segments" for each in plan.arguments)
    if plain_loss and not segments and not subject.caller.takes_keep:
        return "decoder", "kind_targets"
    if any(form.causal for form in plan.masks.values()):
        return "decoder", "kind_mask"
    if _has_triangle(subject.model):
        return "decoder", "kind_triangle"
    if seems_causal(subject):
        return "decoder", "kind_causal"
    if segments:
        return "encoder", "kind_segments"
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
    if subject.caller.vocab is None:
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
    before = subject.caller
    of_source = before.kind == "encoder_decoder"
    if marks_padding(subject, 0, of_source=of_source):
        return 0
    subject.caller = _padded_by_id(before, 0)
    try:
        return 0 if hides_padding(subject, of_source=of_source) else None
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
