"""All that one sample shows of a model: the attention of every layer and head, and the size of every layer's output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.core.config import HeadConfig
from glassformer.core.errors import DataError, UnsupportedError
from glassformer.core.tape import Tape
from glassformer.inspection.attention import COPIES, check_labels, mib
from glassformer.inspection.layer_norms import RESIDUAL, layer_norms, rms
from glassformer.inspection.long import CHUNK_NUMBERS, rows_of
from glassformer.inspection.own import own_attention
from glassformer.inspection.roles import HeadRole, head_roles
from glassformer.models.inference import inference
from glassformer.models.own import OwnTransformer
from glassformer.models.transformer import Transformer
from glassformer.parts.attention import Attention

Part = Literal["encoder", "decoder", "cross"]

WEIGHTS = ".weights"

LARGE_BYTES = 96 * 2**20
"""Of a layer at work: one that would need more is made a few rows at a time, from its queries and keys."""

LIMIT_BYTES = 384 * 2**20
"""What the weights of one sample may need: 12 layers of 12 heads over 512 tokens, also where tokens are merged."""


@dataclass(frozen=True)
class Axis:
    """What the positions of a sequence are called; several positions may share a label, as the bytes of a character do.

    Attributes:
        labels: What is shown, in order.
        groups: The positions that each label stands for: neighbours, in order, all of them.
    """

    labels: tuple[str, ...]
    groups: tuple[range, ...]

    @staticmethod
    def single(labels: Iterable[str]) -> Axis:
        """Return an axis with one label for each position."""
        texts = tuple(labels)
        return Axis(texts, tuple(range(at, at + 1) for at in range(len(texts))))

    @staticmethod
    def grouped(groups: Iterable[tuple[range, str]]) -> Axis:
        """Return an axis from pairs of positions and their label, as a tokenizer's `label_groups` gives them."""
        pairs = list(groups)
        return Axis(tuple(label for _, label in pairs), tuple(positions for positions, _ in pairs))

    @property
    def merges(self) -> bool:
        """Whether any label stands for more than one position."""
        return any(len(group) > 1 for group in self.groups)

    def check(self, size: int) -> None:
        """Make sure that every position has its label.

        Args:
            size: Number of positions.

        Raises:
            DataError: There are more labels or fewer, or groups with gaps; the message has both numbers.
        """
        if not self.merges:
            check_labels(self.labels, size)
        positions = [position for group in self.groups for position in group]
        if len(self.labels) != len(self.groups) or positions != list(range(size)):
            raise DataError(
                f"{len(self.labels)} labels in {len(self.groups)} groups stand for {len(positions)} positions of "
                f"{size}; give each of them, in order and once, to one label"
            )

    def summed(self, values: Tensor, dim: int) -> Tensor:
        """Return the sum over the positions of each label.

        Args:
            values: Of any shape, with the positions in `dim`.
            dim: Which dimension becomes one of labels.
        """
        owners = [label for label, group in enumerate(self.groups) for _ in group]
        owner = torch.tensor(owners, dtype=torch.long, device=values.device)
        shape = list(values.shape)
        shape[dim] = len(self.groups)
        return values.new_zeros(shape).index_add_(dim, owner, values)

    def averaged(self, values: Tensor, dim: int) -> Tensor:
        """Return the mean over the positions of each label; arguments as of `summed`."""
        shape = [1] * values.ndim
        shape[dim] = len(self.groups)
        return self.summed(values, dim) / values.new_tensor([len(group) for group in self.groups]).view(shape)


@dataclass(frozen=True, eq=False)
class LayerAttention:
    """Who looks at whom in one layer.

    Attributes:
        part: "encoder" or "decoder", looking at itself, or "cross", the decoder looking at the encoder.
        layer: Number of the block in its stack, from 0.
        heads: Numbers of the heads, in the order of `weights`.
        weights: How much of what each column says goes into each row; rows sum to 1, or to 0 for one that sees
            nothing. *Shape:* (heads, rows, columns).
        rows: Labels of those who look.
        columns: Labels of those who are looked at.
        roles: What each head's attention goes to, token by token; empty where nobody measured it.
    """

    part: Part
    layer: int
    heads: tuple[int, ...]
    weights: Float[Tensor, "head query key"]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    roles: tuple[HeadRole, ...] = ()

    @property
    def site(self) -> str:
        """Of the attention in its model, as in "decoder.blocks.3.attention"."""
        stack = "encoder" if self.part == "encoder" else "decoder"
        return f"{stack}.blocks.{self.layer}.{'cross_attention' if self.part == 'cross' else 'attention'}"


