"""The same model, what it computes in each step made by code of our own."""

from __future__ import annotations

from copy import copy

from torch import nn

from glassformer.kernels.operators import has_operators
from glassformer.kernels.softmax import choose_quick_kernel
from glassformer.models.own import OwnTransformer
from glassformer.models.transformer import Transformer
from glassformer.parts.attention import Attention
from glassformer.parts.head import Head
from glassformer.parts.norm import QuickRMSNorm, RMSNorm
from glassformer.parts.part import Part
from glassformer.parts.product import QuickLinear, quick_product
from glassformer.parts.quantised import QuantisedLinear
from glassformer.parts.rotary import quick_rotate


def quick_copy(model: Transformer) -> Transformer:
    """Return a model that writes the same, faster: products, attention, RMS norms and rotations have a quick form.

    Its parameters are those of the model: it changes with it, but what is replaced in the model later is not seen.
    Hooks of the model's parts run, and are handed the parts of the copy, which is in eval mode.

    Args:
        model: It is left as it is. Elsewhere than on a processor, without a compiler, or of the user's own code, the
            model itself is returned.
    """
    if isinstance(model, OwnTransformer) or model.device.type != "cpu" or not has_operators():
        return model
    made = _copied(model)
    assert isinstance(made, Transformer)
    return made


def _copied(module: nn.Module) -> nn.Module:
    """What is neither ours nor a plain projection is left alone."""
    plain = type(module) in (nn.Linear, QuantisedLinear)
    if not plain and not isinstance(module, Transformer | Part | nn.ModuleList):
        return module
    made = copy(module)
    made.training = False
    if plain:
        made.__class__ = QuickLinear
    if isinstance(made, Head):
        made.product = quick_product
    elif isinstance(made, Attention):
        made.choose, made.rotate = choose_quick_kernel, quick_rotate
    elif type(module) is RMSNorm:
        made.__class__ = QuickRMSNorm
    made._modules = {name: None if child is None else _copied(child) for name, child in module._modules.items()}
    return made
