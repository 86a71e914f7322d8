from __future__ import annotations

import copy
import re

import pytest
import torch
from torch import nn

from glassformer.checkpoint.tensors import read_tensors, save_tensors
from glassformer.checkpoint.weights import aliases, bare_name, load_weights, weights_of
from glassformer.core.errors import CheckpointError

EMBEDDING, HEAD = "decoder.input.embedding.weight", "head.weight"


def snapshot(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def unchanged(model: nn.Module, before: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def is_tied(model: nn.Module) -> bool:
    return model.head.weight.data_ptr() == model.output_stack.input.embedding.weight.data_ptr()


def wrapped(model: nn.Module, prefix: str) -> nn.Module:
    """A model whose names begin as compiling and data-parallel wrappers make them begin."""
    for name in reversed(prefix.removesuffix(".").split(".")):
        outer = nn.Module()
        outer.add_module(name, model)
        model = outer
    return model


PREFIXES = ["_orig_mod.", "module.", "module._orig_mod.", "_orig_mod.module."]


def test_o11_tied_tensor_is_given_out_once(tiny):
    model = tiny()
    weights = weights_of(model)
    assert EMBEDDING in weights
    assert HEAD not in weights
    assert sum(tensor.numel() for tensor in weights.values()) == sum(p.numel() for p in model.parameters())
    assert aliases(model)[HEAD] == EMBEDDING


def test_o11_table_of_both_stacks_and_the_head_is_given_out_once(tiny):
    model = tiny(kind="encoder_decoder")
    assert [name for name in weights_of(model) if "embedding" in name or "head" in name] == [
        "encoder.input.embedding.weight"
    ]


def test_o11_untied_tensors_are_two(tiny):
    model = tiny(tied=False)
    assert {EMBEDDING, HEAD} <= weights_of(model).keys()
    assert not is_tied(model)


@pytest.mark.parametrize("kept", [(EMBEDDING,), (HEAD,), (EMBEDDING, HEAD)], ids=["embedding", "head", "both"])
def test_o11_file_with_either_name_or_both_is_loaded(tiny, kept):
    source, target = tiny(), tiny()
    with torch.no_grad():
        for parameter in source.parameters():
            parameter.add_(1.0)
    tensors = source.state_dict()
    load_weights(target, {name: t for name, t in tensors.items() if name not in (EMBEDDING, HEAD) or name in kept}, "f")
    assert unchanged(target, tensors)
    assert is_tied(target)


def test_o11_file_whose_tied_tensors_differ_is_refused_and_nothing_is_loaded(tiny):
    model = tiny()
    before = snapshot(model)
    tensors = {name: tensor + 1.0 for name, tensor in before.items()}
    tensors[HEAD] = tensors[HEAD] + 1e-3
    with pytest.raises(
        CheckpointError, match=rf"{HEAD} differs from {EMBEDDING}, but in the model they are one tensor"
    ):
        load_weights(model, tensors, "f")
    assert unchanged(model, before)


def test_o11_file_without_either_tied_tensor_misses_one(tiny):
    model = tiny()
    tensors = {name: tensor for name, tensor in model.state_dict().items() if name not in (EMBEDDING, HEAD)}
    with pytest.raises(CheckpointError) as caught:
        load_weights(model, tensors, "f")
    assert str(caught.value) == f"f does not fit the model:\n  missing {EMBEDDING}"


def test_o11_untied_model_needs_both(tiny):
    model = tiny(tied=False)
    tensors = {name: tensor for name, tensor in model.state_dict().items() if name != HEAD}
    with pytest.raises(CheckpointError, match=rf"missing {HEAD}"):
        load_weights(model, tensors, "f")


def test_o11_tied_tensors_of_other_types_are_compared_by_value(tiny):
    """A file may hold one name in half precision; what cannot be compared must not end in an error of torch's."""
    model = tiny()
    tensors = model.state_dict()
    with pytest.raises(CheckpointError, match="differs from"):
        load_weights(model, tensors | {HEAD: tensors[HEAD].bfloat16()}, "f")
    half = {name: tensor.bfloat16().float() for name, tensor in tensors.items()}
    load_weights(model, half | {HEAD: half[HEAD].bfloat16()}, "f")
    assert unchanged(model, half)


@pytest.mark.parametrize("tied", [True, False])
def test_o11_ties_survive_moves_copies_and_files(tiny, tmp_path, tied):
    """After each step: one storage iff tied, counted and stored once, and one SGD step changes both alike."""
    model = tiny(tied=tied)
    count = sum(p.numel() for p in model.parameters())

    def check(model: nn.Module, vocab_size: int) -> None:
        assert is_tied(model) == tied
        rows = (vocab_size - 32) * 16 * (1 if tied else 2)
        assert sum(p.numel() for p in model.parameters()) == count + rows
        save_tensors(tmp_path / "a.safetensors", weights_of(model), {})
        stored = read_tensors(tmp_path / "a.safetensors")[0]
        assert (HEAD in stored) == (not tied)
        again = tiny(vocab_size, tied=tied).to(model.head.weight.dtype)
        load_weights(again, stored, "f")
        assert unchanged(again, model.state_dict())
        assert is_tied(again) == tied
        optimizer = torch.optim.SGD(again.parameters(), lr=0.1)
        assert sum(len(group["params"]) for group in optimizer.param_groups) == len(list(again.parameters()))
        before = snapshot(again)
        again(torch.tensor([[1, 2, 3]]), labels=torch.tensor([[2, 3, 4]])).mean.backward()
        optimizer.step()
        changes = [again.state_dict()[name] - before[name] for name in (EMBEDDING, HEAD)]
        assert torch.equal(*changes) == tied
        assert all(bool(change.any()) for change in changes)

    check(model, 32)
    check(copy.deepcopy(model), 32)
    model.to(torch.float64)
    check(model, 32)
    model.to(torch.float32)
    model.resize_vocabulary(40)
    check(model, 40)
    check(copy.deepcopy(model), 40)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_o26_names_of_wrappers_are_read_and_never_written(tiny, prefix):
    """Prefixed names into a bare model, bare names into a wrapped one, and out of it without prefixes."""
    source, target = tiny(), tiny()
    with torch.no_grad():
        for parameter in source.parameters():
            parameter.add_(1.0)
    load_weights(target, {prefix + name: tensor for name, tensor in source.state_dict().items()}, "f")
    assert unchanged(target, source.state_dict())
    inner = tiny()
    outer = wrapped(inner, prefix)
    assert all(name.startswith(prefix) for name in outer.state_dict())
    load_weights(outer, source.state_dict(), "f")
    assert unchanged(inner, source.state_dict())
    assert weights_of(outer).keys() == weights_of(source).keys()
    assert set(aliases(outer)) == set(source.state_dict())


def test_o26_compiled_model_is_saved_without_its_prefix(tiny, tmp_path):
    model = tiny()
    compiled = torch.compile(model, backend="eager")
    assert all(name.startswith("_orig_mod.") for name in compiled.state_dict())
    save_tensors(tmp_path / "a.safetensors", weights_of(compiled), {})
    stored = read_tensors(tmp_path / "a.safetensors")[0]
    assert stored.keys() == weights_of(model).keys()
    before = snapshot(model)
    load_weights(compiled, {name: tensor + 1.0 for name, tensor in stored.items()}, "f")
    assert all(torch.equal(tensor, before[name] + 1.0) for name, tensor in model.state_dict().items())


def test_o26_missing_and_unexpected_are_said_in_one_message_and_nothing_is_loaded(tiny):
    model = tiny()
    before = snapshot(model)
    tensors = {name: tensor + 1.0 for name, tensor in before.items()}
    tensors["decoder.blocks.7.norm.weight"] = torch.ones(16)
    del tensors["decoder.final_norm.weight" if "decoder.final_norm.weight" in tensors else next(iter(tensors))]
    gone = set(before) - set(tensors)
    tensors["decoder.blocks.1.feed_forward.output.weight"] = torch.ones(3)
    with pytest.raises(CheckpointError) as caught:
        load_weights(model, tensors, "some file")
    text = str(caught.value)
    assert text.startswith("some file does not fit the model:")
    assert "unexpected decoder.blocks.7.norm.weight" in text
    assert f"missing {gone.pop()}" in text or "missing" not in text
    assert "decoder.blocks.1.feed_forward.output.weight has shape (3,), the model needs (16, 24)" in text
    assert unchanged(model, before)


def test_o26_one_missing_and_one_unexpected(tiny):
    model = tiny()
    before = snapshot(model)
    tensors = {name: tensor + 1.0 for name, tensor in before.items()}
    name = "decoder.blocks.0.attention.output.weight"
    tensors[name.replace(".output.", ".out.")] = tensors.pop(name)
    with pytest.raises(CheckpointError) as caught:
        load_weights(model, tensors, "f")
    lines = str(caught.value).splitlines()
    assert lines[1:] == ["  unexpected decoder.blocks.0.attention.out.weight", f"  missing {name}"]
    assert unchanged(model, before)


def test_o26_one_tensor_under_two_names_of_wrappers_must_be_one(tiny):
    """`a` and `module.a` in one file: equal is fine, different is not decided by the order in the file."""
    model = tiny()
    tensors = dict(model.state_dict())
    name = "decoder.blocks.0.attention.output.weight"
    load_weights(model, tensors | {f"module.{name}": tensors[name].clone()}, "f")
    with pytest.raises(CheckpointError, match=re.escape(f"module.{name} differs from {name}")):
        load_weights(model, tensors | {f"module.{name}": tensors[name] + 1.0}, "f")


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("a.b", "a.b"),
        ("_orig_mod.a", "a"),
        ("module.a", "a"),
        ("module._orig_mod.module.a", "a"),
        ("modules.a", "modules.a"),
        ("a.module.b", "a.module.b"),
    ],
)
def test_o26_bare_name(name, bare):
    assert bare_name(name) == bare
