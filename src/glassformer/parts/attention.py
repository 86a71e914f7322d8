"""Multi-head attention."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.core.attention_config import AttentionConfig, PatternConfig
from glassformer.core.call import Call, Sight
from glassformer.core.errors import UnsupportedError
from glassformer.core.mask import Mask
from glassformer.core.pattern import Blocks
from glassformer.core.recurrent import StateCache
from glassformer.core.slots import KeyCache
from glassformer.kernels.attend import score_factor
from glassformer.kernels.linear import linear_scores, linear_weights
from glassformer.kernels.linear_chunked import carry_on
from glassformer.kernels.reference import attention_scores, attention_weights, bent_scores, mix
from glassformer.kernels.registry import choose_kernel, refuse_idle
from glassformer.parts.distances import Distances
from glassformer.parts.norm import build_norm
from glassformer.parts.part import Matrix, Part, linear_matrices
from glassformer.parts.rotary import rotary_angles, rotate

EQUATION = ("scaled", "scores", "mask", "weights")
"""What the equation makes on its way and a fused kernel does not show."""


class Attention(Part):
    """Each position asks (q), all visible positions answer (k) and give (v), in several heads side by side.

    head_h = softmax(scale q_h k_g^T + bias_h) v_g over the visible keys, with g = h // (H / K);
    y = W_o concat(head_1 .. head_H) + b_o.

    The bias, of distances, belongs to the stack and is there in self-attention only.

    Self-attention makes q, k and v from one x by one matrix. Cross-attention makes q from the decoder's x,
    and k and v from the encoder's output. K = H is the paper's multi-head attention, K = 1 multi-query,
    between them grouped.

    Args:
        config: Heads, scale, offsets, dropout, rotary, norms of q and k, window, kernel.
        d_model: Width of the residual stream, D.
        cross: Whether keys and values come from a memory.
        biased: Whether the stack adds something to the scores, by distance.

    Raises:
        ConfigError: The kernel's name is unknown, or it cannot compute such an attention, whatever the rows are.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2; grouped heads: Ainslie et al. 2023,
    arXiv:2305.13245; norms of q and k: Henry et al. 2020, arXiv:2010.04245 (here learned, as in Qwen 3).
    """

    notes = {  # noqa: RUF012
        "q_projected": "B H T E",
        "k_projected": "B K S E",
        "q": "B H T E",
        "k": "B K S E",
        "v": "B K S E",
        "scaled": "B H T S",
        "scores": "B H T S",
        "mask": "B H T S",
        "weights": "B H T S",
        "heads": "B H T E",
        "output": "B T D",
    }

    def __init__(self, config: AttentionConfig, d_model: int, *, cross: bool = False, biased: bool = False) -> None:
        super().__init__()
        self.config = config
        pattern = config.pattern
        self.mask = Mask(window=config.window, patterns=() if pattern is None else (blocks_of(pattern),))
        at, capped = "cross_attention" if cross else "attention", config.soft_cap is not None
        refuse_idle(config.kernel, self.mask, of=config.type, soft_cap=capped, bias=biased, at=at)
        self.scale = score_factor(config.scale, config.d_head)
        self.cross = cross
        q_size, kv_size = config.n_heads * config.d_head, config.n_kv_heads * config.d_head
        self.sizes = [q_size, kv_size, kv_size]
        if cross:
            self.q = nn.Linear(d_model, q_size, bias=config.bias)
            self.kv = nn.Linear(d_model, 2 * kv_size, bias=config.bias)
        else:
            self.qkv = nn.Linear(d_model, q_size + 2 * kv_size, bias=config.bias)
        self.output = nn.Linear(q_size, d_model, bias=config.out_bias)
        self.distances: Distances | None = None
        if config.type == "shaw":
            assert config.max_distance is not None, "checked when the config was made"
            self.distances = Distances(config.max_distance, config.d_head)
        self.choose = choose_kernel
        """How the kernel is chosen for a pass."""
        self.rotate = rotate
        """How queries and keys are turned."""
        self.rotary_key = "" if config.rotary is None else config.rotary.model_dump_json()
        self.q_norm: Part | None = None
        self.k_norm: Part | None = None
        if config.qk_norm is not None:
            self.q_norm = build_norm(config.qk_norm, config.d_head, "B H T E")
            self.k_norm = build_norm(config.qk_norm, config.d_head, "B K S E")
        idle = {"scaled"} if config.type == "linear" else set()
        idle |= {"q_projected", "k_projected"} if config.qk_norm is None and config.rotary is None else set()
        self.notes = {name: shape for name, shape in self.notes.items() if name not in idle}

    def matrices(self) -> Iterator[Matrix]:
        """Yield q, k, v and the output projection; each has its own fan, also in one matrix for all three."""
        if self.cross:
            yield from linear_matrices("q", self.q, "linear")
            yield from self._slices(("k", "v"), self.kv, self.sizes[1:])
        else:
            yield from self._slices(("q", "k", "v"), self.qkv, self.sizes)
        yield from linear_matrices("output", self.output, "residual")

    def _slices(self, names: tuple[str, ...], layer: nn.Linear, sizes: list[int]) -> Iterator[Matrix]:
        for name, weight in zip(names, torch.split(layer.weight, sizes), strict=True):
            yield Matrix(f"{name}.weight", weight, "linear")
        if layer.bias is not None:
            for name, bias in zip(names, torch.split(layer.bias, sizes), strict=True):
                yield Matrix(f"{name}.bias", bias, "offset")

    def forward(
        self, x: Float[Tensor, "batch query d_model"], call: Call, memory: Tensor | None = None
    ) -> Float[Tensor, "batch query d_model"]:
        """Return what each position takes from those it sees.

        Args:
            x: The residual stream, normed where the block says so. *Shape:* (B, T, D).
            call: Places, mask, cache, tape.
            memory: The encoder's output, in cross-attention. *Shape:* (B, S, D), or (B / K, S, D) where K adjacent
                rows look at the same memory.
        """
        if self.cross:
            q, k, v = self._cross_qkv(x, call, memory)
            beams = q.shape[0] // k.shape[0]
            sight = call.memory_sight(self.mask, beams)
            heads = _apart(self._attend(_side_by_side(q, beams), k, v, sight, call), beams)
        else:
            q, k, v = self._self_qkv(x, call)
            cache = call.layer_cache
            if isinstance(cache, StateCache):
                heads = self._carry_on(q, k, v, cache, call)
            else:
                if isinstance(cache, KeyCache):
                    assert call.slots is not None, "a call with a cache has a plan"
                    k, v = cache.write(k, v, call.slots)
                heads = self._attend(q, k, v, call.sight(call.mask & self.mask), call)
        heads = call.note(self, "heads", heads)  # (B, H, T, E)
        joined = heads.transpose(1, 2).flatten(2)  # (B, T, H * E)
        return call.note(self, "output", self.output(joined))

    def _self_qkv(self, x: Tensor, call: Call) -> tuple[Tensor, Tensor, Tensor]:
        rotary, d_head, (q_size, kv_size, _) = self.config.rotary, self.config.d_head, self.sizes
        shown = call.wants(self, "q_projected") or call.wants(self, "k_projected")
        together = rotary is not None and self.q_norm is None and not shown  # q and k are turned in one go
        sizes = [q_size + kv_size, kv_size] if together else self.sizes
        *parts, v = (self._split_heads(part) for part in self.qkv(x).split(sizes, dim=-1))
        if not together:
            q, k = parts
            parts = [self._normed("q", q, self.q_norm, call), self._normed("k", k, self.k_norm, call)]
        if rotary is not None:
            exact = torch.promote_types(x.dtype, torch.float32)
            angles = call.once(
                ("rotary", self.rotary_key, d_head, exact),
                lambda: rotary_angles(call.places.position, d_head, rotary, dtype=exact),
            )
            qk = parts[0] if together else torch.cat(parts, dim=1)  # (B, H + K, T, E)
            parts = list(self.rotate(qk, angles, rotary).split([self.config.n_heads, self.config.n_kv_heads], dim=1))
        q, k = parts
        return call.note(self, "q", q), call.note(self, "k", k), call.note(self, "v", v)

    def _cross_qkv(self, x: Tensor, call: Call, memory: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        q = call.note(self, "q", self._normed("q", self._split_heads(self.q(x)), self.q_norm, call))
        cache = call.layer_cache
        if cache is not None and cache.cross is not None and call.has_begun:
            k, v = cache.cross
        else:
            assert memory is not None, "cross-attention without a memory"
            k, v = (self._split_heads(part) for part in self.kv(memory).chunk(2, dim=-1))
            k = self._normed("k", k, self.k_norm, call)
            if cache is not None:
                cache.cross = (k, v)
        return q, call.note(self, "k", k), call.note(self, "v", v)

    def _normed(self, name: str, x: Tensor, norm: Part | None, call: Call) -> Tensor:
        x = call.note(self, f"{name}_projected", x)
        return x if norm is None else call.note(norm, "output", norm(x))

    def _split_heads(self, x: Tensor) -> Tensor:
        heads = torch.unflatten(x, -1, (-1, self.config.d_head))  # (B, T, H, E)
        return heads.transpose(1, 2)  # (B, H, T, E)

    def _carry_on(self, q: Tensor, k: Tensor, v: Tensor, cache: StateCache, call: Call) -> Tensor:
        """Linear attention over all that the cache has added up, and the new tokens up to each."""
        for name in EQUATION:
            if call.wants(self, name):
                raise UnsupportedError(
                    f"{self.site}.{name} is not there: with a cache, linear attention keeps sums and no keys to have "
                    f"{name} on; do without a cache (use_cache=False)"
                )
        heads, state = carry_on(q, k, v, call.places, cache.state)
        cache.write(state)
        return heads

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, sight: Sight, call: Call) -> Tensor:
        """The attention itself. Who looks at scores or weights gets the equation's own; the output is still
        the kernel's, unless they are replaced: then the equation goes on from the replacement."""
        config, distances = self.config, self.distances
        dropout = config.dropout if self.training else 0.0
        bias = None if self.cross else call.bias
        if distances is not None:
            said = call.note(distances, "scores", distances.scores(q, sight, self.scale))
            bias = said if bias is None else bias + said
        wanted = call.tape is not None and any(call.wants(self, name) for name in EQUATION)
        patched = wanted and any(call.changes(self, name) for name in EQUATION)
        if wanted or distances is not None:
            weights = self._weights(q, k, bias, sight, call)
            if patched or distances is not None:
                weights = F.dropout(weights, dropout)
                mixed = mix(weights, v)
                if distances is None:
                    return mixed
                return mixed + call.note(distances, "values", distances.values(weights, sight)).to(mixed.dtype)
        capped = config.soft_cap is not None
        kernel = self.choose(config.kernel, sight, of=config.type, soft_cap=capped, bias=bias is not None, must=False)
        return kernel.attend(q, k, v, sight, bias=bias, scale=self.scale, soft_cap=config.soft_cap, dropout=dropout)

    def _weights(self, q: Tensor, k: Tensor, bias: Tensor | None, sight: Sight, call: Call) -> Tensor:
        """Scores and weights by the equation of the type, shown to the tape."""
        linear = self.config.type == "linear"
        if linear:
            scores = linear_scores(q, k)
        else:
            scaled = call.note(self, "scaled", attention_scores(q, k, scale=self.scale))
            scores = bent_scores(scaled, bias=bias, soft_cap=self.config.soft_cap)
        scores = call.note(self, "scores", scores)
        if call.wants(self, "mask"):
            sight = sight.showing(call.note(self, "mask", sight.dense().expand(scores.shape)))
        return call.note(self, "weights", (linear_weights if linear else attention_weights)(scores, sight))


def blocks_of(pattern: PatternConfig) -> Blocks:
    """Return the rule that a config describes."""
    return Blocks(
        size=pattern.block,
        near=pattern.near,
        first=pattern.first,
        every=pattern.every,
        random=pattern.random,
        seed=pattern.seed,
    )


def _side_by_side(q: Tensor, beams: int) -> Tensor:
    """The queries of K adjacent rows as those of one: (B K, H, T, E) -> (B, H, K T, E)."""
    return q if beams == 1 else q.unflatten(0, (-1, beams)).transpose(1, 2).flatten(2, 3)


def _apart(heads: Tensor, beams: int) -> Tensor:
    """Undo `_side_by_side`: (B, H, K T, E) -> (B K, H, T, E)."""
    return heads if beams == 1 else heads.unflatten(2, (beams, -1)).transpose(1, 2).flatten(0, 1)
