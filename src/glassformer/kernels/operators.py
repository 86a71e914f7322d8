"""Where the operators of our own are registered, so that a compiled graph can hold them."""

from __future__ import annotations

import torch

OPERATORS = torch.library.Library("glassformer", "FRAGMENT")
"""Those that cost little by themselves; they have no gradient."""
