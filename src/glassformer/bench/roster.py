"""Who competes at what."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import torch

from glassformer.bench import ctranslate2, llama_cpp, ours, reference_library, torch_transformer, x_transformers
from glassformer.bench.contest import Contestant
from glassformer.bench.workloads import Work
from glassformer.core.errors import ConfigError, did_you_mean
from glassformer.training.precision import choose_precision

PEERS: Mapping[str, Callable[[Work, str], list[Contestant]]] = MappingProxyType(
    {
        "reference-library": reference_library.contestants,
        "x-transformers": x_transformers.contestants,
        "torch": torch_transformer.contestants,
        "ctranslate2": ctranslate2.contestants,
        "llama.cpp": llama_cpp.contestants,
    }
)
"""By the names of the command line; each does some kinds of work and no others."""


def known_peers(names: Sequence[str]) -> tuple[str, ...]:
    """Return the peers of these names; all for none.

    Raises:
        ConfigError: A name is none of them.
    """
    for name in names:
        if name not in PEERS:
            raise ConfigError(f"there is no peer {name!r}{did_you_mean(name, PEERS)}")
    return tuple(name for name in PEERS if not names or name in names)


def numbers_for(precision: str) -> tuple[str, ...]:
    """Return what is computed in.

    Args:
        precision: "float32", "bf16", or "auto": float32, and bf16 too where the processor is fast at it.

    Raises:
        ConfigError: It is none of these.
    """
    if precision not in ("auto", "float32", "bf16"):
        raise ConfigError(f"precision is {precision!r}; choose auto, float32 or bf16")
    if precision != "auto":
        return (precision,)
    fast = choose_precision("auto", torch.device("cpu")).name == "bf16"
    return ("float32", "bf16") if fast else ("float32",)


def contestants(work: Work, peers: Sequence[str], numbers: Sequence[str]) -> list[Contestant]:
    """Return us and the peers that do this kind of work.

    Args:
        work: The work.
        peers: Names of `PEERS`.
        numbers: What is computed in.
    """
    makers = [ours.contestants, *(PEERS[name] for name in peers)]
    return [contestant for make in makers for each in numbers for contestant in make(work, each)]
