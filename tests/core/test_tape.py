"""A tape knows its sites before anything runs, and takes or replaces the values that come by."""

from __future__ import annotations

import pytest
import torch

from glassformer.core.errors import ConfigError
from glassformer.core.tape import Patch, Site, Tape

NAMES = [f"decoder.blocks.{i}.{name}" for i in range(3) for name in ("attention.weights", "residual")]


class Model:
    def sites(self) -> list[Site]:
        return [Site(name, "B T D") for name in NAMES]


def test_pattern_is_resolved_when_the_tape_is_made():
    tape = Tape(Model(), "decoder.*.weights", "decoder.blocks.1.*")
    assert tape.recorded == {*NAMES[0::2], NAMES[3]}
    assert tape.wants(NAMES[0])
    assert not tape.wants(NAMES[1])
    assert len(tape) == 0


@pytest.mark.parametrize("make", [lambda p: Tape(Model(), p), lambda p: Tape(Model(), patches=[Patch(p, abs)])])
def test_pattern_that_matches_nothing_is_refused_with_a_near_name(make):
    with pytest.raises(ConfigError, match=r"no site matches 'decoder.blocks.2.residuals'; did you mean '.*2.residual'"):
        make("decoder.blocks.2.residuals")
    with pytest.raises(ConfigError, match=r"no site matches 'q\*'; known: decoder.blocks.0"):
        make("q*")


def test_last_keeps_the_newest_and_all_keeps_every_one():
    last, every = Tape(Model(), "*residual"), Tape(Model(), "*residual", keep="all")
    for tape in (last, every):
        for step in range(3):
            tape.note(NAMES[1], torch.tensor(float(step)))
    assert [float(value) for value in last.all(NAMES[1])] == [2.0]
    assert [float(value) for value in every.all(NAMES[1])] == [0.0, 1.0, 2.0]
    assert float(every[NAMES[1]]) == 2.0
    every.clear()
    assert len(every) == 0
    every.note(NAMES[1], torch.tensor(7.0))
    assert [float(value) for value in every.all(NAMES[1])] == [7.0]


def test_values_come_in_the_order_of_the_pass():
    tape = Tape(Model(), "*")
    for name in reversed(NAMES):
        tape.note(name, torch.zeros(1))
    assert list(tape) == NAMES[::-1]


def test_values_are_detached_unless_asked():
    value = torch.ones(2, requires_grad=True) * 2
    kept, live = Tape(Model(), "*residual"), Tape(Model(), "*residual", detach=False)
    assert kept.note(NAMES[1], value) is value
    live.note(NAMES[1], value)
    assert not kept[NAMES[1]].requires_grad
    assert live[NAMES[1]] is value


def test_reduce_keeps_less_and_changes_nothing():
    tape = Tape(Model(), "*residual", reduce=lambda value: value.norm())
    value = torch.full((4,), 3.0)
    assert tape.note(NAMES[1], value) is value
    assert float(tape[NAMES[1]]) == 6.0


def test_patches_act_in_order_and_the_result_is_recorded():
    patches = [Patch(NAMES[1], lambda v: v + 1), Patch("decoder.*", lambda v: v * 10)]
    tape = Tape(Model(), NAMES[1], patches=patches)
    assert tape.note(NAMES[1], torch.tensor([1.0])).tolist() == [20.0]
    assert tape[NAMES[1]].tolist() == [20.0]
    assert tape.note(NAMES[3], torch.tensor([1.0])).tolist() == [10.0]
    assert tape.changes(NAMES[3])
    assert tape.wants(NAMES[3])


def test_patch_of_another_shape_is_refused():
    tape = Tape(Model(), patches=[Patch(NAMES[1], lambda v: v[:1])])
    with pytest.raises(ConfigError, match=r"blocks.0.residual returned shape \(1,\); it must keep \(2,\)"):
        tape.note(NAMES[1], torch.zeros(2))


def test_value_that_is_not_there_is_explained():
    tape = Tape(Model(), "*0.residual")
    with pytest.raises(ConfigError, match="is recorded, but no forward pass has come by it yet"):
        tape[NAMES[1]]
    with pytest.raises(ConfigError, match=r"blocks.2.residual is not recorded by this tape; did you mean"):
        tape[NAMES[5]]


def test_keep_is_one_of_two_words():
    with pytest.raises(ConfigError, match=r"keep is 'every'.*'last'.*'all'"):
        Tape(Model(), "*", keep="every")
