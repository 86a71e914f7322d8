"""Rung 7: the whole model."""

from __future__ import annotations

from torch import Tensor, nn


class Transformer(nn.Module):
    """Token ids in, scores of the next token out: the original encoder-decoder.

    source (B, S) and target (B, T) are token ids; source_keep (B, S) is True where there is no padding; the result
    are logits (B, T, V): row t is about target t + 1. The target is shifted already: do not shift it again.

    embedding(tokens) * sqrt(D) + positions -> encoder layers -> memory; the same for the target -> decoder layers
    under the causal mask -> linear to V. No softmax: the loss does that.

    To be looked into by `glassformer inspect`, let your attention modules return (output, weights): weights of shape
    (B, H, T, S), as rung 3 does.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int = 64,
        n_heads: int = 4,
        n_layers: int = 2,
        d_ff: int = 256,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        raise NotImplementedError

    def forward(self, source: Tensor, target: Tensor, source_keep: Tensor | None = None) -> Tensor:
        raise NotImplementedError
