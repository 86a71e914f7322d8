from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from glassformer.core.errors import ConfigError, DataError, UnsupportedError
from glassformer.generation.answer import answer_texts
from glassformer.generation.config import BeamConfig
from glassformer.generation.lines import answer_lines, on_one_line
from glassformer.text.build import character_tokenizer
from glassformer.text.tokenizer import TextTokenizer

from .tiny import Letters, build

GREEDY, BEAM = BeamConfig(beam=1), BeamConfig(beam=3, n_best=2)


def loaded(tokenizer: Any = None, positions: str = "learned", **arguments: Any) -> SimpleNamespace:
    return SimpleNamespace(model=build("encoder_decoder", positions, **arguments), tokenizer=tokenizer or Letters())


def characters(letters: str, *specials: str) -> TextTokenizer:
    return character_tokenizer([letters], ("<pad>", "<bos>", "<eos>", *specials))


@pytest.mark.parametrize("config", [GREEDY, BEAM])
@pytest.mark.parametrize("blank", ["", "   ", "\u3000\t"])
def test_o22_line_n_of_the_answers_belongs_to_line_n(blank: str, config: BeamConfig) -> None:
    model = loaded()
    done = answer_lines(model, ["hello", blank, "a fox."], config)
    assert [len(found) for found in done.found] == [config.n_best, 0, config.n_best]
    for line, found in (("hello", done.found[0]), ("a fox.", done.found[2])):
        alone = answer_texts(model, [line], config)[0]
        assert [one.tokens for one in found] == [one.tokens for one in alone]
    assert (done.unknown, done.cut, done.skipped) == (0, [], [])


@pytest.mark.parametrize("config", [GREEDY, BEAM])
def test_o22_a_blank_line_changes_nothing_for_its_neighbour(config: BeamConfig) -> None:
    model = loaded()
    (none, found), (alone,) = (
        answer_lines(model, ["", "hello"], config).found,
        answer_lines(model, ["hello"], config).found,
    )
    assert none == []
    assert [(one.tokens, one.text) for one in found] == [(one.tokens, one.text) for one in alone]


@pytest.mark.parametrize("lines", [[], [""], ["", "  "]])
def test_o22_nothing_to_read_gives_as_many_empty_answers(lines: list[str]) -> None:
    assert answer_lines(loaded(), lines, BEAM).found == [[] for _ in lines]


def test_lines_equal_to_each_other_get_equal_answers_each_in_its_place() -> None:
    found = answer_lines(loaded(), ["b", "abc", "b", "", "abc"], GREEDY).found
    assert [[one.tokens for one in each] for each in found[:2]] == [[one.tokens for one in found[i]] for i in (2, 4)]


LONG = ["abc", "abcdefgh", "abcdefg", "", "zebra fox"]
"""Of 3, 8, 7, 0 and 9 tokens; a context of 8 holds 7 and the end."""


def test_o07_an_over_long_line_is_an_error_that_names_it() -> None:
    message = (
        r"line 2 has 8 tokens, more than the 7 that the model can read; shorten it, or have long lines cut or skipped"
        r" \(in all 2 of 5 are too long\)"
    )
    with pytest.raises(DataError, match=message):
        answer_lines(loaded(max_positions=8), LONG, GREEDY)


@pytest.mark.parametrize("config", [GREEDY, BEAM])
def test_o07_over_long_lines_are_cut_and_counted(config: BeamConfig) -> None:
    model = loaded(max_positions=8)
    done = answer_lines(model, LONG, config, over_long="cut")
    assert (done.cut, done.skipped) == ([2, 5], [])
    for number, shortened in ((1, "abcdefg"), (4, "zebra f"), (2, "abcdefg")):
        alone = answer_texts(model, [shortened], config)[0]
        assert [one.tokens for one in done.found[number]] == [one.tokens for one in alone]


def test_o07_over_long_lines_are_skipped_and_counted() -> None:
    done = answer_lines(loaded(max_positions=8), LONG, GREEDY, over_long="skip")
    assert (done.cut, done.skipped) == ([], [2, 5])
    assert [len(found) for found in done.found] == [1, 0, 1, 0, 0]


def test_o07_without_a_context_no_line_is_too_long() -> None:
    done = answer_lines(loaded(positions="rotary"), ["abc" * 40], BeamConfig(beam=1, max_new_tokens=3))
    assert len(done.found[0][0].tokens) == 3


def test_o07_a_tokenizer_without_an_end_leaves_the_whole_context() -> None:
    model = loaded(Letters(eos=None), max_positions=8)
    assert answer_lines(model, ["abcdefgh"], GREEDY).cut == []
    with pytest.raises(DataError, match="line 1 has 9 tokens, more than the 8 that the model can read"):
        answer_lines(model, ["abcdefghi"], GREEDY)


def test_unknown_tokens_are_counted_of_what_is_read() -> None:
    model = loaded(characters("abc", "<unk>"), max_positions=5)
    done = answer_lines(model, ["axb", "", "yyy", "abcazz"], GREEDY, over_long="cut")
    assert (done.unknown, done.cut) == (4, [4])
    assert answer_lines(model, ["axb", "abcazz"], GREEDY, over_long="skip").unknown == 1


def test_a_character_that_the_tokenizer_refuses_is_named_with_its_line() -> None:
    with pytest.raises(DataError, match=r"line 3: character 'x' \(U\+0078\) at offset 1 has no id"):
        answer_lines(loaded(characters("abc")), ["ab", "", "axb"], GREEDY)


def test_progress_counts_the_lines_that_are_read() -> None:
    seen: list[tuple[int, int]] = []
    answer_lines(loaded(), ["a", "", "abc"], GREEDY, advanced=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (2, 2)


def test_an_unknown_way_with_long_lines_is_refused() -> None:
    with pytest.raises(ConfigError, match="'skipp' is no way with lines that are too long; did you mean 'skip'"):
        answer_lines(loaded(), [], GREEDY, over_long="skipp")


def test_a_model_of_one_stack_is_refused() -> None:
    model = SimpleNamespace(model=build("decoder"), tokenizer=Letters())
    with pytest.raises(UnsupportedError, match="only an encoder-decoder answers a text"):
        answer_lines(model, ["a"], GREEDY)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a b", "a b"),
        ("a\nb", "a b"),
        ("a\r\nb\n\n", "a b "),
        ("\r", " "),
        ("a\u2028b\x0bc", "a\u2028b\x0bc"),
        ("", ""),
    ],
)
def test_an_answer_is_put_on_one_line(text: str, line: str) -> None:
    assert on_one_line(text) == line
