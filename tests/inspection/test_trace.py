"""One forward pass as steps: shapes by letter, values that follow from one another, and the lines that made them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import glassformer
from glassformer.core.attention_config import PatternConfig
from glassformer.core.config import TransformConfig, TransformerConfig
from glassformer.core.errors import DataError, UnsupportedError
from glassformer.core.position_config import RotaryConfig
from glassformer.core.tape import Tape
from glassformer.families.registry import PRESETS
from glassformer.inspection.trace import Trace, trace
from glassformer.inspection.trace_steps import Step
from glassformer.inspection.trace_text import who_rows
from glassformer.inspection.trace_wording import REASONS, TITLES
from glassformer.models.arguments import AttentionArguments, ModelArguments
from glassformer.models.transformer import Transformer

Make = Callable[..., Transformer]
VOCAB = 32
SHRUNK: Mapping[str, Any] = {"d_model": 16, "n_layers": 2, "n_decoder_layers": None, "d_ff": 24, "max_positions": 16}


def read(model: Transformer, **options: Any) -> Trace:
    """Three tokens and, where there are two stacks, five of a source."""
    sources = [5, 6, 7, 8, 9] if model.config.kind == "encoder_decoder" else None
    return trace(model, [1, 2, 3], sources=sources, **options)


def by_name(found: Trace, part: str) -> dict[str, Tensor]:
    return {step.name: step.value for step in found.steps if step.part == part}


@st.composite
def configs(draw: st.DrawFn) -> TransformerConfig:
    """Any preset, shrunk, or any arguments."""
    if draw(st.booleans()):
        name = draw(st.sampled_from(sorted(PRESETS)))
        heads = {"n_heads": 4, "d_head": 8, "n_kv_heads": draw(st.sampled_from([1, 2, 4]))}
        arguments = PRESETS[name].model_copy(update={**SHRUNK, **heads})
        return ModelArguments(**arguments.model_dump()).resolve(VOCAB)
    kind = draw(st.sampled_from(["encoder", "decoder", "encoder_decoder"]))
    type_ = draw(st.sampled_from(["softmax", "shaw", "linear"]))
    positions = draw(st.sampled_from(["sinusoidal", "learned", "rotary", "relative", "alibi", "none"]))
    place = draw(st.sampled_from(["pre", "post"]))
    linear = type_ == "linear"
    attention = AttentionArguments(
        type=type_,
        max_distance=2 if type_ == "shaw" else None,
        scale=draw(st.sampled_from(["sqrt", "d_k", "none", 0.3])),
        qk_norm=draw(st.booleans()),
        soft_cap=None if linear else draw(st.sampled_from([None, 1.5])),
        window=None if linear else draw(st.sampled_from([None, 2])),
    )
    parallel = place == "pre" and kind != "encoder_decoder" and draw(st.booleans())
    arguments = ModelArguments(
        kind=kind,
        d_model=16,
        n_layers=2,
        n_heads=4,
        n_kv_heads=draw(st.sampled_from([1, 2, 4])),
        d_head=8,
        d_ff=24,
        positions="none" if linear and positions in ("relative", "alibi") else positions,
        max_positions=16,
        rotary=RotaryConfig(pairing=draw(st.sampled_from(["halves", "interleaved"]))),
        n_types=draw(st.sampled_from([0, 2])),
        input_norm=draw(st.booleans()),
        activation=draw(st.sampled_from(["relu", "gelu", "gelu_tanh", "silu"])),
        gated=draw(st.booleans()),
        bias=draw(st.booleans()),
        norm=draw(st.sampled_from(["layer", "rms", "none"])),
        norm_place=place,
        residual=draw(st.booleans()),
        parallel=parallel,
        parallel_norms=2 if parallel and draw(st.booleans()) else 1,
        transform=draw(st.sampled_from([None, TransformConfig(activation="tanh")])),
        attention=attention,
    )
    return arguments.resolve(VOCAB, classes=draw(st.sampled_from([None, ("a", "b", "c")])))


def real_sizes(config: TransformerConfig) -> dict[str, int]:
    stack = config.output_stack
    first, block = stack.blocks[0].attention, stack.blocks[0]
    sizes = {"B": 1, "T": 3, "S": 5, "D": stack.input.d_model, "V": VOCAB, "C": 3}
    return sizes | {"H": first.n_heads, "K": first.n_kv_heads, "E": first.d_head, "F": block.feed_forward.d_ff}


@given(config=configs())
@settings(max_examples=40)
def test_every_letter_has_the_size_that_the_config_gives_it(config):
    """In every step of every kind of model, each letter is one size, that of the config."""
    found = read(Transformer(config).eval(), layers=None)
    sizes = real_sizes(config)
    for step in found.steps:
        expected = tuple(math.prod(sizes[letter] for letter in word.split("·")) for word in step.shape.split())
        assert step.sizes == expected, step
        assert step.name in TITLES
        assert step.name in REASONS
        assert step.equation
    assert found.sizes == {letter: sizes[letter] for letter in found.sizes}
    assert [step.number for step in found.steps] == list(range(1, len(found.steps) + 1))


@given(config=configs())
@settings(max_examples=15)
def test_every_site_of_the_blocks_shown_is_a_step_with_the_tapes_value(config):
    """But for those that say the same again: what a stack hands out behind its last norm or block."""
    model = Transformer(config).eval()
    found = read(model, layers=None)
    tape = Tape(model, "*")
    with torch.no_grad():
        reads = config.kind == "encoder_decoder"
        memory = model.encode(torch.tensor([[5, 6, 7, 8, 9]]), tape=tape) if reads else None
        model(torch.tensor([[1, 2, 3]]), memory=memory, outputs="logits" if model.head else "hidden", tape=tape)
    steps = {step.site: step for step in found.steps if step.site}
    for site, step in steps.items():
        assert torch.equal(step.value, tape[site]), site
    repeated = [site for site in tape if site not in steps]
    for site in repeated:
        assert any(torch.equal(step.value, tape[site]) for step in found.steps), site


@pytest.mark.parametrize("kind", ["decoder", "encoder", "encoder_decoder"])
@pytest.mark.parametrize("place", ["pre", "post"])
def test_each_step_follows_from_those_before_it(tiny: Make, kind, place):
    """Worked out again: scores, softmax, weighted sum, joined heads, projections, additions, and the head."""
    model = tiny(kind=kind, norm_place=place, n_heads=4, n_kv_heads=2)
    found = read(model, layers=None)
    stack, site = model.output_stack, model.output_stack.site
    stream = by_name(found, f"{site}.input")["input_sum"]
    for layer, block in enumerate(stack.blocks):
        path = f"{site}.blocks.{layer}"
        added = [step.value for step in found.steps if step.part == path and step.name == "residual"]
        parts = [("attention", block.attention), ("cross_attention", block.cross_attention)]
        parts += [("feed_forward", block.feed_forward)]
        for name, part in [each for each in parts if each[1] is not None]:
            at = by_name(found, f"{path}.{name}")
            if name == "feed_forward":
                assert torch.equal(at["activation"], at["widened"].relu())
                output = torch.nn.functional.linear(at["activation"], part.output.weight, part.output.bias)
                torch.testing.assert_close(output, at["feed_forward_output"])
            else:
                k = at["cross_k" if part.cross else "k"].repeat_interleave(2, dim=1)
                v = at["cross_v" if part.cross else "v"].repeat_interleave(2, dim=1)
                torch.testing.assert_close(at["products"], at["q"] @ k.transpose(-2, -1))
                torch.testing.assert_close(at["scaled"], at["products"] / math.sqrt(4))
                hidden = at["scaled"].masked_fill(~at["mask"], -math.inf)
                torch.testing.assert_close(at["weights"], hidden.softmax(-1))
                torch.testing.assert_close(at["heads"], at["weights"] @ v, atol=1e-6, rtol=1e-5)
                assert torch.equal(at["joined"].unflatten(-1, (4, 4)).transpose(1, 2), at["heads"])
                output = torch.nn.functional.linear(at["joined"], part.output.weight, part.output.bias)
                torch.testing.assert_close(output, at["attention_output"])
            total = added.pop(0)
            torch.testing.assert_close(total, stream + output)
            norm = getattr(block, f"{name}_norm")
            normed = by_name(found, norm.site)[f"{place}_norm"]
            torch.testing.assert_close(normed, norm(stream if place == "pre" else total))
            stream = total if place == "pre" else normed
        assert not added
    final = by_name(found, f"{site}.final_norm")["final_norm"] if place == "pre" else stream
    at = by_name(found, "head")
    torch.testing.assert_close(at["logits"], final @ model.head.weight.T)
    torch.testing.assert_close(at["probabilities"], at["logits"].softmax(-1))


def test_linear_attention_is_followed_by_its_own_equation(tiny: Make):
    at = by_name(read(tiny(attention={"type": "linear"})), "decoder.blocks.0.attention")
    assert torch.equal(at["q_feature"], torch.nn.functional.elu(at["q"]) + 1)
    torch.testing.assert_close(at["linear_scores"], at["q_feature"] @ at["k_feature"].transpose(-2, -1))
    seen = at["linear_scores"] * at["mask"]
    torch.testing.assert_close(at["linear_weights"], seen / seen.sum(-1, keepdim=True))
    torch.testing.assert_close(at["heads"], at["linear_weights"] @ at["v"], atol=1e-6, rtol=1e-5)


def test_shaw_with_a_cap_and_a_bias_is_added_up(tiny: Make):
    arguments = {"type": "shaw", "max_distance": 2, "soft_cap": 0.5}
    found = read(tiny(positions="alibi", attention=arguments))
    site = "decoder.blocks.0.attention"
    at, distances = by_name(found, site), by_name(found, f"{site}.distances")
    bias = by_name(found, "decoder.position_bias")["position_bias"]
    torch.testing.assert_close(at["capped"], 0.5 * torch.tanh(at["scaled"] / 0.5))
    torch.testing.assert_close(at["scores"], at["capped"] + bias + distances["distance_scores"])
    torch.testing.assert_close(at["heads"], at["weights"] @ at["v"] + distances["distance_values"])


def test_rotary_steps_turn_what_was_projected(tiny: Make):
    """At position 1 the first pair turns by one radian; at position 0 nothing turns."""
    at = by_name(read(tiny(positions="rotary")), "decoder.blocks.0.attention")
    before, after = at["q"], at["q_rotary"]
    assert torch.equal(before[:, :, 0], after[:, :, 0])
    a, b = before[0, 0, 1, 0], before[0, 0, 1, 4]
    torch.testing.assert_close(after[0, 0, 1, 0], a * math.cos(1) - b * math.sin(1))
    torch.testing.assert_close(at["products"], after @ at["k_rotary"].transpose(-2, -1))


def test_where_is_the_line_that_computes_it(tiny: Make):
    found = read(tiny(kind="encoder_decoder"))
    root = Path(glassformer.__file__).parents[1]
    expected = {
        "embedding": "F.embedding(",
        "embedding_scaled": "self.embedding(inputs) * self.scale",
        "positions": 'call.note(self, "positions"',
        "q": "self.qkv(x)",
        "cross_k": "self.kv(memory)",
        "products": "@ keys.transpose",
        "scaled": "attention_scores(q, k, scale=self.scale)",
        "weights": "attention_weights",
        "joined": "heads.transpose(1, 2).flatten(2)",
        "attention_output": "self.output(joined)",
        "activation": '"inner"',
        "post_norm": "norm(out)",
        "logits": "self.product(scored, self.weight",
        "probabilities": "torch.softmax(logits",
    }
    seen = set()
    for step in found.steps:
        file, _, line = step.where.rpartition(":")
        assert file.startswith("glassformer/")
        code = (root / file).read_text(encoding="utf-8").splitlines()[int(line) - 1]
        if step.name in expected and (step.name, step.part) != ("q", "decoder.blocks.0.cross_attention"):
            seen.add(step.name)
            assert expected[step.name] in code or expected[step.name] in _before(root / file, int(line)), step
    assert seen == set(expected)


def _before(file: Path, line: int) -> str:
    """The line above: a value is shown on the line that follows the one that made it."""
    return file.read_text(encoding="utf-8").splitlines()[line - 2]


def test_other_blocks_are_one_step_that_says_what_differs(tiny: Make):
    model = tiny(n_layers=3, attention={"window": 2, "window_layers": (1,)})
    found = read(model)
    blocks = [step for step in found.steps if step.name == "block"]
    assert [step.part for step in blocks] == ["decoder.blocks.1", "decoder.blocks.2"]
    assert [(step.like, step.remarks) for step in blocks] == [(0, ("attention.window is 2, not None",)), (0, ())]
    whole = read(model, layers=None)
    assert torch.equal(blocks[1].value, [step for step in whole.steps if step.name == "post_norm"][-1].value)
    windows = {step.part: step.equation for step in whole.steps if step.name == "mask"}
    assert windows["decoder.blocks.1.attention"] == "allowed[t, s] = s ≤ t ∧ |t − s| < 2"
    assert windows["decoder.blocks.2.attention"] == "allowed[t, s] = s ≤ t"


def test_who_asks_whom(tiny: Make):
    asking = [(each.kind, each.causal, each.layers) for each in read(tiny(kind="encoder_decoder")).asking]
    assert asking == [("encoder", False, 2), ("decoder", True, 2), ("cross", False, 2)]
    assert [each.kind for each in read(tiny()).asking] == ["decoder"]


def test_most_probable_tokens_are_named(tiny: Make):
    model = tiny()
    found = trace(model, [1, 2, 3], name=lambda token: f"<{token}>")
    with torch.no_grad():
        likely = model(torch.tensor([[1, 2, 3]])).softmax(-1)[0]
    assert found.labels["T"] == ("<1>", "<2>", "<3>")
    for row, expected in zip(found.top, likely, strict=True):
        assert row[0][0] == f"<{int(expected.argmax())}>"
        assert row[0][1] == pytest.approx(float(expected.max()))


def test_classes_are_named(tiny: Make):
    config = ModelArguments(kind="encoder", d_model=16, n_layers=1, n_heads=2).resolve(VOCAB, classes=("yes", "no"))
    found = read(Transformer(config))
    assert found.labels["C"] == ("yes", "no")
    assert {name for name, _ in found.top[0]} == {"yes", "no"}
    assert found.steps[-1].shape == "B C"


def test_layers_that_differ_in_a_size_get_letters_of_their_own(tiny: Make):
    config = ModelArguments(kind="decoder", d_model=16, n_layers=2, n_heads=2, d_ff=24).resolve(VOCAB)
    stack = config.decoder
    assert stack is not None
    wide = stack.blocks[1].model_copy(
        update={"feed_forward": stack.blocks[1].feed_forward.model_copy(update={"d_ff": 40})}
    )
    config = config.model_copy(update={"decoder": stack.model_copy(update={"blocks": (stack.blocks[0], wide)})})
    found = read(Transformer(config).eval(), layers=None)
    assert (found.sizes["F"], found.sizes["F′"]) == (24, 40)


def test_model_is_left_in_its_mode_and_the_trace_needs_no_gradient(tiny: Make):
    model = tiny(dropout=0.5).train()
    first, second = read(model), read(model)
    assert model.training
    assert not any(step.value.requires_grad for step in first.steps)
    assert all(torch.equal(a.value, b.value) for a, b in zip(first.steps, second.steps, strict=True))


def test_impossible_wishes_are_refused_with_the_way_out(tiny: Make):
    model = tiny()
    with pytest.raises(DataError, match=r"layers \[2\] are not all in 0..1"):
        read(model, layers=[2])
    with pytest.raises(DataError, match="no token to follow"):
        trace(model, [])
    with pytest.raises(DataError, match=r"there is no step 99; this trace has steps 1 to \d+"):
        read(model).step(99)
    with pytest.raises(DataError, match=r"need about .*limit is .*--layers 0.*--max-tokens 1"):
        read(model, limit_bytes=100)
    with pytest.raises(UnsupportedError, match="encode"):
        trace(tiny(kind="encoder_decoder"), [1])


def test_step_says_its_sizes():
    step = Step(1, "head", "", "logits", "B T V", torch.zeros(1, 2, 3), "", "", "")
    assert step.sizes == (1, 2, 3)


@pytest.mark.parametrize("narrowed", [{"window": 2}, {"pattern": PatternConfig(block=2, near=1)}])
def test_what_a_token_sees_is_not_all_before_it_behind_a_window(tiny: Make, narrowed):
    assert [row[3] for row in who_rows(read(tiny()), "en")[1:]] == ["itself and those before it"]
    found = read(tiny(attention=narrowed))
    assert found.asking[0].narrow
    assert [row[3] for row in who_rows(found, "en")[1:]] == ["itself and some before it"]
