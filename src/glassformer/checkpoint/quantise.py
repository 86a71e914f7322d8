"""From a checkpoint to one in 8 bits, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from glassformer.checkpoint.convert import opened, write_ours
from glassformer.checkpoint.whole_folder import RECIPE_FILE
from glassformer.core.errors import CheckpointError
from glassformer.core.places import Places
from glassformer.models.quantise import quantise_model
from glassformer.models.transformer import Transformer
from glassformer.text.tokenizer import TextTokenizer

TEXT = (
    "Alice was beginning to get very tired of sitting by her sister on the bank, and of having nothing to do: once or "
    "twice she had peeped into the book her sister was reading, but it had no pictures or conversations in it."
)
"""What the loss is taken on, where the model knows its words (Carroll 1865, the first sentence)."""

LENGTH = 64
"""Tokens of it, at most; and of random ids in its place."""


@dataclass(frozen=True)
class Quantised:
    """What a conversion into 8 bits changed.

    Attributes:
        bytes_before: Of the parameters.
        bytes_after: Of the parameters.
        loss_before: Per token, in nats, on the text; None where there is none.
        loss_after: The same in 8 bits.
        text: Whether that was the text; else it was random ids, of which the model need not know any word.
        tied: Whether input and output still share one table.
        no_loss: Why there is no loss to compare; nothing where there is one.
    """

    bytes_before: int
    bytes_after: int
    loss_before: float | None
    loss_after: float | None
    text: bool
    tied: bool
    no_loss: str = ""


def quantise_checkpoint(source: str | Path, target: Path, *, overwrite: bool = False) -> Quantised:
    """Write a checkpoint's model in 8 bits.

    The recipe of a run goes along: what labels, translates or measures with the run does so with what is written. What
    was measured of the run, and its states, stay behind: they are of another model.

    Args:
        source: As for `convert`.
        target: Where to write a folder of this project's.
        overwrite: Whether the target may hold something already.

    Raises:
        CheckpointError: The source is no checkpoint or damaged, a number of it is not finite, or the target cannot be
            written.
        UnsupportedError: The model is in 8 bits already, or from code of the user's own.
    """
    if target.resolve() == Path(source).resolve():
        raise CheckpointError(f"{target} is the source itself; choose another folder")
    foreign, model, tokenizer = opened(source)
    recipe = Path(source) / RECIPE_FILE
    goes_along = foreign is None and recipe.is_file()
    bytes_before = _bytes(model)
    model = model.float().eval()
    ids, text = _fixed(model, tokenizer)
    no_loss = _why_not(model, ids)
    loss_before = None if no_loss else _loss(model, ids)
    quantise_model(model)
    write_ours(model, tokenizer, target, overwrite=overwrite, recipe=recipe if goes_along else None)
    head, table = model.head, model.output_stack.input.embedding
    tied = head is not None and head.weight is table.weight
    loss_after = None if no_loss else _loss(model, ids)
    return Quantised(bytes_before, _bytes(model), loss_before, loss_after, text, tied, no_loss)


def _fixed(model: Transformer, tokenizer: TextTokenizer | None) -> tuple[list[int], bool]:
    """The ids that the loss is taken on, the same every time."""
    limits = [stack.config.input.positions.max_positions for stack in (model.encoder, model.decoder) if stack]
    room = min([LENGTH, *(limit for limit in limits if limit is not None)])
    if tokenizer is not None:
        ids = tokenizer.encode(TEXT)
        if len(ids) > 1 and tokenizer.n_unknown(ids) * 10 <= len(ids):
            return ids[:room], True
    size = model.output_stack.config.input.vocab_size
    return torch.randint(size, (room,), generator=torch.Generator().manual_seed(0)).tolist(), False


def _why_not(model: Transformer, ids: list[int]) -> str:
    """Why the ids have no loss; nothing where they have one."""
    head = model.head
    if head is not None and head.pooling is not None and head.weight is not None:
        return "it labels whole texts"
    if head is None or head.weight is None:
        return "it gives tokens no scores"
    if model.decoder is not None and len(ids) < 2:
        return "its context holds one token, and none to tell it from"
    return ""


def _loss(model: Transformer, ids: list[int]) -> float:
    """Mean loss of the ids: each from those before it; with an encoder, from all of them in the source."""
    tokens = torch.tensor([ids])
    with torch.inference_mode():
        if model.decoder is None:
            return float(model(tokens, labels=tokens).mean)
        memory = None if model.encoder is None else model.encode(tokens, places=Places.full(len(ids)))
        return float(model(tokens[:, :-1], memory=memory, labels=tokens[:, 1:]).mean)


def _bytes(model: Transformer) -> int:
    return sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
