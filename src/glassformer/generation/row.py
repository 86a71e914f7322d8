"""One row that is being written."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from glassformer.core.protocols import Tokenizer
from glassformer.generation.config import GenerationConfig
from glassformer.generation.stopping import ShownText, StopReason, stop_reason


class Row:
    """One row that is being written: what the model sees of it, what a person sees of it, and when it ends.

    Args:
        index: Its number in the list of prompts, from 0.
        prompt: Token ids, without special tokens.
        config: The generation's settings.
        tokenizer: Turns ids into text, and knows the begin and end tokens.
        begin: What stands before the prompt.
        limit: Tokens that fit the model's context; None = as many as you like.

    Attributes:
        context: What the model sees: begin token, prompt and new tokens, less what slid out.
        history: Prompt and new tokens, all of them. The begin token is not among them: where it is the end
            token too, a penalty on it would be one on ending.
        n_cached: How many of `context` the cache holds.
        random: The row's own source of randomness.
    """

    def __init__(
        self,
        index: int,
        prompt: Sequence[int],
        config: GenerationConfig,
        tokenizer: Tokenizer,
        begin: Sequence[int],
        limit: int | None,
    ) -> None:
        self.index = index
        self.begin = list(begin)
        self.context = [*self.begin, *prompt]
        self.history = list(prompt)
        self.n_cached = 0
        self.random = torch.Generator().manual_seed(config.seed + index)
        self._n_new = 0
        self._text = ShownText(tokenizer.stream(after=prompt), config.stop)
        self._config, self._ends, self._limit = config, tokenizer.eos_ids, limit

    @property
    def unread(self) -> list[int]:
        """The part of the context that the cache lacks: all of it at first, one token from then on."""
        return self.context[self.n_cached :]

    def take(self, token: int) -> tuple[str, StopReason | None]:
        """Append a token; return the text that may be shown now, and why the row ends, if it does."""
        self.context.append(token)
        self.history.append(token)
        self._n_new += 1
        is_eos = token in self._ends
        text = "" if is_eos else self._text.push(token)
        reason = self.ends(is_eos=is_eos)
        return (text, None) if reason is None else (text + self._text.finish(), reason)

    def ends(self, *, is_eos: bool = False) -> StopReason | None:
        """Return why the row ends as it stands now, or None."""
        limit = None if self._config.when_full == "slide" else self._limit
        return stop_reason(
            is_eos=is_eos,
            stop_string=self._text.stopped,
            room_in_length=self._config.max_new_tokens - self._n_new,
            room_in_context=None if limit is None else limit - len(self.context),
        )

    def slide(self) -> bool:
        """Forget the older half of a context that no longer fits; return whether that was so.

        The begin token stays, for the model has never seen a text without it. What is left is a new text to
        the model: it starts at position 0, and nothing of it is cached.
        """
        if self._limit is None or len(self.context) <= self._limit:
            return False
        kept = max(self._limit // 2, 1)
        self.context = self.begin[: self._limit - kept] + self.context[-kept:]
        self.n_cached = 0
        return True
