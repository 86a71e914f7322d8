from collections.abc import Sequence

import numpy as np
import pytest
import torch

from glassformer.core.errors import ConfigError, DataError
from glassformer.core.places import IGNORED
from glassformer.data.masking import MaskedSource
from glassformer.data.order import BatchOrder
from glassformer.data.source import loader

MASK, VOCAB = 3, 100


def masked(
    rows: Sequence[Sequence[int]], seed: int = 0, rate: float = 0.15, special: Sequence[int] = (0, 1, 2)
) -> MaskedSource:
    return MaskedSource(
        rows, mask_id=MASK, vocab_size=VOCAB, special_ids=special, rate=rate, seed=seed, pad=0, begin=[1], end=[2]
    )


def test_masked_source_asks_for_what_it_hides_and_nothing_else() -> None:
    row = list(range(10, 50))
    batch = masked([row, row[:3]]).batch([0, 1], epoch=0)
    assert batch.lengths == (42, 5)
    tokens = torch.tensor([[1, *row, 2], [1, *row[:3], 2, *[0] * 37]])
    asked = batch.labels != IGNORED
    assert asked.sum(1).tolist() == [6, 1]  # 0.15 x 40, and 0.15 x 3 is at least 1
    assert torch.equal(batch.labels[asked], tokens[asked])
    assert torch.equal(batch.inputs[~asked], tokens[~asked])
    assert not asked[:, 0].any()
    assert not asked[0, 41]
    assert not asked[1, 4:].any()


def test_masked_source_hides_eight_of_ten_and_changes_one() -> None:
    rows = [list(range(10, 90))] * 500
    batch = masked(rows).batch(range(500), epoch=3)
    asked = batch.labels != IGNORED
    assert asked.sum(1).tolist() == [12] * 500
    shown, true = batch.inputs[asked], batch.labels[asked]
    # 6000 draws: four standard deviations are 0.021 and 0.016; a random token is by chance the same in 1 of 96.
    assert float((shown == MASK).float().mean()) == pytest.approx(0.8, abs=0.021)
    assert float((shown == true).float().mean()) == pytest.approx(0.1 + 0.1 / 96, abs=0.016)
    random = shown[(shown != MASK) & (shown != true)]
    assert int(random.min()) >= 4
    assert set(random.tolist()) > set(range(4, 10)) | set(range(90, 100))
    assert np.bincount(np.nonzero(asked.numpy())[1], minlength=82)[1:81].min() > 40  # expected: 75 at each place


def test_masked_source_never_asks_for_special_tokens() -> None:
    row = [5, 0, 1, 2, MASK, 7, 7]
    batch = masked([row] * 50, rate=0.99).batch(range(50), epoch=0)
    assert batch.labels.tolist() == [[IGNORED, 5, *[IGNORED] * 4, 7, 7, IGNORED]] * 50


@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_o27_masks_depend_on_seed_epoch_and_item_alone() -> None:
    rows = [list(range(10, 70))] * 16
    order = BatchOrder(16, 3, seed=1, shuffle=True)

    def masks(seed: int, epoch: int, workers: int = 0) -> dict[int, tuple[int, ...]]:
        found = {}
        for batch in loader(masked(rows, seed), order, epoch, workers=workers):
            for item, inputs, labels in zip(batch.items, batch.inputs.tolist(), batch.labels.tolist(), strict=True):
                found[item] = (*inputs, *labels)
        return found

    alone = [masks(1, epoch) for epoch in (0, 1)]
    assert len({*alone[0].values(), *alone[1].values(), *masks(2, 0).values()}) == 3 * 16
    assert [masks(1, epoch, workers=4) for epoch in (0, 1)] == alone


def test_o27_a_mask_does_not_depend_on_the_rest_of_the_batch() -> None:
    source = masked([list(range(10, 20)), list(range(10, 60)), list(range(20, 40))])
    alone, together = source.batch([0], epoch=2), source.batch([2, 1, 0], epoch=2)
    assert together.inputs[2, :12].tolist() == alone.inputs[0].tolist()
    assert together.labels[2, :12].tolist() == alone.labels[0].tolist()
    assert (together.labels[2, 12:] == IGNORED).all()


def test_masked_source_knows_its_lengths() -> None:
    source = masked([[5], [6, 7, 8]])
    assert (len(source), source.longest, source.lengths) == (2, (0, 5), [(0, 3), (0, 5)])


def test_masked_source_refuses_impossible_numbers() -> None:
    for rate in (0.0, 1.0, -0.1):
        with pytest.raises(ConfigError, match=f"rate is {rate}"):
            masked([[5]], rate=rate)
    with pytest.raises(ConfigError, match="seed is -1"):
        masked([[5]], seed=-1)
    with pytest.raises(ConfigError, match="special id 100 is outside the vocabulary, 0 to 99"):
        masked([[5]], special=[100])
    with pytest.raises(ConfigError, match="all 100 ids are special"):
        masked([[5]], special=range(100))


def test_masked_source_refuses_rows_it_cannot_mask() -> None:
    with pytest.raises(DataError, match="0 rows"):
        masked([])
    with pytest.raises(DataError, match="row 1 holds the id 100, outside the vocabulary, 0 to 99"):
        masked([[5], [6, 100]])
    for row in ([], [0, MASK]):
        with pytest.raises(DataError, match="row 1 has no token that could be masked"):
            masked([[5], row])
