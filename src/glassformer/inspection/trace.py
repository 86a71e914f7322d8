"""One forward pass as numbered steps: each value with its shape, its equation, its source and the line that made it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Literal

import torch
from torch import Tensor

from glassformer.core.config import BlockConfig
from glassformer.core.errors import DataError, UnsupportedError
from glassformer.core.tape import Tape
from glassformer.inspection.attention import COPIES, mib
from glassformer.inspection.trace_steps import (
    PAPER,
    Step,
    Steps,
    attention_steps,
    feed_forward_steps,
    head_steps,
    input_steps,
    joint_step,
    norm_step,
    position_bias_step,
    residual_step,
)
from glassformer.models.brief import differences
from glassformer.models.inference import inference
from glassformer.models.own import OwnTransformer
from glassformer.models.transformer import Transformer
from glassformer.parts.attention import Attention
from glassformer.parts.block import Block
from glassformer.parts.stack import Stack

LIMIT_BYTES = 2**30
"""What the squares of scores and weights may need: 12 layers of 12 heads over 512 tokens take 0.5 GiB."""

SQUARES = 3
"""Squares of T x S that are kept of a layer: products, scores and weights."""

TOP = 5
"""Most probable tokens that are named."""

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Asking:
    """One kind of attention in a model: who asks whom.

    Attributes:
        kind: "encoder" or "decoder", which look at themselves, or "cross", the decoder looking at the encoder.
        causal: Whether a token sees only itself and what stands before it.
        layers: How many layers have it.
        narrow: Whether a window or a pattern hides more in some of them.
    """

    kind: Literal["encoder", "decoder", "cross"]
    causal: bool
    layers: int
    narrow: bool = False


@dataclass(frozen=True, eq=False)
class Trace:
    """What `trace` saw of one forward pass.

    Attributes:
        steps: In the order of the forward pass, numbered from 1.
        sizes: What each letter of their shapes stands for.
        labels: What the positions along "T", "S" and "C" are called.
        asking: Which kinds of attention there are.
        top: Of each position that is scored (or of the whole row, where the head pools) the most probable tokens or
            classes.
    """

    steps: tuple[Step, ...]
    sizes: Mapping[str, int]
    labels: Mapping[str, tuple[str, ...]]
    asking: tuple[Asking, ...]
    top: tuple[tuple[tuple[str, float], ...], ...]

    def step(self, number: int) -> Step:
        """Return one step.

        Raises:
            DataError: There is no such number.
        """
        if not 1 <= number <= len(self.steps):
            raise DataError(f"there is no step {number}; this trace has steps 1 to {len(self.steps)}")
        return self.steps[number - 1]


class _LineTape(Tape):
    """A tape that also remembers which line of code showed it each value."""

    def __init__(self, model: Transformer, *patterns: str) -> None:
        super().__init__(model, *patterns)
        self.lines: dict[str, str] = {}

    def note(self, site: str, value: Tensor) -> Tensor:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_name in ("note", "_note"):  # those that only pass it on
            frame = frame.f_back
        if frame is not None and self.wants(site):
            path = Path(frame.f_code.co_filename)
            name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
            self.lines[site] = f"{name.as_posix()}:{frame.f_lineno}"
        return super().note(site, value)


def trace(
    model: Transformer,
    tokens: Sequence[int],
    *,
    sources: Sequence[int] | None = None,
    name: Callable[[int], str] = str,
    layers: Sequence[int] | None = (0,),
    limit_bytes: int = LIMIT_BYTES,
) -> Trace:
    """Follow one sample through a model, value by value.

    The forward pass is the one of training and generation, in eval mode, with a tape. What the model leaves to a fused
    kernel is worked out by the equation.

    Args:
        model: Any Transformer, in any mode; it is left in it.
        tokens: Ids that the decoder (or the only stack) reads.
        sources: Ids that the encoder of an encoder-decoder reads.
        name: What a token id is called.
        layers: Which blocks of each stack are shown step by step, from 0; the others are one step each. None = all.
        limit_bytes: Memory that scores and weights may need, estimated before any work.

    Raises:
        DataError: Nothing to read, no such layer, more memory than `limit_bytes`, or more tokens than the context.
        UnsupportedError: Sources without an encoder to read them, or none for an encoder-decoder; a
            user's own model.
    """
    refuse_own(model)
    if not tokens or (sources is not None and not sources):
        raise DataError("there is no token to follow: the text is empty, and this vocabulary has no begin token")
    stacks = [stack for stack in (model.encoder, model.decoder) if stack is not None]
    depth = max(len(stack.blocks) for stack in stacks)
    if layers is not None and not (layers and all(0 <= layer < depth for layer in layers)):
        raise DataError(f"layers {list(layers)} are not all in 0..{depth - 1}, the layers of this model")
    shown = frozenset(range(depth) if layers is None else layers)
    _check_size(stacks, shown, len(tokens), len(sources or tokens), limit_bytes)
    tape = _LineTape(model, *_wanted(model, shown))
    with inference(model.modules()):
        rows = torch.tensor([list(tokens)], device=model.device)
        read = None if sources is None else torch.tensor([list(sources)], device=model.device)
        memory = None if read is None else model.encode(read, tape=tape)
        model(rows, memory=memory, outputs="logits" if model.head is not None else "hidden", tape=tape)
        steps = Steps(tape, tape.lines)
        for stack in stacks:
            first = stack is not model.output_stack and read is not None
            steps.follow("S" if first else "T")
            _stack_steps(steps, stack, read if first and read is not None else rows, shown)
        if model.head is not None:
            head_steps(steps, model.head, model.output_stack.site)
    labels = {"T": tuple(map(name, tokens)), "S": tuple(map(name, sources or ()))}
    classes = () if model.config.head is None else model.config.head.classes
    labels["C"] = classes
    found = tuple(replace(step, number=number) for number, step in enumerate(steps.found, start=1))
    return Trace(found, steps.sizes, labels, tuple(_asking(stacks)), _top(found, name, classes))


def refuse_own(model: Transformer) -> None:
    """Refuse to follow what cannot be followed.

    Raises:
        UnsupportedError: A user wrote the model.
    """
    if isinstance(model, OwnTransformer):
        raise UnsupportedError(f"{model.code.name} is a model of your own: its steps are not known; inspect it instead")


def _wanted(model: Transformer, shown: frozenset[int]) -> list[str]:
    """The sites to look at: of the blocks that are not shown, what leaves them alone."""
    names = []
    for site in model.sites():
        _, part, *rest = site.name.split(".")
        if part != "blocks" or int(rest[0]) in shown or rest[1] == "residual":
            names.append(site.name)
    return names


def _stack_steps(steps: Steps, stack: Stack, ids: Tensor, shown: frozenset[int]) -> None:
    input_steps(steps, stack.input, stack.config.input, ids)
    if stack.position_bias is not None:
        position_bias_step(steps, stack.position_bias)
    full = min((layer for layer in shown if layer < len(stack.blocks)), default=0)
    for layer, block in enumerate(stack.blocks):
        assert isinstance(block, Block), "a stack is made of blocks"
        if layer in shown:
            _block_steps(steps, block, stack)
        else:
            compared = stack.config.blocks[full] if full in shown else stack.config.blocks[layer]
            _whole_block(steps, block, full, compared)
    if stack.final_norm is not None:
        norm_step(steps, "final_norm", stack.final_norm)
    if steps.own == "S":
        steps.seen("memory", stack, "output", "m = x", f"{PAPER}, §3.2.3")


def _block_steps(steps: Steps, block: Block, stack: Stack) -> None:
    if block.pre:
        norm_step(steps, "pre_norm", block.attention_norm)
    attention_steps(steps, block.attention, stack)
    if block.parallel:
        if block.feed_forward_norm is not None:
            norm_step(steps, "pre_norm", block.feed_forward_norm)
        feed_forward_steps(steps, block.feed_forward, block.config.feed_forward)
        joint_step(steps, block)
        return
    residual_step(steps, block, "attention", block.attention_norm)
    if block.cross_attention is not None and block.cross_attention_norm is not None:
        if block.pre:
            norm_step(steps, "pre_norm", block.cross_attention_norm)
        attention_steps(steps, block.cross_attention, stack)
        residual_step(steps, block, "cross_attention", block.cross_attention_norm)
    assert block.feed_forward_norm is not None, "only a parallel block shares its norm"
    if block.pre:
        norm_step(steps, "pre_norm", block.feed_forward_norm)
    feed_forward_steps(steps, block.feed_forward, block.config.feed_forward)
    residual_step(steps, block, "feed_forward", block.feed_forward_norm)


def _whole_block(steps: Steps, block: Block, full: int, compared: BlockConfig) -> None:
    remarks = tuple(differences(compared.model_dump(), block.config.model_dump()))
    steps.seen("block", block, "residual", "x ← block(x)", remarks=remarks, like=full)


def _asking(stacks: Sequence[Stack]) -> list[Asking]:
    found: list[Asking] = []
    for stack in stacks:
        kind: Literal["encoder", "decoder"] = "encoder" if stack.site == "encoder" else "decoder"
        attentions = [block.attention for block in stack.config.blocks]
        narrow = any(each.window is not None or each.pattern is not None for each in attentions)
        found.append(Asking(kind, stack.config.causal, len(stack.blocks), narrow))
        crossing = sum(block.cross_attention is not None for block in stack.config.blocks)
        if crossing:
            found.append(Asking("cross", False, crossing))
    return found


def _top(
    steps: Sequence[Step], name: Callable[[int], str], classes: Sequence[str]
) -> tuple[tuple[tuple[str, float], ...], ...]:
    """The most probable tokens of the last step, where that is probabilities."""
    if steps[-1].name != "probabilities":
        return ()
    rows = steps[-1].value[0]
    rows = rows if rows.ndim == 2 else rows.unsqueeze(0)
    best = rows.topk(min(TOP, rows.shape[1]), dim=-1)

    def called(index: int) -> str:
        if steps[-1].shape.endswith("C"):
            return classes[index] if classes else str(index)
        return name(index)

    return tuple(
        tuple((called(index), share) for index, share in zip(indices, shares, strict=True))
        for indices, shares in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    )


def _check_size(stacks: Sequence[Stack], shown: frozenset[int], T: int, S: int, limit_bytes: int) -> None:
    kept, at_work, longest = 0, 0, max(T, S)
    for stack in stacks:
        own = S if stack is not stacks[-1] else T
        for layer, block in enumerate(stack.blocks):
            for part in block.modules() if layer in shown else ():
                if isinstance(part, Attention):
                    square = 4 * part.config.n_heads * own * (S if part.cross else own)
                    kept, at_work = kept + SQUARES * square, max(at_work, COPIES * square)
    if kept + at_work > limit_bytes:
        raise DataError(
            f"the scores and weights of {len(shown)} layers over {longest} tokens need about {mib(kept + at_work)}; "
            f"the limit is {mib(limit_bytes)}. Show fewer layers (--layers 0) or fewer tokens (--max-tokens "
            f"{max(1, longest // 2)})"
        )
