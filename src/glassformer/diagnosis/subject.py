"""A whole model under examination: how it is called, and the copies of it that experiments are made on."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from glassformer.core.errors import GlassformerError

Kind = Literal["decoder", "encoder", "encoder_decoder"]

ROWS = 3
SPECIAL_IDS = 4
"""Ids from 0 on that may mean padding, a start or an end: texts that are made up do without them."""
GAP = 2
"""A source is shorter than a text by so many tokens, so that the two are told apart."""
LENGTHS = (11, 13, 17, 7, 9, 10, 8)
"""Lengths to try; one that is no size of the model, so that the axis of time is known by it."""


@dataclass(frozen=True, eq=False)
class Given:
    """What one call is given.

    Attributes:
        inputs: Token ids (B, T), or embeddings (B, T, D) where the model takes those.
        keep: True where a token stands. *Shape:* (B, T).
        source: What the encoder of an encoder-decoder reads. *Shape:* as `inputs`, (B, S).
        source_keep: True where a token of the source stands. *Shape:* (B, S).
    """

    inputs: Tensor
    keep: Tensor | None = None
    source: Tensor | None = None
    source_keep: Tensor | None = None

    def rows(self, which: slice) -> Given:
        """Return some of the rows."""
        parts = (self.inputs, self.keep, self.source, self.source_keep)
        return Given(*(part if part is None else part[which] for part in parts))  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Caller:
    """How a model is called.

    Attributes:
        kind: What the model is.
        outputs: Returns logits or states (B, T, W).
        everything: Returns all that a call computes, for gradients.
        takes_keep: Whether it can be told where padding is.
        takes_source_keep: Whether it can be told where padding of the source is.
        counts: Whether it is told by the number of tokens, which stand at the beginning of a text.
        loss: Returns the mean loss per label; None = it computes none.
        scored: Returns the loss and the scores that it was computed from, in one call; None = it returns no such pair.
        fed: Returns the logits where the text of the decoder is made of the labels; None = it is always given.
        told: Returns the logits (B, T, V) and the loss of a text (B, T + 1) that holds its own labels; None = it does
            not.
        shifts: By how many positions it may move the labels before it compares them; empty = unknown.
        cached: Returns the outputs of new tokens and what to hand in next time, given that of before (None at first);
            None = it has no cache.
        vocab: Number of token ids; None = it takes embeddings.
        source_vocab: Number of ids of the source.
        width: Of the embeddings that it takes.
        pooled: Whether a text gets one row of numbers, which `outputs` returns as (B, 1, W).
        pad: The id that is padding wherever it stands; None = none is.
        remarks: What was assumed, for the reader.
    """

    kind: Kind
    outputs: Callable[[nn.Module, Given], Tensor]
    everything: Callable[[nn.Module, Given], list[Tensor]]
    takes_keep: bool = False
    takes_source_keep: bool = False
    counts: bool = False
    loss: Callable[[nn.Module, Given, Tensor], Tensor] | None = None
    scored: Callable[[nn.Module, Given, Tensor], tuple[Tensor, Tensor]] | None = None
    fed: Callable[[nn.Module, Given, Tensor], Tensor] | None = None
    told: Callable[[nn.Module, Given], tuple[Tensor, Tensor]] | None = None
    shifts: tuple[int, ...] = ()
    cached: Callable[[nn.Module, Given, Any], tuple[Tensor, Any]] | None = None
    vocab: int | None = None
    source_vocab: int | None = None
    width: int = 0
    pooled: bool = False
    pad: int | None = None
    remarks: tuple[tuple[str, dict[str, Any]], ...] = ()


class ModelSubject:
    """A model and the copies of it that are examined.

    Wiring shows best where every weight counts, and rounding hides it: `model` is a copy in float64 (where the code
    bears that) whose parameters are drawn anew, so that a layer that begins at zero cannot hide what it would do.
    `original` is a copy as it was given.

    Args:
        model: What is examined; it is left alone.
        caller: How it is called.
        length: Tokens of a text.
        gap: By how many tokens a source is shorter than a text.
    """

    def __init__(self, model: nn.Module, caller: Caller, length: int, gap: int = GAP) -> None:
        self.caller = caller
        self.length = length
        self.source_length = length - gap
        self.seed = 0
        """Of the texts that are made up."""
        self.original = copy_of(model).eval()
        self.model = copy_of(model).eval()
        self.device = next((p.device for p in model.parameters()), torch.device("cpu"))
        self._liven()
        self.exact = self._double()
        self.tolerance = 1e-5 if self.exact else 1e-3

    def modules(self) -> Sequence[nn.Module]:
        """Return both copies."""
        return (self.model, self.original)

    @property
    def kind(self) -> Kind:
        """What the model is."""
        return self.caller.kind

    def _liven(self) -> None:
        generator = torch.Generator().manual_seed(1)
        tables = {id(part.weight) for part in self.model.modules() if isinstance(part, nn.Embedding)}
        with torch.no_grad():
            for parameter in self.model.parameters():
                if not parameter.requires_grad or not parameter.is_floating_point():
                    continue
                noise = torch.randn(parameter.shape, generator=generator).to(parameter.device)
                if parameter.ndim >= 2:
                    std = 1.0 if id(parameter) in tables else parameter.shape[-1] ** -0.5
                    parameter.copy_(noise * std)
                else:
                    parameter.add_(0.1 * noise.to(parameter.dtype))

    def _double(self) -> bool:
        single = copy.deepcopy(self.model.state_dict())
        given = self.draw(2)
        try:
            before = self.run(given)
            self.model.double()
            after = self.run(given)
            # kernels of torch read a float32 mask beside float64 scores as if it were float64
            exact = after.dtype == torch.float64 and (self.differs(before, after) < 0.1 or bool(before.isnan().any()))
        except Exception:  # whatever the subject's own code raises: it was written for float32
            exact = False
        if not exact:
            self.model.float()
            self.model.load_state_dict(single)
        return exact

    def draw(self, rows: int = ROWS, length: int | None = None, *, seed: int = 0) -> Given:
        """Return a made-up text, and a source where there is one; no token stands twice in a row, if that can be.

        Args:
            rows: Number of texts, B.
            length: Number of tokens, T; None = the usual one.
            seed: Equal seeds give equal texts.
        """
        generator = torch.Generator().manual_seed(1000 * (1 + self.seed) + seed)
        inputs = self._content(self.caller.vocab, rows, length or self.length, generator)
        if self.kind != "encoder_decoder":
            return Given(inputs)
        vocab = self.caller.source_vocab if self.caller.source_vocab is not None else self.caller.vocab
        return Given(inputs, source=self._content(vocab, rows, self.source_length, generator))

    def _content(self, vocab: int | None, rows: int, length: int, generator: torch.Generator) -> Tensor:
        if vocab is None:
            drawn = torch.randn(rows, length, self.caller.width, generator=generator)
            return drawn.to(self.device, next(self.model.parameters()).dtype)
        first = SPECIAL_IDS if vocab >= SPECIAL_IDS + length else 0
        if vocab - first >= length:
            order = torch.stack([torch.randperm(vocab - first, generator=generator)[:length] for _ in range(rows)])
            return (order + first).to(self.device)
        return torch.randint(first, vocab, (rows, length), generator=generator).to(self.device)

    def run(self, given: Given, *, model: nn.Module | None = None, seed: int = 0) -> Tensor:
        """Return the outputs (B, T, W); the generators start anew, so that what is random is the same every time.

        Args:
            given: What the model is given.
            model: The copy to run; None = the lively one.
            seed: Of what is random in the model.
        """
        chosen = self.model if model is None else model
        with quietly(chosen, seed), torch.no_grad():
            return self.caller.outputs(chosen, self.fitted(given, chosen))

    def fitted(self, given: Given, model: nn.Module) -> Given:
        """Return the same with embeddings in the model's own type of number."""
        if not given.inputs.is_floating_point():
            return given
        dtype = next(model.parameters()).dtype
        source = None if given.source is None else given.source.to(dtype)
        return replace(given, inputs=given.inputs.to(dtype), source=source)

    def differs(self, one: Tensor, other: Tensor) -> float:
        """Return the largest difference, in units of the outputs' size; NaN counts as infinitely far."""
        if one.numel() == 0:
            return 0.0
        size = one.double().pow(2).mean().sqrt().clamp(min=1e-30)
        gap = float((one.double() - other.double()).abs().max() / size)
        return gap if gap == gap else float("inf")


