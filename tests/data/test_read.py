import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

import glassformer.data.read
from glassformer.core.errors import ConfigError, DataError
from glassformer.data.read import default_text, line_numbers, read_lines, read_text


def file(folder: Path, data: bytes, name: str = "text.txt") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def test_o35_bom_and_crlf_leave_no_trace(tmp_path: Path) -> None:
    path = file(tmp_path, b"\xef\xbb\xbfa\r\nb")
    assert read_text(path).text == "a\nb"
    assert read_lines(path) == ["a", "b"]


def test_read_text_turns_every_break_into_a_newline(tmp_path: Path) -> None:
    assert read_text(file(tmp_path, b"a\rb\r\n\r\nc\n\rd")).text == "a\nb\n\nc\n\nd"


def test_read_lines_breaks_at_newlines_only(tmp_path: Path) -> None:
    text = "a\u2028b\x0cc\x85\n\nd\n"
    assert read_lines(file(tmp_path, text.encode())) == ["a\u2028b\x0cc\x85", "", "d"]


def test_o21_a_final_newline_is_no_further_line(tmp_path: Path) -> None:
    assert read_lines(file(tmp_path, b"a\nb")) == read_lines(file(tmp_path, b"a\nb\n")) == ["a", "b"]
    assert read_lines(file(tmp_path, b"a\n\n")) == ["a", ""]


def test_read_text_unpacks_gzip(tmp_path: Path) -> None:
    assert read_text(file(tmp_path, gzip.compress("\ufeff闫🎉".encode()), "text.txt.gz")).text == "闫🎉"


def test_o35_a_wrong_byte_is_named_with_its_place(tmp_path: Path) -> None:
    path = file(tmp_path, b"\xef\xbb\xbfa\r\nb\rit\x92s")
    with pytest.raises(DataError, match=r"text\.txt is not UTF-8: byte 0x92 in line 3, at byte offset 10 "):
        read_text(path)
    with pytest.raises(DataError, match="save the file as UTF-8"):
        read_lines(path)


def test_o35_wrong_bytes_are_replaced_and_counted_on_request(tmp_path: Path) -> None:
    text = read_text(file(tmp_path, b"a\x92b \xef\xbf\xbd \xe9\x97 c\xff\xff"), replace_invalid=True)
    assert text.text == "a\ufffdb \ufffd \ufffd c\ufffd\ufffd"
    assert text.replaced == 4  # the second one stands in the file
    assert text.lines == [text.text]
    assert read_text(file(tmp_path, "a\ufffd".encode()), replace_invalid=True).replaced == 0


@pytest.mark.parametrize("encoding", ["latin-1", "gb18030", "utf-16", "UTF-16-LE", "shift_jis", "utf-8-sig", "U8"])
def test_o35_other_encodings_are_read_as_exactly(encoding: str, tmp_path: Path) -> None:
    text = "a\n\u00f7\nb" if encoding != "latin-1" else "a\nGr\u00fc\u00dfe"
    path = file(tmp_path, text.replace("\n", "\r\n").encode(encoding))
    assert read_text(path, encoding=encoding).text == text
    assert read_lines(path, encoding=encoding) == text.split("\n")


@pytest.mark.parametrize(
    ("encoding", "data", "place"),
    [
        ("gb18030", b"a\r\nb\n\xff\xff", "byte 0xFF in line 3, at byte offset 5 "),
        ("cp1252", b"a\n\x81", "byte 0x81 in line 2, at byte offset 2 "),
        ("utf-16", b"\xff\xfea\x00\n\x00\x00\xdcb\x00", "byte 0x00 in line 2, at byte offset 6 "),
        ("utf-16-le", b"a\x00b", "byte 0x62 in line 1, at byte offset 2 "),
        ("utf-8-sig", b"\xef\xbb\xbfa\n\x92", "byte 0x92 in line 2, at byte offset 5 "),
        ("ascii", b"a\rb\xc3", "byte 0xC3 in line 2, at byte offset 3 "),
    ],
)
def test_o35_a_wrong_byte_of_any_encoding_is_named(encoding: str, data: bytes, place: str, tmp_path: Path) -> None:
    path = file(tmp_path, data)
    with pytest.raises(
        DataError, match=rf"text\.txt is not {encoding}: {place}.*; save the file as {encoding}, or name"
    ):
        read_text(path, encoding=encoding)
    assert read_text(path, replace_invalid=True, encoding=encoding).replaced >= 1


