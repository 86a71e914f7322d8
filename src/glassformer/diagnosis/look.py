"""Looking into a model while it reads a text: everything that an inspection can find out, and its page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from html import escape
from pathlib import Path
from typing import Any, Literal

from torch import Tensor, nn

from glassformer.checkpoint.loading import load
from glassformer.core.errors import ConfigError, DataError, UnsupportedError
from glassformer.core.tape import Tape
from glassformer.core.wording import known_language
from glassformer.diagnosis.reading_notes import reading_notes
from glassformer.generation.config import GenerationConfig
from glassformer.generation.input_ids import ReadsText
from glassformer.generation.inputs import beginning
from glassformer.generation.reading import Reading, reading_of
from glassformer.generation.stream import stream
from glassformer.inspection.ablation import Ablation, ablate_heads
from glassformer.inspection.attention import mib
from glassformer.inspection.contrast import Contrast, shared_positions
from glassformer.inspection.contrast import contrast as compared
from glassformer.inspection.findings import Findings, Pair, Written
from glassformer.inspection.inspect import LIMIT_BYTES, Axis, Inspection, LayerAttention, inspect_sample
from glassformer.inspection.inspect_wording import TEXTS
from glassformer.inspection.lens import Lens, lens
from glassformer.inspection.patching import Intervention, Outcome, intervene
from glassformer.inspection.roles import induction_on_random
from glassformer.inspection.sample import Sample, kind_of
from glassformer.inspection.steps import attention_over_steps
from glassformer.inspection.viewer import inspection_page, write_inspection
from glassformer.models.own import OwnTransformer
from glassformer.parts.attention import Attention

Advanced = Callable[[int, int], None]

HEIGHT = 900
"""Pixels of a page in a notebook."""


@dataclass(frozen=True, eq=False)
class Look:
    """What one text showed of a model; in a notebook it shows itself.

    Attributes:
        title: What the model is called.
        texts: What was read and written, by a key of `wording.MESSAGES`.
        notes: What else is to be known about them.
        reading: What was read, as ids.
        inspection: The attention of every layer and head, and the size of the residual stream.
        found: All else.
        language: Of the page.
    """

    title: str
    texts: Mapping[str, str]
    notes: tuple[str, ...]
    reading: Reading
    inspection: Inspection
    found: Findings
    language: str

    def save(self, path: str | Path) -> tuple[LayerAttention, ...]:
        """Write the page, one HTML file that needs nothing else; return the layers that had no room in it.

        Raises:
            CheckpointError: The file cannot be written.
            DataError: Not a single layer fits.
        """
        return write_inspection(
            Path(path),
            self.inspection,
            title=self.title,
            texts=self.texts,
            notes=self.notes,
            found=self.found,
            language=self.language,
        )

    def html(self) -> str:
        """Return the page."""
        made, _ = inspection_page(
            self.inspection,
            title=self.title,
            texts=self.texts,
            notes=self.notes,
            found=self.found,
            language=self.language,
        )
        return made

    def to_dict(self) -> dict[str, Any]:
        """Return what was found as numbers and texts, for JSON; the attention weights themselves are left out."""
        found = self.found
        effects = {(each.site, each.head): each for each in (found.ablation.effects if found.ablation else ())}
        heads = []
        for layer in self.inspection.attention:
            for head, role in zip(layer.heads, layer.roles, strict=True):
                effect = effects.get((layer.site, head))
                measured = asdict(role) | {"role": role.role}
                worth = {} if effect is None else {"effect": effect.loss, "exact": effect.exact}
                heads.append({"site": layer.site, "head": head} | measured | worth)
        said: dict[str, Any] = {"model": self.title, "tokens": list(found.tokens), "heads": heads}
        if self.inspection.labels:
            said["labels"] = dict(self.inspection.labels)
        if found.lens is not None:
            said["guesses"] = [
                [
                    [[found.names[token], share] for token, share in zip(*best, strict=True)]
                    for best in zip(*layer, strict=True)
                ]
                for layer in zip(found.lens.ids.tolist(), found.lens.probabilities.tolist(), strict=True)
            ]
        if found.pair is not None:
            said["contrast"] = [asdict(move) | {"turns": move.turns} for move in found.pair.contrast.moves]
        if found.outcome is not None:
            said["patched"] = asdict(found.outcome) | {"divergence": found.outcome.divergence}
        if found.written is not None:
            said["written"] = list(found.written.written[found.written.prompt - 1 :])
        return said

    def _repr_html_(self) -> str:
        """In a frame of its own, so that neither the page nor the notebook changes the other's style."""
        title = escape(TEXTS.say("frame", self.language))
        style = f"width: 100%; height: {HEIGHT}px; border: 1px solid #8886; border-radius: 8px"
        return f'<iframe title="{title}" srcdoc="{escape(self.html())}" style="{style}"></iframe>'


