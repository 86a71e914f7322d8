"""Beam search with and without the cache of keys and values: equal translations, and how much faster.

The test sentences of a finished run are translated in both ways in turn, a batch at a time, so that whatever else the
machine does falls on both.

    python bench/beam_cache.py RUN [--lines 1000] [--beam 5]
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

from glassformer.checkpoint.loading import load
from glassformer.generation.answer import answer_texts
from glassformer.generation.config import BeamConfig
from glassformer.training.run import kind_for, read_recipe

TURN = 200
"""Sentences that are translated in one way before it is the other's turn."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--beam", type=int, default=5)
    options = parser.parse_args()
    loaded, recipe = load(options.run), read_recipe(options.run)
    data = recipe.task.build(kind_for(recipe), loaded.tokenizer)
    split = data.test or data.valid
    texts = [text for text, _ in split.pairs[: options.lines]]
    seconds: dict[bool, list[float]] = {True: [], False: []}
    different = 0
    for begin in range(0, len(texts), TURN):
        found = {}
        for cached in (True, False):
            config = BeamConfig(beam=options.beam, length_penalty=data.judging.length_penalty, use_cache=cached)
            began = time.perf_counter()
            found[cached] = [each[0].text for each in answer_texts(loaded, texts[begin : begin + TURN], config)]
            seconds[cached].append(time.perf_counter() - began)
        different += sum(a != b for a, b in zip(found[True], found[False], strict=True))
    ratios = [without / with_cache for with_cache, without in zip(seconds[True], seconds[False], strict=True)]
    times = sum(seconds[False]) / sum(seconds[True])
    turns = f"{len(ratios)} turns: {min(ratios):.2f} to {max(ratios):.2f}, median {statistics.median(ratios):.2f}"
    print(f"{len(texts)} sentences, beam {options.beam}: {times:.2f} times as fast with the cache ({turns})")
    print(f"{different} translations differ")


if __name__ == "__main__":
    main()
