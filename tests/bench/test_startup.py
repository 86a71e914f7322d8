"""Starts are measured one after the other, and what cannot start is left out."""

from __future__ import annotations

import pytest

from glassformer.bench.startup import BARE, Start, known_packages, measure_starts, programs, startup_table
from glassformer.core.errors import ConfigError


def test_starts_are_counted_and_what_ends_in_an_error_is_left_out() -> None:
    told: list[tuple[int, int]] = []
    code = {BARE: "pass", "broken": "import no_such_package", "busy": "sum(range(10))"}
    starts = measure_starts(code, 2, lambda done, total: told.append((done, total)))
    assert [(start.name, len(start.seconds)) for start in starts] == [(BARE, 2), ("busy", 2)]
    assert starts[0].over == 0.0
    assert told == [(done, 9) for done in range(1, 10)]


def test_programs_are_ours_and_the_imports_of_peers_that_are_there() -> None:
    assert list(programs(("torch",))) == [BARE, "import glassformer", "glassformer --help", "import torch"]


def test_startup_table_gives_what_is_over_bare_python() -> None:
    starts = [Start(BARE, (0.1, 0.1), 0.0), Start("import glassformer", (0.2, 0.3), 0.15)]
    assert startup_table(starts, "en").splitlines()[2:4] == [
        "| Python | 0.10 (0.10-0.10) s |  |",
        "| import glassformer | 0.25 (0.23-0.27) s | +0.15 s |",
    ]
    assert "比裸 Python 多" in startup_table(starts, "zh")


def test_an_unknown_peer_is_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'torch'"):
        known_packages(["torhc"])
