"""The base of every brick: it knows its place, what can be seen in it, and what it is made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

Role = Literal["embedding", "linear", "residual", "head", "gain", "offset"]


@dataclass(frozen=True, eq=False)
class Matrix:
    """One matrix or vector of a part, with what it is for; the table of initial values goes by the role.

    Attributes:
        name: Its name inside the part; slices of one parameter have names of their own ("q.weight").
        tensor: The parameter, or the slice of it.
        role: What it is for.
    """

    name: str
    tensor: Tensor
    role: Role


class Part(nn.Module):
    """A brick of a Transformer.

    Attributes:
        site: Where it stands in the model ("decoder.blocks.3.attention"); set by whoever builds the model.
        notes: The values it shows to a tape, each with its dimensions by name; a part made without a value
            leaves it out.
    """

    notes: Mapping[str, str] = {}

    def __init__(self) -> None:
        super().__init__()
        self.site = ""

    def matrices(self) -> Iterator[Matrix]:
        """Yield every parameter this part owns itself, not those of the parts inside it."""
        return iter(())


def linear_matrices(name: str, layer: nn.Linear, role: Role) -> Iterator[Matrix]:
    """Yield the weight and the offset of one projection."""
    yield Matrix(f"{name}.weight", layer.weight, role)
    if layer.bias is not None:
        yield Matrix(f"{name}.bias", layer.bias, "offset")
