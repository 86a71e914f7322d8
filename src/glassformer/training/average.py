"""The mean of a model's weights over the last updates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Average:
    """The mean of all parameters over the updates since it began.

    w_mean(n) = w_mean(n - 1) + (w_n - w_mean(n - 1)) / n.

    Weights go on jumping about the bottom of a valley while the learning rate is not 0; their mean lies nearer to it.

    Args:
        model: Whose parameters.

    Attributes:
        count: Updates so far, n.
        means: The mean of each parameter by its name; empty before the first.

    Source: Polyak and Juditsky 1992; of checkpoints: Vaswani et al. 2017, arXiv:1706.03762, section 6.1.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.count = 0
        self.means: dict[str, Tensor] = {}

    @torch.no_grad()
    def take(self) -> None:
        """Take the parameters as they are now in."""
        self.count += 1
        now = dict(self.model.named_parameters())
        if not self.means:
            self.means = {name: parameter.detach().clone() for name, parameter in now.items()}
            return
        means = [self.means[name] for name in now]
        torch._foreach_lerp_(means, [parameter.detach() for parameter in now.values()], 1 / self.count)

    def restore(self, means: dict[str, Tensor], count: int) -> None:
        """Go on from a saved mean, wherever it was saved."""
        own = dict(self.model.named_parameters())
        self.means = {name: mean.to(own[name].device) for name, mean in means.items()}
        self.count = count

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Give the model the means as its weights while the context lasts; before the first this changes nothing."""
        parameters = dict(self.model.named_parameters()) if self.means else {}
        own = {name: parameter.data for name, parameter in parameters.items()}
        try:
            for name, parameter in parameters.items():
                parameter.data = self.means[name]
            yield
        finally:
            for name, data in own.items():
                parameters[name].data = data
