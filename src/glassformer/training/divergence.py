"""What is said of an update that came to nothing: which way it went wrong, in which module, at which token."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from glassformer.core.places import IGNORED
from glassformer.data.batch import Batch
from glassformer.inspection.bad_gradient import BadGradient, first_bad_gradient
from glassformer.inspection.nonfinite import first_non_finite, is_finite, largest_finite
from glassformer.inspection.spot import Rows, Spot, find_spot
from glassformer.models.inference import inference
from glassformer.models.transformer import Transformer
from glassformer.text.tokenizer import TextTokenizer
from glassformer.training.bad_update import Made, describe_bad_parameters, describe_weight, items_of
from glassformer.training.objective import objective

Loss = Callable[[Batch], Tensor]
"""The sum of a batch's losses, as training computes it."""


@dataclass(frozen=True, eq=False)
class RandomState:
    """What dropout draws from: torch's generators of the processor and of the device.

    Attributes:
        cpu: State of the first.
        device: Which other device there is a state of, if any.
        own: That state.
    """

    cpu: Tensor
    device: torch.device
    own: Tensor | None

    @staticmethod
    def now(device: torch.device) -> RandomState:
        """Return the state as it is."""
        own = {"cuda": lambda: torch.cuda.get_rng_state(device), "mps": torch.mps.get_rng_state}.get(device.type)
        return RandomState(torch.get_rng_state(), device, None if own is None else own())

    def restore(self) -> None:
        """Draw the same numbers again from here on."""
        torch.set_rng_state(self.cpu)
        if self.own is not None and self.device.type == "cuda":
            torch.cuda.set_rng_state(self.own, self.device)
        elif self.own is not None:
            torch.mps.set_rng_state(self.own)


