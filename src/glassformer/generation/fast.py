"""Forward passes of one generation: as the model is written, or its steps of one token as one compiled graph.

What is unusual (a tape, no cache, rows out of step with the graph) goes through the model that was handed over, which
is a quick copy already (`models/quick.py`) unless fast is "off".
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from glassformer.core.cache import KVCache
from glassformer.core.call import Memory
from glassformer.core.compilers import is_compiler_error, no_compiler, own_code, reason_of, without_logs
from glassformer.core.errors import GlassformerError
from glassformer.core.places import Places
from glassformer.core.tape import Tape
from glassformer.models.transformer import Transformer

if TYPE_CHECKING:
    from torch._dynamo.types import GuardFilterEntry

Fast = Literal["auto", "on", "off"]

PAYS = 4000
"""Steps that compiling takes as long as they save: of a layer both grow alike, so it is the same for most models."""

NEW = 3
"""Steps of a generation in which graphs are made: what differs between steps shows in the second."""

TENSORS = {"_parameters", "_buffers", "_modules"}
"""Attributes of a module that hold tensors or modules."""


class Forward:
    """What gives the scores of the next tokens, step after step, of one generation.

    With "on", steps of one token a row go through a compiled graph, made for the number of rows there are at first;
    with "auto" only once as many are done as it takes to pay, and as many may come; with "off", never.

    Args:
        model: The model.
        fast: "off", "on" or "auto".
        expected: Number of steps that may come.
    """

    def __init__(self, model: Transformer, fast: Fast, expected: int) -> None:
        self._model, self._fast = model, fast
        self._done, self._expected = 0, expected
        self._ran = 0
        """Number of steps that went through a graph."""
        self._graph: Callable[..., Tensor] | None = None
        self._rows: int | None = None
        """The number of rows that the graph is for; none yet."""
        self._given_up = False

    def __call__(
        self,
        tokens: Int[Tensor, "batch length"],
        places: Places,
        *,
        memory: Memory | None,
        cache: KVCache | None,
        tape: Tape | None = None,
    ) -> Float[Tensor, "batch vocab"]:
        """Return the scores after each row's last token; see `Transformer.forward`.

        Args:
            tokens: What the cache lacks; what is one token wide has no padding. *Shape:* (B, T).
            places: Where they stand.
            memory: What an encoder-decoder looks at.
            cache: What was read before.
            tape: What is recorded and changed.
        """
        self._done += 1
        one = tape is None and cache is not None and cache.extent > 0 and tokens.shape[1] == 1
        if one and self._compiles(tokens.shape[0]):
            try:
                with without_logs() if self._ran < NEW else nullcontext():
                    self._graph = self._graph or self._new_graph()
                    found = self._graph(self._model, tokens, memory, cache)
            except GlassformerError:
                raise
            except Exception as error:  # compilers raise whatever they like
                if self._ran and not is_compiler_error(error):
                    raise  # what ran once is compiled: this is another trouble
                self._give_up(reason_of(error))
            else:
                self._ran += 1
                return found
        scores: Tensor = self._model(tokens, places=places, memory=memory, cache=cache, outputs="last", tape=tape)
        return scores

    def _compiles(self, rows: int) -> bool:
        pays = self._done > PAYS < self._expected - self._done
        if self._rows is None and (self._fast == "on" or (self._fast == "auto" and pays)):
            self._rows = rows
            reason = no_compiler()
            self._given_up = reason is not None
            if reason is not None and self._fast == "on":  # "auto" asks for nothing that must be there
                self._give_up(reason)
        return rows == self._rows and not self._given_up

    def _new_graph(self) -> Callable[..., Tensor]:
        assert self._rows is not None, "set when a graph is first wanted"
        return compiled(step_of(kind_of(self._model), self._rows))

    def _give_up(self, reason: str) -> None:
        self._graph, self._given_up = None, True
        warnings.warn(f"not compiled, so writing goes on without: {reason}", stacklevel=3)


def step(
    model: Transformer, tokens: Int[Tensor, "batch 1"], memory: Memory | None, cache: KVCache
) -> Float[Tensor, "batch vocab"]:
    """Return the scores after one more token of each row; this is what is compiled."""
    scores: Tensor = model(tokens, memory=memory, cache=cache, outputs="last")
    return scores


def kind_of(model: nn.Module) -> str:
    """Return what models have in common for which the same graphs are right, as a digest.

    That is each module's class and attributes, hooks among them, and the kind of its parameters and which of them are
    one and the same, but not their numbers.
    """
    said, first = [], dict[int, str]()
    for name, module in model.named_modules():
        said.append(f"{name} {type(module)}")
        said += [f"{key} = {value!r}" for key, value in vars(module).items() if key not in TENSORS]
        for key, x in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)):
            same = first.setdefault(id(x), f"{name}.{key}")
            said.append(f"{key}: {same} {type(x)} {x.dtype} {x.device} {x.shape} {x.stride()} {x.requires_grad}")
    return sha256("\n".join(said).encode()).hexdigest()


@lru_cache(maxsize=64)
def step_of(kind: str, rows: int) -> Callable[..., Tensor]:
    """Return `step` as a function of its own for one kind of model and number of rows.

    What has both in common shares its graphs, generation after generation; what has not knows nothing of the other.

    Args:
        kind: See `kind_of`.
        rows: Number of rows.
    """
    return own_code(step, f"step_{kind}_{rows}")


def compiled(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return `step` as a compiled graph: one for the first step, and one for all others, whatever their length."""
    made: Callable[..., Tensor] = torch.compile(function, fullgraph=True, options={"guard_filter_fn": may_change})
    return made


def may_change(guards: Sequence[GuardFilterEntry]) -> list[bool]:
    """Return what is asked at each step: nothing about the model, which is of one kind. It would take a millisecond."""
    return [not guard.name.startswith("model") for guard in guards]
