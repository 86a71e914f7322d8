"""Variants differ by their edit alone, and a measurement that was cut goes on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from glassformer.bench.copying import Copying
from glassformer.bench.quality import Result, measure, measure_all, read
from glassformer.bench.quality_table import tables
from glassformer.bench.recall import Recall
from glassformer.bench.task import Task
from glassformer.bench.variants import VARIANTS, Variant, chosen
from glassformer.core.errors import ConfigError, DataError
from glassformer.core.wording import LANGUAGES
from glassformer.models.transformer import Transformer


class Short(Copying):
    """The same with two updates, judged by short rows."""

    steps = 2

    def measure(self, model: Transformer, *, beyond: bool) -> Mapping[str, float]:
        return super().measure(model, beyond=False)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
@pytest.mark.parametrize("task", [Recall(), Copying()], ids=lambda task: task.name)
def test_variants_have_as_many_parameters_as_full_attention(task: Task, variant: Variant) -> None:
    """But for tables of positions, which belong to them."""
    sizes = [
        sum(p.numel() for name, p in task.build(each, torch.Generator()).named_parameters() if "positions" not in name)
        for each in (VARIANTS[0], variant)
    ]
    assert sizes[1] == pytest.approx(sizes[0], rel=0.04)


def test_measure_is_repeatable_and_seeds_differ() -> None:
    first, again, other = (measure(Short(), VARIANTS[0], seed).values for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_learned_positions_are_not_asked_beyond_their_table() -> None:
    (learned,) = chosen(["learned"])
    model = Copying().build(learned, torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert list(Copying().measure(model, beyond=learned.beyond)) == ["copy@8", "copy@24"]


def test_measurement_goes_on_after_the_last_line(tmp_path: Path) -> None:
    file, variants = tmp_path / "results.jsonl", chosen(["full", "none"])
    whole = measure_all([Short()], variants, [0], file)
    lines = file.read_text().splitlines()
    file.write_text(lines[0] + "\n")
    told: list[tuple[int, int]] = []
    again = measure_all([Short()], variants, [0], file, lambda done, total: told.append((done, total)))
    assert told == [(1, 2), (2, 2)]
    assert [each.values for each in again] == [each.values for each in whole]
    assert len(list(read(file))) == 2


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    file.write_text('{"step": 1}\n')
    with pytest.raises(DataError, match="line 1 of"):
        list(read(file))


def test_unknown_variant_names_a_near_one() -> None:
    with pytest.raises(ConfigError, match=r"no variant 'alibbi'.*alibi"):
        chosen(["alibbi"])


@pytest.mark.parametrize("language", LANGUAGES)
def test_tables_have_a_row_for_each_variant(language: str) -> None:
    values = {"copy@8": 0.5, "copy@96": 0.25}
    results = [
        Result("copying", name, seed, 500, 7, 1.0, values) for name in ("full", "none", "alibi") for seed in (0, 1)
    ]
    text = tables(results, language)
    assert text.count("\n| full |") == text.count("\n| none |") == text.count("\n| alibi |") == 1
    assert "Kazemnejad" in text
    assert "{" not in text
