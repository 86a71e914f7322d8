from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from glassformer.core.compilers import own_code, reason_of


def scaled(by: float) -> Callable[..., Tensor]:
    def function(x: Tensor, plus: float = 1.0) -> Tensor:
        return by * x + plus

    return function


def test_own_code_does_the_same() -> None:
    """What a closure holds and what need not be given stay."""
    own = own_code(scaled(2.0), "own")
    assert own(torch.ones(1)) == 3.0
    assert own(torch.ones(1), plus=0.0) == 2.0


def test_own_code_has_graphs_of_its_own() -> None:
    """More than torch makes of one piece of code, and of each what varies is known of it alone."""
    torch._dynamo.reset()
    sizes = []
    for size in range(2, 2 + 2 * torch._dynamo.config.recompile_limit):

        def backend(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., object]:
            sizes.append(inputs[0].shape[0])
            return graph.forward

        compiled = torch.compile(own_code(scaled(2.0), f"own_{size}"), fullgraph=True, backend=backend)
        assert compiled(torch.ones(size)).tolist() == [3.0] * size
    torch._dynamo.reset()
    assert sizes == list(range(2, 2 + len(sizes)))
    assert len(sizes) == 2 * torch._dynamo.config.recompile_limit


def test_reason_is_one_line() -> None:
    """A compiler's second line says what the first one only announces."""
    assert reason_of(RuntimeError("it raised:\nld returned 1\n\nand more")) == "it raised: ld returned 1"
    assert reason_of(ValueError()) == "ValueError"
    assert reason_of(PermissionError(13, "Permission denied", "/cache")) == "Permission denied: /cache"
