"""Who may attend to whom: a lazy predicate over places."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import torch
from jaxtyping import Bool
from torch import Tensor

from glassformer.core.errors import ConfigError, DataError
from glassformer.core.pattern import Blocks
from glassformer.core.places import NO_TOKEN, Places


class Structure(Enum):
    """What is known of a mask without reading a tensor.

    All but GENERAL need queries and keys whose positions the host knows, without padding: the same ones, or the last
    one alone, or, where all see all, any; BLOCKS count from position 0 on. NEWEST is causal, and the queries are the
    last ones of more keys.
    """

    FULL = "full"
    CAUSAL = "causal"
    NEWEST = "newest"
    WINDOWED = "windowed"
    BLOCKS = "blocks"
    GENERAL = "general"


@dataclass(frozen=True, eq=False)
class Mask:
    """A rule that says which keys a query may attend to. True means "may attend", everywhere.

    A query attends to a key iff their segments are equal and not -1, and (if causal) key position <= query
    position, and (if window) |query position - key position| < window, and every block pattern lets their blocks see
    each other, and `allow` agrees. A query with nothing to attend to gets zeros, forward and backward.

    Attributes:
        causal: Hide keys that stand after the query. It compares positions, never corners of a matrix, so
            it is right for cached and chunked queries too.
        window: Number of positions to either side that stay visible, the query's own included; None = all.
        allow: Further restriction over the slots themselves. *Shape:* (T, S), (B, T, S) or (B, H, T, S).
        patterns: Rules over blocks of positions.
    """

    causal: bool = False
    window: int | None = None
    allow: Bool[Tensor, " ..."] | None = None
    patterns: tuple[Blocks, ...] = ()

    def __post_init__(self) -> None:
        if self.window is not None and self.window < 1:
            raise ConfigError(f"window is {self.window}; a query must at least see itself (window >= 1)")
        if self.allow is not None and (self.allow.dtype != torch.bool or self.allow.ndim not in (2, 3, 4)):
            raise DataError(
                f"allow has type {self.allow.dtype} and shape {tuple(self.allow.shape)}; it must be bool and "
                "(T, S), (B, T, S) or (B, H, T, S), True = may attend; see mask_from() for other masks"
            )

    def __and__(self, other: Mask) -> Mask:
        """Return the intersection: a key is visible iff both masks show it.

        Raises:
            DataError: Both have an `allow`, and their shapes do not fit each other.
        """
        if not other.causal and other.window is None and other.allow is None and not other.patterns:
            return self
        windows = [mask.window for mask in (self, other) if mask.window is not None]
        return Mask(
            causal=self.causal or other.causal,
            window=min(windows, default=None),
            patterns=self.patterns + tuple(each for each in other.patterns if each not in self.patterns),
            allow=_both(self.allow, other.allow),
        )

    def same_as(self, other: Mask) -> bool:
        """True if both are the same rule; `allow` is compared by identity, never by content."""
        return (
            self.causal == other.causal
            and self.window == other.window
            and self.patterns == other.patterns
            and self.allow is other.allow
        )

    def structure(self, queries: Places, keys: Places) -> Structure:
        """Return what is known of this mask between two places without reading a tensor."""
        if self.allow is not None or queries.begin is None or keys.begin is None:
            return Structure.GENERAL
        same = queries.begin == keys.begin and queries.length == keys.length
        # The last one sees all that came before, and itself.
        last = queries.length == 1 and queries.begin == keys.begin + keys.length - 1
        ends = queries.begin + queries.length, keys.begin + keys.length
        near = self.window is None or self.window >= max(ends) - min(queries.begin, keys.begin)  # it hides nothing
        if self.patterns:
            alone = len(self.patterns) == 1 and near and queries.plain
            return Structure.BLOCKS if alone and same else Structure.GENERAL
        if near and (last or not self.causal):
            return Structure.FULL
        if not same:
            newest = near and ends[0] == ends[1] and queries.length < keys.length
            return Structure.NEWEST if newest else Structure.GENERAL
        return Structure.CAUSAL if near else Structure.WINDOWED

    def dense(self, queries: Places, keys: Places) -> Bool[Tensor, "#batch #head query key"]:
        """Return the mask as a tensor, True = may attend.

        Args:
            queries: Where the queries stand. *Shape:* (B, T).
            keys: Where the keys stand. *Shape:* (B, S).

        Raises:
            DataError: `allow` does not fit the two lengths.
        """
        segment, other = queries.segment.unsqueeze(-1), keys.segment.unsqueeze(-2)  # (B, T, 1), (B, 1, S)
        seen = (segment == other) & (segment != NO_TOKEN)
        for blocks in self.patterns:
            of_query, of_key = queries.position // blocks.size, keys.position // blocks.size
            seen = seen & blocks.sees(of_query.unsqueeze(-1), of_key.unsqueeze(-2))
        if self.causal or self.window is not None:
            distance = queries.position.unsqueeze(-1) - keys.position.unsqueeze(-2)  # (B, T, S)
            if self.causal:
                seen = seen & (distance >= 0)
            if self.window is not None:
                seen = seen & (distance.abs() < self.window)
        seen = seen.unsqueeze(1)  # (B, 1, T, S)
        if self.allow is None:
            return seen
        allow = _four(self.allow)
        batch = max(queries.segment.shape[0], keys.segment.shape[0])
        fits = allow.shape[-2:] == seen.shape[-2:] and (batch == 1 or allow.shape[0] in (1, batch))
        if not fits:
            raise DataError(
                f"allow has shape {tuple(self.allow.shape)} but the batch is {batch}, the queries "
                f"{queries.length} and the keys {keys.length}: it must be (T, S), (B, T, S) or (B, H, T, S)"
            )
        return seen & allow


def mask_from(values: Tensor) -> Bool[Tensor, " ..."]:
    """Turn another library's "True/1/0.0 = attend" mask into a boolean one, or refuse it.

    Accepted are bool (True = attend), integers 0 and 1 (1 = attend) and floats that are to be ADDED to
    scores, so that every entry is 0 or -inf (or the type's most negative number). A float mask of zeros and
    ones is refused: added to scores it would leave the padding visible without a word.

    Args:
        values: The foreign mask, any shape.

    Raises:
        DataError: The values fit none of these.
    """
    if values.dtype == torch.bool:
        return values
    if not values.is_floating_point():
        known = (values == 0) | (values == 1)
        if bool(known.all()):
            return values == 1
        raise DataError(f"an integer mask may hold 0 (hidden) and 1 (attend) only; it holds {values[~known][0].item()}")
    hidden = values <= torch.finfo(values.dtype).min
    known = hidden | (values == 0)
    if bool(known.all()):
        return ~hidden
    raise DataError(
        f"a float mask is added to the scores, so it may hold 0 (attend) and -inf (hidden) only; it holds "
        f"{values[~known][0].item()}. If 1 means attend, pass mask == 1"
    )


def mask_from_ignored(ignored: Bool[Tensor, " ..."]) -> Bool[Tensor, " ..."]:
    """Turn a "True = ignore" mask (such as torch's key_padding_mask) into "True = may attend".

    Raises:
        DataError: `ignored` is not boolean, so its polarity cannot be known.
    """
    if ignored.dtype != torch.bool:
        raise DataError(f"ignored has type {ignored.dtype}; only a bool mask says for certain what it ignores")
    return ~ignored


def _four(allow: Bool[Tensor, " ..."]) -> Bool[Tensor, "#batch #head query key"]:
    """(T, S), (B, T, S) and (B, H, T, S) alike as four dimensions."""
    if allow.ndim == 2:
        return allow[None, None]
    return allow.unsqueeze(1) if allow.ndim == 3 else allow


def _both(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """The intersection of two restrictions; a single one stays the same tensor: masks are known by it."""
    if a is None or b is None:
        return b if a is None else a
    try:
        return _four(a) & _four(b)
    except RuntimeError:
        raise DataError(
            f"two masks of shapes {tuple(a.shape)} and {tuple(b.shape)} cannot both hold: each must be "
            "(T, S), (B, T, S) or (B, H, T, S) of the same queries and keys"
        ) from None
