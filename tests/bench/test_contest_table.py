"""A contest is a Markdown table and plain values; shares of the peak are worked out by hand."""

from __future__ import annotations

import json

import pytest

from glassformer.bench.contest import OURS, Absent, Contest, Row
from glassformer.bench.contest_table import share, table, values
from glassformer.bench.machine import Machine

from .tiny import decoding, training

MACHINE = Machine(2, 100.0, 50.0, 10.0)


def _contest() -> Contest:
    rows = (
        Row(OURS, "float32", "", (200.0, 300.0, 400.0), 1.25, [[1], [2]]),
        Row("peer", "float32", "compiled", (100.0, 100.0, 100.0), 20.0, [[1], [2]]),
        Row("peer", "int8", "", (12.0, 12.0, 12.0), 3.0, [[1], [3]]),
    )
    return Contest(rows, (Absent("other", "float32", "", "other is not installed"),), MACHINE)


def test_table_shows_who_was_how_fast() -> None:
    lines = table(decoding(), _contest(), "en").splitlines()
    assert lines[0].startswith("Decode, 2 layers of 64, vocabulary 128, ")
    head = "| contestant | setting | tokens/s (quartiles) | glassformer is | of the peak | ready after | same texts |"
    assert lines[2] == head
    assert lines[4].startswith("| glassformer | float32 | 300 (250-350) |  | ")
    assert lines[5].startswith("| peer | float32, compiled | 100 (100-100) | 3.00 × | ")
    assert lines[5].endswith(" | 20.0 s | all |")
    assert lines[6].startswith("| peer | int8 | 12.0 (12.0-12.0) | 25.00 × | ")
    assert lines[6].endswith(" | 1 of 2 |")
    assert "not there: other, float32: other is not installed" in lines
    assert "100 GFLOP/s in float32 and 50 in bf16; memory read at 10.0 GB/s. Medians of 3 turns" in lines[-1]


def test_table_speaks_chinese() -> None:
    text = table(training(), _contest(), "zh")
    assert text.startswith("训练解码器，1 层，宽 32")
    assert "| 3.00 倍 |" in text
    assert "未参赛：other, float32：other is not installed" in text


def test_table_without_answers_has_no_column_of_them() -> None:
    rows = tuple(Row(name, "float32", "", (1.0,), 0.0) for name in (OURS, "peer"))
    assert "same texts" not in table(training(), Contest(rows, (), MACHINE), "en")


def test_table_of_nobody_says_so() -> None:
    assert "Nobody took part." in table(training(), Contest((), (), MACHINE), "en")


def test_share_is_of_memory_in_decoding_and_of_arithmetic_elsewhere() -> None:
    contest = _contest()
    ours, _, small = contest.rows
    job = decoding()
    assert share(job, contest, ours) == pytest.approx(300 * job.bytes("float32") / 10e9)
    assert share(job, contest, small) == pytest.approx(12 * job.parameters * 34 / 32 / 2 / 10e9)
    assert share(training(), contest, ours) == pytest.approx(300 * training().flops() / 100e9)
    assert share(training(), contest, small) is None


def test_values_are_json() -> None:
    found = json.loads(json.dumps(values(decoding(), _contest())))
    assert found["machine"]["read_gbs"] == 10.0
    assert [row["glassformer_times_as_fast"] for row in found["rows"]] == [1.0, 3.0, 25.0]
    assert found["rows"][0]["quartiles"] == [250.0, 350.0]
    assert found["rows"][2]["same_texts"] == {"same": 1, "of": 2}
    assert found["absent"] == [
        {"contestant": "other", "numbers": "float32", "setting": "", "reason": "other is not installed"}
    ]
