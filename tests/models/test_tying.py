"""What a model is made of: which parameters are one, under which names, and what becomes of them."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

from glassformer.core.errors import DataError
from glassformer.models.transformer import Transformer

from .architectures import KINDS, TOKENS, run


def assert_tied(model: Transformer) -> None:
    table = model.output_stack.input.embedding.weight
    assert model.head.weight is table
    assert model.head.weight.data_ptr() == table.data_ptr()
    shared = model.config.share_embeddings
    if model.encoder is not None and model.decoder is not None:
        assert (model.encoder.input.embedding.weight is table) == shared


def meta_and_back(model: Transformer) -> Transformer:
    with torch.device("meta"):
        empty = Transformer(model.config)
    empty.to_empty(device="cpu")
    empty.load_state_dict(model.state_dict())
    return empty


def resized(model: Transformer, vocab_size: int = 40) -> Transformer:
    model.resize_vocabulary(vocab_size)
    return model


MOVES = {
    "built": lambda model: model,
    "deepcopy": copy.deepcopy,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "to_dtype": lambda model: model.to(torch.float64),
    "half": lambda model: model.half().float(),
    "meta": meta_and_back,
    "resize": resized,
    "resize_and_copy": lambda model: copy.deepcopy(resized(model).double()),
}


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("kind", ["decoder", "encoder_decoder"])
def test_o11_tie_survives_every_move(tiny, kind, move):
    model = MOVES[move](tiny(kind=kind))
    assert_tied(model)
    dtype = model.head.weight.dtype
    before = model.head.weight.detach().clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    counted = [parameter.data_ptr() for parameter in optimizer.param_groups[0]["params"]]
    assert counted.count(model.head.weight.data_ptr()) == 1
    run(model, labels=TOKENS).mean.backward()
    optimizer.step()
    assert_tied(model)
    assert model.head.weight.dtype == dtype
    assert not torch.equal(model.head.weight, before)
    assert torch.equal(model.head.weight, model.output_stack.input.embedding.weight)


@pytest.mark.parametrize("move", MOVES)
def test_o11_untied_stays_untied(tiny, move):
    model = MOVES[move](tiny(kind="encoder_decoder", tied=False, share_embeddings=False))
    tables = [model.head.weight, model.decoder.input.embedding.weight, model.encoder.input.embedding.weight]
    assert len({table.data_ptr() for table in tables}) == 3
    before = [table.detach().clone() for table in tables]
    run(model, labels=TOKENS).mean.backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    changes = [table.detach() - old for table, old in zip(tables, before, strict=True)]
    assert all(change.ne(0).any() for change in changes)
    assert not torch.equal(changes[0], changes[1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("vocab_size", [40, 20])
def test_o11_resized_vocabulary_is_used_and_remembered(tiny, kind, tied, vocab_size):
    model = tiny(kind=kind, tied=tied, head_bias=True)
    old, old_bias = model.head.weight.detach().clone(), model.head.bias.detach().clone()
    expected = run(model)[..., : min(32, vocab_size)]
    model.resize_vocabulary(vocab_size)
    logits = run(model)
    assert logits.shape == (2, 3, vocab_size)
    torch.testing.assert_close(logits[..., : min(32, vocab_size)], expected)
    kept = min(32, vocab_size)
    assert torch.equal(model.head.weight[:kept], old[:kept])
    assert torch.equal(model.head.bias[:kept], old_bias[:kept])
    if vocab_size > 32:
        assert model.head.bias[32:].eq(0).all()
        assert model.head.weight[32:].std().item() == pytest.approx(old.std().item(), rel=0.25)
    run(model, torch.tensor([[vocab_size - 1]]))
    with pytest.raises(DataError, match=f"vocab size {vocab_size}"):
        run(model, torch.tensor([[vocab_size]]))
    rebuilt = Transformer(type(model.config).parse(model.config.model_dump()))
    rebuilt.load_state_dict(model.state_dict())
    assert torch.equal(run(rebuilt.eval()), logits)


def test_resize_of_separate_tables_leaves_the_encoders_alone(tiny):
    model = tiny(kind="encoder_decoder", share_embeddings=False)
    model.resize_vocabulary(40)
    assert (model.config.encoder.input.vocab_size, model.config.decoder.input.vocab_size) == (32, 40)
    model.encode(torch.tensor([[31]]))
    with pytest.raises(DataError, match="vocab size 32"):
        model.encode(torch.tensor([[32]]))


def test_resize_keeps_a_frozen_table_frozen(tiny):
    model = tiny(tied=False)
    model.decoder.input.embedding.weight.requires_grad_(False)
    model.resize_vocabulary(40)
    assert not model.decoder.input.embedding.weight.requires_grad
    assert model.head.weight.requires_grad


def test_copy_shares_nothing(tiny):
    model = tiny()
    twin = copy.deepcopy(model)
    with torch.no_grad():
        twin.head.weight.add_(1)
    assert not torch.equal(run(model), run(twin))
    twin.load_state_dict(model.state_dict())
    assert torch.equal(run(model), run(twin))


def test_state_names_say_what_a_tensor_is(tiny):
    names = set(tiny(n_layers=1).state_dict())
    block = "decoder.blocks.0"
    assert names == {
        "decoder.input.embedding.weight",
        f"{block}.attention.qkv.weight",
        f"{block}.attention.qkv.bias",
        f"{block}.attention.output.weight",
        f"{block}.attention.output.bias",
        f"{block}.attention_norm.weight",
        f"{block}.attention_norm.bias",
        f"{block}.feed_forward.inner.weight",
        f"{block}.feed_forward.inner.bias",
        f"{block}.feed_forward.output.weight",
        f"{block}.feed_forward.output.bias",
        f"{block}.feed_forward_norm.weight",
        f"{block}.feed_forward_norm.bias",
        "head.weight",
    }


def test_every_part_knows_where_it_stands(tiny):
    model = tiny(kind="encoder_decoder")
    for name, module in model.named_modules():
        if hasattr(module, "site"):
            assert module.site == name
