"""Torch's own modules: their state dicts both ways, and what ours then computes, in float64."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.checkpoint.torch_modules import from_torch, load_torch, torch_state
from glassformer.core.attention_config import AttentionConfig
from glassformer.core.call import Call, Memory
from glassformer.core.config import HeadConfig, InputConfig, StackConfig
from glassformer.core.errors import CheckpointError, ConfigError, UnsupportedError
from glassformer.core.mask import Mask, mask_from_ignored
from glassformer.core.norm_config import NormConfig
from glassformer.core.places import Places
from glassformer.core.position_config import AlibiConfig, RotaryConfig
from glassformer.core.tape import Tape
from glassformer.models.transformer import Transformer
from glassformer.parts.attention import Attention
from glassformer.parts.block import Block
from glassformer.parts.stack import Stack

D, HEADS, D_FF = 16, 4, 24
LENGTHS, SOURCE_LENGTHS = [5, 3], [4, 7]
LAYER = {"d_model": D, "nhead": HEADS, "dim_feedforward": D_FF, "dropout": 0.0, "batch_first": True}

switches = [
    pytest.param({}, id="post"),
    pytest.param({"norm_first": True}, id="pre"),
    pytest.param({"bias": False}, id="no-bias"),
    pytest.param({"activation": "gelu", "layer_norm_eps": 1e-2}, id="gelu-eps"),
    pytest.param({"activation": F.silu, "norm_first": True, "bias": False}, id="silu-pre-no-bias"),
]


def drawn(module: nn.Module, std: float = 0.3) -> Any:
    """A module in float64, every parameter drawn: torch's gains begin at 1 and its offsets at 0."""
    module = module.double().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0.0, std)
    return module


def encoder(final_norm: bool = False, n_layers: int = 2, **settings: Any) -> Any:
    layer = nn.TransformerEncoderLayer(**{**LAYER, **settings})
    norm = nn.LayerNorm(D) if final_norm else None
    return drawn(nn.TransformerEncoder(layer, n_layers, norm, enable_nested_tensor=False))


def decoder(final_norm: bool = False, **settings: Any) -> Any:
    layer = nn.TransformerDecoderLayer(**{**LAYER, **settings})
    return drawn(nn.TransformerDecoder(layer, 2, nn.LayerNorm(D) if final_norm else None))


def whole(**settings: Any) -> Any:
    layers = {"num_encoder_layers": 2, "num_decoder_layers": 3}
    with warnings.catch_warnings():  # torch warns of its own default, which here cannot be changed
        warnings.filterwarnings("ignore", "enable_nested_tensor is True")
        module = nn.Transformer(**{**LAYER, **layers, **settings})
    if isinstance(module.encoder, nn.TransformerEncoder):
        module.encoder.use_nested_tensor = False  # a prototype, of which torch warns
    return drawn(module)


def embeddings(length: int) -> Tensor:
    return torch.randn(2, length, D, dtype=torch.float64)


def hidden_after(length: int) -> Tensor:
    """Torch's causal mask: True = hidden."""
    return torch.ones(length, length, dtype=torch.bool).triu(1)


def assert_same(ours: Tensor, theirs: Tensor, places: Places) -> None:
    """Equal where tokens stand; padding is zero in ours and anything in theirs."""
    real = places.is_token
    torch.testing.assert_close(ours[real], theirs[real], atol=1e-9, rtol=1e-9)


def assert_written(ours: Any, theirs: nn.Module) -> None:
    """What is written is what was read, and torch takes it."""
    state = torch_state(ours)
    expected = theirs.state_dict()
    assert state.keys() == expected.keys()
    for name, tensor in state.items():
        assert torch.equal(tensor, expected[name]), name
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.zero_()
    theirs.load_state_dict(state, strict=True)


