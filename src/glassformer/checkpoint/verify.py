"""Is a checkpoint, as it is loaded here, the model that the reference library makes of it?"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.checkpoint.loading import ForeignFolder
from glassformer.checkpoint.reference import exactly, in_float64, load_reference, tensors_of
from glassformer.checkpoint.whole_folder import VERIFICATION_FILE
from glassformer.core.config import StackConfig
from glassformer.core.files import write_text
from glassformer.core.places import Places
from glassformer.core.tape import Tape
from glassformer.families.weights import Rule, Weights
from glassformer.models.inference import inference
from glassformer.models.transformer import Transformer

TOLERANCE: Mapping[torch.dtype, float] = {torch.float32: 2e-5, torch.float64: 1e-9}
"""Largest difference of two outputs, relative to the largest number in them, that rounding explains."""

LENGTHS = (19, 11)
"""Tokens of the rows of the batch that both are given, and, the other way round, of what an encoder-decoder writes; the
shorter ones are padded."""


@dataclass(frozen=True)
class Agreement:
    """How far two runs of one model agree.

    Attributes:
        equal: Whether every output is within the tolerance.
        max_relative_difference: The largest difference of the model's output, relative to the largest number in it.
        worst_inside: The same over the outputs of all sublayers and blocks.
        first_divergence: The first part, in the order of the forward pass, whose output is outside; None = none is.
        compared: How many outputs were compared.
    """

    equal: bool
    max_relative_difference: float
    worst_inside: float
    first_divergence: str | None
    compared: int


@dataclass(frozen=True)
class Verification:
    """What a verification found.

    Attributes:
        architecture: The class of the reference library.
        parameters: How many there are.
        float32: How far both agree.
        float64: The same, with every cast of the reference raised: rounding shrinks by 1e8, faults do not.
        weights: The parameters of ours that do not hold what the checkpoint says, and what is theirs.
    """

    architecture: str
    parameters: int
    float32: Agreement
    float64: Agreement
    weights: Mapping[str, str]

    def lines(self) -> list[str]:
        """Return all of it in words."""
        lines = [f"{self.architecture}, {self.parameters:,} parameters; differences relative to the largest number"]
        for name, found, dtype in (("float32", self.float32, torch.float32), ("float64", self.float64, torch.float64)):
            verdict = "equal" if found.equal else f"different, first in {found.first_divergence}"
            lines.append(
                f"{name}  output {found.max_relative_difference:.1e}, {found.compared - 1} places inside "
                f"{found.worst_inside:.1e}, at most {TOLERANCE[dtype]:.0e}: {verdict}"
            )
        lines += [f"{ours} is not {theirs}" for ours, theirs in self.weights.items()]
        return [*lines, "equal" if self.equal else "NOT equal"]

    @property
    def equal(self) -> bool:
        """Whether both agree in both precisions, and in every parameter: some change nothing of a few tokens."""
        return self.float32.equal and self.float64.equal and not self.weights

    @property
    def first_divergence(self) -> str | None:
        """The first part that is not the reference's; None = all are."""
        parts = (name.rpartition(".")[0] for name in self.weights)
        return self.float64.first_divergence or self.float32.first_divergence or next(parts, None)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return {
            "equal": self.equal,
            "max_relative_difference": self.float32.max_relative_difference,
            "first_divergence": self.first_divergence,
            **asdict(self),
        }


def verify(
    folder: ForeignFolder,
    model: Transformer | None = None,
    *,
    seed: int = 0,
    advanced: Callable[[int, int], None] | None = None,
) -> Verification:
    """Compare a checkpoint as it is loaded here with what the reference library makes of the same folder.

    Both are given the same padded batch of random token ids; what comes out at real positions is compared, and so is
    the output of every sublayer and block.

    Args:
        folder: The checkpoint.
        model: What is compared, float64 afterwards; loaded from the folder when None.
        seed: Of the token ids.
        advanced: Called with (done, total) steps.

    Raises:
        CheckpointError: The folder cannot be loaded here, or by the reference library.
        ConfigError: The library is not installed.
    """
    done = advanced or (lambda now, total: None)
    model = model or folder.load()
    # names of the reference's modules, which need not be those of the file
    weights = folder.family.weights_of(model.config, folder.settings)
    architecture = folder.family.written_as(folder.settings).name
    done(1, 4)
    reference = load_reference(folder.path, architecture)
    batch = _Batch.drawn(model, seed)
    done(2, 4)
    model.float()
    single = _compare(model, reference, weights, batch, torch.float32)
    unlike = _unlike(model, reference, weights)
    done(3, 4)
    model.double()
    in_float64(reference)
    double = _compare(model, reference, weights, batch, torch.float64)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return Verification(architecture, parameters, single, double, unlike)