@dataclass(frozen=True, eq=False)
class LayerSize:
    """How large the residual stream is after one block, as a root mean square.

    Attributes:
        part: "encoder" or "decoder".
        layer: Number of the block in its stack, from 0.
        overall: Over all tokens.
        tokens: Over those of each label. *Shape:* (labels).
        labels: What they are called.
    """

    part: Part
    layer: int
    overall: float
    tokens: Float[Tensor, " label"]
    labels: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Inspection:
    """What `inspect_sample` saw.

    Attributes:
        attention: Every chosen layer, in the order of the forward pass.
        sizes: Every block, in the order of the forward pass.
        labels: Of a model that labels texts, the probability of each label, the most probable first.
    """

    attention: tuple[LayerAttention, ...]
    sizes: tuple[LayerSize, ...]
    labels: Mapping[str, float] = field(default_factory=dict)


def inspect_sample(
    model: Transformer,
    tokens: Sequence[int],
    labels: Axis,
    *,
    sources: Sequence[int] | None = None,
    source_labels: Axis | None = None,
    written: Sequence[int] | None = None,
    written_labels: Axis | None = None,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    limit_bytes: int = LIMIT_BYTES,
) -> Inspection:
    """Return what one sample shows of a model, from one forward pass.

    Where a label stands for several positions, its column is the sum of theirs (so that a row still sums to 1),
    and its row and its size are their mean.

    Args:
        model: Any Transformer, in any mode; it is left in it.
        tokens: Ids that the decoder (or the only stack) reads.
        labels: What they are called.
        sources: Ids that the encoder of an encoder-decoder reads.
        source_labels: What those are called.
        written: Ids that are written at each step, which are the next tokens and not those that are read; None = those.
        written_labels: What those are called: the rows of cross-attention; None = `labels`.
        layers: Which layers' attention, from 0, in each stack; None = all.
        heads: Which heads, from 0; None = all.
        limit_bytes: Memory that the weights may need, estimated before any work.

    Raises:
        DataError: Nothing to read, labels that do not fit, no such layer or head, more memory than `limit_bytes`, or
            more tokens than the model's context.
        UnsupportedError: Sources without an encoder to read them, or none for an encoder-decoder.
    """
    axes = {"encoder": source_labels or labels, "decoder": labels, "written": written_labels or labels}
    for ids, axis in ((sources, axes["encoder"]), (tokens, labels), (tokens, axes["written"])):
        if ids is not None:
            _check_text(ids, axis)
    read: dict[Part, Sequence[int]] = {"encoder": sources or tokens, "decoder": tokens, "cross": written or tokens}
    if isinstance(model, OwnTransformer):
        return Inspection(tuple(_own_layers(model, read, axes, layers, heads)), ())
    sites = list(_chosen(model, layers, heads, axes))
    large = max(site.bytes_at_work for site in sites) > LARGE_BYTES
    _check_size(sites, limit_bytes, large=large)
    chosen = None if heads is None else sorted(set(heads))

    def kept(value: Tensor) -> Tensor:
        if value.ndim == 3:  # the residual stream
            return rms(value)
        # A copy, for a view would keep all heads alive; of queries and keys, all are few.
        return value if chosen is None or large else value[:, chosen]

    head = model.config.head
    names = [site.name for site in sites]
    wanted = [name.removesuffix(WEIGHTS) + which for name in names for which in (".q", ".k")] if large else names
    tape = Tape(model, *wanted, f"*{RESIDUAL}", reduce=kept)
    with inference(model.modules()):
        memory = None if sources is None else model.encode(_row(sources, model), tape=tape)
        labelling = head is not None and head.pooling is not None and head.vocab_size is not None
        found = model(_row(tokens, model), memory=memory, outputs="logits" if labelling else "hidden", tape=tape)
    decided = _labels(head, found[0]) if head is not None and labelling else {}
    seen = tuple(
        site.read(
            rows_of(model, site.name, tape, heads=site.heads) if large else tape[site.name][0],
            read,
            causal=_causal(model, site.part),
        )
        for site in sites
    )
    return Inspection(seen, tuple(_sizes(tape, axes)), decided)


