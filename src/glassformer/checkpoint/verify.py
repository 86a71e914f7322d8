"""Is a checkpoint, as it is loaded here, the model that the reference library makes of it?"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.checkpoint.loading import ForeignFolder
from glassformer.checkpoint.reference import exactly, in_float64, load_reference, outputs_of
from glassformer.core.files import write_text
from glassformer.core.places import Places
from glassformer.core.tape import Tape
from glassformer.families.weights import Rule, Weights
from glassformer.models.inference import inference
from glassformer.models.transformer import Transformer

TOLERANCE: Mapping[torch.dtype, float] = {torch.float32: 2e-5, torch.float64: 1e-9}
"""Largest difference of two outputs, relative to the largest number in them, that rounding explains."""

LENGTHS = (19, 11)
"""Tokens of the rows of the batch that both are given; the shorter one is padded."""

REPORT_FILE = "verification.json"


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
        weights: The parameters of ours that do not hold what the checkpoint says, by name.
    """

    architecture: str
    parameters: int
    float32: Agreement
    float64: Agreement
    weights: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Return all of it in words."""
        lines = [f"{self.architecture}, {self.parameters:,} parameters; differences relative to the largest number"]
        for name, found, dtype in (("float32", self.float32, torch.float32), ("float64", self.float64, torch.float64)):
            verdict = "equal" if found.equal else f"different, first in {found.first_divergence}"
            lines.append(
                f"{name}  output {found.max_relative_difference:.1e}, {found.compared - 1} places inside "
                f"{found.worst_inside:.1e}, at most {TOLERANCE[dtype]:.0e}: {verdict}"
            )
        return [*lines, *self.weights, "equal" if self.equal else "NOT equal"]

    @property
    def equal(self) -> bool:
        """Whether both agree in both precisions."""
        return self.float32.equal and self.float64.equal

    @property
    def first_divergence(self) -> str | None:
        """The first part that is not the reference's; None = all are."""
        return self.float64.first_divergence or self.float32.first_divergence

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
    tensors = folder.tensors.names.keys()
    weights = folder.family.weights_of(model.config, folder.settings, tensors)
    architecture = folder.family.architecture(folder.settings).name
    done(1, 4)
    reference = load_reference(folder.path, architecture)
    batch = _Batch.drawn(model, seed)
    done(2, 4)
    model.float()
    single = _compare(model, reference, weights, batch, torch.float32)
    unlike = tuple(_unlike(model, reference, weights))
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
    path = folder / REPORT_FILE
    write_text(path, json.dumps(verification.to_dict(), indent=2) + "\n")
    return path


