import pytest
import torch

from glassformer.core.errors import DataError
from glassformer.data.labelled import LabelledSource, label_ids, label_names, listed

ROWS, LABELS = [[5, 6, 7], [], [8]], [2, 0, 1]


def test_labelled_source_puts_special_tokens_around_rows() -> None:
    source = LabelledSource(ROWS, LABELS, pad=9, begin=[1], end=[2, 3])
    batch = source.batch([1, 0], epoch=0)
    assert batch.inputs.tolist() == [[1, 2, 3, 9, 9, 9], [1, 5, 6, 7, 2, 3]]
    assert batch.lengths == (3, 6)
    assert batch.labels.tolist() == [0, 2]
    assert (batch.labels.dtype, batch.items, batch.source) == (torch.long, (1, 0), None)
    assert batch.to("cpu").labels.shape == (2,)
    assert (len(source), source.longest, source.lengths) == (3, (0, 6), [(0, 6), (0, 3), (0, 4)])


def test_o02_an_end_that_is_the_pad_is_still_read() -> None:
    batch = LabelledSource(ROWS, LABELS, pad=2, end=[2]).batch([2, 0], epoch=0)
    assert batch.inputs.tolist() == [[8, 2, 2, 2], [5, 6, 7, 2]]
    assert batch.places.segment.tolist() == [[0, 0, -1, -1], [0, 0, 0, 0]]


def test_labelled_source_gives_the_decoder_one_token() -> None:
    source = LabelledSource(ROWS, LABELS, pad=None, end=[2], decoder_start=4)
    batch = source.batch([0, 2], epoch=1)
    assert batch.source is not None
    assert batch.source.tolist() == [[5, 6, 7, 2], [8, 2, 0, 0]]
    assert batch.source_lengths == (4, 2)
    assert batch.inputs.tolist() == [[4], [4]]
    assert (batch.lengths, batch.labels.tolist()) == ((1, 1), [2, 1])
    assert (source.longest, source.lengths) == ((4, 1), [(4, 1), (1, 1), (2, 1)])


def test_labelled_source_refuses_what_has_no_label_or_no_token() -> None:
    with pytest.raises(DataError, match="0 rows"):
        LabelledSource([], [], pad=0)
    with pytest.raises(DataError, match="2 rows but 1 labels"):
        LabelledSource([[1], [2]], [0], pad=0)
    with pytest.raises(DataError, match="a label is -1"):
        LabelledSource([[1]], [-1], pad=0)
    with pytest.raises(DataError, match="row 1 has no token"):
        LabelledSource(ROWS, LABELS, pad=0)


def test_label_names_are_in_order() -> None:
    assert label_names(["10", "9", "-1", "9"]) == ("-1", "9", "10")
    assert label_names(["10", "9", "x"]) == ("10", "9", "x")
    assert label_names(["pos", "neg", "pos"]) == ("neg", "pos")


def test_label_ids_name_an_unknown_label_its_line_and_the_known_ones() -> None:
    assert label_ids(["b", "a", "b"], ("a", "b"), "dev.tsv") == [1, 0, 1]
    message = r"^dev\.tsv, line 7: the label 'post' does not occur .*; did you mean 'pos'\? known: neg, pos$"
    with pytest.raises(DataError, match=message):
        label_ids(["pos", "post"], ("neg", "pos"), "dev.tsv", lines=[2, 7])
    with pytest.raises(DataError, match=r"did you mean 'unknown'\? known: known, unknown$"):
        label_ids(["unknwon"], ("known", "unknown"), "dev.tsv")
    with pytest.raises(DataError, match=r"^dev\.tsv, row 0: the label '3' .*; known: 0, 1$"):
        label_ids(["3"], ("0", "1"), "dev.tsv")


def test_of_many_labels_a_message_names_some() -> None:
    assert listed(("a", "b")) == "a, b"
    assert listed([str(n) for n in range(150)]).endswith(", 18, 19 and 130 more")


def test_of_a_long_label_a_message_shows_the_beginning_on_one_line() -> None:
    assert listed(("a\nb", "x" * 41, "y" * 40)) == f"a b, {'x' * 37}..., {'y' * 40}"
