"""A family of ours beside the reference library's: tiny random models, in both precisions and paddings, both ways."""

from __future__ import annotations

import inspect
import json
import tempfile
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.checkpoint.foreign import from_foreign, to_foreign
from glassformer.checkpoint.reference import exactly
from glassformer.core.config import BlockConfig, TransformerConfig
from glassformer.core.places import Places
from glassformer.families.family import Family
from glassformer.models.transformer import Transformer
from glassformer.parts.block import Block

transformers = pytest.importorskip("transformers", reason="the reference library is the oracle here")
transformers.utils.logging.disable_progress_bar()

TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-5}
"""Largest difference, relative to the largest number of the answer."""

Build = Callable[[], nn.Module]
"""Makes a tiny model of the reference library; called anew for each precision."""


def reference(build: Build, dtype: torch.dtype = torch.float32, *, std: float = 0.3) -> nn.Module:
    """Return a model of the reference library, in eval mode; every parameter is drawn, norms and offsets too.

    It is built under `exactly`, so that its tables of angles have the precision too.
    """
    with exactly(dtype):
        model = build().to(dtype).eval()
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.requires_grad:
                continue  # a table of sines is no weight
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * std)
    return model


def saved(model: Any) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return what the reference library writes: config.json and tensors."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        settings = json.loads((Path(folder) / "config.json").read_text())
        return settings, load_file(Path(folder) / "model.safetensors")


def loaded(cls: Any, settings: dict[str, Any], tensors: dict[str, Tensor]) -> nn.Module:
    """Return what the reference library reads; it must need no tensor more and no tensor less."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(settings))
        save_file(tensors, Path(folder) / "model.safetensors", metadata={"format": "pt"})
        model, info = cls.from_pretrained(folder, output_loading_info=True)
    faults = {name: found for name, found in info.items() if found}
    assert not faults, f"the reference library does not load what was written: {faults}"
    assert isinstance(model, nn.Module)
    return model.eval()


def ours_from(hf: nn.Module, family: Family) -> Transformer:
    """Return our model from what the reference library writes."""
    return from_foreign(family, *saved(hf))


@dataclass(frozen=True)
class Rows:
    """A padded batch; in an encoder-decoder `source` is what is read.

    Attributes:
        tokens: *Shape:* (B, T).
        places: Of the tokens.
        source: *Shape:* (B, S).
        source_places: Of the source.
    """

    tokens: Tensor
    places: Places
    source: Tensor
    source_places: Places


def rows(vocab_size: int, side: str, *, lengths: tuple[int, ...] = (9, 5), pad: int = 0) -> Rows:
    """Return a batch of random rows, padded on one side."""
    generator = torch.Generator().manual_seed(3)

    def draw(counts: tuple[int, ...]) -> tuple[Tensor, Places]:
        places = Places.from_lengths(counts, side=side)  # type: ignore[arg-type]
        tokens = torch.randint(pad + 1, vocab_size, places.position.shape, generator=generator)
        return tokens.masked_fill(~places.is_token, pad), places

    return Rows(*draw(lengths), *draw(tuple(length - 2 for length in reversed(lengths))))


def our_answer(model: Transformer, given: Rows) -> Tensor:
    """Return scores, or states, of our model."""
    if model.encoder is not None and model.decoder is not None:
        memory = model.encode(given.source, places=given.source_places)
        return model(given.tokens, places=given.places, memory=memory)
    return model(given.tokens, places=given.places, outputs="hidden" if model.head is None else "logits")


def their_answer(hf: Any, given: Rows) -> Tensor:
    """Return scores, or states, of the reference; positions are ours, wherever it takes any."""
    taken = inspect.signature(hf.forward).parameters
    real = given.places.is_token.long()
    if "decoder_input_ids" in taken:
        return hf(
            given.source, attention_mask=given.source_places.is_token.long(), decoder_input_ids=given.tokens,
            decoder_attention_mask=real,
        ).logits  # fmt: skip
    positions = {"position_ids": given.places.position} if "position_ids" in taken else {}
    out = hf(given.tokens, attention_mask=real, **positions)
    return out.logits if "logits" in out else out.last_hidden_state


def largest_difference(ours: Tensor, theirs: Tensor) -> float:
    """Return the largest difference, relative to the largest number."""
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype
    return float((ours - theirs).abs().max() / theirs.abs().max())


def _real(answer: Tensor, given: Rows) -> Tensor:
    """What counts of an answer: of scores of tokens and states those of tokens, of a row's all."""
    return answer[given.places.is_token] if answer.ndim == 3 else answer


