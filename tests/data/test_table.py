import gzip
import os
from pathlib import Path

import pytest

from glassformer.core.errors import ConfigError, DataError
from glassformer.data.table import read_table

DATA = os.environ.get("GLASSFORMER_TEST_DATA")


def file(folder: Path, text: str | bytes, name: str = "data.tsv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_read_table_takes_columns_by_name_in_the_order_asked_for(tmp_path: Path) -> None:
    path = file(tmp_path, "label\ttext\tid\n1\tgood\ta\n0\tbad\tb\n")
    table = read_table(path, ["text", "label"], header=None)
    assert table.rows == [("good", "1"), ("bad", "0")]
    assert table.lines == [2, 3]
    assert table.notes == ()
    assert read_table(path, ["id", 0, "0"], header=True).rows == [("a", "1", "1"), ("b", "0", "0")]


def test_read_table_takes_numbers_without_a_header(tmp_path: Path) -> None:
    path = file(tmp_path, "0\tfirst\n1\tsecond\n")
    for header in (None, False):
        assert read_table(path, ["1", 0], header=header).rows == [("first", "0"), ("second", "1")]
    assert read_table(path, [1], header=True).rows == [("second",)]


def test_read_table_prefers_a_number_that_is_a_name(tmp_path: Path) -> None:
    path = file(tmp_path, "1\t0\na\tb\n")
    assert read_table(path, ["0", "1"], header=True).rows == [("b", "a")]
    assert read_table(path, [0, 1], header=True).rows == [("a", "b")]


def test_read_table_knows_the_separator_from_the_name(tmp_path: Path) -> None:
    packed = gzip.compress(b"a,b\tc\n")
    assert read_table(file(tmp_path, packed, "x.CSV.gz"), [1], header=False).rows == [("b\tc",)]
    assert read_table(file(tmp_path, "a,b\tc\n", "x.txt"), [1], header=False).rows == [("c",)]


@pytest.mark.parametrize(
    ("separator", "row"), [("tab", "a\tb"), ("comma", "a,b"), ("\t", "a\tb"), (",", "a,b"), (";", "a;b"), ("|", "a|b")]
)
def test_read_table_takes_any_separator(separator: str, row: str, tmp_path: Path) -> None:
    assert read_table(file(tmp_path, row), [0, 1], header=False, separator=separator).rows == [("a", "b")]


def test_read_table_cuts_at_the_first_blank_only(tmp_path: Path) -> None:
    path = file(tmp_path, 'DESC:def What is "it" , then ?\nNUM:dist  How far\n')
    rows = [("DESC:def", 'What is "it" , then ?'), ("NUM:dist", " How far")]
    assert read_table(path, [0, 1], header=None, separator="space").rows == rows


def test_read_table_reads_quoted_fields_of_a_csv(tmp_path: Path) -> None:
    path = file(tmp_path, b'text,label\r\n"a, ""b""\r\n\r\nc",1\r\n\r\nsaid "d",2\r\n', "data.csv")
    table = read_table(path, ["text", "label"], header=None)
    assert table.rows == [('a, "b"\n\nc', "1"), ('said "d"', "2")]
    assert table.lines == [2, 6]
    assert table.notes == (f"{path}: blank lines left out: 1 (line 5)",)


def test_read_table_takes_a_quotation_mark_of_a_tsv_for_text(tmp_path: Path) -> None:
    path = file(tmp_path, '"a\tb"\n"\t""\n')
    assert read_table(path, [0, 1], header=False).rows == [('"a', 'b"'), ('"', '""')]


def test_o35_a_mark_and_other_line_breaks_leave_no_trace_in_a_table(tmp_path: Path) -> None:
    path = file(tmp_path, b"\xef\xbb\xbflabel\ttext\r\n1\ta\xe2\x80\xa8b\r\n")
    assert read_table(path, ["label", "text"], header=None).rows == [("1", "a\u2028b")]


def test_read_table_counts_the_blank_lines_it_leaves_out(tmp_path: Path) -> None:
    path = file(tmp_path, "\na\tb\n  \n\t\nc\td\n" + "\n" * 10)
    table = read_table(path, [0, 1], header=False)
    assert table.rows == [("a", "b"), ("", ""), ("c", "d")]
    assert table.lines == [2, 4, 5]
    assert table.notes == (f"{path}: blank lines left out: 12 (lines 1, 3, 6, 7, 8, 9, 10, 11, 12, 13 and 2 more)",)


def test_read_table_names_near_columns_and_all_others(tmp_path: Path) -> None:
    path = file(tmp_path, "label\ttext_a\n1\tx\n")
    with pytest.raises(DataError, match=r"no column 'lable'; did you mean 'label'\? .* named 'label', 'text_a'$"):
        read_table(path, ["lable"], header=None)
    with pytest.raises(DataError, match=r"no column 'zzz'; there are 2, numbered from 0, named 'label', 'text_a'$"):
        read_table(path, ["text_a", "zzz"], header=True)
    with pytest.raises(DataError, match=r"no column 'label'; there are 2, numbered from 0, without a header"):
        read_table(path, ["label"], header=False)
    for column in (2, "2", -1):
        with pytest.raises(DataError, match=rf"no column {column!r}; there are 2"):
            read_table(path, [column], header=None)


def test_read_table_refuses_a_name_that_is_not_clear(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"2 columns named 'a'; give the number"):
        read_table(file(tmp_path, "a\ta\n1\t2\n"), ["a"], header=True)


@pytest.mark.parametrize(("row", "fields"), [("a", 1), ("a\tb\tc", 3)])
def test_read_table_names_the_line_of_a_wrong_row(row: str, fields: int, tmp_path: Path) -> None:
    path = file(tmp_path, f"\nx\ty\n1\t2\n{row}\n")
    for header in (True, False):
        with pytest.raises(DataError, match=rf"data\.tsv, line 4 has {fields} field\(s\) and line 2 has 2;"):
            read_table(path, [0], header=header)


@pytest.mark.parametrize("text", ['a,b\nc,"d\ne,f\n', 'a,b\n"c"d,e\n'])
def test_read_table_names_the_line_of_a_wrong_quotation_mark(text: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"data\.csv: the row from line 2 is no CSV .*; check its quotation marks"):
        read_table(file(tmp_path, text, "data.csv"), [0], header=False)


def test_read_table_refuses_nothing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is empty"):
        read_table(file(tmp_path, ""), [0], header=False)
    with pytest.raises(DataError, match="has 0 rows; give"):
        read_table(file(tmp_path, "\n \n"), [0], header=True)
    with pytest.raises(DataError, match="has 0 rows below its header"):
        read_table(file(tmp_path, "a\tb\n\n"), ["a"], header=None)
    with pytest.raises(ConfigError, match=r"no column of .* is asked for"):
        read_table(file(tmp_path, "a\tb\n"), [], header=None)


@pytest.mark.parametrize(("separator", "hint"), [("tabs", "did you mean 'tab'"), ("", "known: comma"), ('"', "known")])
def test_read_table_refuses_a_separator_that_is_none(separator: str, hint: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"separator .* neither a name nor one possible character; {hint}"):
        read_table(file(tmp_path, "a\tb\n"), [0], header=False, separator=separator)


def test_read_table_reads_other_encodings(tmp_path: Path) -> None:
    path = file(tmp_path, "1 Größe\n2 sister\u00f0city\n".encode("latin-1"))
    table = read_table(path, ["1"], header=None, separator="space", encoding="latin-1")
    assert table.rows == [("Größe",), ("sister\u00f0city",)]
    with pytest.raises(DataError, match=r"not UTF-8: byte 0xF6 in line 1, at byte offset 4 "):
        read_table(path, [0], header=False, separator="space")


@pytest.mark.skipif(DATA is None, reason="GLASSFORMER_TEST_DATA names no folder of data")
def test_read_table_reads_public_data_sets() -> None:
    folder = Path(str(DATA))
    trec = folder / "cls_en" / "TREC.train.all"
    with pytest.raises(DataError, match="not UTF-8: byte 0xF0 in line 66, at byte offset 3173 "):
        read_table(trec, [0, 1], header=None, separator="space")
    table = read_table(trec, [0, 1], header=None, separator="space", encoding="latin-1")
    assert (len(table.rows), {label for label, _ in table.rows}) == (5452, set("012345"))
    reviews = read_table(folder / "cls_zh" / "chnsenticorp" / "dev.tsv.gz", ["label", "text_a"], header=None)
    assert (len(reviews.rows), {label for label, _ in reviews.rows}) == (1200, {"0", "1"})
    houses = read_table(folder / "tabular" / "california_housing.csv.gz", ["target", "MedInc"], header=None)
    assert (len(houses.rows), houses.rows[0]) == (20640, ("4.526", "8.3252"))


def test_read_table_of_one_column_asks_for_the_separator(tmp_path: Path) -> None:
    path = file(tmp_path, "label;text\na;b\n", "x.csv")
    for columns in (["label", "text"], [0, 1]):
        with pytest.raises(DataError, match=r"the first line is one column only; does task.separator say") as error:
            read_table(path, columns, header=None)
        assert "did you mean" not in str(error.value)
