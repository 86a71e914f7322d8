"""From the states of a row to one vector: which places hold a token decides, never a tensor's corner."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glassformer.core.places import Places


def pool(
    x: Float[Tensor, "batch length d_model"], places: Places, how: Literal["mean", "first", "last"]
) -> Float[Tensor, "batch d_model"]:
    """Return one vector for each row.

    Args:
        x: States. *Shape:* (B, T, D).
        places: Where they stand.
        how: "mean" of the tokens, the "first" or the "last".
    """
    if how == "mean":
        return mean_token(x, places)
    return first_token(x, places) if how == "first" else last_token(x, places)


def mean_token(x: Float[Tensor, "batch length d_model"], places: Places) -> Float[Tensor, "batch d_model"]:
    """Return the mean of the states of each row's tokens; zeros for an empty row.

    y_b = 1/n_b sum_t x_bt, over the n_b slots t that hold a token

    Args:
        x: States; added up in float32 at least. *Shape:* (B, T, D).
        places: Where they stand.
    """
    exact = torch.promote_types(x.dtype, torch.float32)
    token = places.is_token.unsqueeze(-1)  # (B, T, 1)
    # what stands in padding is replaced, not multiplied by 0: a NaN in it would survive that
    mean = x.masked_fill(~token, 0.0).sum(1, dtype=exact) / token.sum(1).clamp(min=1)
    return mean.to(x.dtype)


def first_token(x: Float[Tensor, "batch length d_model"], places: Places) -> Float[Tensor, "batch d_model"]:
    """Return the state of each row's first token, whichever side the padding is on; zeros for an empty row.

    y_b = x_bt, t = min { t : slot t of row b holds a token }

    Args:
        x: States. *Shape:* (B, T, D).
        places: Where they stand.
    """
    if places.begin is not None:
        return x[:, 0]
    return _token_at(x, places, places.is_token.int().argmax(1))


def last_token(x: Float[Tensor, "batch length d_model"], places: Places) -> Float[Tensor, "batch d_model"]:
    """Return the state of each row's last token, whichever side the padding is on; zeros for an empty row.

    y_b = x_bt, t = max { t : slot t of row b holds a token }

    Args:
        x: States. *Shape:* (B, T, D).
        places: Where they stand.
    """
    if places.begin is not None:
        return x[:, -1]
    slot = torch.arange(places.length, device=x.device)
    return _token_at(x, places, (places.is_token * slot).argmax(1))


def _token_at(
    x: Float[Tensor, "batch length d_model"], places: Places, slot: Int[Tensor, "#batch"]
) -> Float[Tensor, "batch d_model"]:
    """The state in a slot of each row; an empty row has none, whatever stands there."""
    rows = torch.arange(x.shape[0], device=x.device)
    return x[rows, slot].masked_fill(~places.is_token.any(1, keepdim=True), 0.0)