def write_report(verification: Verification, folder: Path) -> Path:
    """Write verification.json beside the checkpoint.

    Raises:
        CheckpointError: The folder cannot be written.
    """
    path = folder / VERIFICATION_FILE
    write_text(path, json.dumps(verification.to_dict(), indent=2) + "\n")
    return path


@dataclass(frozen=True, eq=False)
class _Batch:
    """Token ids for the encoder (or the only stack), and for the last stack."""

    tokens: Tensor
    places: Places
    written: Tensor
    written_places: Places

    @staticmethod
    def drawn(model: Transformer, seed: int) -> _Batch:
        config = model.config
        limits = [
            stack.input.positions.max_positions for stack in (config.encoder, config.decoder) if stack is not None
        ]
        longest = min([LENGTHS[0], *(limit for limit in limits if limit is not None)])
        lengths = [longest, max(1, min(LENGTHS[1], longest - 1))]
        places, written_places = Places.from_lengths(lengths), Places.from_lengths(lengths[::-1])
        generator = torch.Generator().manual_seed(seed)

        def ids(stack: StackConfig) -> Tensor:
            # the first ids are often special ones, of which some change positions: the others are drawn from
            low = min(10, stack.input.vocab_size // 2)
            return torch.randint(low, stack.input.vocab_size, tuple(places.position.shape), generator=generator)

        return _Batch(ids(config.encoder or config.output_stack), places, ids(config.output_stack), written_places)


def _compare(
    model: Transformer, reference: nn.Module, weights: Weights, batch: _Batch, dtype: torch.dtype
) -> Agreement:
    parts = counterparts(model, weights)
    crosses = model.config.kind == "encoder_decoder"
    with inference(model.modules()), _seen(reference, parts) as theirs, exactly(dtype):
        expected = _reference_output(reference, batch, crosses=crosses, states=model.head is None)
    tape = Tape(model, *parts)
    with inference(model.modules()):
        output = _our_output(model, batch, tape)
    read, real = batch.places.is_token, (batch.written_places if crosses else batch.places).is_token
    found: dict[str, float] = {}
    for site, counterpart in parts.items():
        tokens = read if site.startswith("encoder.") else real
        found[counterpart.part] = _relative(tape[site][tokens], theirs[site][tokens])
    per_row = output.ndim == 2
    whole = _relative(output if per_row else output[real], expected if per_row else expected[real])
    limit = TOLERANCE[dtype]
    outside = [part for part, difference in found.items() if not difference <= limit]
    inside = max(found.values(), default=0.0)
    head = "head" if model.head is not None else "output"
    first = outside[0] if outside else None if whole <= limit else head
    return Agreement(first is None, whole, inside, first, len(found) + 1)


def _seen(reference: nn.Module, parts: Mapping[str, Counterpart]) -> AbstractContextManager[dict[str, Tensor]]:
    modules = {given: {site: at.module for site, at in parts.items() if at.given is given} for given in (False, True)}
    return tensors_of(reference, outputs=modules[False], inputs=modules[True])


def _our_output(model: Transformer, batch: _Batch, tape: Tape | None) -> Tensor:
    outputs: Any = "hidden" if model.head is None else "logits"
    if model.config.kind != "encoder_decoder":
        return model.forward(batch.tokens, places=batch.places, outputs=outputs, tape=tape)
    memory = model.encode(batch.tokens, places=batch.places, tape=tape)
    return model.forward(batch.written, places=batch.written_places, memory=memory, outputs=outputs, tape=tape)


def _reference_output(reference: nn.Module, batch: _Batch, *, crosses: bool, states: bool) -> Tensor:
    # what stands in padding is the reference's own padding id: some models count positions by it
    pad = reference.config.pad_token_id  # type: ignore[union-attr]
    pad = pad if isinstance(pad, int) and pad >= 0 else 0
    real = batch.places.is_token
    inputs = {"input_ids": batch.tokens.masked_fill(~real, pad), "attention_mask": real.long()}
    if crosses:
        real = batch.written_places.is_token
        written = batch.written.masked_fill(~real, pad)
        inputs |= {"decoder_input_ids": written, "decoder_attention_mask": real.long()}
    with torch.no_grad():
        output = reference(**inputs)
    # a body that is stored without a pooler has one there nevertheless, drawn anew
    found: Tensor = output["last_hidden_state" if states else "logits" if "logits" in output else "pooler_output"]
    return found


def _relative(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference, relative to the largest number; infinite where one of them is no number."""
    if ours.shape != theirs.shape:
        return math.inf
    difference = float((ours - theirs).abs().max() / theirs.abs().max().clamp(min=1e-30))
    return difference if math.isfinite(difference) else math.inf


@dataclass(frozen=True)
class Counterpart:
    """Where the reference has a tensor of ours.

    Attributes:
        part: What of ours makes it.
        module: The name of their module.
        given: Whether that is given the tensor; else it gives it.
    """

    part: str
    module: str
    given: bool = False


def counterparts(model: Transformer, weights: Weights) -> dict[str, Counterpart]:
    """Return, for our sites in the order of the forward pass, where the reference has the same tensor.

    It follows from the rules: the output of a sublayer is that of its last projection, the output of a block that of
    the module which holds its projections ("model.layers.3" of "model.layers.3.mlp.down_proj"), the output of a stack
    that of its final norm; and what the input makes is what the first block is given.
    """
    module_of = {
        rule.ours.removesuffix(".weight"): rule.theirs[0].removesuffix(".weight")
        for rule in weights.rules
        if rule.ours.endswith(".output.weight") and len(rule.theirs) == 1
    }
    norm_of = {rule.ours: rule.theirs[0].removesuffix(".weight") for rule in weights.rules}
    found: dict[str, Counterpart] = {}
    for stack in (model.encoder, model.decoder):
        if stack is None:
            continue
        for number, block in enumerate(stack.blocks):
            inside = [name for name in module_of if name.startswith(f"{block.site}.")]
            layer = re.match(r".*?\.\d+(?=\.)", module_of[inside[0]]) if inside else None
            if layer is not None and number == 0:
                found[f"{stack.site}.input.output"] = Counterpart(f"{stack.site}.input", layer.group(), given=True)
            for part in ("attention", "cross_attention", "feed_forward"):
                name = f"{block.site}.{part}.output"
                if name in inside:
                    found[name] = Counterpart(f"{block.site}.{part}", module_of[name])
            if layer is not None:
                found[f"{block.site}.residual"] = Counterpart(f"{block.site}", layer.group())
        norm = f"{stack.site}.final_norm"
        if f"{norm}.weight" in norm_of:
            found[f"{stack.site}.output"] = Counterpart(norm, norm_of[f"{norm}.weight"])
    return found


def _unlike(model: Transformer, reference: nn.Module, weights: Weights) -> dict[str, str]:
    """Our parameters that do not hold what the reference's do, and which those are."""
    ours = dict(model.named_parameters(remove_duplicate=False))
    theirs = dict(reference.named_parameters(remove_duplicate=False)) | dict(reference.named_buffers())
    unlike = (rule for rule in weights.rules if _differs(rule, ours[rule.ours], theirs))
    return {rule.ours: " + ".join(rule.theirs) for rule in unlike}


def _differs(rule: Rule, ours: Tensor, theirs: Mapping[str, Tensor]) -> bool:
    pairs = zip(rule.theirs, rule.layout.to_theirs(ours.detach()), strict=True)
    return any(name in theirs and not torch.equal(theirs[name].float(), tensor.float()) for name, tensor in pairs)
