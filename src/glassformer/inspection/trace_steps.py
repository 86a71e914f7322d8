"""What each part does, step by step: its values, its equations and where they come from."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from glassformer.core.attention_config import AttentionConfig
from glassformer.core.config import FeedForwardConfig, InputConfig
from glassformer.core.position_config import AlibiConfig, LinearScaling, Llama3Scaling, PositionConfig
from glassformer.core.tape import Tape
from glassformer.kernels.linear import feature
from glassformer.kernels.reference import attention_scores, bent_scores
from glassformer.parts.attention import Attention
from glassformer.parts.block import Block
from glassformer.parts.embedding import Embedding, Input
from glassformer.parts.feed_forward import FeedForward
from glassformer.parts.head import Head
from glassformer.parts.norm import LayerNorm, NoNorm, RMSNorm
from glassformer.parts.part import Part
from glassformer.parts.position_bias import Alibi, RelativeBias
from glassformer.parts.stack import Stack

PAPER = "Vaswani et al. 2017"
ROOT = Path(__file__).parents[2]

ACTIVATIONS: Mapping[str, tuple[str, str]] = {
    "relu": ("max(0, z)", f"{PAPER}, §3.3, eq. 2"),
    "gelu": ("z Φ(z)", "Hendrycks & Gimpel 2016 (GELU), §2"),
    "gelu_tanh": ("z/2 (1 + tanh(√(2/π) (z + 0.044715 z³)))", "Hendrycks & Gimpel 2016 (GELU), §2"),
    "silu": ("z / (1 + e⁻ᶻ)", "Elfwing et al. 2017 (SiLU)"),
    "tanh": ("tanh z", "Devlin et al. 2018 (BERT), released code"),
}
"""Each activation as an equation, and its source."""


@dataclass(frozen=True, eq=False)
class Step:
    """One value of a forward pass.

    Attributes:
        number: From 1, in the order of the forward pass.
        part: Path of the part that it belongs to ("decoder.blocks.0.attention").
        site: Where a tape sees it; empty for what the model leaves to a fused kernel, or never makes one tensor of.
        name: Key of its title and explanation in `trace_wording`.
        shape: Its dimensions by letter, as in "B H T T"; "H·E" is one dimension of H times E.
        value: The value itself. Its shape is that of the letters.
        equation: How it comes from earlier ones.
        source: The paper's section.
        where: The line of code that computed it ("glassformer/parts/attention.py:123").
        remarks: What is special about it.
        like: For a block shown as one step: number of the block that is shown in full, which it is like.
    """

    number: int
    part: str
    site: str
    name: str
    shape: str
    value: Tensor
    equation: str
    source: str
    where: str
    remarks: tuple[str, ...] = ()
    like: int | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """The real size of each dimension."""
        return tuple(self.value.shape)


class Steps:
    """The steps so far, and what their letters stand for.

    Args:
        tape: Holds what the model showed.
        lines: By site, the line that showed it.
    """

    def __init__(self, tape: Tape, lines: Mapping[str, str]) -> None:
        self.tape, self.lines = tape, lines
        self.found: list[Step] = []
        self.sizes: dict[str, int] = {}
        self.own, self.keys = "T", "T"

    def follow(self, letter: str) -> None:
        """From here on the steps are of a stack whose tokens are counted by this letter."""
        self.own, self.keys = letter, letter

    def seen(
        self,
        name: str,
        part: Part,
        value: str,
        equation: str,
        source: str = "",
        *,
        where: str = "",
        remarks: tuple[str, ...] = (),
        like: int | None = None,
    ) -> Tensor:
        """Add a value that the tape holds, and return it; it was made `where` it was shown, if nothing else is said."""
        site, shape = f"{part.site}.{value}", part.notes[value]
        where = where or self.lines[site]
        return self._add(name, part.site, shape, self.tape[site], equation, source, where, site, remarks, like)

    def made(self, name: str, part: Part, shape: str, value: Tensor, equation: str, source: str, where: str) -> Tensor:
        """Add a value that was worked out for this, and return it."""
        return self._add(name, part.site, shape, value, equation, source, where)

    def _add(
        self,
        name: str,
        path: str,
        shape: str,
        value: Tensor,
        equation: str,
        source: str,
        where: str,
        site: str = "",
        remarks: tuple[str, ...] = (),
        like: int | None = None,
    ) -> Tensor:
        letters = [self._letter(word, size) for word, size in zip(shape.split(), value.shape, strict=True)]
        kept = value.detach().to("cpu")
        if kept.dtype in (torch.bfloat16, torch.float16):
            kept = kept.float()
        self.found.append(Step(0, path, site, name, " ".join(letters), kept, equation, source, where, remarks, like))
        return value

    def _letter(self, word: str, size: int) -> str:
        """The letter of a dimension; where layers differ in it, it gets a stroke: one letter has one size."""
        word = {"T": self.own, "S": self.keys}.get(word, word)
        if "·" in word:
            return word
        while self.sizes.setdefault(word, size) != size:
            word += "′"
        return word


def line_of(code: Callable[..., object] | type, text: str) -> str:
    """Return where a text stands in the source of a function or class, as "glassformer/parts/head.py:12"."""
    lines, first = inspect.getsourcelines(code)
    [line, *_] = [number for number, line in enumerate(lines, start=max(first, 1)) if text in line]
    return f"{Path(inspect.getsourcefile(code) or '').relative_to(ROOT).as_posix()}:{line}"


def input_steps(steps: Steps, part: Input, config: InputConfig, ids: Tensor) -> None:
    """From token ids to the residual stream."""
    steps.made("tokens", part, "B T", ids, "token[t] ∈ {0 … V − 1}", "", line_of(Input, "self.embedding(inputs)"))
    equation, source = "x[t] = W[token[t]]", f"{PAPER}, §3.4"
    if not config.scale:
        steps.seen("embedding", part, "tokens", equation, source)
    else:
        steps.made("embedding", part, "B T D", part.embedding(ids), equation, source, line_of(Embedding, "F.embedding"))
        steps.seen("embedding_scaled", part, "tokens", f"x ← x · √D = x · {part.scale:.4g}", source)
    added = ["x"]
    if part.positions is not None:
        added.append("p")
        steps.seen("positions", part, "positions", *_positions(config.positions))
    if part.types is not None:
        added.append("type[0]")
        steps.seen("types", part, "types", "type[0]", "Devlin et al. 2018 (BERT), figure 2")
    total = f"x ← {' + '.join(added)}"
    if part.norm is not None:
        steps.seen("input_sum", part, "sum", total, "Devlin et al. 2018 (BERT), figure 2")
        norm_step(steps, "input_norm", part.norm)
    elif len(added) > 1:
        steps.seen("input_sum", part, "output", total, f"{PAPER}, §3.5")


def _positions(config: PositionConfig) -> tuple[str, str]:
    if config.kind == "learned":
        row = f"t + {config.offset}" if config.offset else "t"
        return f"p[t] = P[{row}]", "Gehring et al. 2017, §3.1"
    if config.layout == "halves":
        return "p[t] = [sin(t ωᵢ) …, cos(t ωᵢ) …], ωᵢ = 10000^(−2i/D)", f"{PAPER}, §3.5; order of Marian"
    return "p[t, 2i] = sin(t / 10000^(2i/D)),  p[t, 2i+1] = cos(t / 10000^(2i/D))", f"{PAPER}, §3.5"


def position_bias_step(steps: Steps, part: RelativeBias | Alibi) -> None:
    """What distances add to the scores of every layer of a stack."""
    if isinstance(part, Alibi):
        slopes = ", ".join(f"{slope:.3g}" for slope in part.slopes[:4]) + (", …" if len(part.slopes) > 4 else "")
        equation, source = f"bias[h, t, s] = −m_h |t − s|,  m = {slopes}", "Press et al. 2021 (ALiBi), §3"
    else:
        equation, source = "bias[h, t, s] = b[bucket(s − t), h]", "Raffel et al. 2019 (T5), §2.1"
    steps.seen("position_bias", part, "bias", equation, source)


def norm_step(steps: Steps, name: str, norm: Part) -> None:
    """A norm, under the name of its place; nothing where there is none."""
    if isinstance(norm, NoNorm):
        return
    place = {"pre_norm": "; here: Xiong et al. 2020", "post_norm": f"; here: {PAPER}, §3.1"}.get(name, "")
    if isinstance(norm, RMSNorm):
        equation, source = f"y = x / √(mean(x²) + ε) · g,  ε = {norm.eps:g}", "Zhang & Sennrich 2019 (RMSNorm), eq. 4"
    else:
        assert isinstance(norm, LayerNorm)
        offset = "" if norm.bias is None else " + b"
        equation = f"y = (x − mean(x)) / √(var(x) + ε) · g{offset},  ε = {norm.eps:g}"
        source = "Ba et al. 2016 (layer norm), eq. 4"
    steps.seen(name, norm, "output", equation, source + place)


def attention_steps(steps: Steps, part: Attention, stack: Stack) -> None:
    """Self-attention, or cross-attention."""
    config = part.config
    steps.keys = "S" if part.cross else steps.own
    _qkv(steps, part)
    if config.type == "linear":
        _linear_weights(steps, part, stack)
    else:
        _softmax_weights(steps, part, stack)
    of_head = "h" if config.n_kv_heads == config.n_heads else "g"
    if part.distances is not None:
        source = "Shaw et al. 2018, eq. 3"
        steps.seen("distance_values", part.distances, "values", "r[h, t] = Σₛ weights[h, t, s] b[clip(s − t)]", source)
    also = "" if part.distances is None else " + r[h, t]"
    source = "Katharopoulos et al. 2020, eq. 5" if config.type == "linear" else f"{PAPER}, §3.2.1, eq. 1"
    equation = f"heads[h, t] = Σₛ weights[h, t, s] v[{of_head}, s]{also}"
    heads = steps.seen("heads", part, "heads", equation, source)
    joined = heads.transpose(1, 2).flatten(2)
    where = line_of(Attention.forward, "joined = ")
    equation = "joined[t] = [heads[0, t], …, heads[H − 1, t]]"
    steps.made("joined", part, "B T H·E", joined, equation, f"{PAPER}, §3.2.2", where)
    equation = f"y = joined W_o{' + b_o' * config.out_bias}"
    steps.seen("attention_output", part, "output", equation, f"{PAPER}, §3.2.2")
    steps.keys = steps.own


def _qkv(steps: Steps, part: Attention) -> None:
    config = part.config
    grouped = f"{PAPER}, §3.2.2"
    if config.n_kv_heads == 1 < config.n_heads:
        grouped = "Shazeer 2019 (multi-query), §3"
    elif config.n_kv_heads < config.n_heads:
        grouped = "Ainslie et al. 2023 (GQA), §2.2"
    staged = "q_projected" in part.notes
    made = {"q": "self.q(x)", "k": "self.kv(memory)", "v": "self.kv(memory)"}
    maker = Attention._cross_qkv if part.cross else Attention._self_qkv
    for letter, giver, source in (("q", "x", f"{PAPER}, §3.2.2"), ("k", "m", grouped), ("v", "m", grouped)):
        offset = f" + b_{letter}" * config.bias
        equation = f"{letter} = {giver if part.cross else 'x'} W_{letter}{offset}"
        title = f"cross_{letter}" if part.cross and letter != "q" else letter
        where = line_of(maker, made[letter] if part.cross else "self.qkv(x)")
        value = f"{letter}_projected" if staged and letter != "v" else letter
        steps.seen(title, part, value, equation, source, where=where)
    for letter, norm in (("q", part.q_norm), ("k", part.k_norm)):
        if norm is not None:
            norm_step(steps, f"{letter}_norm", norm)
    if config.rotary is not None:
        for letter in "qk":
            where = line_of(Attention._self_qkv, "rotate(qk")
            steps.seen(f"{letter}_rotary", part, letter, *_rotary(config), where=where)


def _rotary(config: AttentionConfig) -> tuple[str, str]:
    rotary = config.rotary
    assert rotary is not None
    turned = rotary.turned(config.d_head)
    pair = f"(z[i], z[i + {turned // 2}])" if rotary.pairing == "halves" else "(z[2i], z[2i + 1])"
    equation = (
        f"(a, b) = {pair} → (a cos tωᵢ − b sin tωᵢ, a sin tωᵢ + b cos tωᵢ),  ωᵢ = {rotary.theta:g}^(−2i/{turned})"
    )
    source = "Su et al. 2021 (RoFormer), eq. 34"
    if isinstance(rotary.scaling, LinearScaling):
        return f"{equation} / {rotary.scaling.factor:g}", f"{source}; Chen et al. 2023, §2.3"
    if rotary.scaling is None:
        return equation, source
    how = "Llama 3" if isinstance(rotary.scaling, Llama3Scaling) else "Peng et al. 2023 (YaRN), §3"
    return f"{equation}, slowed by up to {rotary.scaling.factor:g}", f"{source}; {how}"


def _softmax_weights(steps: Steps, part: Attention, stack: Stack) -> None:
    config = part.config
    q, k = (steps.tape[f"{part.site}.{letter}"] for letter in "qk")
    paper = f"{PAPER}, §3.2.1, eq. 1"
    of_head = "h" if config.n_kv_heads == config.n_heads else "g"
    group = "" if of_head == "h" else f",  g = ⌊h / {config.n_heads // config.n_kv_heads}⌋"
    equation = f"products[h, t, s] = Σₑ q[h, t, e] k[{of_head}, s, e]{group}"
    where = line_of(attention_scores, "@ keys")
    steps.made("products", part, "B H T S", attention_scores(q, k), equation, paper, where)
    factor = {"sqrt": "/ √E", "d_k": "/ E"}.get(str(config.scale), "")
    scaled = steps.seen(
        "scaled",
        part,
        "scaled",
        f"scaled = products {factor + ' = products ' if factor else ''}· {part.scale:.4g}",
        paper,
    )
    total, added = "scaled", []
    if config.soft_cap is not None:
        total, cap = "capped", config.soft_cap
        capped = bent_scores(scaled, bias=None, soft_cap=cap)
        equation, source = f"capped = c tanh(scaled / c),  c = {cap:g}", "Gemma Team 2024 (Gemma 2), §2"
        steps.made("capped", part, "B H T S", capped, equation, source, line_of(bent_scores, "torch.tanh"))
    source = ""
    if stack.position_bias is not None and not part.cross:
        added.append("bias")
        alibi = isinstance(stack.config.position_bias, AlibiConfig)
        source = "Press et al. 2021 (ALiBi), §3" if alibi else "Raffel et al. 2019 (T5), §2.1"
    if part.distances is not None:
        added.append("r")
        source = "Shaw et al. 2018, eq. 4"
        equation = "r[h, t, s] = q[h, t] · a[clip(s − t)] · " + f"{part.scale:.4g}"
        steps.seen("distance_scores", part.distances, "scores", equation, source)
    if added:
        steps.seen("scores", part, "scores", f"scores = {' + '.join([total, *added])}", source)
    scores = "scores" if added else total
    _mask(steps, part, stack)
    equation = f"weights[t, s] = exp({scores}[t, s]) / Σ exp({scores}[t, s′]),  s, s′ allowed; else 0"
    steps.seen("weights", part, "weights", equation, paper)


def _linear_weights(steps: Steps, part: Attention, stack: Stack) -> None:
    source, where = "Katharopoulos et al. 2020, eq. 7", line_of(feature, "F.elu")
    for letter, shape in (("q", "B H T E"), ("k", "B K S E")):
        value = feature(steps.tape[f"{part.site}.{letter}"])
        equation = f"φ({letter}) = elu({letter}) + 1"
        steps.made(f"{letter}_feature", part, shape, value, equation, source, where)
    source = "Katharopoulos et al. 2020, eq. 5"
    steps.seen("linear_scores", part, "scores", "scores[h, t, s] = φ(q[h, t]) · φ(k[h, s])", source)
    _mask(steps, part, stack)
    equation = "weights[t, s] = scores[t, s] / Σ scores[t, s′],  s, s′ allowed; else 0"
    steps.seen("linear_weights", part, "weights", equation, source)


def _mask(steps: Steps, part: Attention, stack: Stack) -> None:
    config, rules, sources = part.config, [], []
    if stack.config.causal and not part.cross:
        rules.append("s ≤ t")
        sources.append(f"{PAPER}, §3.2.3")
    if config.window is not None:
        rules.append(f"|t − s| < {config.window}")
        sources.append("Beltagy et al. 2020 (Longformer), §3.1")
    if config.pattern is not None:
        size = config.pattern.block
        rules.append(f"block ⌊t/{size}⌋ sees ⌊s/{size}⌋")
        sources.append("Child et al. 2019 (Sparse Transformer), §4.2; Zaheer et al. 2020 (BigBird), §2")
    equation = f"allowed[t, s] = {' ∧ '.join(rules) or 'true'}"
    steps.seen("mask", part, "mask", equation, "; ".join(sources) or f"{PAPER}, §3.2.3")


def residual_step(steps: Steps, block: Block, sublayer: str, norm: Part) -> None:
    """A sublayer's output added to the stream, and the norm behind it."""
    last = sublayer == "feed_forward"
    taken = "residual" if last and block.pre else f"after_{sublayer}"
    equation = "x ← x + y" if block.residual else "x ← y"
    steps.seen("residual", block, taken, equation, f"{PAPER}, §3.1; He et al. 2015")
    if not block.pre:
        norm_step(steps, "post_norm", norm)


