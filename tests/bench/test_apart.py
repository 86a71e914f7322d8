from __future__ import annotations

import os

import pytest

from glassformer.bench.apart import Apart
from glassformer.core.errors import DataError


class Counting:
    """Counts its turns; the third fails, and the fifth ends its process."""

    name, numbers, setting = "counting", "float32", "as it is"

    def unavailable(self):
        return "it is not Sunday"

    def prepare(self):
        self.turns = 0

    def turn(self):
        self.turns += 1
        if self.turns == 3:
            raise ValueError("three is too many\nmore of it")
        if self.turns == 5:
            os._exit(1)
        return self.turns

    def answer(self):
        return [[os.getpid()], [self.turns]]


def test_contestant_apart_does_its_work_in_another_process():
    original = Counting()
    apart = Apart(original)
    assert (apart.name, apart.numbers, apart.setting) == ("counting", "float32", "as it is")
    assert apart.unavailable() == "it is not Sunday"
    apart.prepare()
    assert [apart.turn(), apart.turn()] == [1, 2]
    [[there], [turns]] = apart.answer()
    assert there != os.getpid()
    assert turns == 2
    assert not hasattr(original, "turns")
    with pytest.raises(DataError, match=r"^ValueError: three is too many$"):
        apart.turn()
    assert apart.turn() == 4
    for _ in range(3):  # as it ends, and when it has ended
        with pytest.raises(DataError, match="its process has ended"):
            apart.turn()
