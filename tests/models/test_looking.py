"""Looking never changes the answer, and what can be looked at is known before anything runs."""

from __future__ import annotations

from fnmatch import fnmatch

import pytest
import torch

from glassformer.core.config import TransformConfig
from glassformer.core.errors import ConfigError
from glassformer.core.places import Places
from glassformer.core.tape import Patch, Tape
from glassformer.models.transformer import Transformer

TOKENS = torch.tensor([[5, 6, 7], [8, 9, 10]])
SOURCE = torch.tensor([[11, 12, 13, 14, 15], [16, 17, 18, 2, 2]])
SOURCE_PLACES = Places.from_lengths([5, 3])

MODELS = [
    {"kind": "decoder"},
    {"kind": "decoder", "positions": "rotary", "norm_place": "pre", "parallel": True, "n_kv_heads": 1},
    {"kind": "decoder", "norm": "none", "gated": True, "attention": {"window": 2, "kernel": "reference"}},
    {"kind": "encoder", "positions": "learned", "max_positions": 8},
    {"kind": "encoder_decoder", "n_kv_heads": 1},
    {"kind": "encoder_decoder", "positions": "none", "norm_place": "pre"},
    {"kind": "decoder", "positions": "rotary", "norm": "rms", "norm_place": "pre", "attention": {"qk_norm": True}},
    {"kind": "decoder", "attention": {"type": "shaw", "max_distance": 2, "soft_cap": 1.0}},
    {"kind": "decoder", "attention": {"type": "linear"}, "gated": True},
    {"kind": "encoder", "n_types": 2, "input_norm": True, "transform": TransformConfig(), "n_kv_heads": 1},
]
EVERY_MODEL = pytest.mark.parametrize("arguments", MODELS, ids=lambda a: "-".join(map(str, a.values())))


def run(model: Transformer, tape: Tape | None = None, **given: object) -> torch.Tensor:
    if model.encoder is not None and model.decoder is not None:
        given["memory"] = model.encode(SOURCE, places=SOURCE_PLACES, tape=tape)
    return model(TOKENS, tape=tape, **given)


@EVERY_MODEL
def test_sites_that_are_listed_are_those_that_a_run_comes_by(tiny, arguments):
    model = tiny(**arguments)
    tape = Tape(model, "*")
    run(model, tape)
    names = [site.name for site in model.sites()]
    assert len(set(names)) == len(names)
    assert set(tape) == set(names)


@EVERY_MODEL
def test_declared_shapes_are_the_real_ones(tiny, arguments):
    """B, D, F, V have one size; T, S, H, K, E are those of the stack and the attention that a site stands in."""
    model = tiny(d_head=6, **arguments)
    tape = Tape(model, "*")
    run(model, tape)
    kv_heads = arguments.get("n_kv_heads", 2)
    for site in model.sites():
        reads_source = site.name.startswith("encoder") and model.decoder is not None
        length = 5 if reads_source else 3
        keys = 5 if ".cross_attention." in site.name else length
        sizes = {"B": 2, "T": length, "S": keys, "D": 16, "F": 24, "H": 2, "K": kv_heads, "E": 6, "V": 32}
        assert tape[site.name].shape == tuple(sizes[word] for word in site.shape.split()), site


@EVERY_MODEL
@pytest.mark.parametrize("mode", ["eval", "train"])
def test_recording_does_not_change_the_answer(tiny, arguments, mode):
    model = tiny(**(arguments | {"dropout": 0.3})).train(mode == "train")
    torch.manual_seed(5)
    expected = run(model)
    tape = Tape(model, "*")
    torch.manual_seed(5)
    assert torch.equal(run(model, tape), expected)
    assert len(tape) == len(model.sites())