@contextmanager
def quietly(model: nn.Module, seed: int = 0) -> Iterator[None]:
    """Run what is inside with fresh generators, and with new tensors in the type that the model computes in.

    Torch's fast path for layers in eval mode reads some masks otherwise than training does: it is off.
    """
    before, fast = torch.get_default_dtype(), torch.backends.mha.get_fastpath_enabled()
    start_chance(seed, model)
    try:
        torch.set_default_dtype(next((p.dtype for p in model.parameters() if p.is_floating_point()), before))
        torch.backends.mha.set_fastpath_enabled(False)
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        torch.set_default_dtype(before)


def start_chance(seed: int, model: nn.Module) -> None:
    """Set the generator that a model uses; those of every accelerator only if it is on one, as that takes its time."""
    first = next(model.parameters(), None)
    if first is None or first.device.type == "cpu":
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)


def copy_of(model: nn.Module) -> nn.Module:
    """Return a copy to experiment on.

    Raises:
        GlassformerError: It holds something that cannot be copied.
    """
    try:
        return copy.deepcopy(model)
    except Exception as error:  # whatever a module holds that cannot be copied
        raise GlassformerError(
            f"{type(model).__name__} cannot be copied ({type(error).__name__}: {error}), and the examiner works on "
            "copies; give a class or a function that makes it, and let it hold only tensors, modules and plain values"
        ) from error
