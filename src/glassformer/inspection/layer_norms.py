"""How large the residual stream is after every block."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.core.errors import DataError
from glassformer.core.places import Places
from glassformer.core.tape import Tape

RESIDUAL = ".residual"


def rms(x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch"]:
    """Return the root mean square of each vector: sqrt(mean over i of x_i^2).

    It is what a norm layer divides by, and unlike the length of the vector it does not grow with its width.
    As `Tape(model, "*.residual", reduce=rms)` it keeps one number for each token in place of D.

    Args:
        x: Vectors; squared in float32 at least, for half precision would overflow. *Shape:* (..., D).

    Returns:
        *Shape:* (...).
    """
    return x.to(torch.promote_types(x.dtype, torch.float32)).square().mean(-1).sqrt()


def layer_norms(tape: Tape, places: Mapping[str, Places] | None = None) -> dict[str, float]:
    """Return the root mean square of the residual stream after every block, over all its tokens.

        tape = Tape(model, "*.residual", reduce=rms)
        model(tokens, places=places, tape=tape)
        layer_norms(tape, {"decoder": places})      # {"decoder.blocks.0": 1.3, "decoder.blocks.1": 2.1}

    Args:
        tape: Holds "*.residual", as it is or reduced by `rms`.
        places: Where the tokens of each stack stand, by its name ("encoder", "decoder"); slots without a
            token are left out. A stack that is not named is taken to have no padding.

    Raises:
        DataError: The tape holds no residual, or the places are those of another batch.
    """
    sites = [site for site in tape if site.endswith(RESIDUAL)]
    if not sites:
        raise DataError(
            "the tape holds no residual stream; make it with Tape(model, '*.residual', reduce=rms) and run the model"
        )
    stacks = [site.partition(".")[0] for site in sites]
    norms = [_over_tokens(tape[site], (places or {}).get(stack)) for site, stack in zip(sites, stacks, strict=True)]
    values = torch.stack(norms).tolist()  # one transfer from the device
    return {site.removesuffix(RESIDUAL): value for site, value in zip(sites, values, strict=True)}


def _over_tokens(value: Tensor, places: Places | None) -> Tensor:
    of_each = rms(value) if value.ndim == 3 else value  # (B, T)
    squares = of_each.square()
    if places is None or places.plain:
        return squares.mean().sqrt()
    if places.is_token.shape != squares.shape:
        raise DataError(
            f"the places are for {tuple(places.is_token.shape)} slots, the residual stream has "
            f"{tuple(squares.shape)}; give the places of the batch that the tape has seen"
        )
    kept = squares.masked_fill(~places.is_token, 0.0)  # padding may hold anything, a NaN too
    return (kept.sum() / places.is_token.sum().clamp(min=1)).sqrt()
