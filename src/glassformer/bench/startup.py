"""How long programs take to start, over bare Python."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from statistics import median
from types import MappingProxyType

from glassformer.bench.contest import Spread
from glassformer.bench.contest_table import spread
from glassformer.bench.contest_wording import WORDS
from glassformer.bench.markdown import markdown
from glassformer.core.errors import ConfigError, did_you_mean

BARE = "Python"

HELP = "import sys; sys.argv = ['glassformer', '--help']; from glassformer.cli.main import main; main()"

PACKAGES: Mapping[str, str] = MappingProxyType(
    {
        "torch": "torch",
        "reference-library": "transformers",
        "x-transformers": "x_transformers",
        "ctranslate2": "ctranslate2",
        "llama.cpp": "llama_cpp",
    }
)
"""What is imported of each peer."""


@dataclass(frozen=True)
class Start:
    """How long one program took to start and end.

    Attributes:
        name: The program.
        seconds: Of each turn.
        over: What it took longer than bare Python: the median over the turns, each by itself.
    """

    name: str
    seconds: tuple[float, ...]
    over: float


def known_packages(names: Sequence[str]) -> tuple[str, ...]:
    """Return the peers of these names; all for none.

    Raises:
        ConfigError: A name is none of them.
    """
    for name in names:
        if name not in PACKAGES:
            raise ConfigError(f"there is no peer {name!r}{did_you_mean(name, PACKAGES)}")
    return tuple(name for name in PACKAGES if not names or name in names)


def programs(peers: tuple[str, ...]) -> dict[str, str]:
    """Return the code of each program by its name: bare Python, ours, and the import of each peer that is there."""
    ours = {BARE: "pass", "import glassformer": "import glassformer", "glassformer --help": HELP}
    there = [PACKAGES[peer] for peer in peers if find_spec(PACKAGES[peer]) is not None]
    return ours | {f"import {package}": f"import {package}" for package in there}


def measure_starts(
    code: Mapping[str, str], turns: int, advanced: Callable[[int, int], None] = lambda done, total: None
) -> list[Start]:
    """Start every program once in each turn.

    Args:
        code: By name; `BARE` is among them.
        turns: How often.
        advanced: Called with (done, total) starts.

    Returns:
        In the same order, without what ends in an error.
    """
    seconds: dict[str, list[float]] = {name: [] for name in code}
    for turn in range(-1, turns):  # the first one brings the files into memory, and shows what cannot be imported
        for number, (name, text) in enumerate(code.items(), 1):
            began = time.perf_counter()
            command = [sys.executable, "-W", "ignore", "-c", text]
            if name in seconds and subprocess.run(command, capture_output=True).returncode != 0:
                del seconds[name]
            if turn >= 0 and name in seconds:
                seconds[name].append(time.perf_counter() - began)
            advanced((turn + 1) * len(code) + number, (turns + 1) * len(code))
    return [
        Start(name, tuple(times), median(mine - bare for mine, bare in zip(times, seconds[BARE], strict=True)))
        for name, times in seconds.items()
    ]


def startup_table(starts: list[Start], language: str) -> str:
    """Return them as a Markdown table."""
    head = [WORDS[word][language] for word in ("program", "start", "over")]
    body = [
        [
            start.name,
            WORDS.say("starts", language, seconds=spread(Spread.of(start.seconds), ".2f")),
            "" if start.name == BARE else WORDS.say("longer", language, seconds=start.over),
        ]
        for start in starts
    ]
    return "\n".join([*markdown(head, body), "", WORDS.say("started", language, turns=len(starts[0].seconds))])
