"""Chinese in both of its scripts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal

Script = Literal["simplified", "traditional"]
CONVERSIONS: Mapping[Script, str] = MappingProxyType({"simplified": "t2s", "traditional": "s2t"})
"""What opencc calls the way into each script."""


def in_script(texts: Iterable[str], script: Script) -> list[str]:
    """Return texts with every Chinese character in one script; all else stays as it is.

    Args:
        texts: In either script, or in both.
        script: "simplified" (汉语) or "traditional" (漢語).
    """
    from opencc import OpenCC  # loads its tables

    convert = OpenCC(CONVERSIONS[script]).convert
    return [convert(text) for text in texts]


def in_both_scripts(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return pairs whose source is Chinese once in each script; where both look the same, once.

    A model that learns from them reads either script, and nothing has to be converted when it is used.

    Args:
        pairs: Chinese in either script, and whatever belongs to it.
    """
    kept = list(pairs)
    sources = [source for source, _ in kept]
    simplified, traditional = in_script(sources, "simplified"), in_script(sources, "traditional")
    both = zip(simplified, traditional, kept, strict=True)
    return [(text, target) for one, other, (_, target) in both for text in dict.fromkeys((one, other))]
