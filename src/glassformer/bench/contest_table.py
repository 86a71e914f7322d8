"""A contest of speed as a Markdown table, and as plain values."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from glassformer.bench.contest import Contest, Row, Spread
from glassformer.bench.contest_wording import WORDS
from glassformer.bench.markdown import markdown
from glassformer.bench.workloads import Decoding, PairTraining, Training, Work


def table(work: Work, contest: Contest, language: str) -> str:
    """Return what was done, who was how fast, who was not there, and what the machine gave.

    Args:
        work: What was done.
        contest: What came out.
        language: Of the words.
    """
    lines = [describe(work, language), ""]
    if contest.rows:
        columns = ["contestant", "setting", "speed", "ahead", "share", "ready", "same"]
        if all(contest.agrees(row) is None for row in contest.rows):
            columns.remove("same")
        head = [WORDS[column][language] for column in columns]
        cells = [_cells(work, contest, row, language) for row in contest.rows]
        lines += markdown(head, [[each[column] for column in columns] for each in cells])
    else:
        lines.append(WORDS["nobody"][language])
    for absent in contest.absent:
        who = ", ".join(filter(None, (absent.name, absent.numbers, absent.setting)))
        lines += ["", WORDS.say("absent", language, who=who, reason=absent.reason)]
    machine = contest.machine
    said = WORDS.say(
        "machine",
        language,
        threads=machine.threads,
        float32=machine.float32_gflops,
        bf16=machine.bf16_gflops,
        read=machine.read_gbs,
        turns=len(contest.rows[0].speeds) if contest.rows else 0,
    )
    return "\n".join([*lines, "", said])


def values(work: Work, contest: Contest) -> dict[str, Any]:
    """Return the same for JSON."""
    found = []
    for row in contest.rows:
        agrees = contest.agrees(row)
        found.append(
            {
                "contestant": row.name,
                "numbers": row.numbers,
                "setting": row.setting,
                "tokens_per_second": row.speed.median,
                "quartiles": [row.speed.low, row.speed.high],
                "turns": list(row.speeds),
                "glassformer_times_as_fast": contest.ahead(row),
                "share_of_peak": share(work, contest, row),
                "ready_seconds": row.ready_seconds,
                "same_texts": None if agrees is None else {"same": agrees[0], "of": agrees[1]},
            }
        )
    absent = [
        {"contestant": each.name, "numbers": each.numbers, "setting": each.setting, "reason": each.reason}
        for each in contest.absent
    ]
    return {
        "work": work.name,
        "description": describe(work, "en"),
        "machine": asdict(contest.machine),
        "rows": found,
        "absent": absent,
    }


def share(work: Work, contest: Contest, row: Row) -> float | None:
    """Return which part of what the machine gives is used: of its memory in decoding, else of its arithmetic.

    None for numbers whose peak is not measured.
    """
    speed, machine = row.speed.median, contest.machine
    if isinstance(work, Decoding) and not work.reads:
        return speed * work.bytes(row.numbers) / (machine.read_gbs * 1e9)
    peak = machine.gflops(row.numbers)
    return None if peak is None else speed * work.flops() / (peak * 1e9)


def describe(work: Work, language: str) -> str:
    """Return a workload in words."""
    size = WORDS.say(
        "size",
        language,
        layers=f"{work.arguments.n_layers}+{work.arguments.n_layers}"
        if work.arguments.kind == "encoder_decoder"
        else work.arguments.n_layers,
        width=work.arguments.d_model,
        vocabulary=work.vocab_size,
        parameters=work.parameters,
    )
    if isinstance(work, Training):
        return WORDS.say("train", language, size=size, rows=work.rows, length=work.length)
    if isinstance(work, PairTraining):
        return WORDS.say("pairs", language, size=size, tokens=work.tokens)
    if isinstance(work, Decoding):
        key = "prefill" if work.reads else "decode"
        return WORDS.say(key, language, size=size, rows=work.rows, prompt=work.prompt, new=work.new)
    return WORDS.say("translate", language, size=size, sentences=work.sentences, length=work.length, beam=work.beam)


def spread(found: Spread, form: str) -> str:
    """Return a median with its quartiles."""
    return f"{found.median:{form}} ({found.low:{form}}-{found.high:{form}})"


def _cells(work: Work, contest: Contest, row: Row, language: str) -> dict[str, str]:
    ahead, used, agrees = contest.ahead(row), share(work, contest, row), contest.agrees(row)
    same = ""
    if agrees is not None:
        all_same = agrees[0] == agrees[1]
        same = WORDS["all"][language] if all_same else WORDS.say("some", language, same=agrees[0], of=agrees[1])
    form = ",.0f" if row.speed.median >= 100 else ",.1f"
    return {
        "contestant": row.name,
        "setting": ", ".join(filter(None, (row.numbers, row.setting))),
        "speed": spread(row.speed, form),
        "ahead": "" if ahead is None or row is contest.ours(row.numbers) else WORDS.say("times", language, times=ahead),
        "share": "" if used is None else f"{used:.0%}",
        "ready": WORDS.say("seconds", language, seconds=row.ready_seconds),
        "same": same,
    }