@pytest.mark.parametrize("bias", [True, False])
@torch.no_grad()
def test_self_attention_is_torchs(bias):
    theirs = drawn(nn.MultiheadAttention(D, HEADS, bias=bias, batch_first=True))
    config = AttentionConfig(n_heads=HEADS, n_kv_heads=HEADS, d_head=D // HEADS, bias=bias, out_bias=bias)
    ours = Attention(config, D).double().eval()
    load_torch(ours, theirs.state_dict())
    x, places = embeddings(5), Places.from_lengths(LENGTHS)
    expected, _ = theirs(x, x, x, key_padding_mask=~places.is_token, need_weights=False)
    assert_same(ours(x, Call(places).at(0)), expected, places)
    assert_written(ours, theirs)


@torch.no_grad()
def test_weights_on_a_tape_are_those_that_torch_returns():
    theirs = whole()
    ours = from_torch(theirs)
    x, places = embeddings(5), Places.from_lengths(LENGTHS)
    _, weights = theirs.encoder.layers[0].self_attn(
        x, x, x, key_padding_mask=~places.is_token, average_attn_weights=False
    )
    tape = Tape(ours, "encoder.blocks.0.attention.weights")
    ours.encode(x, places=places, tape=tape)
    real = places.is_token[:, None, :, None].expand_as(weights)
    noted = tape["encoder.blocks.0.attention.weights"]
    torch.testing.assert_close(noted[real], weights[real], atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("bias", [True, False])
@torch.no_grad()
def test_cross_attention_is_torchs(bias):
    """Torch has one matrix for q, k and v here too: its first third is for q."""
    theirs = drawn(nn.MultiheadAttention(D, HEADS, bias=bias, batch_first=True))
    config = AttentionConfig(n_heads=HEADS, n_kv_heads=HEADS, d_head=D // HEADS, bias=bias, out_bias=bias)
    ours = Attention(config, D, cross=True).double().eval()
    load_torch(ours, theirs.state_dict())
    x, memory = embeddings(5), embeddings(7)
    places, source = Places.from_lengths(LENGTHS), Places.from_lengths(SOURCE_LENGTHS)
    expected, _ = theirs(x, memory, memory, key_padding_mask=~source.is_token, need_weights=False)
    assert_same(ours(x, Call(places, memory=source).at(0), memory), expected, places)
    assert_written(ours, theirs)


@pytest.mark.parametrize("settings", switches)
@pytest.mark.parametrize("final_norm", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@torch.no_grad()
def test_encoder_is_torchs(settings, final_norm, causal):
    theirs = encoder(final_norm, **settings)
    ours = from_torch(theirs, causal=causal)
    x, places = embeddings(5), Places.from_lengths(LENGTHS)
    expected = theirs(x, mask=hidden_after(5) if causal else None, src_key_padding_mask=~places.is_token)
    got, _ = ours(x, places)
    assert_same(got, expected, places)
    assert_written(ours, theirs)


@torch.no_grad()
def test_encoder_with_padding_on_the_left_is_torchs():
    theirs = encoder()
    ours = from_torch(theirs)
    x, places = embeddings(5), Places.from_lengths(LENGTHS, side="left")
    assert_same(ours(x, places)[0], theirs(x, src_key_padding_mask=~places.is_token), places)


@pytest.mark.parametrize("settings", switches)
@pytest.mark.parametrize("final_norm", [False, True])
@torch.no_grad()
def test_decoder_is_torchs(settings, final_norm):
    theirs = decoder(final_norm, **settings)
    ours = from_torch(theirs)
    x, memory = embeddings(5), embeddings(7)
    places, source = Places.from_lengths(LENGTHS), Places.from_lengths(SOURCE_LENGTHS)
    expected = theirs(
        x,
        memory,
        tgt_mask=hidden_after(5),
        tgt_key_padding_mask=~places.is_token,
        memory_key_padding_mask=~source.is_token,
    )
    assert_same(ours(x, places, memory=Memory(memory, source))[0], expected, places)
    assert_written(ours, theirs)


@pytest.mark.parametrize("settings", switches)
@torch.no_grad()
def test_transformer_is_torchs(settings):
    """Torch norms once more after the last layer of each stack, also where the layers end with a norm."""
    theirs = whole(**settings)
    ours = from_torch(theirs)
    assert ours.config.encoder.final_norm is not None
    assert (len(ours.encoder.blocks), len(ours.decoder.blocks)) == (2, 3)
    source, target = embeddings(7), embeddings(5)
    places, source_places = Places.from_lengths(LENGTHS), Places.from_lengths(SOURCE_LENGTHS)
    expected = theirs(
        source,
        target,
        tgt_mask=theirs.generate_square_subsequent_mask(5, dtype=torch.float64),
        src_key_padding_mask=torch.zeros(2, 7, dtype=torch.float64).masked_fill(~source_places.is_token, -torch.inf),
        tgt_key_padding_mask=torch.zeros(2, 5, dtype=torch.float64).masked_fill(~places.is_token, -torch.inf),
        memory_key_padding_mask=torch.zeros(2, 7, dtype=torch.float64).masked_fill(~source_places.is_token, -torch.inf),
        tgt_is_causal=True,
    )
    memory = ours.encode(source, places=source_places)
    assert_same(ours(target, places=places, memory=memory, outputs="hidden"), expected, places)
    assert_written(ours, theirs)


def test_gradients_are_torchs():
    theirs = whole().train()
    ours = from_torch(theirs)
    assert ours.training
    source, target = embeddings(7), embeddings(5)
    hidden = ours(target, memory=ours.encode(source), outputs="hidden")
    (hidden * target).sum().backward()
    (theirs(source, target, tgt_mask=hidden_after(5)) * target).sum().backward()
    for parameter in ours.parameters():
        if parameter.grad is not None:  # a table of embeddings that nobody read has none
            parameter.data.copy_(parameter.grad)
    gradients = torch_state(ours)
    for name, parameter in theirs.named_parameters():
        torch.testing.assert_close(gradients[name], parameter.grad, atol=1e-9, rtol=1e-8)


@torch.no_grad()
def test_any_mask_of_torchs_is_one_of_ours():
    """Torch's True hides; what says so is turned around once, at the border."""
    theirs = drawn(nn.MultiheadAttention(D, HEADS, batch_first=True))
    config = AttentionConfig(n_heads=HEADS, n_kv_heads=HEADS, d_head=D // HEADS)
    ours = Attention(config, D).double().eval()
    load_torch(ours, theirs.state_dict())
    x = embeddings(5)
    hidden = torch.rand(5, 5) < 0.5
    hidden.fill_diagonal_(False)
    expected, _ = theirs(x, x, x, attn_mask=hidden)
    got = ours(x, Call(Places.full(5), Mask(allow=mask_from_ignored(hidden))).at(0))
    torch.testing.assert_close(got, expected, atol=1e-9, rtol=1e-9)


@torch.no_grad()
def test_input_and_head_stay_as_they_are():
    theirs = whole()
    ours = from_torch(theirs, input=InputConfig(vocab_size=30, d_model=D), head=HeadConfig(vocab_size=30))
    before = {name: tensor.clone() for name, tensor in ours.state_dict().items()}
    other = whole()
    load_torch(ours, other.state_dict())
    for name, tensor in ours.state_dict().items():
        outside = ".input." in name or name.startswith("head.")
        assert torch.equal(tensor, before[name]) == outside, name
    assert ours(torch.tensor([[1, 2]]), memory=ours.encode(torch.tensor([[3, 4, 5]]))).shape == (1, 2, 30)


def test_from_torch_reads_every_setting():
    layer = nn.TransformerEncoderLayer(
        D, HEADS, D_FF, dropout=0.3, activation=nn.GELU("tanh"), layer_norm_eps=1e-3, norm_first=True, bias=False
    )
    ours = from_torch(nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).to(torch.bfloat16))
    block = ours.config.blocks[0]
    assert (block.attention.n_heads, block.attention.d_head, block.attention.dropout) == (4, 4, 0.3)
    assert (block.feed_forward.d_ff, block.feed_forward.activation, block.feed_forward.dropout) == (
        24,
        "gelu_tanh",
        0.3,
    )
    assert (block.norm_place, block.norm, block.dropout) == ("pre", NormConfig(eps=1e-3, bias=False), 0.3)
    assert not block.attention.bias
    assert not block.attention.out_bias
    assert not block.feed_forward.bias
    assert ours.training
    assert ours.blocks[0].attention.qkv.weight.dtype == torch.bfloat16
    assert ours.blocks[0].attention.site == "blocks.0.attention"


def test_layers_may_differ():
    theirs = encoder(n_layers=2)
    theirs.layers[1] = drawn(nn.TransformerEncoderLayer(**{**LAYER, "dim_feedforward": 40, "norm_first": True}))
    ours = from_torch(theirs)
    assert [block.feed_forward.d_ff for block in ours.config.blocks] == [24, 40]
    x = embeddings(5)
    torch.testing.assert_close(ours(x, None)[0], theirs(x), atol=1e-9, rtol=1e-9)


def test_state_that_does_not_fit_is_refused_whole():
    theirs = encoder(final_norm=True)
    ours = from_torch(theirs)
    before = torch_state(ours)
    state = dict(encoder(final_norm=True).state_dict())
    del state["layers.0.linear1.bias"]
    state["layers.1.linear2.weight"] = torch.zeros(D, 3)
    state["layers.2.norm1.weight"] = torch.zeros(D)
    state["layers.0.self_attn.bias_k"] = torch.zeros(1, 1, D)
    with pytest.raises(CheckpointError) as error:
        load_torch(ours, state)
    for said in (
        "missing layers.0.linear1.bias",
        "layers.1.linear2.weight has shape (16, 3), this part needs (16, 24)",
        "unexpected layers.2.norm1.weight",
        "unexpected layers.0.self_attn.bias_k (add_bias_kv has no counterpart)",
    ):
        assert said in str(error.value)
    after = torch_state(ours)
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())


def test_norm_after_the_last_layer_is_explained():
    ours = from_torch(whole())
    without = ours.config.encoder.model_copy(update={"final_norm": None})
    model = Transformer(ours.config.model_copy(update={"encoder": without}))
    with pytest.raises(CheckpointError, match=r"unexpected encoder\.norm\.weight \(nn\.Transformer norms once more"):
        load_torch(model, whole().state_dict())


def stack(**changes: Any) -> Stack:
    config = from_torch(encoder(n_layers=1)).config
    block = config.blocks[0]
    for name in ("attention", "feed_forward", "norm"):
        block = block.model_copy(update={name: getattr(block, name).model_copy(update=changes.pop(name, {}))})
    block = block.model_copy(update=changes.pop("block", {}))
    return Stack(StackConfig.parse({**config.model_dump(), "blocks": [block.model_dump()], **changes}))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"attention": {"n_kv_heads": 2}}, "blocks.0.attention.n_kv_heads is 2, and n_heads 4"),
        ({"attention": {"d_head": 8}}, "blocks.0.attention.n_heads x d_head is 32, and d_model 16"),
        ({"attention": {"scale": "none"}}, "blocks.0.attention.scale is none"),
        ({"attention": {"bias": False}}, "blocks.0.attention.bias is False, and out_bias True"),
        ({"attention": {"rotary": RotaryConfig()}}, "blocks.0.attention.rotary is set"),
        ({"attention": {"qk_norm": NormConfig()}}, "blocks.0.attention.qk_norm is set"),
        ({"attention": {"window": 3}}, "blocks.0.attention.window is set"),
        ({"feed_forward": {"gated": True}}, "blocks.0.feed_forward.gated is true"),
        ({"feed_forward": {"bias": False}}, "blocks.0.bias differs between attention, feed-forward and norm"),
        ({"norm": {"kind": "rms"}}, "blocks.0.norm.kind is rms"),
        ({"block": {"residual": False}}, "blocks.0.residual is false"),
        ({"block": {"parallel": True, "norm_place": "pre"}}, "blocks.0.parallel is true"),
        ({"final_norm": NormConfig(kind="rms").model_dump()}, "final_norm.kind is rms"),
        ({"position_bias": AlibiConfig().model_dump()}, "position_bias is alibi"),
    ],
)
def test_what_torch_cannot_do_is_refused_both_ways(changes, said):
    ours = stack(**changes)
    for attempt in (lambda: torch_state(ours), lambda: load_torch(ours, {})):
        with pytest.raises(UnsupportedError) as error:
            attempt()
        assert said in str(error.value)


