import pytest

from glassformer.core.errors import ConfigError, DataError
from glassformer.data.length import Policy, limit_lengths, limit_rows

PAIRS = [([1, 2], [3]), ([1, 2, 3, 4], [5]), ([1], [2, 3, 4])]


def test_limit_lengths_leaves_what_fits() -> None:
    for policy in ("error", "cut", "skip"):
        limited = limit_lengths(PAIRS, 4, policy)
        assert (limited.rows, limited.kept, limited.notes) == (PAIRS, [0, 1, 2], ())


def test_limit_lengths_cuts_either_side() -> None:
    limited = limit_lengths(PAIRS, 2, "cut", lines=[1, 3, 4])
    assert limited.rows == [([1, 2], [3]), ([1, 2], [5]), ([1], [2, 3])]
    assert limited.kept == [0, 1, 2]
    assert limited.notes == ("2 of 3 rows cut to 2 tokens, lines 3, 4",)
    assert PAIRS[1] == ([1, 2, 3, 4], [5])


def test_limit_lengths_skips_pairs_as_pairs() -> None:
    limited = limit_lengths(PAIRS, (3, 2), "skip")
    assert (limited.rows, limited.kept) == ([PAIRS[0]], [0])
    assert limited.notes == ("2 of 3 rows skipped, over 3 and 2 tokens",)


def test_limit_lengths_names_the_row_its_length_and_the_ways_out() -> None:
    with pytest.raises(DataError, match=r"^row 1: the source has 4 tokens, more than the limit of 2; raise the limit"):
        limit_lengths(PAIRS, 2, "error")
    message = r"^line 9: the target has 3 tokens, more than the limit of 2; .* cut or skipped \(in all 1 of 3 are"
    with pytest.raises(DataError, match=message):
        limit_lengths(PAIRS, (4, 2), "error", lines=[7, 8, 9])


def test_limit_rows_does_the_same_for_rows() -> None:
    rows = [[1], [1, 2, 3], []]
    assert limit_rows(rows, 3, "error").rows == rows
    assert limit_rows(rows, 2, "cut").rows == [[1], [1, 2], []]
    assert limit_rows(rows, 2, "cut").notes == ("1 of 3 rows cut to 2 tokens",)
    skipped = limit_rows(rows, 2, "skip", lines=[2, 3, 4])
    assert (skipped.rows, skipped.kept, skipped.notes) == (
        [[1], []],
        [0, 2],
        ("1 of 3 rows skipped, over 2 tokens, line 3",),
    )
    with pytest.raises(DataError, match=r"^row 1: 3 tokens, more than the limit of 2"):
        limit_rows(rows, 2, "error")


def test_limits_that_leave_nothing_are_refused() -> None:
    with pytest.raises(DataError, match=r"all 1 rows have more than 1 tokens .* raise the limit or cut them"):
        limit_rows([[1, 2]], 1, "skip")
    with pytest.raises(ConfigError, match="longest is 0"):
        limit_lengths(PAIRS, (3, 0), "cut")
    typo: Policy = "ship"  # type: ignore[assignment]
    with pytest.raises(ConfigError, match=r"policy 'ship' .* did you mean 'skip'"):
        limit_rows([[1, 2]], 1, typo)