def joint_step(steps: Steps, block: Block) -> None:
    """Both sublayers of a parallel block added to the stream at once."""
    equation = f"x ← {'x + ' * block.residual}attention + feed_forward"
    steps.seen("joint", block, "residual", equation, "Chowdhery et al. 2022 (PaLM), §2")


def feed_forward_steps(steps: Steps, part: FeedForward, config: FeedForwardConfig) -> None:
    """The position-wise network."""
    said, source = ACTIVATIONS[config.activation]
    paper = f"{PAPER}, §3.3, eq. 2"
    gated = "Shazeer 2020 (GLU variants), eq. 6"
    if config.gated:
        equation = f"z = x W_gate{' + b_gate' * config.bias}"
        steps.seen("gate", part, "before_activation", equation, gated)
        steps.seen("factor", part, "factor", f"u = x W_in{' + b_in' * config.bias}", gated)
        steps.seen("gated", part, "inner", f"inner = f(z) u,  f(z) = {said}", f"{gated}; {source}")
    else:
        steps.seen("widened", part, "before_activation", f"z = x W_in{' + b_in' * config.bias}", paper)
        steps.seen("activation", part, "inner", f"inner = {said}", source)
    equation = f"y = inner W_out{' + b_out' * config.bias}"
    steps.seen("feed_forward_output", part, "output", equation, gated if config.gated else paper)