def test_loss_and_gradients_are_the_same_with_a_tape(tiny):
    model = tiny(kind="encoder_decoder")
    results = []
    for tape in (None, Tape(model, "*")):
        loss = run(model, tape, labels=TOKENS)
        results.append([loss.sum, *torch.autograd.grad(loss.sum, list(model.parameters()))])
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("kernel", ["sdpa", "reference"])
def test_o28_weights_come_by_head_with_rows_that_sum_to_one(tiny, kernel):
    """B = 2, H = 4, 3 queries, 5 keys; the second source is 3 long, the second target empty."""
    model = tiny(kind="encoder_decoder", n_heads=4, attention={"kernel": kernel})
    tape = Tape(model, "*.weights")
    memory = model.encode(SOURCE, places=SOURCE_PLACES, tape=tape)
    model(TOKENS, memory=memory, places=Places.from_lengths([3, 0], 3), tape=tape)
    assert len(tape) == 6
    for layer in range(2):
        cross = tape[f"decoder.blocks.{layer}.cross_attention.weights"]
        own = tape[f"decoder.blocks.{layer}.attention.weights"]
        source = tape[f"encoder.blocks.{layer}.attention.weights"]
        assert (cross.shape, own.shape, source.shape) == ((2, 4, 3, 5), (2, 4, 3, 3), (2, 4, 5, 5))
        for weights in (cross[0], own[0], source[0], source[1, :, :3]):
            torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
        for weights in (cross[1], own[1], source[1, :, 3:], source[1, :, :, 3:], own[0].triu(1)):
            assert weights.eq(0).all()


def test_o28_generation_writes_a_causal_matrix_row_by_row(tiny):
    """Prompt of 3 and 2 more tokens: the rows that the steps saw are those of the whole text's 5 x 5 matrix."""
    model = tiny()
    tokens = torch.tensor([[3, 1, 4, 1, 5]])
    whole, steps = Tape(model, "*.weights"), Tape(model, "*.weights", keep="all")
    with torch.no_grad():
        model(tokens, tape=whole)
        cache = model.new_cache(1, 5)
        for begin, end in ((0, 3), (3, 4), (4, 5)):
            model(tokens[:, begin:end], cache=cache, tape=steps)
            cache.advance([end - begin])
    for site in whole:
        rows = [torch.nn.functional.pad(part, (0, 5 - part.shape[-1])) for part in steps.all(site)]
        torch.testing.assert_close(torch.cat(rows, dim=2), whole[site], atol=1e-6, rtol=1e-5)


def test_weights_and_scores_are_those_of_the_equation(tiny):
    model = tiny()
    site = "decoder.blocks.1.attention"
    tape = Tape(model, f"{site}.*")
    run(model, tape)
    q, k, v = (tape[f"{site}.{name}"] for name in "qkv")
    scores = q @ k.transpose(-2, -1) / 8**0.5
    torch.testing.assert_close(tape[f"{site}.scores"], scores)
    hidden = torch.ones(3, 3, dtype=torch.bool).triu(1)
    weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    torch.testing.assert_close(tape[f"{site}.weights"], weights)
    torch.testing.assert_close(tape[f"{site}.heads"], weights @ v, atol=1e-6, rtol=1e-5)


def test_residual_stream_is_the_sum_of_what_the_layers_add(tiny):
    model = tiny(norm_place="pre")
    tape = Tape(model, "*.residual", "*.output")
    run(model, tape)
    block = "decoder.blocks.0"
    added = tape[f"{block}.attention.output"] + tape[f"{block}.feed_forward.output"]
    torch.testing.assert_close(tape[f"{block}.residual"], tape["decoder.input.output"] + added)


PARTS = MODELS[6:]


@pytest.mark.parametrize("arguments", PARTS, ids=lambda a: "-".join(map(str, a.values())))
@pytest.mark.parametrize("site", ["*.scaled", "*.mask", "*_projected", "*norm.output", "*.sum", "*.types", "*.factor",
                                  "*.before_activation", "*.after_*", "head.*", "*.distances.*"])  # fmt: skip
def test_patch_of_every_new_site_that_changes_nothing_changes_nothing(tiny, arguments, site):
    model = tiny(**arguments)
    if not any(fnmatch(each.name, site) for each in model.sites()):
        pytest.skip("this model has no such site")
    tape = Tape(model, patches=[Patch(site, lambda value: value.clone())])
    torch.testing.assert_close(run(model, tape), run(model), atol=1e-5, rtol=1e-5)


def test_patched_mask_lets_a_token_see_the_future(tiny):
    """All see all: the first token's answer now depends on the last, and weights are those without a mask."""
    model = tiny(n_layers=1)
    site = "decoder.blocks.0.attention"
    tape = Tape(model, f"{site}.*", patches=[Patch(f"{site}.mask", torch.ones_like)])
    out = run(model, tape)
    torch.testing.assert_close(tape[f"{site}.weights"], tape[f"{site}.scores"].softmax(-1))
    assert not torch.allclose(out[:, 0], run(model)[:, 0])


