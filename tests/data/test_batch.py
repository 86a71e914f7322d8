import numpy as np
import torch

from glassformer.core.places import IGNORED
from glassformer.data.batch import Batch, padded


def test_padded_fills_up_on_the_right() -> None:
    assert padded([[5, 6], [7], []], fill=9).tolist() == [[5, 6], [7, 9], [9, 9]]
    assert padded([[], []], fill=9).shape == (2, 0)
    assert padded([], fill=9).shape == (0, 0)
    assert padded([[]], fill=9).dtype == torch.long


def test_padded_puts_ids_around_rows() -> None:
    assert padded([[5, 6], [], (7,)], 9, begin=[1, 2], end=[3]).tolist() == [
        [1, 2, 5, 6, 3],
        [1, 2, 3, 9, 9],
        [1, 2, 7, 3, 9],
    ]
    assert padded([np.array([5, 6]), [7]], 9, end=[9]).tolist() == [[5, 6, 9], [7, 9, 9]]


def test_batch_places_follow_from_lengths() -> None:
    batch = Batch(
        inputs=padded([[5, 6, 0], [7]], fill=0),
        lengths=(3, 1),
        labels=padded([[6, 0, IGNORED], [IGNORED]], IGNORED),
        items=(4, 2),
        source=padded([[1], [2, 3]], fill=0),
        source_lengths=(1, 2),
    )
    assert len(batch) == 2
    assert batch.places.segment.tolist() == [[0, 0, 0], [0, -1, -1]]
    assert batch.source_places.position.tolist() == [[0, 0], [0, 1]]
    assert not batch.places.plain


def test_batch_to_keeps_what_is_not_a_tensor() -> None:
    batch = Batch(padded([[5]], 0), (1,), padded([[6]], 0), items=(3,), documents=((1,),))
    moved = batch.to("cpu")
    assert (moved.lengths, moved.items, moved.documents, moved.source) == ((1,), (3,), ((1,),), None)
    assert torch.equal(moved.inputs, batch.inputs)
