import contextlib
import gc
import multiprocessing
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
import torch

from glassformer.core.errors import ConfigError, DataError
from glassformer.core.places import IGNORED
from glassformer.data.batch import Batch
from glassformer.data.labelled import LabelledSource
from glassformer.data.order import BatchOrder, TokenOrder, generator
from glassformer.data.packing import PackedSource
from glassformer.data.pairs import PairSource
from glassformer.data.source import HasLengths, Source, loader
from glassformer.data.synthetic import SyntheticPairs
from glassformer.data.windows import WindowSource
from glassformer.text.build import character_tokenizer

# Four workers on a machine of fewer cores, and forks beside threads of torch, are meant here.
pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]


class Values:
    """A source whose rows are what a function says of an epoch and an item."""

    def __init__(self, row: Callable[[int, int], list[int]]) -> None:
        self._row = row

    def __len__(self) -> int:
        return 16

    def batch(self, items: Sequence[int], epoch: int) -> Batch:
        rows = torch.tensor([self._row(epoch, item) for item in items])
        return Batch(rows, (rows.shape[1],) * len(rows), rows, tuple(items))

    @property
    def longest(self) -> tuple[int, int]:
        return 0, 1


def drawn(seed: int) -> Source:
    return Values(lambda epoch, item: [int(generator(seed, epoch, item).integers(2**62))])


def from_global_state(epoch: int, item: int) -> list[int]:
    return [random.getrandbits(62), int(np.random.randint(2**62)), int(torch.randint(2**62, (1,)))]


def refusing(epoch: int, item: int) -> list[int]:
    raise DataError(f"item {item} is broken")


def values(batches: Iterator[Batch]) -> list[list[int]]:
    return [row for batch in batches for row in batch.inputs.tolist()]


ORDER = BatchOrder(16, 3, seed=1, shuffle=True)


def test_o27_workers_never_repeat_each_other() -> None:
    epochs = [values(loader(drawn(1), ORDER, epoch, workers=4)) for epoch in (0, 1)]
    assert len({value for epoch in epochs for (value,) in epoch}) == 32
    assert epochs == [values(loader(drawn(1), ORDER, epoch)) for epoch in (0, 1)]
    assert not set(map(tuple, epochs[0])) & set(map(tuple, values(loader(drawn(2), ORDER, 0))))


def test_o27_even_global_generators_differ_between_workers_and_epochs() -> None:
    source = Values(from_global_state)
    epochs = [values(loader(source, ORDER, epoch, workers=4)) for epoch in (0, 1)]
    assert len({value for epoch in epochs for row in epoch for value in row}) == 2 * 16 * 3


def test_loader_gives_the_same_batches_with_any_number_of_workers() -> None:
    tokenizer = character_tokenizer(["0123456789"], ["<pad>", "<bos>", "<eos>"])
    source = SyntheticPairs("reverse", tokenizer, (1, 5), 16, seed=0)
    with_workers = list(loader(source, ORDER, 3, start=1, workers=2))
    without = list(loader(source, ORDER, 3, start=1))
    assert [batch.items for batch in without] == [tuple(items) for items in ORDER.batches(3)[1:]]
    for one, other in zip(with_workers, without, strict=True):
        assert (one.items, one.lengths, one.source_lengths) == (
            other.items, other.lengths, other.source_lengths,
        )  # fmt: skip
        assert torch.equal(one.inputs, other.inputs)
        assert torch.equal(one.labels, other.labels)
        assert one.source is not None
        assert other.source is not None
        assert torch.equal(one.source, other.source)


@pytest.mark.parametrize("workers", [0, 2])
def test_loader_leaves_the_global_random_state_alone(workers: int) -> None:
    before = random.getstate(), np.random.get_state(legacy=False), torch.get_rng_state()
    list(loader(drawn(1), ORDER, 0, workers=workers))
    assert random.getstate() == before[0]
    assert str(np.random.get_state(legacy=False)) == str(before[1])
    assert torch.equal(torch.get_rng_state(), before[2])


def test_loader_lets_interrupts_reach_the_main_process_only() -> None:
    source = Values(lambda epoch, item: [int(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)])
    assert values(loader(source, ORDER, 0, start=5, workers=1)) == [[1]]
    assert values(loader(source, ORDER, 0, start=5)) == [[0]]


def test_loader_starts_where_it_is_told() -> None:
    everything = values(loader(drawn(1), ORDER, 0))
    assert values(loader(drawn(1), ORDER, 0, start=2)) == everything[6:]
    assert values(loader(drawn(1), ORDER, 0, start=6, workers=2)) == []


def test_loader_passes_on_the_mistake_a_worker_found() -> None:
    for workers in (0, 1):
        with pytest.raises(DataError, match=r"^item 0 is broken$"):
            list(loader(Values(refusing), BatchOrder(1, 1, 0, shuffle=False), 0, workers=workers))


def test_loader_ends_its_workers_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is not told to end looks up after 5 seconds, here after 100."""
    for module in (torch.utils.data._utils, torch.utils.data._utils.worker):
        monkeypatch.setattr(module, "MP_STATUS_CHECK_INTERVAL", 100.0)
    started = time.monotonic()
    for row in (refusing, lambda epoch, item: [item]):
        batches = loader(Values(row), ORDER, 0, workers=2)
        with contextlib.suppress(DataError):
            next(batches)
        del batches
        gc.collect()
        assert not multiprocessing.active_children()
    assert time.monotonic() - started < 90


def test_loader_refuses_a_negative_number_of_workers() -> None:
    with pytest.raises(ConfigError, match="workers is -1"):
        loader(drawn(1), ORDER, 0, workers=-1)


def test_sources_that_stay_as_they_are_have_lengths() -> None:
    tokenizer = character_tokenizer(["0123456789"], ["<pad>", "<bos>", "<eos>"])
    for source in (
        PairSource([([5], [6])], bos=1, eos=2, pad=0),
        LabelledSource([[5]], [0], pad=0),
        PackedSource([[5, 6]], width=4),
        WindowSource.evaluation([1, 2, 3], 4),
    ):
        assert isinstance(source, Source)
        assert isinstance(source, HasLengths)
        assert len(source.lengths) == len(source)
        assert max(source.lengths) == source.longest
    assert not isinstance(SyntheticPairs("reverse", tokenizer, (1, 5), 16, seed=0), HasLengths)


def test_o08_batches_of_tokens_hold_the_same_targets_as_batches_of_items() -> None:
    pairs = [([5] * (item % 7), [6] * (item % 5)) for item in range(50)]
    source = PairSource(pairs, bos=1, eos=2, pad=2)
    orders = BatchOrder(50, 8, seed=0, shuffle=True), TokenOrder(source.lengths, 30, seed=0, shuffle=True)
    targets = [sum(int((batch.labels != IGNORED).sum()) for batch in loader(source, order, 0)) for order in orders]
    assert targets == [sum(len(target) + 1 for _, target in pairs)] * 2
    for batch in loader(source, orders[1], 0, start=1):
        assert max(batch.inputs.numel(), batch.source.numel() if batch.source is not None else 0) <= 30