def head_steps(steps: Steps, head: Head, states: str) -> None:
    """From the stream to probabilities."""
    config = head.config
    if head.pooling is not None:
        chosen = {"mean": "mean over t of x[t]", "first": "x[0]", "last": "x[T − 1]"}[head.pooling]
        steps.seen("pooled", head, "pooled", f"x ← {chosen}", "")
    if "scored" in head.notes:
        made, source = "x W + b", "Devlin et al. 2018 (BERT), released code"
        if config.transform is not None:
            said, _ = ACTIVATIONS[config.transform.activation]
            made = f"f(x W + b),  f(z) = {said}"
            made = f"norm({made.replace(',', '),', 1)}" if config.transform.norm else made
        elif config.scaled:
            made, source = "x / √D", "Raffel et al. 2019 (T5), released code"
        steps.seen("scored", head, "scored", f"x ← {made}", source)
    if head.weight is None:
        return
    tied = "; Press & Wolf 2016" if config.tied else ""
    equation = f"logits = x W{'_embeddingᵀ' if config.tied else '_head'}{' + b' * (head.bias is not None)}"
    logits = steps.seen("logits", head, "logits", equation, f"{PAPER}, §3.4{tied}")
    shape = head.notes["logits"]
    exact = torch.promote_types(logits.dtype, torch.float32)
    likely = torch.softmax(logits.to(exact), dim=-1)
    where = line_of(head_steps, "likely = ")
    equation = "p(i) = exp(logits[i]) / Σ exp(logits[j])"
    steps.made("probabilities", head, shape, likely, equation, f"{PAPER}, §3.4", where)
