"""Every peer that is installed does its kinds of work, with our weights and our answers where it can have them."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from glassformer.bench import ctranslate2, llama_cpp, ours, reference_library, torch_transformer, x_transformers
from glassformer.bench.contest import Contest, Contestant, Rules, compete
from glassformer.bench.machine import Machine
from glassformer.bench.plain_training import PlainTraining, missing
from glassformer.bench.roster import PEERS, contestants, known_peers, numbers_for
from glassformer.bench.workloads import Work
from glassformer.core.errors import ConfigError

from .tiny import decoding, pair_training, training, translation

TINY = {
    "train": training(),
    "pairs": pair_training(),
    "decode": decoding(),
    "prefill": decoding(new=1),
    "beam": translation(3),
    "greedy": translation(1),
}


def needs(*packages: str) -> pytest.MarkDecorator:
    gone = [package for package in packages if find_spec(package) is None]
    return pytest.mark.skipif(bool(gone), reason=f"not installed: {', '.join(gone)}")


def _compete(*field: Contestant) -> Contest:
    contest = compete(field, lambda: Machine(1, 1.0, 1.0, 1.0), Rules(turns=1, seconds=0.0, rest=0.0, warmups=1))
    assert contest.absent == ()
    return contest


def _eager(work: Work, peer: str, numbers: str = "float32") -> list[Contestant]:
    """Ours as it is by default and the peer's, without what must be compiled first."""
    found = contestants(work, [peer], [numbers])
    return [each for each in found if "compiled" not in each.setting and each.setting != "as written"]


def _ours(work: Work, numbers: str) -> list[Contestant]:
    return [each for each in ours.contestants(work, numbers) if not each.setting]


def _agree(contest: Contest, name: str) -> dict[str, bool]:
    found = {row.numbers: contest.agrees(row) for row in contest.rows if row.name == name}
    return {numbers: same is not None and same[0] == same[1] for numbers, same in found.items()}


@pytest.mark.parametrize("kind", TINY)
def test_we_do_every_kind_of_work(kind: str) -> None:
    eager = [each for each in _ours(TINY[kind], "float32") if not each.setting]
    rows = _compete(*eager).rows
    assert [row.numbers for row in rows] == (["float32"] if kind in ("train", "pairs") else ["float32", "int8"])
    assert all(row.speeds[0] > 0 for row in rows)


def test_we_do_it_in_bf16_too() -> None:
    for kind in ("train", "decode", "greedy"):
        assert _compete(*_ours(TINY[kind], "bf16")).rows[0].numbers == "bf16"


@needs("transformers")
@pytest.mark.parametrize("kind", ["decode", "prefill", "beam", "greedy"])
def test_reference_library_writes_what_we_do(kind: str) -> None:
    contest = _compete(*_eager(TINY[kind], "reference-library"))
    assert _agree(contest, reference_library.NAME) == {"float32": True}


@needs("transformers")
@pytest.mark.parametrize("kind", ["train", "pairs"])
def test_reference_library_trains_a_model_of_our_size(kind: str) -> None:
    _, peer = _eager(TINY[kind], "reference-library")
    _compete(peer)
    assert isinstance(peer, PlainTraining)
    # Marian's sines are parameters there, a table for each stack, and the offset of its head is none
    more = 2 * 512 * 32 - TINY[kind].vocab_size if kind == "pairs" else 0
    assert sum(each.numel() for each in peer.model.parameters()) == TINY[kind].parameters + more


@needs("llama_cpp", "gguf")
@pytest.mark.parametrize("kind", ["decode", "prefill"])
def test_llama_cpp_writes_what_we_do(kind: str) -> None:
    contest = _compete(*_eager(TINY[kind], "llama.cpp"))
    assert {row.numbers for row in contest.rows if row.name == llama_cpp.NAME} == {"float32", "int8"}
    assert _agree(contest, llama_cpp.NAME)["float32"]


@needs("llama_cpp", "gguf")
def test_llama_cpp_runs_in_bf16() -> None:
    (peer,) = llama_cpp.contestants(TINY["decode"], "bf16")
    assert _compete(peer).rows[0].numbers == "bf16"


@needs("ctranslate2")
@pytest.mark.parametrize("kind", ["beam", "greedy"])
def test_ctranslate2_writes_what_we_do(kind: str) -> None:
    contest = _compete(*_eager(TINY[kind], "ctranslate2"))
    assert {row.numbers for row in contest.rows if row.name == ctranslate2.NAME} == {"float32", "int8"}
    assert _agree(contest, ctranslate2.NAME)["float32"]


@needs("x_transformers")
@pytest.mark.parametrize("kind", ["train", "pairs", "decode"])
def test_x_transformers_takes_part(kind: str) -> None:
    contest = _compete(*_eager(TINY[kind], "x-transformers"))
    names = [row.name for row in contest.rows if row.numbers == "float32"]
    assert names == ["glassformer", x_transformers.NAME]


@needs("x_transformers")
def test_x_transformers_has_a_model_of_about_our_size() -> None:
    (peer,) = [each for each in x_transformers.contestants(TINY["train"], "float32") if not each.setting]
    _compete(peer)
    assert isinstance(peer, PlainTraining)
    size = sum(each.numel() for each in peer.model.parameters())
    assert size == pytest.approx(TINY["train"].parameters, rel=0.02)  # it has no offsets in attention


def test_torch_trains_a_model_of_our_size() -> None:
    (peer,) = [each for each in torch_transformer.contestants(TINY["pairs"], "float32") if not each.setting]
    _compete(peer)
    assert isinstance(peer, PlainTraining)
    assert sum(each.numel() for each in peer.model.parameters()) == TINY["pairs"].parameters


def test_peers_come_to_what_they_can_do() -> None:
    kinds = {kind: [name for name, make in PEERS.items() if make(work, "float32")] for kind, work in TINY.items()}
    assert kinds == {
        "train": ["reference-library", "x-transformers"],
        "pairs": ["reference-library", "x-transformers", "torch"],
        "decode": ["reference-library", "x-transformers", "llama.cpp"],
        "prefill": ["reference-library", "llama.cpp"],
        "beam": ["reference-library", "ctranslate2"],
        "greedy": ["reference-library", "ctranslate2"],
    }


def test_what_is_not_installed_says_how_to_get_it() -> None:
    assert missing("torch") is None
    assert missing("no_such_package") == "no_such_package is not installed; pip install 'glassformer[bench]' brings it"


def test_names_and_precisions_are_checked() -> None:
    assert known_peers([]) == tuple(PEERS)
    assert known_peers(["torch"]) == ("torch",)
    with pytest.raises(ConfigError, match=r"did you mean 'llama\.cpp'"):
        known_peers(["llamacpp"])
    assert numbers_for("bf16") == ("bf16",)
    assert numbers_for("auto")[0] == "float32"
    with pytest.raises(ConfigError, match="choose auto, float32 or bf16"):
        numbers_for("fp16")