@dataclass(frozen=True, eq=False)
class Failure:
    """An update that is not finite, and all that is needed to repeat it; nothing of it is kept before it fails.

    Attributes:
        model: As it was before the update, with the gradients that were found.
        optimizer: As the update before left it.
        tokenizer: Names the token.
        window: The batches of the update.
        step: Its number.
        epoch: Of its items.
        loss: What the sum of its losses was.
        skipped: Updates that were left out before it, because gradients of float16 overflowed.
        random: The random state before it.
        made: The update before; None if there is none.
        forward: Computes the sum of the losses of one batch.
        backward: Sends such a sum back.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    tokenizer: TextTokenizer
    window: Sequence[Batch]
    step: int
    epoch: int
    loss: float
    skipped: int
    random: RandomState
    made: Made | None
    forward: Loss
    backward: Callable[[Tensor], None]

    def explain(self) -> str:
        """Return what happened, in at most seven lines: update, direction and module, row and token, optimizer."""
        if broken := describe_bad_parameters(self.model, self.optimizer, self.made, self.tokenizer):
            return f"{self._headline(None)}\nUpdate. {broken}"
        if not math.isfinite(self.loss):
            return self._in_forward() or self._not_again()
        return self._in_backward()

    def _headline(self, number: int | None) -> str:
        """Update, items, and the batch of several whose gradients are added up."""
        what = "gradient" if math.isfinite(self.loss) else "loss"
        which = "" if number is None or len(self.window) == 1 else f"batch {number + 1} of {len(self.window)}: "
        batches = self.window if number is None else [self.window[number]]
        items = items_of(tuple(item for batch in batches for item in batch.items))
        skipped = f"; {self.skipped} updates before it were left out for that" if self.skipped else ""
        return f"the {what} of update {self.step} is not finite ({which}{items} of epoch {self.epoch}){skipped}"

    def _in_forward(self) -> str | None:
        self.random.restore()
        for number, batch in enumerate(self.window):
            before = RandomState.now(self.random.device)
            found = first_non_finite(self.model, lambda batch=batch: self.forward(batch))  # type: ignore[misc]
            if found is None:
                continue
            lines: list[str | None] = [self._headline(number), f"Forward pass. {found.describe()}"]
            result = found.kind == "result"
            spot = self._bad_target(batch, before) if result else find_spot(found.site, found.bad, rows_of(batch))
            lines.append(say_spot(spot, batch, self.tokenizer))
            lines.append(describe_weight(self.model, self.optimizer, self.made, found))
            before.restore()
            again = first_non_finite(self.model, lambda batch=batch: self.forward(batch))  # type: ignore[misc]
            if again is None or (again.site, again.index, again.sizes) != (found.site, found.index, found.sizes):
                lines.append(NOT_REPEATABLE)
            return _joined(lines)
        return None

    def _in_backward(self) -> str:
        gradients = {name: p.grad for name, p in self.model.named_parameters() if p.grad is not None}
        bad = [name for name, gradient in gradients.items() if not is_finite(gradient)]
        if not bad:
            sizes = {name: largest_finite(gradient) or 0.0 for name, gradient in gradients.items()}
            name = max(sizes, key=lambda name: sizes[name])
            return (
                f"{self._headline(None)}\nBackward pass. Every gradient is finite, but their norm is not; the "
                f"largest is {sizes[name]:.4g}, of {name}"
            )
        concerned = _names(bad, len(gradients), "")
        self.random.restore()
        total, lines = 0.0, list[str]()
        for number, batch in enumerate(self.window):
            if lines:
                total += float(self.forward(batch).detach())
                continue
            self.model.zero_grad(set_to_none=True)
            before = RandomState.now(self.random.device)
            losses: list[Tensor] = []

            def run(batch: Batch = batch, losses: list[Tensor] = losses) -> None:
                losses.append(self.forward(batch))
                self.backward(losses[0])

            found = first_bad_gradient(self.model, run)
            total += float(losses[0].detach())
            if found is not None:
                lines = [self._headline(number), f"Backward pass. {found.describe()}"]
                lines.append(_names(bad, len(gradients), _site_of(found)))
                spot = None if found.bad is None else find_spot(_site_of(found), found.bad, rows_of(batch))
                lines.append(say_spot(spot, batch, self.tokenizer))
                lines.append(self._already(batch, before))
        repeated = math.isclose(total, self.loss, rel_tol=1e-4)
        if lines:
            return _joined([*lines, "" if repeated else NOT_REPEATABLE])
        if len(self.window) > 1 and repeated:
            said = "The gradients of each batch are finite, their sum is not"
            return f"{self._headline(None)}\nBackward pass. {said}\n{concerned}"
        return f"{self._not_again()}\n{concerned}"

    def _already(self, batch: Batch, random: RandomState) -> str:
        """What the forward pass had that is not finite, though it did not reach the loss: a mask, or the cause."""
        random.restore()
        found = first_non_finite(self.model, lambda: self.forward(batch))
        return "" if found is None else f"The output of {found.site} holds {found.value} already in the forward pass"

    def _not_again(self) -> str:
        return f"{self._headline(None)}\nRepeated with the same batch, it is finite. {NOT_REPEATABLE}"

    @torch.no_grad()
    def _bad_target(self, batch: Batch, random: RandomState) -> Spot | None:
        """The first target whose loss is not finite, by halves: sums that hold it are not finite either."""
        counts = (batch.labels != IGNORED).flatten().nonzero().flatten()
        low, high = 0, len(counts)
        while low < high:
            middle = (low + high) // 2
            labels = torch.full_like(batch.labels, IGNORED).flatten()
            kept = counts[: middle + 1]
            labels[kept] = batch.labels.flatten()[kept]
            random.restore()
            finite = is_finite(self.forward(replace(batch, labels=labels.view_as(batch.labels))))
            low, high = (middle + 1, high) if finite else (low, middle)
        if low == len(counts):
            return None
        bad = torch.zeros(batch.labels.shape, dtype=torch.bool)
        bad.view(-1)[int(counts[low])] = True
        return find_spot("decoder", bad if bad.ndim == 1 else bad[..., None], rows_of(batch)[-1:])


NOT_REPEATABLE = (
    "What the model draws at random (dropout) could not be repeated: it does not come from torch's generators, or the "
    "device computes otherwise each time"
)


def explain_validation(
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    made: Made | None,
    batches: Iterable[Batch],
    tokenizer: TextTokenizer,
) -> str | None:
    """Return what first goes wrong on the validation split though all parameters are finite; None if nothing does.

    Args:
        model: As it is judged.
        optimizer: As its last step left it.
        made: The newest update.
        batches: On the model's device.
        tokenizer: Names the token.
    """
    with inference(model.modules()):
        for batch in batches:
            found = first_non_finite(model, lambda batch=batch: objective(model, batch).sum)  # type: ignore[misc]
            if found is not None:
                spot = say_spot(find_spot(found.site, found.bad, rows_of(batch)), batch, tokenizer)
                weight = describe_weight(model, optimizer, made, found)
                return _joined([f"Forward pass. {found.describe()}", spot, weight])
    return None


def rows_of(batch: Batch) -> list[Rows]:
    """Return what the stacks read of a batch: the source first, where there is one."""
    own = Rows("decoder" if batch.source is not None else "", batch.inputs, batch.places)
    return [own] if batch.source is None else [Rows("encoder", batch.source, batch.source_places), own]


def say_spot(spot: Spot | None, batch: Batch, tokenizer: TextTokenizer) -> str:
    """Return row, item and token in words, the first of each.

    Args:
        spot: Where something is bad; None = nowhere in particular.
        batch: Whose row.
        tokenizer: Names the token.
    """
    if spot is None:
        return ""
    said = f"row {spot.row} (of 0 to {len(batch) - 1}; item {batch.items[spot.row]})"
    if spot.slot is not None:
        of = {"encoder": " of the source", "decoder": " of the target"}.get(spot.stack or "", "")
        if spot.token is not None:
            known = spot.token < tokenizer.vocab_size
            name = repr(tokenizer.label(spot.token)) if known else f"id {spot.token}"
            document = "" if batch.documents is None else f" of document {spot.document}"
            said += f", token {name}{of} at position {spot.position}{document}"
        elif spot.stack is None:
            said += f", column {spot.slot}"
        else:
            said += f", padding{of} in column {spot.slot}"
    columns = f"; bad are {spot.n_slots} columns of this row" if spot.n_slots > 1 else ""
    rows = f"{', and' if columns else '; bad are'} {spot.n_rows} rows" if spot.n_rows > 1 else ""
    return f"First at {said}{columns}{rows}"


def _site_of(found: BadGradient) -> str:
    """The module that the bad tensor is an input or output of."""
    return found.of.removeprefix("the input of ").removeprefix("the output of ")


def _joined(lines: Sequence[str | None]) -> str:
    return "\n".join(line for line in lines if line)


def _names(bad: Sequence[str], n_all: int, site: str) -> str:
    """How many parameters have a bad gradient, and the first two: those of `site`, or the last in the model."""
    near = [name for name in bad if name.startswith(site)]
    first = [*near[::-1], *(name for name in bad[::-1] if name not in near)]
    more = f" and {len(bad) - 2} more" if len(bad) > 2 else ""
    return f"Not finite are the gradients of {len(bad)} of {n_all} parameters: {', '.join(first[:2])}{more}"
