from __future__ import annotations

import math

import pytest
import torch

from glassformer.core.errors import DataError
from glassformer.core.places import Places
from glassformer.core.tape import Tape
from glassformer.families.registry import preset
from glassformer.inspection.layer_norms import layer_norms, rms
from glassformer.models.transformer import Transformer


def model_of(name: str) -> Transformer:
    arguments = preset(name).model_copy(update={"d_model": 16, "n_heads": 2, "d_ff": 32, "dropout": 0.0})
    return Transformer(arguments.resolve(32), generator=torch.Generator().manual_seed(0))


def test_rms_by_hand():
    assert torch.equal(rms(torch.tensor([[3.0, 4.0], [0.0, 0.0]])), torch.tensor([math.sqrt(12.5), 0.0]))


def test_rms_of_half_precision_does_not_overflow():
    assert float(rms(torch.full((4,), 60000.0, dtype=torch.float16))) == 60000.0


def test_norms_are_those_of_every_block():
    model, tokens = model_of("tiny"), torch.tensor([[1, 2, 3], [4, 5, 6]])
    whole, reduced = Tape(model, "*.residual"), Tape(model, "*.residual", reduce=rms)
    model(tokens, tape=whole)
    model(tokens, tape=reduced)
    norms = layer_norms(reduced)
    assert list(norms) == ["decoder.blocks.0", "decoder.blocks.1"]
    assert norms == pytest.approx(layer_norms(whole))
    last = whole["decoder.blocks.1.residual"]
    assert norms["decoder.blocks.1"] == pytest.approx(float(last.square().mean().sqrt()))


def test_padding_is_left_out():
    model = model_of("tiny")
    places = Places.from_lengths([3, 5])
    padded = torch.tensor([[1, 2, 3, 0, 0], [4, 5, 6, 7, 8]])
    tape = Tape(model, "*.residual", reduce=rms)
    model(padded, places=places, tape=tape)
    real = layer_norms(tape, {"decoder": places})
    squares = []
    for row in ([1, 2, 3], [4, 5, 6, 7, 8]):
        alone = Tape(model, "*.residual")
        model(torch.tensor([row]), tape=alone)
        squares.append(alone["decoder.blocks.0.residual"].square().mean(-1).flatten())
    assert real["decoder.blocks.0"] == pytest.approx(float(torch.cat(squares).mean().sqrt()), rel=1e-5)
    assert real != layer_norms(tape)


def test_each_stack_has_its_own_places():
    model = model_of("small")
    source, target = Places.from_lengths([2, 4]), Places.from_lengths([3, 1])
    tape = Tape(model, "*.residual", reduce=rms)
    memory = model.encode(torch.ones(2, 4, dtype=torch.long), places=source, tape=tape)
    model(torch.ones(2, 3, dtype=torch.long), places=target, memory=memory, tape=tape)
    norms = layer_norms(tape, {"encoder": source, "decoder": target})
    assert list(norms) == [f"{stack}.blocks.{layer}" for stack in ("encoder", "decoder") for layer in (0, 1)]
    with pytest.raises(DataError, match=r"\(2, 3\) slots.*\(2, 4\)"):
        layer_norms(tape, {"encoder": target})


def test_tape_without_a_residual_is_refused():
    model = model_of("tiny")
    tape = Tape(model, "*.weights")
    model(torch.tensor([[1, 2]]), tape=tape)
    with pytest.raises(DataError, match=r"\*\.residual"):
        layer_norms(tape)
