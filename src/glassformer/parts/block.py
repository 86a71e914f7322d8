"""One layer: sublayers, each wrapped in its residual and its norm."""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor

from glassformer.core.call import Call
from glassformer.core.config import BlockConfig
from glassformer.parts.attention import Attention
from glassformer.parts.dropout import dropout
from glassformer.parts.feed_forward import FeedForward
from glassformer.parts.norm import build_norm
from glassformer.parts.part import Part


class Block(Part):
    """Attention, cross-attention in a decoder, feed-forward.

        post-norm:  x = norm(x + f(x))                    pre-norm:  x = x + f(norm(x))
        parallel:   x = x + attention(norm(x)) + feed_forward(norm(x)), with one norm for both, or two

    Post-norm is the paper's and wants a warm-up: its gradient at the last layers is large at the start.
    Pre-norm leaves a clean path from the loss to every layer and needs a final norm after the last block.

    Args:
        config: The sublayers and how they are joined.
        d_model: Width of the residual stream, D.
        biased: Whether the stack adds something to the scores of self-attention, by distance.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.1; pre-norm: Xiong et al. 2020, arXiv:2002.04745;
    parallel: Chowdhery et al. 2022, arXiv:2204.02311, section 2.
    """

    notes = {  # noqa: RUF012
        "after_attention": "B T D",
        "after_cross_attention": "B T D",
        "after_feed_forward": "B T D",
        "residual": "B T D",
    }

    def __init__(self, config: BlockConfig, d_model: int, *, biased: bool = False) -> None:
        super().__init__()
        self.config = config
        self.pre = config.norm_place == "pre"
        self.residual, self.dropout = config.residual, config.dropout
        self.attention = Attention(config.attention, d_model, biased=biased)
        self.attention_norm = build_norm(config.norm, d_model)
        self.cross_attention: Attention | None = None
        self.cross_attention_norm: Part | None = None
        if config.cross_attention is not None:
            self.cross_attention = Attention(config.cross_attention, d_model, cross=True)
            self.cross_attention_norm = build_norm(config.norm, d_model)
        self.feed_forward = FeedForward(config.feed_forward, d_model)
        self.parallel = config.parallel
        shares = config.parallel and config.parallel_norms == 1
        self.feed_forward_norm = None if shares else build_norm(config.norm, d_model)
        idle = ["after_cross_attention"] if self.cross_attention is None else []
        idle += ["after_feed_forward"] if self.pre else []  # there it is the residual itself
        idle += ["after_attention"] if self.parallel else []
        self.notes = {name: shape for name, shape in self.notes.items() if name not in idle}

    def forward(
        self, x: Float[Tensor, "batch length d_model"], call: Call, memory: Tensor | None = None
    ) -> Float[Tensor, "batch length d_model"]:
        """Return the residual stream after this layer.

        Args:
            x: The residual stream before it. *Shape:* (B, T, D).
            call: Places, mask, cache, tape.
            memory: The encoder's output, in a decoder. *Shape:* (B, S, D).
        """
        if self.parallel or self.feed_forward_norm is None:
            norm = self.feed_forward_norm
            normed = call.note(self.attention_norm, "output", self.attention_norm(x))
            again = normed if norm is None else call.note(norm, "output", norm(x))
            x = self._add(x, self.attention(normed, call) + self.feed_forward(again, call))
            return call.note(self, "residual", x)
        x = self._sublayer(x, "attention", self.attention_norm, call, lambda h: self.attention(h, call))
        if self.cross_attention is not None and self.cross_attention_norm is not None:
            cross = self.cross_attention
            x = self._sublayer(x, "cross_attention", self.cross_attention_norm, call, lambda h: cross(h, call, memory))
        x = self._sublayer(x, "feed_forward", self.feed_forward_norm, call, lambda h: self.feed_forward(h, call))
        return call.note(self, "residual", x)

    def _sublayer(self, x: Tensor, name: str, norm: Part, call: Call, f: Callable[[Tensor], Tensor]) -> Tensor:
        if self.pre:
            out = self._add(x, f(call.note(norm, "output", norm(x))))
            return call.note(self, f"after_{name}", out)
        out = call.note(self, f"after_{name}", self._add(x, f(x)))
        return call.note(norm, "output", norm(out))

    def _add(self, x: Tensor, change: Tensor) -> Tensor:
        change = dropout(change, self.dropout, self.training)
        return x + change if self.residual else change