def inspect(
    model: ReadsText | str | Path,
    text: str,
    target: str | None = None,
    *,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    max_tokens: int | None = None,
    pool: int = 1,
    generate: int = 0,
    contrast: str | None = None,
    token: str | None = None,
    patches: Sequence[str] = (),
    guesses: bool = True,
    ablate: Literal["zero", "mean"] | None = "zero",
    most_heads: int | None = None,
    language: str = "en",
    source: str | None = None,
    advanced: Advanced = lambda done, total: None,
) -> Look:
    """Look into a model while it reads a text.

        look = gf.inspect("runs/book", "The cat sat on the", generate=8)
        look                        # in a notebook: the page
        look.save("page.html")

    Args:
        model: From `gf.load`, or a folder or `preset:NAME` to load.
        text: What is read.
        target: What an encoder-decoder writes; its own output when None.
        layers: Which layers' attention, from 0; None = all.
        heads: Which heads, from 0; None = all.
        max_tokens: Most tokens of each text that are read.
        pool: Neighbouring tokens that are shown as one, for long texts.
        generate: Tokens that are written on from the text, and shown step by step.
        contrast: A second text, to be seen beside the first.
        token: The token at which they are compared; None = those whose attention changes most.
        patches: Interventions: "SITE=zero", "SITE=mean", "SITE=FILE"; see `Intervention.parse`.
        guesses: Whether to read the guesses of every layer.
        ablate: What a head's output is set to, to see what it is worth; None = heads are not judged.
        most_heads: Heads that are taken away one by one; None = as many as take seconds, the rest is estimated.
        language: Of the page, "en" or "zh".
        source: What the model is called; None = the folder it is loaded from.
        advanced: Called with (done, total) heads that were taken away.

    Raises:
        ConfigError: An option is impossible.
        DataError: A text, a layer, a head or a token does not fit, or it would take too much memory.
        UnsupportedError: The model cannot do what is asked.
        CheckpointError: There is no such model.
    """
    known_language(language)
    if isinstance(model, nn.Module):
        raise ConfigError(
            "a text is read, which needs the model's tokenizer too; give what gf.load returns, a folder, or "
            "gf.Loaded(model, tokenizer, source)"
        )
    if generate < 0:
        raise ConfigError(f"generate is {generate}; give a number of tokens from 0")
    if token is not None and contrast is None:
        raise ConfigError("a token is named to compare two texts at, but there is no second text (--contrast TEXT)")
    if pool < 1:
        raise ConfigError(f"pool is {pool}; give a number of neighbouring tokens from 1")
    interventions = [Intervention.parse(each) for each in patches]
    source = source or (str(model) if isinstance(model, str | Path) else "model")
    loaded: ReadsText = load(model) if isinstance(model, str | Path) else model
    own = isinstance(loaded.model, OwnTransformer)
    if own and (interventions or generate):
        raise UnsupportedError(
            "a model of your own shows the attention that it returns; nothing inside it can be changed (--patch), nor "
            "followed while it writes (--generate)"
        )
    reading = reading_of(loaded.model, loaded.tokenizer, text, target, max_tokens=max_tokens)
    seen = _seen(loaded, reading, layers, heads, lambda loaded, ids: _pooled(_characters(loaded, ids), pool))
    sample = Sample.of(loaded.model, reading.tokens, reading.sources, reading.written)
    shown: list[int] = []
    made: Lens | None = None
    if guesses and not own and kind_of(loaded.model) in ("next", "same"):
        made = lens(loaded.model, sample)
        shown += made.ids.flatten().tolist()
    ablation: Ablation | None = None
    if ablate is not None and not own:
        ablation = ablate_heads(loaded.model, sample, value=ablate, most_heads=most_heads, advanced=advanced)
    outcome: Outcome | None = None
    if interventions:
        outcome = intervene(loaded.model, sample, interventions)
        shown += [each for place in outcome.positions for each, _ in (*place.before, *place.after)]
    found = Findings(
        names=_names(loaded, shown),
        tokens=tuple(loaded.tokenizer.label(each) for each in reading.tokens),
        lens=made,
        no_lens="" if made or not guesses else "lens_own" if own else "lens_none",
        ablation=ablation,
        repeats=_repeats(loaded, reading),
        written=_written(loaded, text, generate, layers, heads) if generate else None,
        pair=_pair(loaded, reading, (text, contrast), token, layers, heads, max_tokens)
        if contrast is not None
        else None,
        outcome=outcome,
    )
    texts = {"model": source, "input": text} | ({"output": reading.output} if reading.output else {})
    notes = tuple(reading_notes(reading, language))
    return Look(Path(source).resolve().name, texts, notes, reading, seen, found, language)


