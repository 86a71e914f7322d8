"""What a model returns besides tensors."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Loss:
    """A sum of losses and how many targets it is over: divided once, by whoever has the last addend.

    The mean of means gives short sentences extra weight: targets with losses {4} and {2, 2, 2} have the mean
    2.5, the means 4 and 2 have the mean 3.

    Attributes:
        sum: Total loss in nats. *Shape:* ().
        count: Number of targets. *Shape:* ().
    """

    sum: Float[Tensor, ""]
    count: Int[Tensor, ""]

    def __add__(self, other: Loss) -> Loss:
        """Return the loss over the targets of both."""
        return Loss(self.sum + other.sum, self.count + other.count)

    @property
    def mean(self) -> Float[Tensor, ""]:
        """Loss in nats per target; 0 if there is no target."""
        return self.sum / self.count.clamp(min=1)
