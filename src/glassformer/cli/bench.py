"""`bench`: measurements side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.options import Json, Threads, place
from glassformer.cli.words import echo_json, note

if TYPE_CHECKING:
    from glassformer.bench.task import Task

Against = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,NAME",
        help="Only these peers: reference-library, x-transformers, torch, ctranslate2, llama.cpp.",
        show_default=False,
    ),
]
Only = Annotated[
    str | None,
    typer.Option(metavar="NAME,NAME", help="Only this work; a wrong name lists what there is.", show_default=False),
]
Size = Annotated[str, typer.Option(metavar="NAME", help="medium, or small: smaller models, in a fraction of the time.")]
Turns = Annotated[int, typer.Option(metavar="N", min=1, help="Turns of each contestant.")]
Numbers = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="float32 or bf16; auto: float32, and bf16 too where the processor is fast at it."
    ),
]
Language = Annotated[str, typer.Option(metavar="NAME", help="Of the table: en or zh.")]


def attention(
    text: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A text whose characters are learned as well, such as input.txt of karpathy/char-rnn on GitHub.",
            show_default=False,
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(metavar="N", min=1, help="Trainings of each variant.")] = 3,
    only: Annotated[
        str | None, typer.Option(metavar="NAME,NAME", help="Only these variants.", show_default=False)
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where results, tables and pictures go; goes on if it holds some.")
    ] = Path("attention"),
    language: Annotated[str, typer.Option(metavar="NAME", help="Of tables and pictures: en or zh.")] = "en",
    as_json: Json = False,
    threads: Threads = 1,
) -> None:
    """Compare kinds of attention and of positions by what they lose.

    The same small model with one edit, the same data, steps and seeds: recall of a key by its distance, copying, and
    the next character of a text, also beyond the length of training. What the literature reports was written down
    beforehand, and is confirmed, refuted or not decided. Each line of results.jsonl is one training of about a minute;
    all of it takes an hour or more.
    """
    from dataclasses import asdict

    from glassformer.cli.waiting import waiting
    from glassformer.core.files import ensure_writable
    from glassformer.core.wording import known_language

    known_language(language)
    ensure_writable(out, "--out")
    place("cpu", threads)
    with waiting("training", piped=True) as advanced:
        from glassformer.bench.copying import Copying
        from glassformer.bench.next_character import NextCharacter
        from glassformer.bench.quality import measure_all
        from glassformer.bench.quality_picture import write_pictures
        from glassformer.bench.quality_table import tables
        from glassformer.bench.recall import Recall
        from glassformer.bench.variants import chosen
        from glassformer.data.read import read_text

        variants = chosen(_names(only))
        tasks: list[Task] = [Recall(), Copying()]
        if text is not None:
            tasks.append(NextCharacter(read_text(text).text))
        results = measure_all(tasks, variants, range(seeds), out / "results.jsonl", advanced)
    files = write_pictures(results, out, language)
    if as_json:
        echo_json([asdict(result) for result in results])
    else:
        typer.echo(tables(results, language))
    if text is None:
        note("no text was learned: name one with --text")
    for file in files:
        note(f"picture: {file}")


def train(
    against: Against = None,
    only: Only = None,
    size: Size = "medium",
    turns: Turns = 5,
    precision: Numbers = "auto",
    language: Language = "en",
    as_json: Json = False,
    threads: Threads = None,
) -> None:
    """Compare how fast models are trained.

    Against other libraries: the same shapes and batches, a warm-up, then turns in which each makes updates. Tokens a
    second are medians; what glassformer is times as fast is the median of the turns' own ratios. Peers that are not
    installed are left out with a word: pip install 'glassformer[bench]' brings them. On the CPU.
    """
    _contests("train", against, only, size, turns, precision, language, as_json, threads)


def translate(
    against: Against = None,
    only: Only = None,
    size: Size = "medium",
    turns: Turns = 5,
    precision: Numbers = "auto",
    language: Language = "en",
    as_json: Json = False,
    threads: Threads = None,
) -> None:
    """Compare how fast sentences are translated.

    All have the weights of one untrained model, and translations as long as the sentences; see bench train.
    """
    _contests("translate", against, only, size, turns, precision, language, as_json, threads)


def decode(
    against: Against = None,
    only: Only = None,
    size: Size = "medium",
    turns: Turns = 5,
    precision: Numbers = "auto",
    language: Language = "en",
    as_json: Json = False,
    threads: Threads = None,
) -> None:
    """Compare how fast tokens are written.

    Those that can have the weights of one untrained model, and must write the same; see bench train. The peak is here
    what the machine reads from memory.
    """
    _contests("decode", against, only, size, turns, precision, language, as_json, threads)


def prefill(
    against: Against = None,
    only: Only = None,
    size: Size = "medium",
    turns: Turns = 5,
    precision: Numbers = "auto",
    language: Language = "en",
    as_json: Json = False,
    threads: Threads = None,
) -> None:
    """Compare how fast a prompt is read.

    See bench decode; the peak is that of matrix products again.
    """
    _contests("prefill", against, only, size, turns, precision, language, as_json, threads)


def startup(against: Against = None, turns: Turns = 15, language: Language = "en", as_json: Json = False) -> None:
    """Compare how fast programs start.

    Bare Python, glassformer, and Python that imports other libraries.
    """
    from dataclasses import asdict

    from glassformer.cli.waiting import waiting
    from glassformer.core.wording import known_language

    known_language(language)
    with waiting("starting", piped=True) as advanced:
        from glassformer.bench.startup import known_packages, measure_starts, programs, startup_table

        peers = known_packages(_names(against))
        starts = measure_starts(programs(peers), turns, advanced)
    if as_json:
        echo_json([asdict(start) for start in starts])
    else:
        typer.echo(startup_table(starts, language))


def gains(turns: Turns = 5, as_json: Json = False, threads: Threads = None) -> None:
    """Measure what each optimisation buys.

    On small models, each in turns with what it replaces: how many times as fast it is (median of the turns' own
    ratios), and how far the results are apart: numbers as a share of the largest one, ids as the share that are others.
    On the CPU; three graphs are compiled, which takes a minute each.
    """
    from dataclasses import asdict

    from glassformer.cli.waiting import waiting

    place("cpu", threads)
    with waiting("measuring", piped=True) as advanced:
        from glassformer.bench.gains import MAKERS, gains_text, measure_gains

        def compiled(name: str) -> None:
            note(f"{name}: a graph is compiled, which takes a minute or two")

        measured = measure_gains([gain for make in MAKERS for gain in make()], turns, advanced, compiled=compiled)
    if as_json:
        echo_json([asdict(each) for each in measured])
    else:
        typer.echo(gains_text(measured))


def _names(given: str | None) -> list[str]:
    """Return the names of an option; none where it is left out, and an empty one is a name that nothing has."""
    return [] if given is None else given.split(",")


def _contests(
    verb: str,
    against: str | None,
    only: str | None,
    size: str,
    turns: int,
    precision: str,
    language: str,
    as_json: bool,
    threads: int | None,
) -> None:
    """Run the contests of a verb, one after the other, and show each as soon as it is over."""
    from glassformer.cli.waiting import waiting
    from glassformer.core.wording import known_language

    known_language(language)
    place("cpu", threads)
    with waiting("loading", piped=True):
        from glassformer.bench.contest import Rules, compete
        from glassformer.bench.contest_table import table, values
        from glassformer.bench.machine import Gauge
        from glassformer.bench.roster import contestants, known_peers, numbers_for
        from glassformer.bench.workloads import work

        peers = known_peers(_names(against))
        numbers, jobs = numbers_for(precision), work(verb, size, _names(only))
        gauge = Gauge()
    found = []
    for number, job in enumerate(jobs):
        field = contestants(job, peers, numbers)
        with waiting(f"{verb} {job.name}", piped=True) as advanced:
            contest = compete(field, gauge.measure, Rules(turns=turns), advanced)
        found.append(values(job, contest))
        if not as_json:
            typer.echo(("\n" if number else "") + table(job, contest, language))
        del field, contest  # models of several hundred megabytes
    if as_json:
        echo_json(found)