def assert_same_logits(
    build: Build,
    family: Family,
    *,
    sides: Collection[str] = ("right", "left"),
    ours: Callable[[Transformer, Rows], Tensor] = our_answer,
    theirs: Callable[[Any, Rows], Tensor] = their_answer,
    lengths: tuple[int, ...] = (9, 5),
    pad: int = 0,
    std: float = 0.3,
) -> dict[torch.dtype, float]:
    """Check the answers on padded rows, in float64 and float32.

    Args:
        build: Makes the reference's model.
        family: Ours.
        sides: Where the padding may be.
        ours: How ours is asked.
        theirs: How theirs is.
        lengths: Tokens of each row.
        pad: Id of the padding.
        std: Of the weights.

    Returns:
        The largest relative difference of each precision.
    """
    found = {}
    for dtype, most in TOLERANCE.items():
        hf = reference(build, dtype, std=std)
        model = ours_from(hf, family)
        for side in sides:
            given = rows(hf.config.vocab_size, side, lengths=lengths, pad=pad)
            with torch.no_grad():
                mine = _real(ours(model, given), given)
                with exactly(dtype):
                    their = _real(theirs(hf, given), given)
            difference = largest_difference(mine, their)
            assert difference <= most, f"{dtype}, padding {side}: {difference}"
            found[dtype] = max(difference, found.get(dtype, 0.0))
    return found


def assert_same_gradients(
    build: Build,
    family: Family,
    *,
    side: str = "right",
    ours: Callable[[Transformer, Rows], Tensor] = our_answer,
    theirs: Callable[[Any, Rows], Tensor] = their_answer,
    pad: int = 0,
    std: float = 0.3,
) -> float:
    """Check the gradient of a cross-entropy by every parameter, rule by rule, in float64; return the difference."""
    hf = reference(build, torch.float64, std=std)
    settings, tensors = saved(hf)
    model = from_foreign(family, settings, tensors)
    given = rows(hf.config.vocab_size, side, pad=pad)

    def loss(answer: Tensor) -> Tensor:
        scores = _real(answer, given)
        labels = torch.randint(scores.shape[-1], scores.shape[:1], generator=torch.Generator().manual_seed(5))
        return F.cross_entropy(scores, labels)

    loss(ours(model, given)).backward()
    with exactly(torch.float64):
        loss(theirs(hf, given)).backward()
    with torch.no_grad():
        for parameter in hf.parameters():
            if parameter.requires_grad:  # a table of sines is no weight
                assert parameter.grad is not None
                parameter.copy_(parameter.grad)
    gradients = saved(hf)[1]  # saved in place of the weights, so that they have the names of the files
    mine = dict(model.named_parameters(remove_duplicate=False))
    worst = 0.0
    for rule in family.weights_of(model.config, settings, tensors).rules:
        gradient = mine[rule.ours].grad
        assert gradient is not None, f"{rule.ours} has no gradient"
        for name, found in zip(rule.theirs, rule.layout.to_theirs(gradient), strict=True):
            expected = gradients[name]
            # an offset of k moves all scores of a query alike: its gradient is 0 but for rounding
            size = max(float(expected.abs().max()), 1e-6)
            difference = float((found - expected).abs().max()) / size
            assert difference <= 1e-8, f"gradient of {name}: {difference}"
            worst = max(worst, difference)
    return worst


def assert_round_trip(build: Build, family: Family, *, std: float = 0.3) -> None:
    """Check import then export and export then import, bit by bit, and that the reference loads what is written."""
    hf = reference(build, std=std)
    settings, tensors = saved(hf)
    model = from_foreign(family, settings, tensors)
    written, exported = to_foreign(model, family)
    left_out = {name for name in tensors if name not in exported}
    weights = family.weights_of(model.config, settings, tensors)
    assert left_out <= weights.copies.keys() | {name for name in tensors if name.endswith(weights.derived)}
    assert exported.keys() <= tensors.keys()
    for name, tensor in exported.items():
        assert torch.equal(tensor, tensors[name]), name
    again = from_foreign(family, written, exported)
    assert again.config == model.config
    for (name, one), (_, other) in zip(model.named_parameters(), again.named_parameters(), strict=True):
        assert torch.equal(one, other), name
    theirs = loaded(type(hf), written, exported)
    loaded_tensors = theirs.state_dict()
    for name, one in hf.named_parameters():
        assert not one.requires_grad or torch.equal(one, loaded_tensors[name]), name
    given = rows(hf.config.vocab_size, "right")
    with torch.no_grad():  # not bit-equal where the reference has two words, and two computations, for one activation
        assert largest_difference(their_answer(theirs, given), their_answer(hf, given)) <= TOLERANCE[torch.float32]


def parameters_of(config: TransformerConfig) -> int:
    """Return how many parameters a model of that config has, tied ones once; nothing is allocated.

    The first block of each stack is built in its model, of the others one of each kind: a hundred equal ones take long.
    """
    counts: dict[BlockConfig, int] = {}
    total, cut = 0, {}
    for side in ("encoder", "decoder"):
        stack = getattr(config, side)
        for block in stack.blocks[1:] if stack else ():
            if block not in counts:
                with torch.device("meta"):
                    counts[block] = _count(Block(block, stack.input.d_model))
            total += counts[block]
        cut[side] = stack and stack.model_copy(update={"blocks": stack.blocks[:1]})
    with torch.device("meta"):
        return total + _count(Transformer(config.model_copy(update=cut)))


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
