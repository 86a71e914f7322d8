"""Does the attention of a `dates` model look where the answer stands?

While a digit of the year is written, one head of the decoder's cross-attention should look at the year of the source,
and so for month and day. For each field the head is chosen on the validation dates; then, for every digit of what the
model itself writes for the test dates, it is counted how often the largest weight of that head lies on a character of
the field: a digit, numeral or letter of it, not what stands around it.

    python bench/dates_attention.py RUN
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from datetime import date
from pathlib import Path

from torch import Tensor

from glassformer.checkpoint.loading import Loaded, load
from glassformer.core.tape import Tape
from glassformer.data.dates import FIELDS, LANGUAGES, FieldName, Spelling, spellings
from glassformer.data.pairs import pair_batch
from glassformer.generation.answer import answer_texts
from glassformer.models.inference import inference
from glassformer.training.run import read_recipe

ISO = re.compile(r"\d{4}-\d\d-\d\d")
DIGITS: dict[FieldName, range] = {"year": range(4), "month": range(5, 7), "day": range(8, 10)}
"""Which characters of an ISO date tell each field."""

Head = tuple[str, int]
"""The name of a site and the number of a head."""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("run", type=Path, help="folder of a run of the recipe dates")
    folder = arguments.parse_args().run
    loaded = load(folder)
    data = read_recipe(folder).task.build("encoder_decoder", loaded.tokenizer)
    assert data.test is not None, "the task has test dates"
    valid, test = ([spelling_of(text, iso) for text, iso in split.pairs] for split in (data.valid, data.test))
    written = answers(loaded, test)
    for language in LANGUAGES:
        print_exact_match(language, [row for row in zip(test, written, strict=True) if row[0].language == language])
    print_exact_match("all", list(zip(test, written, strict=True)))

    heads = chosen_heads(inside(loaded, valid, answers(loaded, valid)))
    found = inside(loaded, test, written)
    total = 0.0
    for field, (site, head) in heads.items():
        share = found[field][site, head]
        total += share * len(DIGITS[field])
        print(f"{field}: head {head} of {site} looks inside for {share:.2%} of the digits")
    print(f"all digits: {total / sum(map(len, DIGITS.values())):.2%}")


def answers(loaded: Loaded, dates: list[Spelling]) -> list[str]:
    """Return what the model writes for each spelling."""
    return [answer[0].text for answer in answer_texts(loaded, [spelling.text for spelling in dates])]


def print_exact_match(name: str, rows: list[tuple[Spelling, str]]) -> None:
    if rows:
        right = sum(spelling.iso == output for spelling, output in rows)
        print(f"exact match {name}: {right / len(rows):.2%} of {len(rows)}")


def spelling_of(text: str, iso: str) -> Spelling:
    """Return the spelling whose text this is."""
    return next(spelling for spelling in spellings(date.fromisoformat(iso)) if spelling.text == text)


def inside(
    loaded: Loaded, dates: list[Spelling], written: list[str], batch_size: int = 200
) -> dict[FieldName, dict[Head, float]]:
    """Return, for each field and head, for which share of the field's digits the head's peak lies inside the field.

    The decoder's position t writes character t. An output that is no ISO date counts as looking elsewhere.
    """
    hits: dict[FieldName, dict[Head, float]] = {field: defaultdict(float) for field in FIELDS}
    for begin in range(0, len(dates), batch_size):
        rows = slice(begin, begin + batch_size)
        for site, peaks in cross_attention_peaks(loaded, dates[rows], written[rows]).items():  # peaks (B, H, T)
            for spelling, output, peak in zip(dates[rows], written[rows], peaks.tolist(), strict=True):
                for field, digits in DIGITS.items():
                    for head, of_head in enumerate(peak):
                        looked = [of_head[t] in spelling.fields[field] for t in digits] if ISO.fullmatch(output) else []
                        hits[field][site, head] += sum(looked) / (len(digits) * len(dates))
    return hits


def cross_attention_peaks(loaded: Loaded, dates: list[Spelling], written: list[str]) -> dict[str, Tensor]:
    """Return which character of the source each head looks at most, by site. Each of *Shape:* (B, H, T)."""
    tokenizer, model = loaded.tokenizer, loaded.model
    bos, eos = tokenizer.bos_id, tokenizer.eos_id
    assert bos is not None, "the task's tokenizer has it"
    assert eos is not None, "the task's tokenizer has it"
    pairs = [
        (tokenizer.encode(spelling.text), tokenizer.encode(output))
        for spelling, output in zip(dates, written, strict=True)
    ]
    batch = pair_batch(pairs, range(len(pairs)), bos=bos, eos=eos, pad=tokenizer.pad_id)
    assert batch.source is not None, "a pair has a source"
    tape = Tape(model, "*.cross_attention.weights", reduce=lambda weights: weights.argmax(-1))
    with inference(model.modules()):
        memory = model.encode(batch.source, places=batch.source_places, tape=tape)
        model(batch.inputs, places=batch.places, memory=memory, outputs="hidden", tape=tape)
    return {site: tape[site] for site in tape}


def chosen_heads(shares: dict[FieldName, dict[Head, float]]) -> dict[FieldName, Head]:
    """Return the head of each field that looks inside it most often."""
    return {field: max(of_heads, key=of_heads.__getitem__) for field, of_heads in shares.items()}


if __name__ == "__main__":
    main()