def test_one_stack_is_no_transformer_of_torchs(tiny):
    with pytest.raises(UnsupportedError, match=r"this model one: use model\.decoder"):
        torch_state(tiny())


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (lambda: _with_attention(add_zero_attn=True), "add_zero_attn has no counterpart"),
        (lambda: _with_attention(add_bias_kv=True), r"bias_k \(add_bias_kv has no counterpart\)"),
        (lambda: _with_attention(kdim=8, vdim=8), r"k_proj_weight \(kdim and vdim must be embed_dim\)"),
        (lambda: encoder(activation=torch.tanh), "known here are relu, gelu and silu"),
        (lambda: nn.TransformerEncoder(_Own(**LAYER), 1, enable_nested_tensor=False), "none of torch's own"),
        (lambda: nn.Transformer(**LAYER, custom_encoder=nn.Linear(2, 2)), "a Linear is no encoder"),
        (lambda: _with_norm(nn.RMSNorm(D)), "only an nn.LayerNorm with a gain"),
        (lambda: _with_norm(nn.LayerNorm(D, elementwise_affine=False)), "only an nn.LayerNorm with a gain"),
        (lambda: _with_norm(nn.LayerNorm(D, eps=1e-3)), "the norms of a layer differ"),
    ],
)
def test_what_ours_cannot_do_is_refused(module, said):
    with pytest.raises((UnsupportedError, CheckpointError), match=said):
        from_torch(module())


