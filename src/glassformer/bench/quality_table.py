"""The results of a comparison as Markdown: one table a task, and one of what was expected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from glassformer.bench.directions import DIRECTIONS, Interval, difference, summary
from glassformer.bench.markdown import markdown
from glassformer.bench.quality import Result
from glassformer.bench.variants import VARIANTS
from glassformer.bench.wording import WORDS


def tables(results: Sequence[Result], language: str) -> str:
    """Return everything that was measured, and what it says of the literature.

    Args:
        results: From `measure_all`.
        language: Of the words.
    """
    tasks = list(dict.fromkeys(result.task for result in results))
    parts = ["\n".join(_task([each for each in results if each.task == task], task, language)) for task in tasks]
    judged = list(_directions(results, language))
    if judged:
        head = [WORDS[word][language] for word in ("expected", "difference", "verdict", "source")]
        parts.append("\n".join([WORDS["directions"][language] + "\n", *markdown(head, judged)]))
    return "\n\n".join([*parts, WORDS["interval"][language]])


def _task(results: Sequence[Result], task: str, language: str) -> Iterator[str]:
    found = summary(results)
    numbers = list(dict.fromkeys(name for result in results for name in result.values))
    steps, seeds = results[0].steps, len({result.seed for result in results})
    yield f"{WORDS[task][language]}; {WORDS.say('steps', language, steps=f'{steps:,}', seeds=seeds)}\n"
    parameters = {result.variant: result.parameters for result in results}
    rows = [
        [name, f"{parameters[name]:,}"]
        + [_cell(found[name, number]) if (name, number) in found else WORDS["cannot"][language] for number in numbers]
        for name in (variant.name for variant in VARIANTS)
        if name in parameters
    ]
    yield from markdown([WORDS["variant"][language], WORDS["parameters"][language], *numbers], rows)


def _directions(results: Sequence[Result], language: str) -> Iterator[list[str]]:
    for direction in DIRECTIONS:
        found = difference(results, direction)
        if found is None:
            continue
        expected = WORDS.say(
            direction.expected,
            language,
            measured=direction.measured,
            variant=direction.variant,
            other=direction.other,
            margin=direction.margin,
        )
        verdict = WORDS[direction.judge(found)][language]
        yield [expected, _cell(found, sign="+"), verdict, direction.source]


def _cell(interval: Interval, sign: str = "") -> str:
    mean = f"{interval.mean:{sign}.3f}"
    return mean if interval.n < 2 else f"{mean} ± {interval.half:.3f}"
