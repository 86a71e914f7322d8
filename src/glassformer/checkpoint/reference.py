"""The reference library (Hugging Face transformers) as an oracle: the same checkpoint, loaded and run by it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from glassformer.core.errors import CheckpointError, ConfigError
from glassformer.parts.position import sinusoid


def reference_library() -> Any:
    """Return the library.

    Raises:
        ConfigError: It is not installed.
    """
    try:
        return import_module("transformers")
    except ImportError:
        raise ConfigError(
            "the reference library is not installed; pip install 'glassformer[hf]' brings transformers"
        ) from None


def load_reference(folder: Path, architecture: str) -> nn.Module:
    """Return the model of a folder as the reference library loads it, in float32 and eval mode.

    Args:
        folder: A local checkpoint folder; nothing is downloaded, and no code in it is run.
        architecture: The name of its class, as config.json says.

    Raises:
        CheckpointError: The library cannot load it.
        ConfigError: The library is not installed.
    """
    library = reference_library()
    library.utils.logging.set_verbosity_error()
    library.utils.logging.disable_progress_bar()
    try:
        model = getattr(library, architecture).from_pretrained(
            str(folder), dtype=torch.float32, attn_implementation="eager", local_files_only=True
        )
    except Exception as error:  # whatever it raises, it is the reference's own refusal
        raise CheckpointError(f"the reference library cannot load {folder} as {architecture}: {error}") from error
    loaded: nn.Module = model.eval()
    return loaded


class _Raised(TorchFunctionMode):
    """Turns every cast to float32 into one to float64."""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func is Tensor.float:
            return args[0].double()
        raised = [torch.float64 if value is torch.float32 else value for value in args]
        named = {name: torch.float64 if value is torch.float32 else value for name, value in (kwargs or {}).items()}
        return func(*raised, **named)


@contextmanager
def exactly(dtype: torch.dtype) -> Iterator[None]:
    """Let the reference library really compute in float64: inside norms, angles and softmax it casts to float32."""
    if dtype != torch.float64:
        yield
        return
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Raised():
            yield
    finally:
        torch.set_default_dtype(before)


def in_float64(model: nn.Module) -> nn.Module:
    """Turn a reference model into float64, also the tables that it computed in float32 when it was made."""
    model.double()
    with exactly(torch.float64), torch.no_grad():
        for module in model.modules():
            buffers = dict(module.named_buffers(recurse=False))
            if "inv_freq" in buffers:
                fresh: Any = type(module)(module.config)
                for name in buffers.keys() & dict(fresh.named_buffers(recurse=False)).keys():
                    setattr(module, name, getattr(fresh, name))
            elif isinstance(module, nn.Embedding) and type(module).__name__.endswith("SinusoidalPositionalEmbedding"):
                rows = torch.arange(module.num_embeddings).unsqueeze(0)
                table = sinusoid(rows, module.embedding_dim, layout="halves", dtype=torch.float64)
                module.weight.copy_(table[0])
    return model


@contextmanager
def tensors_of(
    model: nn.Module, *, outputs: Mapping[str, str], inputs: Mapping[str, str]
) -> Iterator[dict[str, Tensor]]:
    """Record what modules return, and what they are given first, while the model runs.

    Args:
        model: The reference model.
        outputs: For each name of ours the name of the module that returns it.
        inputs: For each name of ours the name of the module that is given it.

    Returns:
        The tensors by our names, filled by a forward pass.
    """
    found: dict[str, Tensor] = {}
    handles = []
    for ours, name in inputs.items():

        def take(module: nn.Module, args: Any, kwargs: Any, ours: str = ours) -> None:
            first = args[0] if args else kwargs["hidden_states"]
            found[ours] = first.detach()

        handles.append(model.get_submodule(name).register_forward_pre_hook(take, with_kwargs=True))
    for ours, name in outputs.items():

        def keep(module: nn.Module, inputs: Any, output: Any, ours: str = ours) -> None:
            first = output if isinstance(output, Tensor) else output[0]
            found[ours] = first.detach()

        handles.append(model.get_submodule(name).register_forward_hook(keep))
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()