def test_patched_logits_are_what_the_loss_is_of(tiny):
    """Without a patch the loss never holds all logits, and a tape sees none."""
    model = tiny()
    tape = Tape(model, "head.*")
    run(model, tape, labels=TOKENS)
    assert list(tape) == []
    even = Tape(model, "head.*", patches=[Patch("head.logits", torch.zeros_like)])
    loss = run(model, even, labels=TOKENS)
    torch.testing.assert_close(loss.mean, torch.tensor(32.0).log())
    assert even["head.logits"].shape == (2, 3, 32)


def test_last_logits_are_shown_with_one_position(tiny):
    model = tiny()
    tape = Tape(model, "head.logits")
    out = run(model, tape, outputs="last")
    assert torch.equal(tape["head.logits"][:, 0], out)
    assert tape["head.logits"].shape == (2, 1, 32)


@pytest.mark.parametrize("kernel", ["sdpa", "reference"])
@pytest.mark.parametrize("name", ["scores", "weights"])
def test_patch_that_changes_nothing_changes_nothing(tiny, kernel, name):
    model = tiny(n_kv_heads=1, attention={"kernel": kernel})
    tape = Tape(model, patches=[Patch(f"*.{name}", lambda value: value.clone())])
    torch.testing.assert_close(run(model, tape), run(model), atol=1e-5, rtol=1e-5)


def test_patched_weights_are_what_the_values_are_mixed_with(tiny):
    """Every query is made to look at the first key alone."""
    model = tiny()
    site = "decoder.blocks.0.attention"

    def first(weights: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(weights).index_fill(-1, torch.tensor([0]), 1.0)

    tape = Tape(model, f"{site}.*", patches=[Patch(f"{site}.weights", first)])
    run(model, tape)
    assert torch.equal(tape[f"{site}.weights"], first(tape[f"{site}.weights"]))
    values = tape[f"{site}.v"][:, :, :1].expand_as(tape[f"{site}.heads"])
    torch.testing.assert_close(tape[f"{site}.heads"], values)


def test_patched_scores_go_through_the_mask(tiny):
    model = tiny()
    site = "decoder.blocks.0.attention"
    tape = Tape(model, "*.weights", patches=[Patch(f"{site}.scores", torch.zeros_like)])
    run(model, tape)
    expected = torch.tensor([[1, 0, 0], [1 / 2, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3]])
    torch.testing.assert_close(tape[f"{site}.weights"], expected.expand(2, 2, 3, 3))


def test_patched_attention_is_dropped_out_like_any_other(tiny):
    model = tiny(attention={"dropout": 0.5}).train()
    tape = Tape(model, patches=[Patch("*.weights", lambda weights: weights)])
    assert not torch.equal(run(model, tape), run(model, tape))


def test_patch_on_the_residual_stream_decides_everything_after_it(tiny):
    """Both rows are given the stream of the first: both come out alike."""
    model = tiny()
    tape = Tape(model, patches=[Patch("decoder.blocks.0.residual", lambda x: x[:1].expand_as(x))])
    out = run(model, tape)
    assert torch.equal(out[0], out[1])
    torch.testing.assert_close(out[0], run(model)[0])


def test_patch_can_be_differentiated(tiny):
    model = tiny()
    factor = torch.ones((), requires_grad=True)
    tape = Tape(model, patches=[Patch("decoder.blocks.0.attention.output", lambda x: factor * x)])
    (gradient,) = torch.autograd.grad(run(model, tape, labels=TOKENS).sum, factor)
    assert gradient.item() != 0


def test_reduced_tape_keeps_an_entropy_and_not_the_matrix(tiny):
    def entropy(weights: torch.Tensor) -> torch.Tensor:
        return -(weights * weights.clamp(min=1e-12).log()).sum(-1)

    model = tiny()
    whole, reduced = Tape(model, "*.weights"), Tape(model, "*.weights", reduce=entropy)
    run(model, whole)
    run(model, reduced)
    for site in whole:
        assert reduced[site].shape == (2, 2, 3)
        torch.testing.assert_close(reduced[site], entropy(whole[site]))


def test_unmatched_pattern_names_a_near_site_of_the_model(tiny):
    with pytest.raises(ConfigError, match=r"did you mean 'decoder.blocks.1.attention.weights'"):
        Tape(tiny(), "decoder.blocks.1.attention.wieghts")
    with pytest.raises(ConfigError, match="no site matches 'encoder"):
        Tape(tiny(), "encoder.*")
    with pytest.raises(ConfigError, match=r"no site matches 'decoder.input.positions'"):
        Tape(tiny(positions="rotary"), "decoder.input.positions")
