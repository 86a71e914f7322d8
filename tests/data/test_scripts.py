from __future__ import annotations

from glassformer.data.scripts import in_both_scripts, in_script


def test_text_is_put_into_the_script_asked_for() -> None:
    texts = ["汉语 and 漢語!", "我爱你", "plain", ""]
    assert in_script(texts, "simplified") == ["汉语 and 汉语!", "我爱你", "plain", ""]
    assert in_script(texts, "traditional") == ["漢語 and 漢語!", "我愛你", "plain", ""]
    assert in_script([], "simplified") == []


def test_a_pair_comes_once_in_each_script_and_once_where_they_are_equal() -> None:
    pairs = [("我爱你。", "I love you."), ("你好。", "Hello."), ("漢語", "Chinese")]
    assert in_both_scripts(pairs) == [
        ("我爱你。", "I love you."),
        ("我愛你。", "I love you."),
        ("你好。", "Hello."),
        ("汉语", "Chinese"),
        ("漢語", "Chinese"),
    ]
    assert in_both_scripts(iter(pairs)) == in_both_scripts(pairs)
    assert in_both_scripts([]) == []