def _with_attention(**settings: Any) -> Any:
    theirs = encoder()
    theirs.layers[0].self_attn = nn.MultiheadAttention(D, HEADS, batch_first=True, **settings)
    return theirs


def _with_norm(norm: nn.Module) -> Any:
    theirs = encoder()
    theirs.layers[0].norm1 = norm
    return theirs


class _Own(nn.Module):
    """Somebody's own layer."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.linear1 = nn.Linear(D, D)


def test_what_belongs_to_another_kind_is_not_left_aside():
    with pytest.raises(ConfigError, match=r"head is for an nn\.Transformer, and this is an nn\.TransformerEncoder"):
        from_torch(encoder(), head=HeadConfig(vocab_size=3))  # type: ignore[call-overload]
    with pytest.raises(ConfigError, match=r"causal is for a lone stack, and this is an nn\.Transformer;"):
        from_torch(whole(), causal=False)  # type: ignore[call-overload]


def test_attention_to_the_memory_has_offsets_where_the_others_have():
    config = from_torch(decoder()).config.blocks[0]
    without = config.cross_attention.model_copy(update={"bias": False, "out_bias": False})
    with pytest.raises(UnsupportedError, match="bias differs between"):
        torch_state(Block(config.model_copy(update={"cross_attention": without}), D))


@torch.no_grad()
def test_a_block_is_a_layer_of_torchs():
    theirs = drawn(nn.TransformerDecoderLayer(**LAYER))
    ours = Block(from_torch(decoder()).config.blocks[0], D).double()
    load_torch(ours, theirs.state_dict())
    assert_written(ours, theirs)
