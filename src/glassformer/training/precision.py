"""Where a run computes, and in which numbers."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch

from glassformer.core.errors import ConfigError

TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def choose_device(wanted: str) -> torch.device:
    """Return the device to use: the wanted one, or with "auto" an accelerator where there is one.

    Raises:
        ConfigError: The wanted device is not there.
    """
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if wanted == "auto":
        return torch.device(next(name for name in ("cuda", "mps", "cpu") if there[name]))
    if wanted not in there:
        raise ConfigError(f"device is {wanted!r}; choose auto, cpu, cuda or mps")
    if not there[wanted]:
        usable = ", ".join(name for name, yes in there.items() if yes)
        raise ConfigError(f"device={wanted}, but torch finds none on this machine; it can use: {usable}")
    return torch.device(wanted)


@dataclass(frozen=True)
class Precision:
    """The numbers of matrix products; parameters and optimizer are float32 always.

    Attributes:
        name: "float32", "bf16" or "fp16".
        reason: Why it was chosen, to be said before training.
        device_type: What autocast is told.
    """

    name: str
    reason: str
    device_type: str

    def autocast(self) -> AbstractContextManager[object]:
        """Return the context in which a forward pass computes in these numbers."""
        if self.name == "float32":
            return nullcontext()
        return torch.autocast(self.device_type, TYPES[self.name])


def parameter_type(wanted: str, device: torch.device) -> torch.dtype:
    """Return what the parameters are turned into outside of training, where nothing has to add up over many updates.

    Raises:
        ConfigError: There is no such precision.
    """
    return TYPES.get(choose_precision(wanted, device).name, torch.float32)


def choose_precision(wanted: str, device: torch.device) -> Precision:
    """Return the wanted precision, or with "auto" bf16 where the device is fast at it, else float32.

    Raises:
        ConfigError: There is no precision of that name.
    """
    if wanted not in ("auto", "float32", *TYPES):
        raise ConfigError(f"precision is {wanted!r}; choose auto, float32, bf16 or fp16")
    if wanted != "auto":
        return Precision(wanted, "as asked", device.type)
    if device.type == "cuda":
        fast = torch.cuda.get_device_capability(device)[0] >= 8
        return Precision(
            "bf16" if fast else "float32", "this GPU has bf16 units" if fast else "an old GPU", device.type
        )
    if device.type == "cpu":
        found = sorted(processor_flags() & {"avx512_bf16", "amx_bf16"})
        if found:
            return Precision("bf16", f"the processor has {' and '.join(found)}", device.type)
        return Precision("float32", "the processor has neither avx512_bf16 nor amx_bf16", device.type)
    return Precision("float32", "not measured on this kind of device", device.type)


def processor_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """Return what the processor says it can do, where the system tells (Linux); else nothing."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return frozenset()
    for line in lines:
        if line.startswith("flags"):
            return frozenset(line.partition(":")[2].split())
    return frozenset()
