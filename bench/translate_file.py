"""A run's whole test file, translated by glassformer and by CTranslate2 with the same weights: how fast, and how well.

Each makes ids of the file's lines, and texts of the ids it finds; CTranslate2 does so in a process of its own.

    python bench/translate_file.py RUN [--beam 5] [--turns 3] [--threads 2] [--lines 1000]
"""

from __future__ import annotations

import argparse
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import torch

from glassformer.bench.apart import Apart
from glassformer.bench.contest import OURS, Answer, Rules, compete
from glassformer.bench.ctranslate2 import BEGIN, END, UNKNOWN, write
from glassformer.bench.machine import Gauge
from glassformer.checkpoint.loading import Loaded, load
from glassformer.generation.answer import answer_texts
from glassformer.generation.config import BeamConfig
from glassformer.generation.text import source_ids
from glassformer.models.quantise import quantise_model
from glassformer.training.metrics import text_metrics
from glassformer.training.run import kind_for, read_recipe


@dataclass(frozen=True)
class File:
    """What is translated.

    Attributes:
        run: A finished run, with what translates and the test file.
        beam: Width of the search.
        lines: How many lines at most.
    """

    run: Path
    beam: int
    lines: int

    @cached_property
    def loaded(self) -> Loaded:
        return load(self.run)

    @cached_property
    def pairs(self) -> list[tuple[str, str]]:
        return [*(self._data.test or self._data.valid).pairs[: self.lines]]

    @property
    def texts(self) -> list[str]:
        return [text for text, _ in self.pairs]

    @property
    def penalty(self) -> float:
        return self._data.judging.length_penalty

    def scores(self, answer: Answer) -> str:
        texts = [self.loaded.tokenizer.decode(list(ids)) for ids in answer]
        targets = [target for _, target in self.pairs]
        found = text_metrics(["bleu", "chrf"], texts, targets, self._data.judging.bleu_tokenizer)
        return f"BLEU {found['bleu']:.2f}  chrF {found['chrf']:.2f}"

    @cached_property
    def _data(self):
        recipe = read_recipe(self.run)
        return recipe.task.build(kind_for(recipe), self.loaded.tokenizer)


class Ours:
    name = OURS

    def __init__(self, file: File, numbers: str, fast: Literal["auto", "off"] = "auto") -> None:
        self.file, self.numbers, self.fast = file, numbers, fast
        self.setting = "" if fast == "auto" else "as written"

    def unavailable(self) -> None:
        return None

    def prepare(self) -> None:
        self._loaded = self.file.loaded
        if self.numbers == "int8":
            self._loaded = replace(self._loaded, model=quantise_model(deepcopy(self._loaded.model)))
        self._config = BeamConfig(beam=self.file.beam, length_penalty=self.file.penalty, fast=self.fast)

    def turn(self) -> int:
        found = answer_texts(self._loaded, self.file.texts, self._config)
        self._answer = [each[0].tokens[: -1 if each[0].stop_reason == "eos" else None] for each in found]
        return sum(map(len, self._answer))

    def answer(self) -> Answer:
        return self._answer


class Theirs:
    name, setting = "CTranslate2", ""

    def __init__(self, file: File, numbers: str) -> None:
        self.file, self.numbers = file, numbers

    def unavailable(self) -> None:
        return None

    def prepare(self) -> None:
        model, tokenizer = self.file.loaded.model, self.file.loaded.tokenizer
        self._words = [f"t{id}" for id in range(model.config.output_stack.input.vocab_size)]
        for id, name in ((tokenizer.bos_id, BEGIN), (tokenizer.eos_id, END), (tokenizer.unk_id, UNKNOWN)):
            assert id is not None, "a tokenizer that we train has all three"
            self._words[id] = name
        self._ids = {word: id for id, word in enumerate(self._words)}
        with TemporaryDirectory() as folder:
            write(model, Path(folder), self._words)
            self._translator = import_module("ctranslate2").Translator(
                folder, device="cpu", compute_type={"int8": "int8_float32"}.get(self.numbers, self.numbers),
                inter_threads=1, intra_threads=torch.get_num_threads(),
            )  # fmt: skip

    def turn(self) -> int:
        tokenizer = self.file.loaded.tokenizer
        sources = [[*(self._words[id] for id in source_ids(tokenizer, text)), END] for text in self.file.texts]
        found = self._translator.translate_batch(
            sources,
            beam_size=self.file.beam,
            length_penalty=self.file.penalty,
            batch_type="tokens",
            max_batch_size=2048,
        )
        self._answer = [[self._ids[word] for word in each.hypotheses[0]] for each in found]
        self._texts = [tokenizer.decode(ids) for ids in self._answer]
        return sum(map(len, self._answer))

    def answer(self) -> Answer:
        return self._answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--lines", type=int, default=10**6)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    file = File(options.run, options.beam, options.lines)
    field = [
        Ours(file, "float32", "off"), Ours(file, "float32"), Ours(file, "int8"),
        Apart(Theirs(file, "float32")), Apart(Theirs(file, "int8")),
    ]  # fmt: skip
    found = compete(field, Gauge().measure, Rules(turns=options.turns, warmups=1))
    for absent in found.absent:
        print(f"{absent.name} {absent.numbers}: {absent.reason}")
    print(f"{len(file.texts)} lines, beam {options.beam}, {options.threads} threads, medians of {options.turns} turns")
    *_, peer, _ = found.rows
    for row in found.rows:
        lines = [speed * len(file.texts) / sum(map(len, row.answer or ())) for speed in row.speeds]
        theirs = [speed * len(file.texts) / sum(map(len, peer.answer or ())) for speed in peer.speeds]
        ratio = sorted(mine / other for mine, other in zip(lines, theirs, strict=True))[len(lines) // 2]
        print(
            f"{row.name:12} {row.numbers:8} {row.setting:11} {sorted(lines)[len(lines) // 2]:6.1f} lines/s  "
            f"{ratio:.2f} x CTranslate2 float32  {file.scores(row.answer or ())}"
        )


if __name__ == "__main__":
    main()
