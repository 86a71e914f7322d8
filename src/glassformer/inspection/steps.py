"""The attention of a text that is being written: each row made when its token was read."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from glassformer.core.errors import DataError
from glassformer.core.tape import Tape

WEIGHTS = ".weights"


def attention_over_steps(tape: Tape, prompt: int) -> dict[str, Float[Tensor, "head query key"]]:
    """Return, of every layer, who looked at whom while a text was written, as one matrix a head.

    Step 0 reads the prompt and makes its rows; each further step reads the token just written and makes its row. So a
    row is what the model saw when that token was computed, and what came later is 0 in it.

    Args:
        tape: Made with `keep="all"`; it holds the weights of each step of one text, written with a cache or without.
        prompt: Tokens that the first step read.

    Returns:
        By site, over all T tokens that were read. Of self-attention *Shape:* (heads, T, T); of cross-attention
        (heads, T, S); of an encoder, which looks once, (heads, S, S).

    Raises:
        DataError: The tape holds other steps.
    """
    return {site: _whole(site, tape.all(site), prompt) for site in tape if site.endswith(WEIGHTS)}


def _whole(site: str, steps: list[Tensor], prompt: int) -> Tensor:
    if site.startswith("encoder."):
        return steps[0][0].float()
    length = prompt + len(steps) - 1
    crosses = site.endswith(f"cross_attention{WEIGHTS}")
    first = steps[0][0]
    if first.shape[1] != prompt:
        raise DataError(f"{site} begins with {first.shape[1]} tokens, the prompt has {prompt}; use a tape for one text")
    whole = first.new_zeros(len(first), length, first.shape[2] if crosses else length).float()
    for end, step in enumerate(steps, start=prompt):
        new = step[0].float()
        begin = end - new.shape[1]
        # The newest keys stand last; with a window, the oldest ones are gone.
        keys = slice(None) if crosses else slice(end - new.shape[2], end)
        whole[:, begin:end, keys] = new
    return whole
