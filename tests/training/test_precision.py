from __future__ import annotations

from pathlib import Path

import pytest
import torch

from glassformer.core.errors import ConfigError
from glassformer.training import precision
from glassformer.training.precision import Precision, choose_device, choose_precision, processor_flags
from glassformer.training.run import train

from .tiny import text_model

CPU = torch.device("cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_device_that_is_not_there_is_refused_before_anything_is_made(text, tmp_path):
    with pytest.raises(ConfigError, match="device=cuda, but torch finds none on this machine; it can use: "):
        train(text_model(text, device="cuda"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_device_that_is_none_is_refused():
    with pytest.raises(ConfigError, match="device is 'gpu'; choose auto, cpu, cuda or mps"):
        choose_device("gpu")
    assert choose_device("cpu") == CPU


def cpuinfo(folder: Path, flags: str) -> Path:
    file = folder / "cpuinfo"
    file.write_text(
        f"processor : 0\nmodel name: \xff\nflags\t\t: fpu {flags} sse\nflags\t\t: other\n", encoding="latin-1"
    )
    return file


@pytest.mark.parametrize(
    ("flags", "name"), [("avx2", "float32"), ("avx512_bf16 avx2", "bf16"), ("amx_bf16", "bf16"), ("avx512f", "float32")]
)
def test_processor_decides_the_precision_of_auto(tmp_path, monkeypatch, flags, name):
    file = cpuinfo(tmp_path, flags)
    assert set(flags.split()) < processor_flags(file)
    assert "other" not in processor_flags(file)
    monkeypatch.setattr(precision, "processor_flags", lambda: processor_flags(file))
    chosen = choose_precision("auto", CPU)
    assert chosen.name == name
    assert all((flag in chosen.reason) == (flag in flags or name == "float32") for flag in ("avx512_bf16", "amx_bf16"))


def test_processor_that_does_not_tell_computes_in_float32(tmp_path, monkeypatch):
    monkeypatch.setattr(precision, "processor_flags", lambda: processor_flags(tmp_path / "nothing"))
    assert choose_precision("auto", CPU).name == "float32"


@pytest.mark.parametrize(
    ("name", "dtype"), [("float32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)]
)
def test_products_are_computed_in_the_wanted_numbers(name, dtype):
    chosen = choose_precision(name, CPU)
    assert (chosen.name, chosen.reason) == (name, "as asked")
    layer = torch.nn.Linear(2, 2)
    with chosen.autocast():
        assert layer(torch.ones(1, 2)).dtype == dtype
    assert layer.weight.dtype == torch.float32
    assert Precision(name, "", "cpu").autocast() is not None


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize("name", ["bf16", "fp16"])
def test_half_precision_training_keeps_float32_weights_and_learns_about_the_same(text, tmp_path, name):
    losses = {}
    for wanted in ("float32", name):
        run = train(text_model(text, precision=wanted, model={"dropout": 0.0}), tmp_path / wanted)
        losses[wanted] = run.result["valid"]["loss"]
        assert run.result["precision"] == wanted
    assert losses[name] == pytest.approx(losses["float32"], abs=0.02)
    assert losses[name] != losses["float32"]
