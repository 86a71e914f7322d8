import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core.errors import DataError
from glassformer.text.words import byte_word_splitter, count_words, parts, word_splitter

SPACED = st.text(alphabet="ab1é闫🎉.\u0301\ufe0f \n\r\t\u3000", max_size=40)


def words(text: str) -> list[str]:
    return [word for word, _ in word_splitter().pre_tokenize_str(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("the cat", ["the", " cat"]),
        (" the  cat ", [" the", " ", " cat", " "]),
        ("a   b", ["a", "  ", " b"]),
        ("it's 42km, 3.5!", ["it", "'", "s", " 42", "km", ",", " 3", ".", "5", "!"]),
        ("a\n\n b \r\n\tc\t d", ["a", "\n\n", " b", " ", "\r\n", "\t", "c", "\t", " d"]),
        ("闫🎉 你好。", ["闫", "🎉", " 你好", "。"]),
        ("e\u0301a 1\ufe0f\u20e3 ❤\ufe0fx", ["e\u0301a", " 1\ufe0f\u20e3", " ❤\ufe0f", "x"]),
        ("\u0301a \u0301", ["\u0301", "a", " \u0301"]),
        ("a\u3000b\xa0c\x00", ["a", "\u3000", "b", "\xa0", "c", "\x00"]),
    ],
)
def test_words_are_runs_with_the_one_space_before(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@given(st.one_of(st.text(), SPACED))
def test_words_are_the_text(text: str) -> None:
    assert "".join(words(text)) == text


def test_words_in_byte_symbols_are_the_same_runs() -> None:
    text = " the  闫\n"
    ours, spelled = word_splitter(), byte_word_splitter()
    assert [place for _, place in ours.pre_tokenize_str(text)] == [(0, 4), (4, 5), (5, 7), (7, 8)]
    assert [place for _, place in spelled.pre_tokenize_str(text)] == [(0, 4), (4, 5), (5, 7), (7, 8)]
    assert spelled.pre_tokenize_str(text)[0][0] == "Ġthe"


@given(st.one_of(st.text(), SPACED), st.integers(1, 12))
def test_parts_have_the_words_of_the_whole(text: str, at_once: int) -> None:
    cut = list(parts(text, at_once))
    assert "".join(cut) == text
    assert [word for part in cut for word in words(part)] == words(text)
    assert all(len(part) <= max(at_once, 2 * max(map(len, words(part)), default=0)) for part in cut)


def test_parts_keep_a_single_long_word_whole() -> None:
    long = " " + "c" * 50  # found within 64 characters, of which the last sign might still go on
    assert list(parts("ab" + long + "。d" * 9, 8)) == ["ab", long + "。d" * 6, "。d" * 3]


def test_count_words_counts_over_all_texts() -> None:
    assert count_words(iter(["the cat\n", "the the"])) == {"the": 2, " cat": 1, "\n": 1, " the": 1}


def test_count_words_cuts_long_texts_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "the cat\n\nsat  on the mat. " * 3
    whole = count_words([text])
    monkeypatch.setattr("glassformer.text.words.SPLIT_AT_ONCE", 5)
    assert count_words([text]) == whole


def test_count_words_refuses_half_a_surrogate_pair() -> None:
    with pytest.raises(DataError, match=r"'\\udc00', half of a surrogate pair"):
        count_words(["a", "b\udc00"])