@dataclass(frozen=True)
class _Site:
    """One layer's weights: where they are, and how large."""

    name: str
    part: Part
    layer: int
    heads: tuple[int, ...]
    n_heads: int
    number: int
    rows: Axis
    columns: Axis

    @property
    def bytes_at_work(self) -> int:
        return self.number * COPIES * self.n_heads * _length(self.rows) * _length(self.columns)

    @property
    def bytes_whole(self) -> int:
        return self.number * len(self.heads) * _length(self.rows) * _length(self.columns)

    @property
    def bytes_merged(self) -> int:
        if not (self.rows.merges or self.columns.merges):
            return 0
        return 4 * len(self.heads) * len(self.rows.labels) * len(self.columns.labels)

    def read(self, weights: Tensor, ids: Mapping[Part, Sequence[int]], *, causal: bool) -> LayerAttention:
        weights = weights.to("cpu", torch.float32)
        cross = self.part == "cross"
        columns = ids["encoder" if cross else self.part]
        roles = tuple(head_roles(weights, ids[self.part], columns, causal=causal, cross=cross))
        if self.columns.merges:
            weights = self.columns.summed(weights, 2)
        if self.rows.merges:
            weights = self.rows.averaged(weights, 1)
        return LayerAttention(self.part, self.layer, self.heads, weights, self.rows.labels, self.columns.labels, roles)


def _causal(model: Transformer, part: Part) -> bool:
    return part != "encoder" and model.config.output_stack.causal


def _labels(head: HeadConfig, logits: Tensor) -> dict[str, float]:
    """p(c) = softmax(logits)_c by the name of the class, or its number where nobody named them."""
    probabilities = logits.float().softmax(-1).tolist()
    names = head.classes or tuple(map(str, range(len(probabilities))))
    return dict(sorted(zip(names, probabilities, strict=True), key=lambda each: -each[1]))


def _check_text(ids: Sequence[int], axis: Axis) -> None:
    if not ids:
        raise DataError("there is no token to look at: the text is empty, and this vocabulary has no begin token")
    axis.check(len(ids))


def _row(ids: Sequence[int], model: Transformer) -> Tensor:
    return torch.tensor([list(ids)], device=model.device)


def _length(axis: Axis) -> int:
    return axis.groups[-1].stop


def _chosen(
    model: Transformer, layers: Sequence[int] | None, heads: Sequence[int] | None, axes: dict[str, Axis]
) -> Iterator[_Site]:
    every = list(_known(model, axes))
    depth = 1 + max(site.layer for site in every)
    if layers is not None and not (layers and all(0 <= layer < depth for layer in layers)):
        raise DataError(f"layers {list(layers)} are not all in 0..{depth - 1}, the layers of this model")
    for site in every:
        if layers is not None and site.layer not in layers:
            continue
        if heads is None:
            yield site
            continue
        if not (heads and all(0 <= head < site.n_heads for head in heads)):
            owner = site.name.removesuffix(WEIGHTS)
            raise DataError(f"heads {list(heads)} are not all in 0..{site.n_heads - 1}, the heads of {owner}")
        yield replace(site, heads=tuple(sorted(set(heads))))


def _known(model: Transformer, axes: dict[str, Axis]) -> Iterator[_Site]:
    """Every layer's weights with all heads, in the order of the modules."""
    for site in model.sites():
        if not site.name.endswith(WEIGHTS):
            continue
        attention = model.get_submodule(site.name.removesuffix(WEIGHTS))
        assert isinstance(attention, Attention), "only attention has weights"
        stack, _, layer, *_ = site.name.split(".")
        part: Part = "cross" if attention.cross else "encoder" if stack == "encoder" else "decoder"
        columns = axes["decoder" if part == "decoder" else "encoder"]
        rows = axes["written"] if part == "cross" else columns
        n_heads, number = attention.config.n_heads, max(4, attention.output.weight.element_size())
        yield _Site(site.name, part, int(layer), tuple(range(n_heads)), n_heads, number, rows, columns)


