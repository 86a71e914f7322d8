"""Sources of batches, and the loader that walks through one of their epochs."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

import torch
from torch.utils.data import DataLoader, Dataset

from glassformer.core.errors import ConfigError, GlassformerError
from glassformer.data.batch import Batch
from glassformer.data.order import Order, generator


@runtime_checkable
class Source(Protocol):
    """Items that become batches.

    A batch depends on the source, the items and the epoch and on nothing else: what is random is drawn from
    `generator(seed, epoch, item)` or its like, never from a global generator. That is what makes workers and
    exact resume need no state.
    """

    def __len__(self) -> int:
        """Return the number of items, the same in every epoch."""
        ...

    def batch(self, items: Sequence[int], epoch: int) -> Batch:
        """Return the batch of some items as they are in an epoch.

        Args:
            items: Numbers from 0 to the length of the source.
            epoch: From 0.
        """
        ...

    @property
    def longest(self) -> tuple[int, int]:
        """The longest row for the encoder (0 if there is none) and the longest row of inputs, in tokens."""
        ...


@runtime_checkable
class HasLengths(Protocol):
    """What a source also is whose items keep their length in every epoch; it can be batched by tokens."""

    @property
    def lengths(self) -> Sequence[tuple[int, int]]:
        """The row for the encoder (0 if there is none) and the row of inputs of each item, in tokens.

        Special tokens count; so does nothing that is added as padding.
        """
        ...


def loader(source: Source, order: Order, epoch: int, start: int = 0, workers: int = 0) -> Iterator[Batch]:
    """Return the batches of one epoch in order.

    The same batches come out with any number of workers. The global random state is never used.

    Args:
        source: Where the batches come from.
        order: Which items make up each batch.
        epoch: From 0.
        start: The first batch wanted, for a resumed run.
        workers: Processes that prepare batches ahead of time; 0 prepares each when it is asked for.

    Raises:
        ConfigError: The number of workers is negative.
    """
    if workers < 0:
        raise ConfigError(f"workers is {workers}; use 0 for none")
    assert start >= 0, f"no batch comes before the first: {start}"
    wanted = order.batches(epoch)[start:]
    if workers == 0 or not wanted:
        return (source.batch(items, epoch) for items in wanted)
    return _prepared_ahead(_Batches(source, wanted, epoch), min(workers, len(wanted)), order.seed)


class _Batches(Dataset[Batch | GlassformerError]):
    """The batches of one epoch by number."""

    def __init__(self, source: Source, wanted: list[list[int]], epoch: int) -> None:
        self.source = source
        self.wanted = wanted
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.wanted)

    def __getitem__(self, index: int) -> Batch | GlassformerError:
        try:
            return self.source.batch(self.wanted[index], self.epoch)
        except GlassformerError as error:
            return error  # raised here, a user's mistake would arrive wrapped in a worker's traceback


def _prepared_ahead(batches: _Batches, workers: int, seed: int) -> Iterator[Batch]:
    # A source should not use the global generators. Should one do so all the same, this seed of theirs makes
    # at least workers and epochs differ.
    global_seed = int(generator(seed, batches.epoch).integers(2**63))
    # The iterator gets no name: held by the frame of an exception it would be collected as part of a cycle,
    # which takes its queues away first, and the workers would end five seconds late.
    for arrival in DataLoader(
        batches,
        batch_size=None,
        num_workers=workers,
        generator=torch.Generator().manual_seed(global_seed),
        worker_init_fn=_leave_signals_to_the_main_process,
    ):
        if isinstance(arrival, GlassformerError):
            raise arrival
        yield arrival


def _leave_signals_to_the_main_process(worker: int) -> None:
    # Ctrl-C reaches every process of a terminal, and the SIGTERM of a service manager every process of a service; a
    # worker that dies of it takes the run along unsaved.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":  # only there a signal says who sent it
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=_end_when_the_main_process_says_so, daemon=True).start()


def _end_when_the_main_process_says_so() -> None:
    while signal.sigwaitinfo({signal.SIGTERM}).si_pid != os.getppid():
        pass
    os._exit(128 + signal.SIGTERM)