def _seen(
    loaded: ReadsText,
    reading: Reading,
    layers: Sequence[int] | None,
    heads: Sequence[int] | None,
    named: Callable[[ReadsText, Sequence[int]], Axis],
) -> Inspection:
    return inspect_sample(
        loaded.model,
        reading.tokens,
        named(loaded, reading.tokens),
        sources=reading.sources,
        source_labels=None if reading.sources is None else named(loaded, reading.sources),
        written=reading.written,
        written_labels=None if reading.written is None else named(loaded, reading.written),
        layers=layers,
        heads=heads,
    )


def _characters(loaded: ReadsText, ids: Sequence[int]) -> Axis:
    """A label for each token, or for the tokens of one character together."""
    return Axis.grouped(loaded.tokenizer.label_groups(ids))


def _pooled(axis: Axis, pool: int) -> Axis:
    """Neighbouring labels as one, which says the first and the last of them."""
    if pool == 1:
        return axis
    pooled = []
    for first in range(0, len(axis.labels), pool):
        labels, groups = axis.labels[first : first + pool], axis.groups[first : first + pool]
        name = labels[0] if len(labels) == 1 else f"{labels[0]}…{labels[-1]}"
        pooled.append((range(groups[0].start, groups[-1].stop), name))
    return Axis.grouped(pooled)


def _tokens(loaded: ReadsText, ids: Sequence[int]) -> Axis:
    return Axis.single(loaded.tokenizer.label(each) for each in ids)


def _names(loaded: ReadsText, ids: Sequence[int]) -> dict[int, str]:
    """What ids are called: of tokens, or of the labels of a classifier."""
    head, size = loaded.model.config.head, loaded.tokenizer.vocab_size
    if kind_of(loaded.model) == "label":
        classes = head.classes if head is not None else ()
        return {each: classes[each] if each < len(classes) else str(each) for each in ids}
    # A model may have more rows than the tokenizer has tokens.
    return {each: loaded.tokenizer.label(each) if each < size else f"<{each}>" for each in set(ids)}


def _repeats(loaded: ReadsText, reading: Reading) -> dict[str, list[float]]:
    if loaded.model.config.kind != "decoder" or len(set(reading.tokens)) < len(reading.tokens):
        return {}
    found = induction_on_random(loaded.model, beginning(loaded.model, loaded.tokenizer))
    return {site.removesuffix(".weights"): shares for site, shares in found.items()}


def _written(
    loaded: ReadsText, text: str, number: int, layers: Sequence[int] | None, heads: Sequence[int] | None
) -> Written:
    """The text that is written on, and each step's attention: one step more, for the last token is read too."""
    model, tokenizer = loaded.model, loaded.tokenizer
    crosses = model.config.kind == "encoder_decoder"
    ids = tokenizer.encode(text)
    source = [*ids, *([] if tokenizer.eos_id is None else [tokenizer.eos_id])]
    prompt = [] if crosses else ids
    begun = [*beginning(model, tokenizer), *prompt]
    sites = list(_sites(loaded, layers))
    _check_steps(loaded, sites, len(begun) + number, len(source), heads)
    linear = any(block.attention.type == "linear" for block in model.config.output_stack.blocks)
    config = GenerationConfig(max_new_tokens=number + 1, use_cache=not linear)  # sums have no rows to look at
    tape = Tape(model, *sites, keep="all", reduce=_chosen(heads))
    steps = stream(model, [prompt], config, tokenizer=tokenizer, sources=[source] if crosses else None, tape=tape)
    new = [step.token for step in steps if step.token is not None]
    if not new:
        raise DataError(f"there is no room to write: the text fills the context of {model.max_positions} tokens")
    read = [*begun, *new[:-1]]
    whole = attention_over_steps(tape, len(begun))
    sequences = {"encoder": source, "decoder": read, "cross": [*read[1:], new[-1]]}
    names = {part: tuple(tokenizer.label(each) for each in row) for part, row in sequences.items()}
    chosen = None if heads is None else tuple(sorted(set(heads)))
    attention = []
    for site, weights in whole.items():
        layer = LayerAttention(
            "decoder", int(site.split(".")[2]), chosen or tuple(range(len(weights))), weights, (), ()
        )
        part: Literal["encoder", "decoder", "cross"] = (
            "encoder" if site.startswith("encoder.") else "cross" if "cross_attention" in site else "decoder"
        )
        columns = names["encoder" if part == "cross" else part]
        attention.append(replace(layer, part=part, weights=weights.cpu(), rows=names[part], columns=columns))
    return Written(tuple(attention), len(begun), names["decoder"], names["cross"])


