"""However rows are put together — padded, packed, cached, reordered — a token's numbers are those of its row alone.

The padding id is the id of the end of a sentence, so whoever guessed padding from ids would fail everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from glassformer.core.attention_config import PatternConfig
from glassformer.core.call import Memory
from glassformer.core.config import FeedForwardConfig
from glassformer.core.norm_config import NormConfig
from glassformer.core.places import Places
from glassformer.core.position_config import RelativeBiasConfig, RotaryConfig
from glassformer.models.output import Loss
from glassformer.models.transformer import Transformer

END = PAD = 2
IGNORED = -100
TARGETS = ([5, 6, 7, 8, 9, 10, END], [END, 7], [11, 12, 2, 13, 14])
SOURCES = ([20, 21, END], [22, 23, 24, 25, END], [26, END])
LABELS = tuple([*row[1:], END] for row in TARGETS)
ROWS = range(len(TARGETS))

CROSSED = [
    pytest.param(
        {
            "kind": kind,
            "positions": positions,
            "max_positions": 16,
            "relative": RelativeBiasConfig(n_buckets=8, max_distance=7),
            "norm_place": place,
            "norm": "layer" if place == "post" else "rms",
            "gated": place == "pre",
            "n_kv_heads": kv_heads,
            "attention": {"kernel": kernel, "window": window},
        },
        id=f"{kind}-{positions}-{place}-{kernel}-{kv_heads}kv-window_{window}",
    )
    for kind in ("decoder", "encoder_decoder")
    for positions in ("none", "sinusoidal", "learned", "rotary", "alibi", "relative")
    for place in ("post", "pre")
    for kernel in ("reference", "sdpa")
    for kv_heads in (2, 1)
    for window in (None, 3)
]
KINDS = {
    "linear": {"type": "linear"},
    "linear_by_equation": {"type": "linear", "kernel": "reference"},
    "window": {"window": 3},
    "window_in_a_layer": {"window": 3, "window_layers": (1,)},
    "shaw": {"type": "shaw", "max_distance": 2},
    "soft_cap": {"soft_cap": 1.0},
    "pattern": {"pattern": PatternConfig(block=2, near=0, first=1, every=3, random=1)},
    "pattern_and_window": {"pattern": PatternConfig(block=2), "window": 3, "window_layers": (0,)},
}
NAMED = [
    pytest.param(
        {
            "kind": kind,
            "positions": positions,
            "max_positions": 16,
            "relative": RelativeBiasConfig(n_buckets=8, max_distance=7),
            "norm_place": ("post", "pre")[number % 2],
            "n_kv_heads": (2, 1)[number // 2 % 2],
            "attention": attention,
        },
        id=f"{kind}-{positions}-{name}",
    )
    for kind in ("decoder", "encoder_decoder")
    for number, (name, positions, attention) in enumerate(
        (name, positions, attention)
        for name, attention in KINDS.items()
        for positions in ("none", "sinusoidal", "learned", "rotary", "alibi", "relative")
        if attention.get("type") != "linear" or positions not in ("alibi", "relative")
    )
]


def _half(number: int) -> int:
    """Of a case of `NAMED`: each half holds every pair of choices."""
    kind, rest = divmod(number, len(NAMED) // 2)
    return (kind + rest.bit_count()) % 2


EVEN, ODD = ([case for i, case in enumerate(NAMED) if _half(i) == half] for half in (0, 1))


def _quarter(number: int) -> int:
    """Of a case of `CROSSED`: each quarter holds every pair of choices, and 39 of 40 triples."""
    window, kv_heads, kernel, place = (number >> bit & 1 for bit in range(4))
    kind = 2 * number // len(CROSSED)
    return (kind ^ place ^ kv_heads ^ window) + 2 * (kind ^ place ^ kernel)


QUARTERS = [[case for i, case in enumerate(CROSSED) if _quarter(i) == share] for share in range(4)]


def lay_out(rows: Sequence[Sequence[int]], width: int, fill: int, side: str = "right") -> Tensor:
    laid = [[*row, *[fill] * (width - len(row))] for row in rows]
    if side == "left":
        laid = [[*[fill] * (width - len(row)), *row] for row in rows]
    return torch.tensor(laid)


def memory_of(model: Transformer, rows: Sequence[int], side: str = "right", width: int | None = None) -> Memory | None:
    if model.encoder is None:
        return None
    sources = [SOURCES[row] for row in rows]
    lengths = [len(source) for source in sources]
    width = width or max(lengths)
    return model.encode(lay_out(sources, width, PAD, side), places=Places.from_lengths(lengths, width, side=side))


def alone(model: Transformer, row: int) -> Tensor:
    """The logits of one row without any padding, (T, V)."""
    return model(torch.tensor([TARGETS[row]]), memory=memory_of(model, [row]))[0]


def batch(model: Transformer, rows: Sequence[int], side: str, width: int = 9) -> dict[str, object]:
    """One padded batch, wider than its longest row."""
    targets = [TARGETS[row] for row in rows]
    return {
        "inputs": lay_out(targets, width, PAD, side),
        "places": Places.from_lengths([len(target) for target in targets], width, side=side),
        "memory": memory_of(model, rows, side, width=7),
    }


def packed(model: Transformer) -> dict[str, object]:
    """Rows 0 and 1 in one row, row 2 in another."""
    memory = None
    if model.encoder is not None:
        sources = lay_out([[*SOURCES[0], *SOURCES[1]], SOURCES[2]], 9, PAD)
        memory = model.encode(sources, places=Places.packed([[3, 5], [2]], 9))
    return {
        "inputs": lay_out([[*TARGETS[0], *TARGETS[1]], TARGETS[2]], 10, PAD),
        "places": Places.packed([[7, 2], [5]], 10),
        "memory": memory,
    }


def assert_equal_logits(logits: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("arguments", [*QUARTERS[0], *QUARTERS[1], *ODD])
def test_every_layout_gives_a_token_the_logits_of_its_row_alone(tiny, arguments):
    model = tiny(**arguments)
    with torch.no_grad():
        expected = [alone(model, row) for row in ROWS]
        for order in ([2, 0, 1], [1]):
            for side in ("right", "left"):
                given = batch(model, order, side)
                logits = model(**given)
                last = model(**given, outputs="last")
                assert logits.isfinite().all()
                for at, row in enumerate(order):
                    real = logits[at, given["places"].is_token[at]]
                    assert_equal_logits(real, expected[row])
                    assert_equal_logits(last[at], expected[row][-1])
        logits = model(**packed(model))
        assert_equal_logits(logits[0, :7], expected[0])
        assert_equal_logits(logits[0, 7:9], expected[1])
        assert_equal_logits(logits[1, :5], expected[2])


@pytest.mark.parametrize(
    ("side", "arguments"),
    [
        pytest.param(side, *case.values, id=f"{side}-{case.id}")
        for side, cases in (("right", [*QUARTERS[2], *EVEN]), ("left", [*QUARTERS[3], *ODD]))
        for case in cases
    ],
)
def test_cache_gives_a_token_the_logits_of_its_row_alone(tiny, side, arguments):
    """Unequal prompts in two chunks, then single tokens; a row that has ended is given non-tokens, then leaves."""
    model = tiny(**arguments)
    with torch.no_grad():
        expected = [alone(model, row) for row in ROWS]
        rows, done = list(ROWS), [0] * len(ROWS)
        memory = memory_of(model, rows, side)
        cache = model.new_cache(len(rows), 8)
        for counts in ([3, 1, 2], [2, 1, 1], [1, 0, 1], [1, 0, 1]):
            chunks = [TARGETS[row][done[row] : done[row] + counts[row]] for row in rows]
            width = max(counts)
            places = Places.from_lengths(counts, width, side=side, start=done)
            for _ in range(2):  # a pass that is not advanced may be run again
                logits = model(lay_out(chunks, width, PAD, side), places=places, memory=memory, cache=cache)
            cache.advance(counts)
            for row in rows:
                assert_equal_logits(
                    logits[row, places.is_token[row]], expected[row][done[row] : done[row] + counts[row]]
                )
                done[row] += counts[row]
        assert done == [7, 2, 5]
        # Rows 2 and 0 go on without row 1, in that order; None goes on from each row's length.
        if cache.states:  # sums do not go back, but begin again
            cache.truncate([0, 0, 0])
            chunks = [TARGETS[0][:5], TARGETS[1], TARGETS[2][:4]]
            places = Places.from_lengths([5, 2, 4], side=side)
            model(lay_out(chunks, 5, PAD, side), places=places, memory=memory, cache=cache)
            cache.advance([5, 2, 4])
        else:
            cache.truncate([5, 2, 4])
        cache.select([2, 0])
        if memory is not None:
            places = memory.places
            memory = Memory(memory.states[[2, 0]], Places(places.position[[2, 0]], places.segment[[2, 0]]))
        logits = model(torch.tensor([TARGETS[2][4:5], TARGETS[0][5:6]]), memory=memory, cache=cache)
        assert_equal_logits(logits[0, 0], expected[2][4])
        assert_equal_logits(logits[1, 0], expected[0][5])


def total(losses: Sequence[Loss]) -> Loss:
    whole = losses[0]
    for loss in losses[1:]:
        whole = whole + loss
    return whole


def labels_like(given: dict[str, object], rows: Sequence[Sequence[int]]) -> Tensor:
    """Labels at the real tokens, in order; nothing to predict elsewhere."""
    labels = torch.full(given["inputs"].shape, IGNORED)
    for at, row in enumerate(rows):
        labels[at, given["places"].is_token[at]] = torch.tensor(row)
    return labels


@pytest.mark.parametrize("arguments", [*QUARTERS[1], *EVEN])
def test_every_layout_gives_the_same_loss_and_gradients(tiny, arguments):
    model = tiny(**arguments).train()

    def loss_and_gradients(losses: Sequence[Loss]) -> tuple[Loss, dict[str, Tensor]]:
        loss = total(losses)
        gradients = torch.autograd.grad(loss.sum, list(model.parameters()))
        return loss, dict(zip(dict(model.named_parameters()), gradients, strict=True))

    singles = [
        model(torch.tensor([TARGETS[row]]), memory=memory_of(model, [row]), labels=torch.tensor([LABELS[row]]))
        for row in ROWS
    ]
    expected, expected_gradients = loss_and_gradients(singles)
    assert int(expected.count) == sum(len(row) for row in LABELS)
    layouts = [(batch(model, ROWS, "right"), LABELS), (batch(model, ROWS, "left"), LABELS)]
    layouts.append((packed(model), [[*LABELS[0], *LABELS[1]], LABELS[2]]))
    for given, rows in layouts:
        loss, gradients = loss_and_gradients([model(**given, labels=labels_like(given, rows))])
        assert int(loss.count) == int(expected.count)
        torch.testing.assert_close(loss.sum, expected.sum, atol=1e-5, rtol=1e-5)
        for name, gradient in gradients.items():
            torch.testing.assert_close(
                gradient, expected_gradients[name], atol=1e-5, rtol=1e-4, msg=lambda m, n=name: f"{n}: {m}"
            )


def test_layers_that_all_differ_go_the_same_path(tiny):
    """Other types, heads, widths, windows, angles, norms and kernels by layer, and one without cross-attention."""
    model = tiny(kind="encoder_decoder", positions="rotary")
    config = model.config
    first, second = config.decoder.blocks
    attention = {"n_heads": 3, "n_kv_heads": 1, "d_head": 6, "window": 3, "kernel": "reference"}
    rotary = RotaryConfig(theta=100.0, pairing="interleaved")
    linear = {"type": "linear", "n_kv_heads": 1, "rotary": rotary}
    shaw = {"type": "shaw", "max_distance": 2, "window": 4}
    blocks = (
        first.model_copy(update={"attention": first.attention.model_copy(update=attention | {"rotary": rotary})}),
        first.model_copy(update={"attention": first.attention.model_copy(update=linear)}),
        second.model_copy(update={"attention": second.attention.model_copy(update=shaw)}),
        second.model_copy(update={"cross_attention": None, "norm_place": "pre", "norm": NormConfig(kind="rms")}),
        second.model_copy(update={"feed_forward": FeedForwardConfig(d_ff=8, gated=True, activation="silu")}),
    )
    model = Transformer(config.model_copy(update={"decoder": config.decoder.model_copy(update={"blocks": blocks})}))
    model.eval()
    with torch.no_grad():
        expected = [alone(model, row) for row in ROWS]
        given = batch(model, ROWS, "left")
        logits = model(**given)
        cache, done = model.new_cache(3, 8), [0, 0, 0]
        for counts in ([3, 2, 2], [4, 0, 3]):
            chunks = [TARGETS[row][done[row] : done[row] + counts[row]] for row in ROWS]
            places = Places.from_lengths(counts, start=done)
            cached = model(lay_out(chunks, max(counts), PAD), places=places, memory=given["memory"], cache=cache)
            cache.advance(counts)
            for row in ROWS:
                new = slice(done[row], done[row] + counts[row])
                assert_equal_logits(cached[row, places.is_token[row]], expected[row][new])
                done[row] += counts[row]
        for row in ROWS:
            assert_equal_logits(logits[row, given["places"].is_token[row]], expected[row])


@pytest.mark.parametrize("kind", ["decoder", "encoder_decoder"])
def test_packed_prompt_goes_on_in_the_cache(tiny, kind):
    """A second document that begins in the middle of a chunk, and goes on from its own position."""
    model = tiny(kind=kind, positions="rotary")
    with torch.no_grad():
        first, second = alone(model, 0), alone(model, 2)
        memory = None
        if model.encoder is not None:
            sources = torch.tensor([[*SOURCES[0], *SOURCES[2]]])
            memory = model.encode(sources, places=Places.packed([[3, 2]]))
        tokens = torch.tensor([[*TARGETS[0], *TARGETS[2]]])
        places = Places.packed([[7, 5]])
        cache = model.new_cache(1, 16)
        parts = []
        for begin, end in ((0, 9), (9, 11), (11, 12)):
            where = Places(places.position[:, begin:end], places.segment[:, begin:end])
            parts.append(model(tokens[:, begin:end], places=where, memory=memory, cache=cache))
            cache.advance([end - begin])
    assert_equal_logits(torch.cat(parts, dim=1)[0], torch.cat([first, second]))


def test_o34_packed_documents_do_not_see_each_other(tiny):
    """X = [5, 6, 7] and Y = [8, 9] in one row with one pad: Y does not move at all when X changes."""
    model = tiny(positions="learned", max_positions=8)
    places = Places.packed([[3, 2]], 6)
    assert places.position.tolist() == [[0, 1, 2, 0, 1, 0]]
    with torch.no_grad():
        before = model(torch.tensor([[5, 6, 7, 8, 9, PAD]]), places=places)
        after = model(torch.tensor([[15, 16, 17, 8, 9, PAD]]), places=places)
    assert not torch.equal(before[0, :3], after[0, :3])
    assert torch.equal(before[0, 3:5], after[0, 3:5])


@pytest.mark.parametrize("name", KINDS)
def test_in_float64_all_ways_are_equal_to_the_last_digits(tiny, name):
    """Alone, padded on either side, packed, in chunks and token by token, far beyond what a window holds."""
    model = tiny(positions="sinusoidal", attention=KINDS[name]).double()
    lengths = [200, 90, 1]
    rows = [torch.randint(3, 32, (length,)) for length in lengths]
    with torch.no_grad():
        expected = [model(row[None])[0] for row in rows]
        for side in ("left", "right"):
            places = Places.from_lengths(lengths, 210, side=side)
            logits = model(lay_out([row.tolist() for row in rows], 210, PAD, side), places=places)
            for row, real in enumerate(places.is_token):
                torch.testing.assert_close(logits[row, real], expected[row], atol=1e-10, rtol=1e-10)
        together = model(torch.cat(rows)[None], places=Places.packed([lengths]))[0]
        torch.testing.assert_close(together, torch.cat(expected), atol=1e-10, rtol=1e-10)
        cache, done = model.new_cache(3, 200), [0, 0, 0]
        for counts in ([70, 3, 0], [63, 0, 1], [0, 80, 0], *([[1, 1, 0]] * 7), *([[1, 0, 0]] * 60)):
            chunks = [row[begin : begin + count].tolist() for row, begin, count in zip(rows, done, counts, strict=True)]
            places = Places.from_lengths(counts, side="left", start=done)
            logits = model(lay_out(chunks, places.length, PAD, "left"), places=places, cache=cache)
            cache.advance(counts)
            for row, count in enumerate(counts):
                new = expected[row][done[row] : done[row] + count]
                torch.testing.assert_close(logits[row, places.is_token[row]], new, atol=1e-10, rtol=1e-10)
                done[row] += count
    assert done == lengths


@pytest.mark.parametrize("name", KINDS)
def test_alone_and_without_padding_a_cache_goes_the_fast_path_and_equals_it(tiny, name):
    """Rows in step: 300 tokens, of which a window holds few."""
    model = tiny(positions="sinusoidal", attention=KINDS[name]).double()
    tokens = torch.randint(3, 32, (2, 300))
    with torch.no_grad():
        expected, cache, parts = model(tokens), model.new_cache(2, 300), []
        for chunk in tokens.split([50, 150, *[1] * 100], dim=1):
            parts.append(model(chunk, cache=cache))
            cache.advance([chunk.shape[1]] * 2)
    torch.testing.assert_close(torch.cat(parts, dim=1), expected, atol=1e-10, rtol=1e-10)
