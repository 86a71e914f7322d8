"""Watching a training loop that somebody else wrote."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from glassformer.checkpoint.native import MODEL_FILE, save_model
from glassformer.checkpoint.tensors import save_tensors
from glassformer.checkpoint.weights import weights_of
from glassformer.checkpoint.whole_folder import METRICS_FILE, WATCH_FILE
from glassformer.core.errors import ConfigError, GlassformerError
from glassformer.core.files import append_text, ensure_writable, to_json, write_json
from glassformer.diagnosis.flow import tensors_in
from glassformer.models.transformer import Transformer


class Watch:
    """Writes down what happens in any PyTorch training loop; training itself is not changed by a bit.

        with gf.watch(model, optimizer, out="runs/mine") as watch:
            for batch in batches:
                loss = ...
                loss.backward()
                optimizer.step()
                watch.step(loss)
                optimizer.zero_grad()

    The folder then holds `metrics.jsonl`, with the lines of a run of glassformer: of "train" (loss, learning rate, norm
    of the gradient) and of "norms" (the root mean square of what each module returned); `watch.json`, which says which
    modules there are; and, at the end, `model.safetensors`.

    Args:
        model: What is trained.
        optimizer: What trains it; several, where several do. The learning rate is that of the first, the norm that of
            all their gradients together.
        out: Folder; it is made, and must not hold the metrics of another run.
        every: Updates between two lines.

    Raises:
        ConfigError: `every` is below 1, the folder holds a run already, or it is no module or no optimizer.
        CheckpointError: The folder cannot be written.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
        *,
        out: str | Path,
        every: int = 10,
    ) -> None:
        if every < 1:
            raise ConfigError(f"every is {every}; a line is written every 1 or more updates")
        optimizers = tuple(optimizer) if isinstance(optimizer, list | tuple) else (optimizer,)
        wrong = [each for each in optimizers if not isinstance(each, torch.optim.Optimizer)]
        if not isinstance(model, nn.Module) or wrong or not optimizers:
            found = f"{type(model).__name__} and {', '.join(type(each).__name__ for each in optimizers) or 'none'}"
            raise ConfigError(f"a torch.nn.Module and a torch.optim.Optimizer, or several, are watched; not {found}")
        self.folder = Path(out)
        ensure_writable(self.folder, "out")
        self._metrics = self.folder / METRICS_FILE
        if self._metrics.exists():
            raise ConfigError(f"{self.folder} holds the metrics of another run; choose another folder")
        self.model, self.optimizers, self.every = model, optimizers, every
        self.updates = 0
        self._seen: dict[str, float] = {}
        self._gradients: dict[torch.optim.Optimizer, float] = {}
        self._begun = time.perf_counter()
        self._names = {name: module for name, module in model.named_modules() if name}
        self._handles: list[RemovableHandle] = [
            module.register_forward_hook(self._hook(name)) for name, module in self._names.items()
        ]
        self._handles += [each.register_step_pre_hook(self._before_update) for each in optimizers]
        write_json(
            self.folder / WATCH_FILE,
            {
                "model": type(model).__name__,
                "parameters": sum(parameter.numel() for parameter in model.parameters()),
                "optimizer": ", ".join(type(each).__name__ for each in optimizers),
                "every": every,
                "modules": {name: type(module).__name__ for name, module in self._names.items()},
            },
        )

    @property
    def _due(self) -> bool:
        """Whether the update under way is one to write down: the first, and every so many."""
        return self.updates == 0 or (self.updates + 1) % self.every == 0

    def _hook(self, name: str) -> Any:
        def look(module: nn.Module, inputs: Any, output: Any) -> None:
            if not self._due or not module.training:
                return
            first = next((each for each in tensors_in(output) if each.is_floating_point()), None)
            if first is not None and first.numel():
                with torch.no_grad():
                    self._seen[name] = float(first.detach().float().pow(2).mean().sqrt())

        return look

    def _before_update(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        """The optimizer has not touched the gradients yet, nor has anybody set them to zero."""
        if not self._due:
            return
        gradients = [p.grad.detach() for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        total = [float(gradient.float().norm()) for gradient in gradients]
        if total:
            self._gradients[optimizer] = math.hypot(*total)

    def step(self, loss: Tensor | float) -> None:
        """Say that an update was made; call it once for each.

        Args:
            loss: Of the batch.

        Raises:
            ConfigError: The loss is not one number.
        """
        if isinstance(loss, Tensor) and loss.numel() != 1:
            raise ConfigError(f"the loss has shape {tuple(loss.shape)}; give one number, such as loss.mean()")
        if self._due:
            row: dict[str, Any] = {
                "step": self.updates + 1,
                "split": "train",
                "seconds": round(time.perf_counter() - self._begun, 2),
                "loss": float(loss.detach() if isinstance(loss, Tensor) else loss),
                "lr": float(self.optimizers[0].param_groups[0]["lr"]),
                "grad_norm": math.hypot(*self._gradients.values()) if self._gradients else None,
            }
            norms = {key: row[key] for key in ("step", "seconds")} | {"split": "norms", "norms": dict(self._seen)}
            append_text(self._metrics, to_json(row) + "\n" + to_json(norms) + "\n")
            self._seen.clear()
            self._gradients.clear()
        self.updates += 1

    def close(self) -> None:
        """Write the model, and leave it without a trace."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        file = self.folder / MODEL_FILE
        if isinstance(self.model, Transformer):
            save_model(self.model, file)
            return
        save_tensors(file, weights_of(self.model))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except (GlassformerError, OSError) as failed:
            if error is None:
                raise
            error.add_note(f"the watched model could not be written either: {failed}")  # theirs came first


watch = Watch
"""As it reads in a loop: `with gf.watch(model, optimizer, out=...) as watch`."""
