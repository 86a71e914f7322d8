"""What a model offers besides its outputs: a loss of its own, and going on from a cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.diagnosis.plan import Plan
from glassformer.diagnosis.signature import cache_in, loss_in, outputs_in
from glassformer.diagnosis.subject import Given, ModelSubject, quietly


def loss_of(subject: ModelSubject, plan: Plan, name: str) -> str | None:
    """Return how a model hands out its loss: "mapping" as the reference library's, "plain" in a tuple; None = not."""
    given = subject.draw(2)
    try:
        with quietly(subject.model), torch.no_grad():
            result = plan.call(subject.model, subject.fitted(given, subject.model), {name: given.inputs})
    except Exception:  # of the subject's own code: it wants other labels
        return None
    if loss_in(result) is None:
        return None
    return "mapping" if isinstance(result, Mapping) else "plain"


@dataclass(frozen=True)
class OwnLoss:
    """The loss that a model computes.

    Attributes:
        plan: The call.
        name: The argument that takes the labels.
    """

    plan: Plan
    name: str

    def __call__(self, model: nn.Module, given: Given, labels: Tensor) -> Tensor:
        found = loss_in(self.plan.call(model, given, {self.name: labels}))
        assert found is not None, "it returned one when it was tried"
        return found

    def fed(self, model: nn.Module, given: Given, labels: Tensor) -> Tensor:
        """Return the scores of a model that makes the text of its decoder of the labels."""
        return outputs_in(self.plan.call(model, given, {self.name: labels}, alone=True), 2)[0]

    def scored(self, model: nn.Module, given: Given, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss, and the scores that came with it."""
        result = self.plan.call(model, given, {self.name: labels})
        loss, outputs = loss_in(result), outputs_in(result, 2)
        assert loss is not None, "it returned one when it was tried"
        return loss, outputs[0] if outputs else loss


def feeds(subject: ModelSubject, own: OwnLoss) -> bool:
    """Return whether a model runs on labels alone, and scores every one of them."""
    given = subject.fitted(subject.draw(2), subject.model)
    try:
        with quietly(subject.model), torch.no_grad():
            out = own.fed(subject.model, given, given.inputs)
    except Exception:  # of the subject's own code: it wants the text as well
        return False
    return out.shape[:2] == given.inputs.shape


@dataclass(frozen=True)
class OfText:
    """The loss of a text that holds its own labels.

    Attributes:
        plan: The call, of a model that takes off the last token.
    """

    plan: Plan

    def __call__(self, model: nn.Module, given: Given) -> tuple[Tensor, Tensor]:
        result = replace(self.plan, cuts=False).call(model, given)
        loss = loss_in(result)
        assert loss is not None, "it returned one when it was tried"
        return outputs_in(result, 2)[0], loss


def told_of(subject: ModelSubject, plan: Plan) -> OfText | None:
    """Return how a model is asked for scores and loss of a text, if it returns both."""
    given = subject.fitted(subject.draw(2), subject.model)
    with quietly(subject.model), torch.no_grad():
        result = plan.call(subject.model, given)
    return None if loss_in(result) is None else OfText(plan)


@dataclass(frozen=True)
class Stepwise:
    """A call that goes on from where the last one stopped.

    Attributes:
        plan: The call.
        cache: The argument that takes the cache.
        empty: What stands for an empty one.
        use: The argument that asks for one.
        offset: The argument that takes the number of tokens before.
    """

    plan: Plan
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
        result = self.plan.call(model, given, more)
        returned = cache_in(result)
        if returned is None:
            returned = kept  # it was filled in place
        return outputs_in(result)[0], (returned, seen + given.inputs.shape[1])

    def fresh(self) -> Any:
        """An empty cache."""
        return type(self.empty)() if isinstance(self.empty, (list, dict)) else self.empty


def cached_of(subject: ModelSubject, plan: Plan) -> Stepwise | None:
    """Return how a model is called with a cache, if it has one that is handed in and out, or filled in place."""
    name = next((each.name for each in plan.arguments if each.role == "cache"), None)
    if name is None:
        return None
    use = next((each.name for each in plan.arguments if each.role == "use_cache"), None)
    offset = next((each.name for each in plan.arguments if each.role == "offset"), None)
    given = subject.fitted(subject.draw(2), subject.model)
    empties: tuple[Any, ...] = (None, [], {})
    for empty in empties:
        trial = Stepwise(plan, name, empty, use, offset)
        try:
            with quietly(subject.model), torch.no_grad():
                start = replace(given, inputs=given.inputs[:, :4])
                _, state = trial(subject.model, start, None)
                if not isinstance(state[0], Tensor) and (state[0] is None or not _filled(state[0])):
                    continue
                if _pairs(state[0]) and not any(each.role == "mask" for each in plan.arguments):
                    return trial  # keys and values of each layer, handed in as they came out: what it does is examined
                out, _ = trial(subject.model, replace(given, inputs=given.inputs[:, 4:5]), state)
        except Exception:  # of the subject's own code: it wants another kind of cache
            continue
        if out.shape[1] == 1:
            return trial
    return None


def _pairs(state: Any) -> bool:
    """Whether a cache is a sequence of tuples of tensors."""
    return isinstance(state, (list, tuple)) and all(
        isinstance(layer, (list, tuple)) and layer and all(isinstance(each, Tensor) for each in layer)
        for layer in state
    )


def _filled(state: Any) -> bool:
    return not isinstance(state, (list, dict, tuple)) or len(state) > 0