def _own_layers(
    model: OwnTransformer,
    ids: Mapping[Part, Sequence[int]],
    axes: dict[str, Axis],
    layers: Sequence[int] | None,
    heads: Sequence[int] | None,
) -> Iterator[LayerAttention]:
    """What a user's model lets be seen, in the order in which it computes it."""
    found = own_attention(model, ids["decoder"], ids["encoder"])
    if not found:
        raise UnsupportedError(
            f"{model.code.name} shows no attention: none of its modules returns weights (B, H, T, S) beside its output,"
            " and none is a torch.nn.MultiheadAttention; let your attention return (output, weights)"
        )
    depth = 1 + max(int(name.split(".")[2]) for name in found)
    if layers is not None and not (layers and all(0 <= layer < depth for layer in layers)):
        raise DataError(f"layers {list(layers)} are not all in 0..{depth - 1}, the layers of this model")
    for name, weights in found.items():
        stack, _, layer, *_ = name.split(".")
        part: Part = "cross" if "cross_attention" in name else "encoder" if stack == "encoder" else "decoder"
        if layers is not None and int(layer) not in layers:
            continue
        chosen = tuple(range(len(weights))) if heads is None else tuple(sorted(set(heads)))
        if chosen and not 0 <= min(chosen) <= max(chosen) < len(weights):
            raise DataError(f"heads {list(chosen)} are not all in 0..{len(weights) - 1}, the heads of {name}")
        columns = axes["decoder" if part == "decoder" else "encoder"]
        rows = axes["written"] if part == "cross" else columns
        whole = weights[list(chosen)]
        of_columns = ids["decoder" if part == "decoder" else "encoder"]
        roles = tuple(head_roles(whole, ids[part], of_columns, causal=part != "encoder", cross=part == "cross"))
        kept = rows.averaged(columns.summed(whole, 2), 1)
        yield LayerAttention(part, int(layer), chosen, kept, rows.labels, columns.labels, roles)


def _check_size(sites: Sequence[_Site], limit_bytes: int, *, large: bool) -> None:
    kept = sum(site.bytes_whole + site.bytes_merged for site in sites)
    at_work = max(site.bytes_at_work for site in sites)
    if large:  # one layer after the other is made, a few rows at a time, and merged
        kept = sum(site.bytes_merged or site.bytes_whole for site in sites)
        at_work = max(site.bytes_whole if site.bytes_merged else 0 for site in sites) + 4 * COPIES * CHUNK_NUMBERS
    if kept + at_work > limit_bytes:
        longest = max(max(_length(site.rows), _length(site.columns)) for site in sites)
        numbers = sum(len(site.heads) * _length(site.rows) * _length(site.columns) for site in sites)
        raise DataError(
            f"{numbers:,} attention weights of {len(sites)} layers over {longest} tokens need about "
            f"{mib(kept + at_work)} ({mib(kept)} to keep, {mib(at_work)} while a layer is at work); the limit is "
            f"{mib(limit_bytes)}. Choose layers (--layers 0,1), heads (--heads 0), fewer tokens (--max-tokens "
            f"{max(1, longest // 2)}) or neighbours together (--pool 8); in Python, long_attention_weights of "
            "inspection.long gives some rows, in half precision (dtype=torch.float16), or to disk (file=...)"
        )


def _sizes(tape: Tape, axes: dict[str, Axis]) -> Iterator[LayerSize]:
    for name, overall in layer_norms(tape).items():
        stack, _, layer = name.split(".")
        axis = axes[stack]
        part: Part = "encoder" if stack == "encoder" else "decoder"
        squares = tape[f"{name}{RESIDUAL}"][0].to("cpu", torch.float32).square()
        yield LayerSize(part, int(layer), overall, axis.averaged(squares, 0).sqrt(), axis.labels)
