"""A whole model in 8 bits."""

from __future__ import annotations

from torch import nn

from glassformer.core.errors import CheckpointError, UnsupportedError
from glassformer.models.own import OwnTransformer
from glassformer.models.transformer import Transformer
from glassformer.parts.embedding import Embedding
from glassformer.parts.head import Head
from glassformer.parts.quantised import QuantisedEmbedding, QuantisedLinear, frozen, quantise


def quantise_model(model: Transformer) -> Transformer:
    """Turn the matrices of a model into 8 bits, in place; norms, offsets and tables of positions stay as they are.

    What was tied stays tied. Such a model reads and writes; it does not learn.

    A matrix rounds what comes in, so where rows are padded, cached or compiled, the last digit of a number on the edge
    between two levels may decide for the other one: equality to 1e-5 is not promised, as it is in float32. What that
    changes is below what 8 bits cost; in float64 (`model.double()`) such edges are 1e8 times rarer.

    Args:
        model: The model; on the meta device only its shapes are turned.

    Returns:
        The same model.

    Raises:
        UnsupportedError: It is in 8 bits already, or from code of the user's own, which may do anything with a matrix.
        CheckpointError: A number is not finite: such a row has no step.
    """
    if isinstance(model, OwnTransformer):
        raise UnsupportedError(
            "a model of your own code cannot be turned into 8 bits: what it does with a matrix is its"
        )
    if is_quantised(model):
        raise UnsupportedError("this model is in 8 bits already")
    for name, parameter in model.named_parameters():
        if not parameter.is_meta and not bool(parameter.isfinite().all()):
            raise CheckpointError(
                f"{name} holds a number that is not finite, of which 8 bits make noise; the weights are damaged: take "
                "another checkpoint"
            )
    head = model.head
    shared = {id(stack.input.embedding) for stack in (model.encoder, model.decoder) if stack is not None}
    tables: dict[int, QuantisedEmbedding] = {}
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, QuantisedLinear(child))
            elif isinstance(child, Embedding) and id(child) in shared:
                if id(child) not in tables:
                    tables[id(child)] = QuantisedEmbedding(child)
                setattr(module, name, tables[id(child)])
    if head is not None and head.weight is not None:
        table = model.output_stack.input.embedding
        if head.tied and isinstance(table, QuantisedEmbedding):
            head.weight, head.step = table.weight, table.step
        else:
            levels, step = quantise(head.weight.detach())
            head.weight, head.step = frozen(levels), frozen(step)
    return model


def refuse_learning(model: nn.Module) -> None:
    """Refuse to train a model in 8 bits.

    Raises:
        UnsupportedError: It is one.
    """
    if is_quantised(model):
        raise UnsupportedError("a model in 8 bits does not learn: train the one it was made from, and convert that")


def steps_of(model: nn.Module) -> set[nn.Parameter]:
    """Return the sizes of the levels: parameters that stand for none of the model that was turned into 8 bits."""
    modules = list(model.modules())
    steps = {module.step for module in modules if isinstance(module, QuantisedLinear | QuantisedEmbedding)}
    return steps | {module.step for module in modules if isinstance(module, Head) and module.step is not None}


def is_quantised(model: nn.Module) -> bool:
    """Return whether matrices of a model are in 8 bits."""
    return any(isinstance(module, QuantisedLinear | QuantisedEmbedding) for module in model.modules())
