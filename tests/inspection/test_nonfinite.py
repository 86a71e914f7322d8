from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from glassformer.families.registry import preset
from glassformer.inspection.nonfinite import first_non_finite
from glassformer.models.transformer import Transformer

TOKENS = torch.tensor([[1, 2, 3, 4, 5]])


def tiny(**changes: object) -> Transformer:
    arguments = preset("tiny").model_copy(update={"d_model": 16, "n_heads": 2, "d_ff": 32} | changes)
    return Transformer(arguments.resolve(32), generator=torch.Generator().manual_seed(0))


def hooks(model: nn.Module) -> int:
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())


@torch.no_grad()
def overflow_in_half(model: Transformer) -> None:
    """The feed-forward of layer 1 gives gelu(181) * 366 = 66,246: too much for float16."""
    feed_forward = model.output_stack.blocks[1].feed_forward
    feed_forward.inner.weight.zero_()
    feed_forward.inner.bias.fill_(181.0)
    feed_forward.output.weight.zero_()
    feed_forward.output.weight[0, 0] = 366.0


def test_o14_overflow_of_a_feed_forward_in_half_precision_is_named():
    model = tiny()
    overflow_in_half(model)

    def run() -> Tensor:
        with torch.autocast("cpu", torch.float16):
            return model(TOKENS)

    finding = first_non_finite(model, run)
    assert finding is not None
    assert finding.site == "decoder.blocks.1.feed_forward.output"
    assert (finding.kind, finding.value, finding.dtype) == ("output", math.inf, torch.float16)
    assert (finding.shape, finding.row, finding.column) == ((1, 5, 16), 0, 0)
    assert finding.largest_finite_input == 181.0
    said = finding.describe()
    for part in ("decoder.blocks.1.feed_forward.output", "float16", "65504", "181", "[0, 0, 0]"):
        assert part in said
    assert hooks(model) == 0
    assert first_non_finite(model, lambda: model(TOKENS)) is None, "66,246 is nothing special in float32"


def test_o14_culprit_in_a_model_with_classes_is_named():
    arguments = preset("tiny").model_copy(update={"d_model": 16, "n_heads": 2, "d_ff": 32})
    model = Transformer(arguments.resolve(32, classes=tuple("abc")))
    labels = torch.tensor([2])
    assert first_non_finite(model, lambda: model(TOKENS, labels=labels).mean) is None
    with torch.no_grad():
        model.head.weight[1, 4] = math.nan
    for run in (lambda: model(TOKENS), lambda: model(TOKENS, labels=labels).mean):
        finding = first_non_finite(model, run)
        assert finding is not None
        assert (finding.site, finding.kind, finding.index) == ("head.weight", "parameter", (1, 4))


def test_o14_first_of_two_culprits_is_named():
    model = tiny()
    with torch.no_grad():
        model.decoder.blocks[0].attention.output.bias.fill_(3e38)
        model.decoder.blocks[0].attention.output.weight.fill_(3e38)
        model.decoder.blocks[1].feed_forward.output.bias.fill_(math.nan)
    finding = first_non_finite(model, lambda: model(TOKENS))
    assert finding is not None
    assert finding.site.startswith("decoder.blocks.0.attention")


def test_o14_parameter_that_is_not_finite_is_named():
    model = tiny()
    with torch.no_grad():
        model.decoder.blocks[0].feed_forward.inner.weight[3, 5] = math.nan
    finding = first_non_finite(model, lambda: model(TOKENS))
    assert finding is not None
    assert (finding.site, finding.kind) == ("decoder.blocks.0.feed_forward.inner.weight", "parameter")
    assert (finding.row, finding.column, finding.shape) == (3, 5, (32, 16))
    assert math.isnan(finding.value)
    assert "decoder.blocks.0.feed_forward.inner.weight" in finding.describe()


def test_what_goes_wrong_between_the_children_is_put_down_to_the_module():
    """q k^T overflows to inf in float32, and the softmax of it is NaN: no child of the attention is to blame."""
    model = tiny()
    with torch.no_grad():
        model.decoder.blocks[1].attention.qkv.weight.mul_(1e25)
    finding = first_non_finite(model, lambda: model(TOKENS))
    assert finding is not None
    assert (finding.site, finding.kind) == ("decoder.blocks.1.attention", "output")


