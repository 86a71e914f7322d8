"""A run's whole test file, translated by glassformer and by CTranslate2 with the same weights: how fast, and how well.

Each translates the file from text to text, in turns.

    python bench/translate_file.py RUN [--beam 5] [--turns 3] [--threads 2] [--lines 1000]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Literal

import torch

from glassformer.bench.ctranslate2 import BEGIN, END, UNKNOWN, write
from glassformer.checkpoint.loading import Loaded, load
from glassformer.generation.answer import answer_texts
from glassformer.generation.config import BeamConfig
from glassformer.generation.text import source_ids
from glassformer.models.quantise import quantise_model
from glassformer.training.metrics import text_metrics
from glassformer.training.run import kind_for, read_recipe

Translate = Callable[[list[str]], list[str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--lines", type=int, default=10**6)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    loaded, recipe = load(options.run), read_recipe(options.run)
    data = recipe.task.build(kind_for(recipe), loaded.tokenizer)
    pairs = (data.test or data.valid).pairs[: options.lines]
    texts, references = [text for text, _ in pairs], [target for _, target in pairs]
    small = replace(loaded, model=quantise_model(deepcopy(loaded.model)))
    penalty = data.judging.length_penalty
    translators: dict[str, Translate] = {
        "glassformer float32, as written": ours(loaded, options.beam, penalty, "off"),
        "glassformer float32": ours(loaded, options.beam, penalty, "auto"),
        "glassformer int8": ours(small, options.beam, penalty, "auto"),
        "CTranslate2 float32": theirs(loaded, options.beam, penalty, "float32", options.threads),
        "CTranslate2 int8": theirs(loaded, options.beam, penalty, "int8_float32", options.threads),
    }
    written = {name: translate(texts) for name, translate in translators.items()}  # the first turn warms up
    seconds: dict[str, list[float]] = {name: [] for name in translators}
    for _ in range(options.turns):
        for name, translate in translators.items():
            began = time.perf_counter()
            translate(texts)
            seconds[name].append(time.perf_counter() - began)
    peer = seconds["CTranslate2 float32"]
    print(f"{len(texts)} lines, beam {options.beam}, {options.threads} threads, medians of {options.turns} turns")
    for name, taken in seconds.items():
        scores = text_metrics(["bleu", "chrf"], written[name], references, data.judging.bleu_tokenizer)
        ratio = median(a / b for a, b in zip(peer, taken, strict=True))
        print(
            f"{name:32} {median(taken):6.1f} s  {ratio:.2f} times as fast as CTranslate2 in float32  "
            f"BLEU {scores['bleu']:.2f}  chrF {scores['chrf']:.2f}"
        )


def ours(loaded: Loaded, beam: int, penalty: float, fast: Literal["auto", "off"]) -> Translate:
    config = BeamConfig(beam=beam, length_penalty=penalty, fast=fast)
    return lambda texts: [each[0].text for each in answer_texts(loaded, texts, config)]


def theirs(loaded: Loaded, beam: int, penalty: float, numbers: str, threads: int) -> Translate:
    tokenizer, table = loaded.tokenizer, loaded.model.config.output_stack.input.vocab_size
    words = [f"t{id}" for id in range(table)]
    for id, name in ((tokenizer.bos_id, BEGIN), (tokenizer.eos_id, END), (tokenizer.unk_id, UNKNOWN)):
        assert id is not None, "a tokenizer that we train has all three"
        words[id] = name
    ids = {name: id for id, name in enumerate(words)}
    with TemporaryDirectory() as folder:
        write(loaded.model, Path(folder), words)
        translator = import_module("ctranslate2").Translator(
            folder, device="cpu", compute_type=numbers, inter_threads=1, intra_threads=threads
        )

    def translate(texts: list[str]) -> list[str]:
        sources = [[*(words[id] for id in source_ids(tokenizer, text)), END] for text in texts]
        found = translator.translate_batch(
            sources, beam_size=beam, length_penalty=penalty, batch_type="tokens", max_batch_size=2048
        )
        return [tokenizer.decode([ids[word] for word in each.hypotheses[0]]) for each in found]

    return translate


if __name__ == "__main__":
    main()
