"""What a translation is learned from and measured by: splits, vocabulary, batches, over-long pairs, official data."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.core.errors import ConfigError, DataError
from glassformer.core.places import IGNORED
from glassformer.data.order import TokenOrder
from glassformer.data.source import HasLengths, loader
from glassformer.models.arguments import ModelArguments
from glassformer.models.transformer import Transformer
from glassformer.tasks.translation import TranslationTask
from glassformer.text.build import character_tokenizer
from glassformer.text.tokenizer import TextTokenizer
from glassformer.training.evaluate import source_metrics
from glassformer.training.objective import objective

from .reading import all_pairs, numbered, pairs_of
from .translating import task, two_files

DATA = os.environ.get("GLASSFORMER_TEST_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason="GLASSFORMER_TEST_DATA names no folder of data")

# Nothing leaks


def messy(n: int = 200) -> list[tuple[str, str]]:
    """Pairs of which many share a side with others."""
    return [(f"satz {i % 61}", f"line {i * i % 47}") for i in range(n)]


@pytest.mark.parametrize("distinct", ["source", "target"])
@pytest.mark.parametrize("seed", [0, 3])
def test_nothing_that_is_measured_by_is_learned_from(tmp_path: Path, distinct: str, seed: int) -> None:
    pairs = messy()
    data = task(two_files(tmp_path, pairs), distinct=distinct, seed=seed).build()
    train, held = all_pairs(data.tokenizer, data.train), pairs_of(data.valid) + pairs_of(data.test)
    for side in (0, 1):
        assert not {pair[side] for pair in train} & {pair[side] for pair in held}
    assert len({pair[("source", "target").index(distinct)] for pair in held}) == 5
    said = re.fullmatch(r"split by (\d+) different texts: 2 .*, 3 .*; (\d+) more share .* left out", data.notes[0])
    assert said is not None
    assert int(said[1]) == len({pair[("source", "target").index(distinct)] for pair in pairs})
    assert len(train) + 5 + int(said[2]) == len(pairs)
    assert data.notes[1:] == (f"{len(train)} pairs to learn from", "2 pairs to validate", "3 pairs to test")


def test_the_same_seed_splits_off_the_same_pairs(tmp_path: Path) -> None:
    files = two_files(tmp_path, messy())

    def held(**settings: Any) -> list[tuple[str, str]]:
        return pairs_of(task(files, **settings).build().test)

    assert held() == held() == held(valid_size=9) == held(tokenizer="byte")
    assert held() != held(seed=1)


def test_the_vocabulary_comes_from_training_alone(tmp_path: Path) -> None:
    train = two_files(tmp_path, numbered(9))
    test = two_files(tmp_path, [("ein Satz ξ", "a line 1")], "test")
    data = task(train | test).build()
    assert "ξ" not in data.tokenizer.decode(range(data.tokenizer.vocab_size))
    assert data.notes[-1] == "1 pairs to test, 1 of their tokens unknown"
    assert pairs_of(data.test) == [("ein Satz ξ", "a line 1")]


def test_rare_tokens_are_unknown_and_counted(tmp_path: Path) -> None:
    valid = two_files(tmp_path, [("a", "b")], "valid")
    data = task(two_files(tmp_path, [("a", "b"), ("ax", "b")]) | valid, min_count=2).build()
    assert data.notes[0] == "2 pairs to learn from, 1 of their tokens unknown"


@pytest.mark.parametrize("tokenizer", ["bpe", "byte_bpe", "word", "character", "byte"])
def test_every_tokenizer_works_with_what_is_usual(tmp_path: Path, tokenizer: str) -> None:
    files = two_files(tmp_path, [(f"größer als {i % 9}9", f"bigger than {i % 9}9") for i in range(20)])
    data = TranslationTask(**files, tokenizer=tokenizer, valid_size=1, test_size=1).build()
    trained = all_pairs(data.tokenizer, data.train)
    assert len(trained) > 9
    assert set(trained) < {(f"größer als {i}9", f"bigger than {i}9") for i in range(9)}
    with pytest.raises(ConfigError, match="vocab_size"):
        TranslationTask(**files, tokenizer=tokenizer, vocab_size=2, valid_size=1, test_size=1).build()


# Both scripts of Chinese


def test_training_pairs_come_in_both_scripts(tmp_path: Path) -> None:
    pairs = [("我爱你。", "I love you."), ("你好。", "Hello."), ("漢語", "Chinese")]
    valid = two_files(tmp_path, [("爱", "love")], "valid")
    data = task(two_files(tmp_path, pairs) | valid, both_scripts=True).build()
    assert all_pairs(data.tokenizer, data.train) == [
        ("我爱你。", "I love you."),
        ("我愛你。", "I love you."),
        ("你好。", "Hello."),
        ("汉语", "Chinese"),
        ("漢語", "Chinese"),
    ]
    assert pairs_of(data.valid) == [("爱", "love")]
    assert data.notes[0] == "in simplified and traditional characters: 5 pairs"


@pytest.mark.parametrize("distinct", ["source", "target"])
def test_a_text_to_measure_by_is_not_learned_from_in_the_other_script(tmp_path: Path, distinct: str) -> None:
    """我爱你 and 我愛你 are one text: whichever is held out, the other is not learned from."""
    pairs = [("我爱你", "I love you"), ("我愛你", "I am fond of you"), ("你好", "Hello")]
    reached = 0
    for seed in range(4):
        settings = {"both_scripts": True, "distinct": distinct, "valid_size": 1, "test_size": 0, "seed": seed}
        data = task(two_files(tmp_path, pairs), **settings).build()
        (held,) = pairs_of(data.valid)
        if held[0] != "你好":
            reached += 1
            assert all_pairs(data.tokenizer, data.train) == [("你好", "Hello")]
            assert data.notes[1] == (
                "in simplified and traditional characters: 1 pairs;"
                " 2 more are measured by in the other script and are left out"
            )
    assert reached


# O02, O08, O27, O35: batches


class EndIsPadding(TextTokenizer):
    """A vocabulary whose padding and end are one id, as in many models."""

    @property
    def pad_id(self) -> int | None:
        return self.eos_id


def test_o02_labels_are_shifted_once_and_the_end_counts_also_where_it_is_the_padding(tmp_path: Path) -> None:
    tokenizer = EndIsPadding(character_tokenizer(["abxyz"], ("<bos>", "<eos>"))._backend)
    bos, eos, (a, b, x, y, z) = 0, 1, tokenizer.encode("abxyz")
    valid = two_files(tmp_path, [("a", "x")], "valid")
    data = task(two_files(tmp_path, [("ab", "xyz"), ("b", "z")]) | valid).build(tokenizer=tokenizer)
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id) == (bos, eos, eos)
    batch = data.train.batch([0, 1], 0)
    assert batch.source is not None
    assert batch.source.tolist() == [[a, b, eos], [b, eos, eos]]
    assert batch.inputs.tolist() == [[bos, x, y, z], [bos, z, eos, eos]]
    assert batch.labels.tolist() == [[x, y, z, eos], [z, eos, IGNORED, IGNORED]]
    assert (batch.lengths, batch.source_lengths) == ((4, 2), (3, 2))


def tiny_model(data_size: int, **arguments: Any) -> Transformer:
    small = {"kind": "encoder_decoder", "d_model": 16, "n_layers": 1, "n_heads": 2, "d_ff": 16, "dropout": 0.0}
    made = ModelArguments(**{**small, **arguments})
    return Transformer(made.resolve(data_size), generator=torch.Generator().manual_seed(0)).eval()


def test_o08_the_loss_of_a_split_is_a_sum_over_its_tokens_divided_once(tmp_path: Path) -> None:
    pairs = [("a" * (i % 7 + 1), "b" * (i * i % 11 + 1) + "a") for i in range(30)]
    valid = two_files(tmp_path, pairs, "valid")
    data = task(two_files(tmp_path, pairs) | valid).build()
    model = tiny_model(data.tokenizer.vocab_size)
    n_targets = sum(len(target) + 1 for _, target in pairs)  # the end counts
    with torch.no_grad():
        alone = [objective(model, data.valid.source.batch([item], 0)) for item in range(30)]
    mean = sum(float(loss.sum) for loss in alone) / n_targets
    assert mean != pytest.approx(sum(float(loss.mean) for loss in alone) / 30, abs=1e-3)
    for batch_tokens in (1, 13, 40, 10_000):
        found = source_metrics(model, data.valid.source, data.judging, batch_tokens)
        assert found["tokens"] == n_targets
        assert found["loss"] == pytest.approx(mean, abs=1e-5)


@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_o27_workers_share_the_pairs_and_change_nothing(tmp_path: Path) -> None:
    data = task(two_files(tmp_path, messy())).build()
    assert isinstance(data.train, HasLengths)
    order = TokenOrder(data.train.lengths, 60, seed=1, shuffle=True)
    epochs = []
    for epoch in (0, 1):
        batches = [list(loader(data.train, order, epoch, workers=workers)) for workers in (0, 2)]
        for one, other in zip(*batches, strict=True):
            assert one.items == other.items
            assert torch.equal(one.inputs, other.inputs)
            assert torch.equal(one.labels, other.labels)
        items = [item for batch in batches[1] for item in batch.items]
        assert sorted(items) == list(range(len(data.train)))
        epochs.append(items)
    assert epochs[0] != epochs[1]


@pytest.mark.parametrize("tokenizer", ["bpe", "byte_bpe", "word", "character", "byte"])
def test_o35_special_tokens_in_user_text_are_text(tmp_path: Path, tokenizer: str) -> None:
    pairs = [("hi <eos> x<pad>", "<bos>hi <unk>"), ("<|endoftext|> hi", "x <eos><eos>")]
    valid = two_files(tmp_path, pairs, "valid")
    built = TranslationTask(**(two_files(tmp_path, pairs * 2) | valid), tokenizer=tokenizer).build()
    assert all_pairs(built.tokenizer, built.train) == pairs * 2
    assert all_pairs(built.tokenizer, built.valid.source) == pairs
    special = {built.tokenizer.bos_id, built.tokenizer.eos_id, built.tokenizer.pad_id, built.tokenizer.unk_id}
    for batch in (built.train.batch([0], 0), built.train.batch([1], 0)):
        assert batch.source is not None
        assert not special & set(batch.source[0, :-1].tolist())
        assert not special & set(batch.labels[0, :-1].tolist())


# O07: length limits

LONG = [("aaaa", "b"), ("a", "bbbbb"), ("aaa", "bbb"), ("aaaaa", "bbbb"), ("aa", "b")]
"""In the first, second and fourth pair a side has more than 3 characters."""


def test_o07_over_long_pairs_are_skipped_with_a_count(tmp_path: Path) -> None:
    valid = two_files(tmp_path, LONG, "valid")
    data = task(two_files(tmp_path, LONG) | valid, longest=3).build()
    assert all_pairs(data.tokenizer, data.train) == [("aaa", "bbb"), ("aa", "b")]
    assert data.notes[0] == "2 pairs to learn from; 3 of 5 rows skipped, over 3 tokens, lines 1, 2, 4"
    assert data.train.longest == (4, 4)


def test_o07_over_long_pairs_are_cut_with_a_count(tmp_path: Path) -> None:
    valid = two_files(tmp_path, LONG, "valid")
    data = task(two_files(tmp_path, LONG) | valid, longest=3, over_long="cut").build()
    expected = [("aaa", "b"), ("a", "bbb"), ("aaa", "bbb"), ("aaa", "bbb"), ("aa", "b")]
    assert all_pairs(data.tokenizer, data.train) == expected
    assert data.notes[0] == "5 pairs to learn from; 3 of 5 rows cut to 3 tokens, lines 1, 2, 4"


def test_o07_over_long_pairs_are_refused_with_their_line(tmp_path: Path) -> None:
    valid = two_files(tmp_path, LONG, "valid")
    blank_before = two_files(tmp_path, [("", "b"), *LONG[1:]])
    message = "line 2: the target has 5 tokens, more than the limit of 3; raise the limit.* 2 of 4 are too long"
    with pytest.raises(DataError, match=message):
        task(blank_before | valid, longest=3, over_long="error").build()
    with pytest.raises(DataError, match="all 4 rows have more than 1 tokens and are skipped"):
        task(two_files(tmp_path, LONG[:4]) | valid, longest=1).build()


def test_o07_lines_are_those_of_the_file_also_behind_a_split(tmp_path: Path) -> None:
    pairs = [*numbered(9), ("a" * 50, "b")]
    named = [
        note
        for seed in range(4)
        for note in task(two_files(tmp_path, pairs), longest=40, test_size=0, seed=seed).build().notes
        if "skipped" in note
    ]
    assert named
    assert all(note.endswith("1 of 8 rows skipped, over 40 tokens, line 10") for note in named)


@pytest.mark.parametrize("over_long", ["skip", "cut", "error"])
def test_o07_pairs_to_measure_by_are_never_cut_or_left_out(tmp_path: Path, over_long: str) -> None:
    train, test = two_files(tmp_path, [("a", "b")] * 9), two_files(tmp_path, LONG, "test")
    valid = two_files(tmp_path, LONG, "valid")
    data = task(train | valid | test, longest=3, over_long=over_long).build()
    for split in (data.valid, data.test):
        assert split is not None
        assert all_pairs(data.tokenizer, split.source) == pairs_of(split) == LONG


def test_o07_learned_positions_refuse_a_longer_pair_clearly(tmp_path: Path) -> None:
    valid = two_files(tmp_path, LONG, "valid")
    data = task(two_files(tmp_path, LONG) | valid, longest=3).build()
    model = tiny_model(data.tokenizer.vocab_size, positions="learned", max_positions=max(data.train.longest))
    assert objective(model, data.train.batch(range(2), 0)).mean.isfinite()
    with pytest.raises(DataError, match="6 tokens are more than the context of 4; shorten the text or split it"):
        objective(model, data.valid.source.batch([1], 0))


# Real data


@needs_data
def test_multi30k_has_its_official_parts() -> None:
    data = TranslationTask(
        data=str(Path(str(DATA)) / "multi30k"),
        languages="de-en",
        source="train.{source}",
        target="train.{target}",
        valid_source="val.{source}",
        valid_target="val.{target}",
        test_source="test_2016_flickr.{source}",
        test_target="test_2016_flickr.{target}",
        tokenizer="word",
    ).build()
    assert (len(data.train), len(data.valid.pairs), len(pairs_of(data.test))) == (29_000, 1_014, 1_000)
    assert pairs_of(data.test)[0] == (
        "Ein Mann mit einem orangefarbenen Hut, der etwas anstarrt.",
        "A man in an orange hat starring at something.",
    )
    assert "1,014 pairs to validate" in data.notes[1]
    assert data.notes[1].endswith("; 1 of them are also learned from")
    assert "also learned from" not in data.notes[2]


@needs_data
def test_chinese_to_english_is_split_by_english_texts_without_a_leak() -> None:
    data = TranslationTask.parse(
        {
            "name": "translation",
            "data": str(Path(str(DATA)) / "en_zh" / "cmn.txt.gz"),
            "source_column": 1,
            "target_column": 0,
            "distinct": "target",
            "both_scripts": True,
            "test_size": 1000,
            "tokenizer": "character",
            "min_count": 1,
            "longest": 1000,
        },
        "task",
    ).build()
    held = pairs_of(data.valid) + pairs_of(data.test)
    assert (len(data.valid.pairs), len(pairs_of(data.test))) == (500, 1000)
    assert len({english for _, english in held}) == 1500
    train = all_pairs(data.tokenizer, data.train)
    assert len(train) > 50_000
    assert "unknown" not in data.notes[-3]  # so that what is read back is the text
    for side in (0, 1):
        assert not {pair[side] for pair in train} & {pair[side] for pair in held}