def _sites(loaded: ReadsText, layers: Sequence[int] | None) -> Iterator[str]:
    for site in loaded.model.sites():
        if site.name.endswith(".weights") and (layers is None or int(site.name.split(".")[2]) in layers):
            yield site.name


def _check_steps(
    loaded: ReadsText, sites: Sequence[str], length: int, source: int, heads: Sequence[int] | None
) -> None:
    """Refuse what would take too much memory, before a token is written."""
    numbers = 0
    for site in sites:
        attention = loaded.model.get_submodule(site.removesuffix(".weights"))
        assert isinstance(attention, Attention), "only attention has weights"
        count = attention.config.n_heads if heads is None else len(set(heads))
        if heads is not None and not all(0 <= head < attention.config.n_heads for head in heads):
            raise DataError(f"heads {list(heads)} are not all in 0..{attention.config.n_heads - 1}, those of {site}")
        stack = length if site.startswith("decoder.") else source
        numbers += (
            2 * count * stack * (source if attention.cross else stack)
        )  # as the tape keeps them, and put together
    if 4 * numbers > LIMIT_BYTES:
        raise DataError(
            f"the attention of {len(sites)} layers over {length} tokens, step by step, needs about {mib(4 * numbers)}; "
            f"the limit is {mib(LIMIT_BYTES)}. Choose layers (--layers 0,1), heads (--heads 0) or a smaller --generate"
        )


def _chosen(heads: Sequence[int] | None) -> Callable[[Tensor], Tensor] | None:
    if heads is None:
        return None
    chosen = sorted(set(heads))
    return lambda weights: weights[:, chosen]


def _pair(
    loaded: ReadsText,
    reading: Reading,
    texts: tuple[str, str],
    token: str | None,
    layers: Sequence[int] | None,
    heads: Sequence[int] | None,
    max_tokens: int | None,
) -> Pair:
    """Both texts with tokens apart, as the stack sees them that reads them."""
    target = None if reading.own else reading.output
    other = reading_of(loaded.model, loaded.tokenizer, texts[1], target, max_tokens=max_tokens)
    stack = "decoder" if reading.sources is None and loaded.model.encoder is None else "encoder"
    looks = [_seen(loaded, each, layers, heads, _tokens) for each in (reading, other)]
    attention = [tuple(layer for layer in look.attention if layer.part == stack) for look in looks]
    ids = [tuple(each.sources if each.sources is not None else each.tokens) for each in (reading, other)]
    tokenizer = loaded.tokenizer
    skipped = {*tokenizer.around[0], *tokenizer.around[1], *tokenizer.eos_ids, tokenizer.bos_id} - {None}
    rows = [] if token is None else _rows(loaded, (ids[0], ids[1]), token)
    weights = [{f"{layer.site}.weights": layer.weights for layer in layers} for layers in attention]
    found = compared(
        weights[0], weights[1], (ids[0], ids[1]), rows=rows, skipped=[each for each in skipped if each is not None]
    )
    found = _numbered(found, attention[0])
    return Pair(found, (attention[0], attention[1]), texts)


def _numbered(found: Contrast, layers: Sequence[LayerAttention]) -> Contrast:
    """Heads by their own numbers, where only some were looked at."""
    numbers = {f"{layer.site}.weights": layer.heads for layer in layers}
    return replace(found, moves=tuple(replace(move, head=numbers[move.site][move.head]) for move in found.moves))


def _rows(loaded: ReadsText, ids: tuple[Sequence[int], Sequence[int]], token: str) -> list[tuple[int, int]]:
    """Where a token stands in both texts."""
    wanted = token.strip()
    labels = [loaded.tokenizer.label(each) for each in ids[0]]
    found = [
        pair for pair in shared_positions(*ids) if labels[pair[0]].lstrip("␣") == wanted or labels[pair[0]] == token
    ]
    if not found:
        both = ", ".join(dict.fromkeys(labels[a] for a, _ in shared_positions(*ids)))
        raise DataError(f"the token {token!r} is not in both texts; they share {both}")
    return found
