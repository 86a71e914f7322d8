"""A watched loop trains as an unwatched one does, and is written down."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import glassformer as gf
from glassformer.checkpoint.tensors import read_tensors
from glassformer.core.errors import ConfigError
from glassformer.text.build import character_tokenizer
from glassformer.training.record import read_metrics

from .healthy import GPT, V


def trained(out: Path | None, steps: int = 7) -> tuple[nn.Module, list[Tensor]]:
    torch.manual_seed(3)
    model = GPT(dropout=0.2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    watch = None if out is None else gf.watch(model, optimizer, out=out, every=3)
    losses = []
    for _ in range(steps):
        tokens = torch.randint(V, (4, 9))
        loss = model(tokens[:, :-1], tokens[:, 1:].contiguous())[1]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        if watch is not None:
            watch.step(loss)
    if watch is not None:
        watch.close()
    return model, losses


def test_watch_changes_no_bit(tmp_path: Path) -> None:
    plain, losses = trained(None)
    watched, seen = trained(tmp_path / "run")
    assert all(torch.equal(a, b) for a, b in zip(losses, seen, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), watched.parameters(), strict=True))
    assert not any(part._forward_hooks for part in watched.modules())


def test_watch_writes_the_lines_of_a_run(tmp_path: Path) -> None:
    model, losses = trained(tmp_path)
    rows = read_metrics(tmp_path / "metrics.jsonl")
    train = [row for row in rows if row["split"] == "train"]
    assert [row["step"] for row in train] == [1, 3, 6]
    assert train[1]["loss"] == float(losses[2])
    assert all(row["lr"] == 1e-2 and row["grad_norm"] > 0 for row in train)
    norms = [row["norms"] for row in rows if row["split"] == "norms"]
    assert set(norms[0]) == {name for name, part in model.named_modules() if name and name != "h"}
    assert json.loads((tmp_path / "watch.json").read_text())["modules"]["h.0.attn"] == "CausalAttention"


def test_watch_measures_the_gradient_and_the_norms(tmp_path: Path) -> None:
    layer = nn.Linear(2, 1, bias=False)
    model = nn.Sequential(layer)
    nn.init.ones_(layer.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    with gf.watch(model, optimizer, out=tmp_path) as watch:
        loss = model(torch.tensor([[3.0, 4.0]])).sum()
        loss.backward()
        optimizer.step()
        watch.step(loss)
    train, norms = read_metrics(tmp_path / "metrics.jsonl")
    assert (train["loss"], train["grad_norm"]) == (7.0, 5.0)
    assert norms["norms"] == {"0": 7.0}
    tensors, _ = read_tensors(tmp_path / "model.safetensors")
    assert torch.equal(tensors["0.weight"], torch.tensor([[-0.5, -1.0]]))


def test_watch_saves_a_tied_weight_once(tmp_path: Path) -> None:
    model, _ = trained(tmp_path)
    tensors, _ = read_tensors(tmp_path / "model.safetensors")
    assert ("lm_head.weight" in tensors) != ("wte.weight" in tensors)
    assert torch.equal(next(iter(tensors.values())), model.state_dict()[next(iter(tensors))])


def test_watch_refuses_the_folder_of_another_run(tmp_path: Path) -> None:
    trained(tmp_path)
    with pytest.raises(ConfigError, match="another run"):
        trained(tmp_path)


def test_watch_takes_several_optimizers_as_one(tmp_path: Path) -> None:
    one, two = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
    model = nn.Sequential(one, two)
    nn.init.ones_(one.weight)
    nn.init.ones_(two.weight)
    optimizers = [torch.optim.SGD(one.parameters(), lr=0.5), torch.optim.Adam(two.parameters(), lr=0.1)]
    with gf.watch(model, optimizers, out=tmp_path) as watch:
        loss = model(torch.tensor([[2.0]])).sum()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        watch.step(loss)
    train = read_metrics(tmp_path / "metrics.jsonl")[0]
    assert train["grad_norm"] == pytest.approx(8**0.5)  # of 2 and 2
    assert train["lr"] == 0.5
    assert json.loads((tmp_path / "watch.json").read_text())["optimizer"] == "SGD, Adam"


def test_watch_lets_the_error_of_the_loop_through(tmp_path: Path) -> None:
    model = GPT()

    def loop() -> None:
        with gf.watch(model, torch.optim.SGD(model.parameters(), lr=0.1), out=tmp_path / "run"):
            shutil.rmtree(tmp_path / "run")
            (tmp_path / "run").write_text("in the way")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as found:
        loop()
    assert "could not be written either" in found.value.__notes__[0]
    assert not any(part._forward_hooks for part in model.modules())


def test_watch_refuses_what_it_cannot_watch(tmp_path: Path) -> None:
    model = GPT()
    for what in ((3, torch.optim.SGD(model.parameters(), lr=0.1)), (model, None), (model, [])):
        with pytest.raises(ConfigError, match=r"a torch\.nn\.Module and a torch\.optim\.Optimizer"):
            gf.watch(*what, out=tmp_path)
    with pytest.raises(ConfigError, match=r"shape \(3,\); give one number"):
        gf.watch(model, torch.optim.SGD(model.parameters(), lr=0.1), out=tmp_path).step(torch.zeros(3))


def test_the_weights_of_a_watched_transformer_are_read_back_and_looked_into(tmp_path: Path) -> None:
    model = gf.Transformer(gf.preset("tiny").resolve(vocab_size=12))
    with gf.watch(model, torch.optim.SGD(model.parameters(), lr=0.1), out=tmp_path):
        pass
    found = gf.Loaded(gf.load_model(tmp_path), character_tokenizer(["0123456789"], ("<pad>", "<bos>")), "mine")
    look = gf.inspect(found, "314", ablate=None)
    assert look.found.tokens[-3:] == ("3", "1", "4")
    with pytest.raises(ConfigError, match="needs the model's tokenizer too"):
        gf.inspect(model, "314")