def test_o35_replaced_counts_only_what_was_wrong_in_any_encoding(tmp_path: Path) -> None:
    data = "a\ufffd".encode("utf-16-le") + b"\x00\xdc" + "b".encode("utf-16-le")
    text = read_text(file(tmp_path, data), replace_invalid=True, encoding="utf-16-le")
    assert (text.text, text.replaced) == ("a\ufffd\ufffdb", 1)


@pytest.mark.parametrize("encoding", ["uft-8", "rot13", "undefined", "idna", "", "a\0b", "utf-8-with-bom"])
def test_read_text_refuses_what_is_no_encoding(encoding: str, tmp_path: Path) -> None:
    for read in (read_text, read_lines):
        with pytest.raises(ConfigError, match="there is no encoding "):
            read(file(tmp_path, b"x"), encoding=encoding)


def test_read_text_names_the_nearest_encoding(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no encoding 'Lattin-1'; did you mean 'latin_1'\?"):
        read_text(file(tmp_path, b"x"), encoding="Lattin-1")
    with pytest.raises(ConfigError, match=r"no encoding 'zzzzz'; Python's encodings .* such as utf-8"):
        read_text(file(tmp_path, b"x"), encoding="zzzzz")


def test_o35_the_locale_makes_no_difference(tmp_path: Path) -> None:
    path = file(tmp_path, "闫🎉".encode())
    source = Path(glassformer.data.read.__file__).parents[2]
    script = (
        f"import sys; sys.path.insert(0, {str(source)!r})\n"
        "from glassformer.data.read import read_text\n"
        f"print(ascii(read_text({str(path)!r}).text))"
    )
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("'\\u95eb\\U0001f389'", "")


def test_read_text_names_the_nearest_file(tmp_path: Path) -> None:
    file(tmp_path, b"x", "train.txt")
    with pytest.raises(DataError, match=r"no file .*trian\.txt; did you mean 'train\.txt'\?"):
        read_text(tmp_path / "trian.txt")
    with pytest.raises(DataError, match=r"no file .*zzz; check the name"):
        read_text(tmp_path / "zzz")
    with pytest.raises(DataError, match=r"nor the folder .*nowhere; check the path"):
        read_text(tmp_path / "nowhere" / "train.txt")


def test_read_text_refuses_a_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"{tmp_path.name} is a folder; name a file in it"):
        read_text(tmp_path)


@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf"])
def test_read_text_refuses_an_empty_file(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"text\.txt is empty"):
        read_text(file(tmp_path, data))


def test_o22_an_empty_file_has_no_lines_for_who_wants_it(tmp_path: Path) -> None:
    for data in (b"", b"\xef\xbb\xbf"):
        assert read_lines(file(tmp_path, data), allow_empty=True) == []
        assert read_text(file(tmp_path, data), allow_empty=True).text == ""
    assert read_lines(file(tmp_path, b"\n"), allow_empty=True) == [""]


def test_o22_empty_and_blank_lines_keep_their_number(tmp_path: Path) -> None:
    assert read_lines(file(tmp_path, b"a\n\n  \nb"), allow_empty=True) == ["a", "", "  ", "b"]


def test_read_text_refuses_a_damaged_gzip_file(tmp_path: Path) -> None:
    whole = gzip.compress(b"a" * 1000)
    for data in (b"plain", whole[:-9], whole[:12] + b"\xff\xff" + whole[14:]):
        with pytest.raises(DataError, match=r"text\.gz is not a whole gzip file"):
            read_text(file(tmp_path, data, "text.gz"))


def test_read_text_names_any_other_failure(tmp_path: Path) -> None:
    inside = file(tmp_path, b"x") / "deeper.txt"
    with pytest.raises(DataError, match=r"deeper\.txt"):
        read_text(inside)


def test_line_numbers_names_ten_and_counts_the_rest() -> None:
    assert line_numbers([7]) == "line 7"
    assert line_numbers([2, 3]) == "lines 2, 3"
    assert line_numbers(range(1, 11)) == "lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10"
    assert line_numbers(range(1, 18)) == "lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 7 more"


def test_default_text_is_long_and_the_same_again() -> None:
    assert len(default_text()) > 300_000
    assert default_text() == default_text()


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-32-be"])
def test_o35_wide_characters_without_a_mark_are_no_utf_8(tmp_path: Path, encoding: str) -> None:
    path = file(tmp_path, "ein Text\n".encode(encoding))
    with pytest.raises(DataError, match=r"text.txt holds \d+ NUL characters among \d+: .* task.encoding=NAME"):
        read_text(path)
    assert read_text(path, encoding=encoding).text == "ein Text\n"
    assert read_text(file(tmp_path, b"one \0 among many")).text == "one \0 among many"
