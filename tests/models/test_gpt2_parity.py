"""The same bricks with GPT-2's weights are GPT-2, in float64, against the reference library."""

from __future__ import annotations

import pytest
import torch

from glassformer.core.places import Places
from glassformer.models.arguments import ModelArguments
from glassformer.models.transformer import Transformer

transformers = pytest.importorskip("transformers", reason="the reference library is the oracle here")

RENAMED = {
    "ln_1": "attention_norm",
    "attn.c_attn": "attention.qkv",
    "attn.c_proj": "attention.output",
    "ln_2": "feed_forward_norm",
    "mlp.c_fc": "feed_forward.inner",
    "mlp.c_proj": "feed_forward.output",
}


@pytest.fixture(scope="module")
def models():
    config = transformers.GPT2Config(
        vocab_size=50,
        n_positions=12,
        n_embd=16,
        n_layer=2,
        n_head=4,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        attn_implementation="eager",
    )
    torch.manual_seed(0)
    theirs = transformers.GPT2LMHeadModel(config).double().eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_(0, 0.3)
    arguments = ModelArguments(
        kind="decoder",
        d_model=16,
        n_layers=2,
        n_heads=4,
        dropout=0.0,
        positions="learned",
        max_positions=12,
        embedding_scale=False,
        norm_place="pre",
        activation="gelu_tanh",
    )
    ours = Transformer(arguments.resolve(50)).double().eval()
    body = theirs.transformer
    named = {
        "decoder.input.embedding.weight": body.wte.weight,
        "decoder.input.positions.weight": body.wpe.weight,
        "decoder.final_norm.weight": body.ln_f.weight,
        "decoder.final_norm.bias": body.ln_f.bias,
        "head.weight": body.wte.weight,
    }
    for layer in range(2):
        for name, tensor in body.h[layer].named_parameters():
            part, _, kind = name.rpartition(".")
            flat = tensor if tensor.ndim == 1 else tensor.T  # the reference stores its matrices input first
            named[f"decoder.blocks.{layer}.{RENAMED[part]}.{kind}"] = flat
    ours.load_state_dict({name: tensor.detach() for name, tensor in named.items()})
    return ours, theirs


TOKENS = torch.tensor([[3, 1, 4, 1, 5, 9, 2], [6, 5, 3, 0, 0, 0, 0]])


@torch.no_grad()
def test_logits_are_gpt2s(models):
    ours, theirs = models
    torch.testing.assert_close(ours(TOKENS), theirs(TOKENS).logits, atol=1e-9, rtol=1e-9)


@torch.no_grad()
@pytest.mark.parametrize("side", ["right", "left"])
def test_padded_logits_are_gpt2s(models, side):
    ours, theirs = models
    places = Places.from_lengths([7, 3], side=side)
    tokens = TOKENS if side == "right" else torch.stack((TOKENS[0], TOKENS[1].roll(4)))
    real = places.is_token
    expected = theirs(tokens, attention_mask=real.long(), position_ids=places.position).logits
    torch.testing.assert_close(ours(tokens, places=places)[real], expected[real], atol=1e-9, rtol=1e-9)


@torch.no_grad()
def test_cached_logits_are_gpt2s(models):
    ours, theirs = models
    expected = theirs(TOKENS[:1]).logits
    cache = ours.new_cache(1, 7)
    for begin, end in ((0, 4), (4, 5), (5, 7)):
        logits = ours(TOKENS[:1, begin:end], cache=cache)
        torch.testing.assert_close(logits, expected[:, begin:end], atol=1e-9, rtol=1e-9)
        cache.advance([end - begin])


def test_loss_and_gradient_are_gpt2s(models):
    ours, theirs = models
    """The reference's own loss casts to float32, so its logits go through torch's cross-entropy."""
    loss = ours(TOKENS[:1, :-1], labels=TOKENS[:1, 1:])
    expected = torch.nn.functional.cross_entropy(theirs(TOKENS[:1]).logits[0, :-1], TOKENS[0, 1:])
    torch.testing.assert_close(loss.mean, expected, atol=1e-9, rtol=1e-9)
    (gradient,) = torch.autograd.grad(loss.mean, ours.decoder.input.embedding.weight)
    (other,) = torch.autograd.grad(expected, theirs.transformer.wte.weight)
    torch.testing.assert_close(gradient, other, atol=1e-9, rtol=1e-9)