def test_sum_of_the_residual_is_put_down_to_the_block():
    model = tiny(norm="none")
    with torch.no_grad():
        for block in model.decoder.blocks:
            block.attention.qkv.weight.zero_()
            block.attention.output.weight.zero_()
            block.attention.output.bias.fill_(2e38)
    finding = first_non_finite(model, lambda: model(TOKENS))
    assert finding is not None
    assert finding.site == "decoder.blocks.1"


def test_finite_forward_has_no_finding():
    model = tiny()
    assert first_non_finite(model, lambda: model(TOKENS)) is None


def test_input_that_is_spoilt_already_is_said_to_be():
    model = tiny()
    x = torch.zeros(1, 3, 16)
    x[0, 1, 2] = math.nan
    finding = first_non_finite(model, lambda: model(x))
    assert finding is not None
    assert finding.kind == "input"
    assert finding.index[:2] == (0, 1)
    assert "input" in finding.describe()


def test_loss_that_goes_wrong_after_the_model_is_the_result():
    model = tiny()
    finding = first_non_finite(model, lambda: (model(TOKENS).sum() * 0.0).log())
    assert finding is not None
    assert (finding.site, finding.kind, finding.value) == ("result", "result", -math.inf)
    assert (finding.row, finding.column) == (None, None)
    assert "after the last" in finding.describe()


class InPlace(nn.Module):
    """A foreign block that overwrites its input, returns a dict and takes a mask to be added."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.activation = nn.ReLU(inplace=True)

    def forward(self, x: Tensor, *, mask: Tensor) -> dict[str, Tensor]:
        changed = self.activation(self.inner(x))
        x += changed * 3e38
        return {"states": x, "scores": (x @ x.T).nan_to_num() + mask}


def test_foreign_module_that_overwrites_its_input_is_named():
    torch.manual_seed(0)
    model = nn.ModuleDict({"block": InPlace()})
    mask = torch.zeros(2, 2).masked_fill(torch.ones(2, 2).triu(1).bool(), -math.inf)
    finding = first_non_finite(model, lambda: model["block"](torch.full((2, 4), 9.0), mask=mask)["states"])
    assert finding is not None
    assert (finding.site, finding.kind, finding.largest_finite_input) == ("block", "output", 9.0)


def test_mask_of_minus_infinity_is_no_culprit():
    class Masked(nn.Module):
        def forward(self, length: int) -> Tensor:
            return torch.zeros(length, length).masked_fill(torch.ones(length, length).triu(1).bool(), -math.inf)

    mask = Masked()
    model = nn.Sequential(nn.Linear(3, 3), nn.Softmax(dim=-1))
    both = nn.ModuleList([mask, model])
    assert first_non_finite(both, lambda: model(torch.zeros(3, 3)) + 0 * mask(3).exp()) is None
    assert first_non_finite(mask, lambda: mask(3).exp()) is None


def test_single_module_is_called_model_and_its_parameter_by_its_name():
    model = nn.Linear(2, 2)
    finding = first_non_finite(model, lambda: model(torch.full((1, 2), 3e38)) * 0 + torch.inf)
    assert finding is not None
    with torch.no_grad():
        model.weight.fill_(1e38)
    finding = first_non_finite(model, lambda: model(torch.full((1, 2), 9.0)))
    assert finding is not None
    assert finding.site == "model"
    with torch.no_grad():
        model.bias[1] = math.nan
    finding = first_non_finite(model, lambda: model(torch.ones(1, 2)))
    assert finding is not None
    assert (finding.site, finding.index) == ("bias", (1,))


def test_hooks_are_removed_when_the_run_fails():
    model = tiny()

    def run() -> Tensor:
        raise RuntimeError("broken batch")

    with pytest.raises(RuntimeError, match="broken batch"):
        first_non_finite(model, run)
    assert hooks(model) == 0