@dataclass(frozen=True, eq=False)
class _Batch:
    """Token ids for the encoder (or the only stack), and for the decoder of an encoder-decoder."""

    tokens: Tensor
    written: Tensor
    places: Places

    @staticmethod
    def drawn(model: Transformer, seed: int) -> _Batch:
        config = model.config
        limits = [
            stack.input.positions.max_positions for stack in (config.encoder, config.decoder) if stack is not None
        ]
        longest = min([LENGTHS[0], *(limit for limit in limits if limit is not None)])
        lengths = [longest, max(1, min(LENGTHS[1], longest - 1))]
        places = Places.from_lengths(lengths)
        generator = torch.Generator().manual_seed(seed)

        def ids(stack: Any) -> Tensor:
            # the first ids are often special ones, of which some change positions: the others are drawn from
            low = min(10, stack.input.vocab_size // 2)
            return torch.randint(low, stack.input.vocab_size, tuple(places.position.shape), generator=generator)

        first, last = config.encoder or config.decoder, config.output_stack
        return _Batch(ids(first), ids(last), places)


def _compare(
    model: Transformer, reference: nn.Module, weights: Weights, batch: _Batch, dtype: torch.dtype
) -> Agreement:
    modules = counterparts(model, weights)
    real = batch.places.is_token
    with inference(model.modules()), outputs_of(reference, modules) as theirs, exactly(dtype):
        expected = _reference_output(reference, batch, real, crosses=model.config.kind == "encoder_decoder")
    tape = Tape(model, *modules) if modules else None
    with inference(model.modules()):
        output = _our_output(model, batch, tape)
    found: dict[str, float] = {}
    for site in modules:
        assert tape is not None, "sites are recorded"
        found[site.rpartition(".")[0]] = _relative(tape[site][real], theirs[site][real])
    per_row = output.ndim == 2
    whole = _relative(output if per_row else output[real], expected if per_row else expected[real])
    limit = TOLERANCE[dtype]
    outside = [part for part, difference in found.items() if not difference <= limit]
    inside = max(found.values(), default=0.0)
    head = "head" if model.head is not None else "output"
    first = outside[0] if outside else None if whole <= limit else head
    return Agreement(first is None, whole, inside, first, len(found) + 1)


def _our_output(model: Transformer, batch: _Batch, tape: Tape | None) -> Tensor:
    outputs: Any = "hidden" if model.head is None else "logits"
    if model.config.kind != "encoder_decoder":
        return model.forward(batch.tokens, places=batch.places, outputs=outputs, tape=tape)
    memory = model.encode(batch.tokens, places=batch.places, tape=tape)
    return model.forward(batch.written, places=batch.places, memory=memory, outputs=outputs, tape=tape)


def _reference_output(reference: nn.Module, batch: _Batch, real: Tensor, *, crosses: bool) -> Tensor:
    # what stands in padding is the reference's own padding id: some models count positions by it
    pad = reference.config.pad_token_id  # type: ignore[union-attr]
    pad = pad if isinstance(pad, int) and pad >= 0 else 0
    inputs = {"input_ids": batch.tokens.masked_fill(~real, pad), "attention_mask": real.long()}
    if crosses:
        written = batch.written.masked_fill(~real, pad)
        inputs |= {"decoder_input_ids": written, "decoder_attention_mask": real.long()}
    with torch.no_grad():
        output = reference(**inputs)
    for name in ("logits", "pooler_output", "last_hidden_state"):
        if output.get(name) is not None:
            found: Tensor = output[name]
            return found
    raise AssertionError("a reference model returns logits or states")


def _relative(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference, relative to the largest number; infinite where one of them is no number."""
    if ours.shape != theirs.shape:
        return math.inf
    difference = float((ours - theirs).abs().max() / theirs.abs().max().clamp(min=1e-30))
    return difference if math.isfinite(difference) else math.inf


def counterparts(model: Transformer, weights: Weights) -> dict[str, str]:
    """Return, for our sites in the order of the forward pass, the modules of theirs that give the same tensor.

    They follow from the rules: the output of a sublayer is that of its last projection, and the output of a block is
    that of the module which holds its projections ("model.layers.3" of "model.layers.3.mlp.down_proj").
    """
    module_of = {
        rule.ours.removesuffix(".weight"): rule.theirs[0].removesuffix(".weight")
        for rule in weights.rules
        if rule.ours.endswith(".output.weight") and len(rule.theirs) == 1
    }
    found: dict[str, str] = {}
    for stack in (model.encoder, model.decoder):
        for block in () if stack is None else stack.blocks:
            inside = [name for name in module_of if name.startswith(f"{block.site}.")]
            for part in ("attention", "cross_attention", "feed_forward"):
                name = f"{block.site}.{part}.output"
                if name in inside:
                    found[name] = module_of[name]
            layer = re.match(r".*?\.\d+(?=\.)", module_of[inside[0]]) if inside else None
            if layer is not None:
                found[f"{block.site}.residual"] = layer.group()
    return found


def _unlike(model: Transformer, reference: nn.Module, weights: Weights) -> list[str]:
    """Our parameters that do not hold what the reference's do."""
    ours = dict(model.named_parameters(remove_duplicate=False))
    theirs = dict(reference.named_parameters(remove_duplicate=False)) | dict(reference.named_buffers())
    return [_said(rule) for rule in weights.rules if _differs(rule, ours[rule.ours], theirs)]


def _differs(rule: Rule, ours: Tensor, theirs: Mapping[str, Tensor]) -> bool:
    pairs = zip(rule.theirs, rule.layout.to_theirs(ours.detach()), strict=True)
    return any(name in theirs and not torch.equal(theirs[name].float(), tensor.float()) for name, tensor in pairs)


def _said(rule: Rule) -> str:
    return f"{rule.ours} is not {' + '.join(rule.theirs)}"
