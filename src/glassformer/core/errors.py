"""The kinds of mistake a user can make, each a ValueError that names the value, the limit and the way out."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class GlassformerError(ValueError):
    """Any mistake in what was asked for; a traceback is for this project's own bugs only."""


class ConfigError(GlassformerError):
    """A setting that is unknown, of the wrong type, or impossible together with another."""


class DataError(GlassformerError):
    """Text, tokens or files that cannot be used as given."""


class CheckpointError(GlassformerError):
    """A file or folder of weights or training state that is damaged, foreign or does not fit."""


class UnsupportedError(GlassformerError):
    """Something that exists as a notion but is not offered in this combination."""


class DivergenceError(GlassformerError):
    """Training produced a number that is not finite; what was learned before is kept."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `"; did you mean 'x'?"` for the nearest known name, else the list of the known names.

    Args:
        name: What the user wrote.
        known: Every name that would have been accepted.
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if near:
        return f"; did you mean {near[0]!r}?"
    if not names:
        return ""
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return f"; known: {', '.join(names[:20])}{more}"
