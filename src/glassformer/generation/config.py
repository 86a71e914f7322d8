"""How to write: how much, how surprisingly, and until what."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from glassformer.core.errors import ConfigError
from glassformer.core.settings import Config

PREFILL_CHUNK = 1024
"""Of fewer tokens at a time a processor makes no better use of its time, and of more none that would be noticed."""

MOST_BEAM = 1000
"""Many times what helps any search; memory and time grow with it."""


class GenerationConfig(Config):
    """Settings of one generation; the defaults are greedy, so that the same prompt gives the same text.

    Attributes:
        max_new_tokens: Tokens a row may get after its prompt, from 0; the end token counts.
        min_new_tokens: Tokens a row gets before the end token is possible; stop strings do not wait for it.
        temperature: Divides the logits before the draw; 0 = greedy, which is the limit T -> 0.
        top_k: Draw from the k most probable tokens only; 0 or None = off.
        top_p: Draw from the fewest most probable tokens whose probabilities reach p; 0 = only the top token,
            1 or None = off.
        repetition_penalty: Above 1, tokens that the row has already, prompt and generated, become less
            probable; 1 = off.
        stop: Texts that end a row; they may span tokens and are never part of the result.
        seed: Row r draws from its own source of randomness, seeded with seed + r. So no row depends on the
            others, row r can be repeated alone, and a long list gives the same texts whatever batches it is
            cut into, if a batch that begins at row n gets seed + n. For new texts take a seed far away.
        use_cache: Keep keys and values, where the decoder is causal; False computes everything again at every step:
            slow, and equal.
        prefill_chunk: A prompt is read so many tokens at a time, so that the memory for it does not grow with its
            length; 0 or None = all at once, as it is without a cache, under a tape, and where rows of one length skip
            what a pattern hides. Scores differ by rounding only.
        when_full: What happens when a row fills the model's context: "stop", or "slide": forget the older
            half (the begin token stays) and go on.
        top: How many candidates, with their probabilities, each step reports.
        fast: "off" = the model as it is written; "auto" = by code of our own, where that is faster, and
            steps through a compiled graph, where thousands of tokens are still to come; "on" = through the graph from
            the first step on, which takes up to a minute to make. Scores differ by rounding only.
    """

    max_new_tokens: int = Field(256, ge=0, lt=2**31)
    min_new_tokens: int = Field(0, ge=0)
    temperature: float = Field(0.0, ge=0)
    top_k: int | None = Field(None, ge=0)
    top_p: float | None = Field(None, ge=0, le=1)
    repetition_penalty: float = Field(1.0, gt=0)
    stop: tuple[str, ...] = ()
    seed: int = Field(0, ge=0, lt=2**62)
    use_cache: bool = True
    prefill_chunk: int | None = Field(PREFILL_CHUNK, ge=0)
    when_full: Literal["stop", "slide"] = "stop"
    top: int = Field(0, ge=0)
    fast: Literal["auto", "on", "off"] = "auto"

    @field_validator("stop")
    @classmethod
    def _stop_says_something(cls, stop: tuple[str, ...]) -> tuple[str, ...]:
        if "" in stop:
            raise ConfigError("an empty text stands everywhere and would end every row at once; leave it out")
        return stop

    @model_validator(mode="after")
    def _limits_agree(self) -> Self:
        _check_limits(self.min_new_tokens, self.max_new_tokens)
        return self


class BeamConfig(Config):
    """Settings of one beam search.

    Attributes:
        beam: How many beginnings of each sentence are followed side by side, 1 to `MOST_BEAM`.
        length_penalty: alpha of log P / n^alpha, from 0 to 10: 0 favours short texts, 1 compares means, more long ones.
        n_best: How many hypotheses each sentence gets, 1 to `beam`.
        max_new_tokens: Tokens a hypothesis may get after its prompt, from 0; the end token counts. With alpha > 0
            the search goes on while a text of that length could still win, so a limit near the expected length
            makes it faster.
        min_new_tokens: Tokens a hypothesis gets before the end token is possible.
        use_cache: Keep keys and values, where the decoder is causal; False computes everything again at every step:
            slow, and equal.
        prefill_chunk: A prompt is read so many tokens at a time; see `GenerationConfig`.
        fast: "off" = the model as it is written; "auto" = by code of our own, where that is faster.
    """

    beam: int = Field(5, ge=1, le=MOST_BEAM)
    length_penalty: float = Field(1.0, ge=0, le=10)
    n_best: int = Field(1, ge=1)
    max_new_tokens: int = Field(256, ge=0, lt=2**31)
    min_new_tokens: int = Field(0, ge=0)
    use_cache: bool = True
    prefill_chunk: int | None = Field(PREFILL_CHUNK, ge=0)
    fast: Literal["auto", "off"] = "auto"

    @model_validator(mode="after")
    def _numbers_agree(self) -> Self:
        if self.n_best > self.beam:
            raise ConfigError(f"n_best is {self.n_best}, more than the beam of {self.beam}; raise beam or lower n_best")
        _check_limits(self.min_new_tokens, self.max_new_tokens)
        return self


def _check_limits(min_new_tokens: int, max_new_tokens: int) -> None:
    if min_new_tokens > max_new_tokens:
        raise ConfigError(
            f"min_new_tokens is {min_new_tokens}, more than max_new_tokens {max_new_tokens}; "
            "raise max_new_tokens or lower min_new_tokens"
        )
