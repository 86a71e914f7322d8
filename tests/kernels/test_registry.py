from __future__ import annotations

import pytest

from glassformer.core.errors import ConfigError, UnsupportedError
from glassformer.core.mask import Structure
from glassformer.kernels.registry import KERNELS, choose_kernel, known_kernel


@pytest.mark.parametrize("structure", Structure)
def test_auto_takes_the_first_that_does_not_refuse(structure):
    assert choose_kernel("auto", structure) is KERNELS["softmax"][0]
    assert choose_kernel("auto", structure, soft_cap=True).name == "reference"


def test_named_kernel_is_taken_or_says_why_not():
    assert choose_kernel("reference", Structure.FULL).name == "reference"
    with pytest.raises(UnsupportedError, match=r"kernel=sdpa cannot do this: .*soft cap; use attention.kernel=auto"):
        choose_kernel("sdpa", Structure.FULL, soft_cap=True)


@pytest.mark.parametrize("ask", [known_kernel, lambda name: choose_kernel(name, Structure.FULL)])
def test_unknown_kernel_is_refused_with_a_near_name(ask):
    with pytest.raises(ConfigError, match="unknown kernel 'spda'; did you mean 'sdpa'"):
        ask("spda")
