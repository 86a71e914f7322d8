import gzip
import os
import re
from pathlib import Path

import pytest

from glassformer.core.errors import DataError
from glassformer.data.aligned import read_aligned, read_pair_table

DATA = os.environ.get("GLASSFORMER_TEST_DATA")


def files(folder: Path, source: str, target: str) -> tuple[Path, Path]:
    paths = folder / "src", folder / "tgt"
    for path, text in zip(paths, (source, target), strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def test_read_aligned_pairs_line_n_with_line_n(tmp_path: Path) -> None:
    source, target = files(tmp_path, "a\nb \n", "x\u2028\ny\n")
    found = read_aligned(source, target)
    assert (found.pairs, found.lines, found.notes) == ([("a", "x\u2028"), ("b ", "y")], [1, 2], ())


def test_read_aligned_unpacks_gzip_and_reads_other_encodings(tmp_path: Path) -> None:
    source, target = tmp_path / "src.gz", tmp_path / "tgt"
    source.write_bytes(gzip.compress("ä\n".encode("latin-1")))
    target.write_bytes("ö\n".encode("latin-1"))
    assert read_aligned(source, target, encoding="latin-1").pairs == [("ä", "ö")]


def test_o21_sides_of_different_length_are_refused(tmp_path: Path) -> None:
    source, target = files(tmp_path, "a\nb\nc\n", "x\ny\n")
    with pytest.raises(DataError, match=re.escape(f"{source} has 3 lines and {target} has 2;")):
        read_aligned(source, target)
    source, target = files(tmp_path, "a\n", "")
    with pytest.raises(DataError, match=re.escape(f"{source} has 1 lines and {target} has 0;")):
        read_aligned(source, target)


def test_o21_pairs_are_dropped_as_pairs(tmp_path: Path) -> None:
    source, target = files(tmp_path, "a\n\nc\n", "x\ny\n\n")
    found = read_aligned(source, target)
    assert (found.pairs, found.lines) == ([("a", "x")], [1])
    assert found.notes == (f"{source} and {target}: 2 of 3 pairs dropped (empty side), lines 2, 3",)


def test_o21_a_final_newline_is_no_pair(tmp_path: Path) -> None:
    assert read_aligned(*files(tmp_path, "a\nb", "x\ny\n")).pairs == [("a", "x"), ("b", "y")]


def test_o21_two_blank_sides_are_one_dropped_pair(tmp_path: Path) -> None:
    found = read_aligned(*files(tmp_path, "a\n\nc\n", "x\n \u3000\t\nz\n"))
    assert (found.pairs, found.lines) == ([("a", "x"), ("c", "z")], [1, 3])
    assert found.notes[0].endswith(": 1 of 3 pairs dropped (empty side), line 2")


@pytest.mark.parametrize("text", ["", "\n\n", " \n\t\n"])
def test_o21_no_usable_pair_is_an_error(text: str, tmp_path: Path) -> None:
    source, target = files(tmp_path, text, text)
    with pytest.raises(DataError, match=re.escape(f"0 usable pairs in {source} and {target}")):
        read_aligned(source, target)


def test_o21_at_most_ten_lines_are_named(tmp_path: Path) -> None:
    found = read_aligned(*files(tmp_path, "a\n" + "\n" * 17, "x\n" * 18))
    assert found.notes[0].endswith(
        "17 of 18 pairs dropped (empty side), lines 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 7 more"
    )


def test_read_pair_table_drops_blank_sides_and_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("zh\tnote\ten\n嗨。\tx\tHi.\n\n \tx\tNo.\n你好。\t\tHello.\n", encoding="utf-8")
    found = read_pair_table(path, ("en", "zh"))
    assert (found.pairs, found.lines) == ([("Hi.", "嗨。"), ("Hello.", "你好。")], [2, 5])
    assert found.notes == (
        f"{path}: blank lines left out: 1 (line 3)",
        f"{path}: 1 of 3 pairs dropped (empty side), line 4",
    )
    with pytest.raises(DataError, match="no column 'de'"):
        read_pair_table(path, ("en", "de"))
    assert read_pair_table(path, (2, 0), header=True).pairs == found.pairs


@pytest.mark.skipif(DATA is None, reason="GLASSFORMER_TEST_DATA names no folder of data")
def test_pairs_of_public_data_sets_are_whole() -> None:
    folder = Path(str(DATA))
    flickr = read_aligned(folder / "multi30k" / "val.en.gz", folder / "multi30k" / "val.de.gz")
    assert (len(flickr.pairs), flickr.notes) == (1014, ())
    tatoeba = read_pair_table(folder / "en_zh" / "cmn.txt.gz", (0, 1))
    assert (len(tatoeba.pairs), tatoeba.pairs[0], tatoeba.notes) == (29_155, ("Hi.", "嗨。"), ())
