"""Calling what somebody else wrote: what comes back, which inputs reach which outputs, and how masks are said."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from glassformer.core.wording import Catalogue
from glassformer.diagnosis.verdict import Finding, Said

EXACT = 1e-5
"""Largest difference of two float32 results of numbers around 1 that are the same but for rounding."""

Meaning = Literal["keep", "hide", "additive", "keep_number", "hide_number", "length"]
"""How a mask says what a query may see: True = may, True = may not, 0 or -inf to add, 1 and 0, 0 and 1; or not a mask
at all, but how many keys of each row may be seen, from the first."""

MEANINGS: tuple[Meaning, ...] = ("keep", "hide", "additive", "keep_number", "hide_number")


def meanings_against(name: str, beside: Collection[str]) -> tuple[Meaning, ...]:
    """Return what the numbers of a mask cannot say, going by its name: `keep` is no word for what is hidden.

    Args:
        name: Of the argument.
        beside: Names of all arguments.
    """
    low = name.lower()
    if any(word in low for word in ("keep", "valid", "visible", "allow")):
        return ("hide", "additive", "hide_number")
    if "key_padding" in low:
        return ("keep", "keep_number")
    # As Keras and the reference library say it, and torch's function, which has both arguments.
    shows = low == "attention_mask" or (low == "attn_mask" and "is_causal" in beside)
    return ("hide", "hide_number") if shows else ()


def is_length(name: str) -> bool:
    """Return whether an argument of that name takes lengths in place of a mask."""
    return name.lower().endswith(("lens", "lengths", "valid_len", "valid_length"))


SHAPES = {
    "full": "(B, 1, T, S)",
    "rows": "(B, T, S)",
    "square": "(T, S)",
    "heads": "(B H, T, S)",
    "keys": "(B, S)",
    "keys4": "(B, 1, 1, S)",
    "lengths": "(B,)",
}


@dataclass(frozen=True)
class MaskForm:
    """How a part wants to be told what each query may see.

    Attributes:
        meaning: What its numbers say.
        shape: "full" (B, 1, T, S), "rows" (B, T, S), "square" (T, S), "heads" (B*H, T, S), "keys" (B, S),
            "keys4" (B, 1, 1, S), or "lengths" (B,).
        n_heads: H.
    """

    meaning: Meaning
    shape: str
    n_heads: int = 1

    def of(self, visible: Tensor) -> Tensor:
        """Return the mask of what is visible, a bool tensor (B, T, S)."""
        if self.meaning == "length":
            return visible.any(1).sum(-1)
        return said_as(self.meaning, self._shaped(visible))

    @property
    def size(self) -> str:
        """What the shape is called where shapes are written."""
        return SHAPES[self.shape]

    def _shaped(self, visible: Tensor) -> Tensor:
        if self.shape == "square":
            return visible[0]
        if self.shape == "rows":
            return visible
        if self.shape == "heads":
            return visible.repeat_interleave(self.n_heads, dim=0)
        if self.shape in ("keys", "keys4"):
            keys = visible.any(1)
            return keys if self.shape == "keys" else keys[:, None, None]
        return visible[:, None]


def said_as(meaning: Meaning, visible: Tensor) -> Tensor:
    """Return a bool tensor (True = may be seen) as a mask of that meaning."""
    if meaning == "keep":
        return visible
    if meaning == "hide":
        return ~visible
    if meaning == "additive":
        return torch.zeros(visible.shape).masked_fill(~visible, -torch.inf)
    return visible.long() if meaning == "keep_number" else (~visible).long()


def tensors_in(value: Any) -> list[Tensor]:
    """Return the tensors of a result, in order: of a tuple, list, dict, or an object with a state."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [tensor for each in value for tensor in tensors_in(each)]
    return []


def difference(a: Tensor, b: Tensor) -> float:
    """Return the largest difference, infinity where the shapes differ or one of them is not finite."""
    if a.shape != b.shape or not bool(torch.isfinite(a).all() and torch.isfinite(b).all()):
        return float("inf")
    return float((a.double() - b.double()).abs().max()) if a.numel() else 0.0


