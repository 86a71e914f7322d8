"""One sample, and how well a model says what it should: the loss that heads are judged by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from glassformer.core.call import Memory
from glassformer.core.errors import DataError
from glassformer.core.places import IGNORED
from glassformer.core.tape import Tape
from glassformer.models.transformer import Transformer

Kind = Literal["next", "same", "label", "vector"]

CHUNK_NUMBERS = 2**24
"""Scores that are made at once: 64 MiB of float32, however large the vocabulary is."""


@dataclass(frozen=True)
class Sample:
    """What a model reads, and what it is to say at each position.

    Attributes:
        tokens: Ids that the decoder, or the only stack, reads.
        sources: Ids that the encoder of an encoder-decoder reads; None = there is none.
        answers: The id that each position is to say; -100 = nothing is known of it. One for each of `tokens`.
    """

    tokens: tuple[int, ...]
    sources: tuple[int, ...] | None
    answers: tuple[int, ...]

    @staticmethod
    def of(
        model: Transformer,
        tokens: Sequence[int],
        sources: Sequence[int] | None = None,
        written: Sequence[int] | None = None,
    ) -> Sample:
        """Return a sample with the answers that its kind of model is judged by.

        A causal stack is to say the next token; a stack that sees all is to say, at each position, the token there.

        Args:
            model: Who reads it.
            tokens: See `Sample`.
            sources: See `Sample`.
            written: What a decoder writes at each position, where that is known to the end.

        Raises:
            DataError: There is no token.
        """
        if not tokens:
            raise DataError("there is no token to look at: the text is empty, and this vocabulary has no begin token")
        if written is not None:
            answers = tuple(written)
        elif model.config.output_stack.causal:
            answers = (*tokens[1:], IGNORED)
        else:
            answers = tuple(tokens)
        return Sample(tuple(tokens), None if sources is None else tuple(sources), answers)

    def states(self, model: Transformer, tape: Tape | None = None, copies: int = 1) -> Float[Tensor, "copy length d"]:
        """Return the last states of so many equal rows; a tape may change each row in its own way.

        Args:
            model: In eval mode.
            tape: What is recorded and changed, in the encoder too.
            copies: Number of rows.
        """
        rows = torch.tensor([self.tokens], device=model.device).expand(copies, -1)
        hidden: Tensor = model(rows, memory=self.memory(model, tape, copies), outputs="hidden", tape=tape)
        return hidden

    def memory(self, model: Transformer, tape: Tape | None = None, copies: int = 1) -> Memory | None:
        """Return what the encoder of an encoder-decoder makes of the sources."""
        if self.sources is None:
            return None
        return model.encode(torch.tensor([self.sources], device=model.device).expand(copies, -1), tape=tape)


def kind_of(model: Transformer) -> Kind:
    """Return what a model says: the "next" token, the "same" token, a "label" of the text, or a "vector"."""
    head = model.config.head
    if head is None or head.vocab_size is None:
        return "vector"
    if head.pooling is not None:
        return "label"
    return "next" if model.config.output_stack.causal else "same"


def said(model: Transformer, states: Float[Tensor, "copy length d"]) -> Float[Tensor, "copy position value"]:
    """Return what a model makes of its last states, as log-probabilities or vectors of length 1.

    Args:
        model: In eval mode.
        states: From `Sample.states`.

    Returns:
        Of every token (copies, T, V); of every label (copies, 1, C); of the whole text (copies, 1, D).
    """
    head = model.head
    if head is None:
        return F.normalize(states.float().mean(1, keepdim=True), dim=-1)
    if head.pooling is None:
        scores: Tensor = head(states)
        return scores.float().log_softmax(-1)
    if head.weight is None:  # the vector of a sentence encoder is the mean of its states, not what its pooler makes
        return F.normalize(states.float().mean(1, keepdim=True), dim=-1)
    # No sample has padding, so that the pooled state is simply one of the row, or its mean.
    pooled = {"first": states[:, :1], "last": states[:, -1:], "mean": states.mean(1, keepdim=True)}[head.pooling]
    scores = head(pooled)
    return scores.float().log_softmax(-1)


class Judge:
    """How much worse a model says what it should, when something in it is changed.

    The loss is the mean of -log p(answer) over the positions that have one, in nats; of a model that labels texts
    -log p of the label that it gives unchanged; of one that makes vectors 1 - cosine to its unchanged vector.

    Args:
        model: In eval mode, and without gradients.
        sample: What it reads.
        states: Its last states, where they are known.
    """

    def __init__(self, model: Transformer, sample: Sample, states: Tensor | None = None) -> None:
        self.model, self.sample, self.kind = model, sample, kind_of(model)
        answers = torch.tensor(sample.answers, device=model.device)
        self.positions = (answers != IGNORED).nonzero()[:, 0] if self.kind in ("next", "same") else None
        self.answers = answers[self.positions] if self.positions is not None else None
        states = sample.states(model) if states is None else states
        self.whole = said(model, states) if self.positions is None else None
        self.loss = float(self.losses(states)[0])

    @property
    def answered(self) -> int:
        """Number of answers that the loss is a mean of; without one it is 0."""
        return 1 if self.positions is None else len(self.positions)

    def losses(self, states: Float[Tensor, "copy length d"]) -> Float[Tensor, " copy"]:
        """Return the loss of each row of last states."""
        if self.whole is not None:
            new = said(self.model, states)
            if self.kind == "vector":
                return 1 - (new * self.whole).sum(-1)[:, 0]
            return -new[:, 0, int(self.whole[0, 0].argmax())]
        assert self.positions is not None
        assert self.answers is not None, "tokens have answers"
        head, total = self.model.head, states.new_zeros(len(states), dtype=torch.float32)
        assert head is not None
        assert head.weight is not None, "a model that says tokens has a head"
        if not len(self.positions):
            return total
        step = max(1, CHUNK_NUMBERS // (len(states) * len(head.weight)))
        for first in range(0, len(self.positions), step):
            chosen = slice(first, first + step)
            logprobs = said(self.model, states[:, self.positions[chosen]])
            total = total - logprobs[:, torch.arange(logprobs.shape[1]), self.answers[chosen]].sum(1)
        return total / len(self.positions)
