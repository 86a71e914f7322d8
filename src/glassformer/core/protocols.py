"""What a room may expect of another without knowing how it is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from glassformer.core.call import Sight
from glassformer.core.mask import Mask


@runtime_checkable
class TokenStream(Protocol):
    """Turns the ids of ONE sequence into text as they arrive; emits only whole characters."""

    def push(self, token: int) -> str:
        """Take one more id; return the text that is now certain (possibly empty)."""
        ...

    def finish(self) -> str:
        """Return what is still held back; an unfinished character becomes U+FFFD."""
        ...


@runtime_checkable
class Tokenizer(Protocol):
    """Text to ids and back.

    `encode` adds no special tokens and never makes one out of user text; a special id that the vocabulary
    does not have is None (a character language model has neither begin nor end).
    """

    @property
    def vocab_size(self) -> int: ...
    @property
    def pad_id(self) -> int | None: ...
    @property
    def bos_id(self) -> int | None: ...
    @property
    def eos_id(self) -> int | None: ...
    @property
    def eos_ids(self) -> tuple[int, ...]:
        """Every id that ends what is written: `eos_id` first, and others where a model has several."""
        ...

    @property
    def unk_id(self) -> int | None: ...

    @property
    def prefix(self) -> tuple[int, ...]:
        """The ids that stand before every text a model reads or writes; often the begin token, or nothing."""
        ...

    def encode(self, text: str) -> list[int]:
        """Return the ids of `text`, without special tokens."""
        ...

    def decode(self, ids: Sequence[int], *, after: Sequence[int] = ()) -> str:
        """Return the text of `ids`, special tokens left out; `after` is what stands before them.

        A tokenizer that puts a space before every text leaves it out again, but not in the middle of one.
        """
        ...

    def label(self, token: int) -> str:
        """Return one token as a person should read it (`'<bos>'`, `'\\n'`, `'a'`)."""
        ...

    def stream(self, *, after: Sequence[int] = ()) -> TokenStream:
        """Return a fresh incremental decoder, one for each sequence; `after` is what stands before it."""
        ...


@runtime_checkable
class AttentionKernel(Protocol):
    """HOW attention of one type is computed; every kernel of a type equals its reference, and none changes a result."""

    @property
    def name(self) -> str: ...

    def never(self, mask: Mask, *, soft_cap: bool, bias: bool) -> str | None:
        """Return why it computes no attention under such a rule, whatever the rows are, and the way out; or None."""
        ...

    def refuses(self, sight: Sight) -> str | None:
        """Return why it cannot compute these rows, under a rule that it can; what the host knows decides, no tensor."""
        ...

    def gains(self, sight: Sight) -> bool:
        """Return whether "auto" should take it where it can; only lengths and what is known of the mask decide."""
        ...

    def attend(
        self,
        q: Float[Tensor, "batch head query d_head"],
        k: Float[Tensor, "batch kv_head key d_head"],
        v: Float[Tensor, "batch kv_head key d_value"],
        sight: Sight,
        *,
        bias: Float[Tensor, "#batch #head query key"] | None = None,
        scale: float = 1.0,
        soft_cap: float | None = None,
        dropout: float = 0.0,
    ) -> Float[Tensor, "batch head query d_value"]:
        """Return softmax(scale q k^T + bias) v under `sight`; zeros where a query sees nothing."""
        ...