def same(a: Tensor, b: Tensor, tolerance: float = EXACT) -> bool:
    """Return whether two results are the same but for rounding."""
    size = float(b.double().abs().max()) if b.numel() and bool(torch.isfinite(b).all()) else 1.0
    return difference(a, b) <= tolerance * max(1.0, size)


def influence(run: Callable[[Tensor], Tensor], x: Tensor, dim: int = 1, out_dim: int = 1) -> Tensor:
    """Return how much each input position moves each output position, the largest change. *Shape:* (T out, T in).

    Args:
        run: From (B, T, D) to (B, T', D).
        x: What is changed, one position after the other.
        dim: The dimension of `x` that is walked along.
        out_dim: The same of the output.
    """
    before = run(x)
    moved = []
    for position in range(x.shape[dim]):
        other = x.clone()
        part = other.select(dim, position)
        part.copy_(torch.randn_like(part))
        change = (run(other) - before).abs().nan_to_num(torch.inf)
        moved.append(change.movedim(out_dim, 0).flatten(1).amax(1))
    return torch.stack(moved, dim=1)


def without_gradient(module: nn.Module | None, run: Callable[[], Tensor]) -> list[str]:
    """Return the names of the parameters that a result does not depend on.

    A bias of the keys adds the same to all scores of a query, which softmax does not see: of vectors it is asked only
    whether they are used.

    Args:
        module: Whose parameters.
        run: Returns the result.
    """
    if module is None:
        return []
    with torch.enable_grad():
        for parameter in module.parameters():
            parameter.requires_grad_(True)
            parameter.grad = None
        out = run()
        (out * torch.randn(out.shape)).sum().backward()  # a plain sum would be constant behind a norm
    return [
        name
        for name, each in module.named_parameters()
        if each.grad is None or (each.ndim > 1 and not bool(each.grad.abs().max() > 1e-9))
    ]


def unlisted(module: nn.Module | None, run: Callable[[], Tensor]) -> list[tuple[int, ...]]:
    """Return the shapes of what takes part in a result, wants a gradient, and is no parameter of the module.

    No optimizer is given these: they are held in a list, say, or were made again behind the module's back.

    Args:
        module: Whose parameters are known.
        run: Returns the result.
    """
    if module is None:
        return []
    known = {id(parameter) for parameter in module.parameters()}
    with torch.enable_grad():
        open_nodes = [run().grad_fn]
    seen: set[Any] = set()
    found = []
    while open_nodes:
        node = open_nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        open_nodes += [each for each, _ in node.next_functions]
        leaf = vars(type(node)).get("variable")
        held = None if leaf is None else leaf.__get__(node)
        if held is not None and id(held) not in known:
            found.append(tuple(held.shape))
    return sorted(found)


def first_working(forms: Iterator[Any] | Sequence[Any], run: Callable[[Any], Any]) -> tuple[Any, Any, Exception | None]:
    """Return the first form that runs with its result, and the first error if none does."""
    first: Exception | None = None
    for form in forms:
        try:
            return form, run(form), None
        except Exception as error:
            first = first or error
    return None, None, first


def modules_of(*things: Any) -> list[nn.Module]:
    """Return those of some things that are modules."""
    return [thing for thing in things if isinstance(thing, nn.Module)]


class Says:
    """Findings in the words of one catalogue."""

    def __init__(self, words: Catalogue) -> None:
        self.words = words

    def good(self, key: str, **values: Any) -> Finding:
        """Return that it holds; where a mask was given, its meaning has words of its own."""
        meaning = values.get("meaning")
        return Finding("pass", Said(self.words, key if meaning is None else f"{key}.{meaning}", values))

    def bad(self, fault: str, where: str = "", **values: Any) -> Finding:
        """Return that it does not; `fault` names its words, and the fault for those who read JSON."""
        return Finding("fail", Said(self.words, fault, values), where, fault)

    def idle(self, key: str, **values: Any) -> Said:
        """Return why it cannot be asked."""
        return Said(self.words, key, values)
