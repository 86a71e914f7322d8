"""Examining a beam search on distributions so small that all texts can be tried."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.diagnosis.parts.calling import Says, modules_of
from glassformer.diagnosis.parts.making import Thing, parameters_of, positional_of
from glassformer.diagnosis.parts.other_wording import WORDS
from glassformer.diagnosis.property import Property
from glassformer.diagnosis.verdict import Finding, Said

SAYS = Says(WORDS)
V, BEGIN, END, LONGEST = 4, 0, 1, 4
"""Tokens, the first one of every text, the last one, and the most that are written."""

Text = tuple[int, ...]
Model = Callable[[Sequence[Sequence[int]]], Tensor]


@dataclass(frozen=True, eq=False)
class BeamSubject:
    """search(next_log_probs, begin, end, width, max_new[, length_penalty]) -> [(tokens, score), ...].

    Attributes:
        thing: What the user named.
        names: Its arguments, by what they mean.
        error: Why no call worked; None = one did.
    """

    thing: Thing
    names: dict[str, str]
    error: Exception | None = None

    def modules(self) -> Sequence[nn.Module]:
        """Return the module, if it is one."""
        return modules_of(self.thing.instance)

    def search(self, model: Model, width: int, alpha: float = 0.0) -> list[tuple[Text, float]]:
        """Return the texts that are found, without the begin token, the best first, each with its score."""
        given: dict[str, Any] = {
            "model": model,
            "begin": BEGIN,
            "end": END,
            "width": width,
            "longest": LONGEST,
            "alpha": alpha,
        }
        options = {name: given[meaning] for meaning, name in self.names.items()}
        found = self.thing.instance(**options)
        if isinstance(found, tuple) and len(found) == 2 and not isinstance(found[0], tuple):
            found = [found]
        return [(_text(tokens), float(score)) for tokens, score in found]


MEANINGS = {
    "model": (
        "next_log_probs",
        "log_probs",
        "step",
        "step_fn",
        "model",
        "next_logprobs",
        "log_prob_fn",
        "score_fn",
        "f",
    ),
    "begin": ("begin", "bos", "bos_id", "start", "sos", "bos_token", "begin_id"),
    "end": ("end", "eos", "eos_id", "eos_token", "end_id"),
    "width": ("width", "beam", "beam_width", "beam_size", "k", "n_beams", "beams", "num_beams"),
    "longest": ("max_new", "max_len", "max_length", "max_new_tokens", "longest", "max_steps", "length"),
    "alpha": ("length_penalty", "alpha", "penalty", "len_penalty"),
}


def open_beam(thing: Thing) -> BeamSubject:
    """Return how a beam search is called, by the names of its arguments."""
    names: dict[str, str] = {}
    for name in parameters_of(thing.instance):
        for meaning, words in MEANINGS.items():
            if name.lower() in words and meaning not in names:
                names[meaning] = name
    missing = [meaning for meaning in MEANINGS if meaning not in names and meaning != "alpha"]
    if missing:
        wanted = {meaning: MEANINGS[meaning][0] for meaning in missing}
        told = ", ".join(wanted.values())
        return BeamSubject(
            thing,
            names,
            TypeError(
                f"no argument was found for: {told}; it has {', '.join(positional_of(thing.instance)) or 'none'}"
            ),
        )
    return BeamSubject(thing, names)


def _text(tokens: Any) -> Text:
    ids = tuple(int(token) for token in (tokens.tolist() if isinstance(tokens, Tensor) else tokens))
    return ids[1:] if ids[:1] == (BEGIN,) else ids


def _model(seed: int, *, ends: float = 0.0) -> Model:
    """A distribution that depends on the whole prefix, without the begin token among what may follow."""

    known: dict[Text, Tensor] = {}

    def log_probs(prefixes: Any) -> Tensor:
        rows = []
        for prefix in prefixes.tolist() if isinstance(prefixes, Tensor) else prefixes:
            ids = tuple(int(token) for token in prefix)
            if ids not in known:
                number = sum((token + 1) * 7**place for place, token in enumerate(ids))
                scores = 1.5 * torch.randn(V, generator=torch.Generator().manual_seed(seed + number))
                scores[END] += ends
                scores[BEGIN] = -torch.inf
                known[ids] = scores.log_softmax(0)
            rows.append(known[ids])
        return torch.stack(rows)

    return log_probs


def _all(model: Model) -> dict[Text, float]:
    """The log-probability of every text that ends within the limit, and of every one that reaches it."""
    found: dict[Text, float] = {}
    for n in range(1, LONGEST + 1):
        for text in product((1, 2, 3), repeat=n):
            if END not in text[:-1] and (text[-1] == END or n == LONGEST):
                found[text] = _log_probability(model, text)
    return found


def _log_probability(model: Model, text: Text) -> float:
    total = 0.0
    for place, token in enumerate(text):
        total += float(model([[BEGIN, *text[:place]]])[0, token])
    return total


def _bare(text: Text) -> Text:
    return text[:-1] if text[-1:] == (END,) else text


def _runs(subject: BeamSubject) -> Finding:
    if subject.error is not None:
        raise subject.error
    found = subject.search(_model(0), 2)
    return SAYS.good("beam_runs", n=len(found)) if found else SAYS.bad("beam_nothing")


def _greedy(subject: BeamSubject) -> Finding:
    for seed in range(0, 900, 100):
        model, text = _model(seed), ()  # type: tuple[Model, Text]
        while len(text) < LONGEST and text[-1:] != (END,):
            text = (*text, int(model([[BEGIN, *text]])[0].argmax()))
        best = subject.search(model, 1)[0][0]
        if _bare(best) != _bare(text):
            return SAYS.bad("beam_not_greedy", got=list(best), wanted=list(text))
    return SAYS.good("greedy_good")


def _exhaustive(subject: BeamSubject) -> Finding:
    for seed in range(0, 4000, 100):
        model = _model(seed)
        every = _all(model)
        best = max(every, key=lambda text: every[text])
        got = subject.search(model, 64)[0][0]
        if _bare(got) != _bare(best):
            return SAYS.bad("beam_not_best", got=list(got), wanted=list(best))
    return SAYS.good("exhaustive_good", texts=len(every))


def _finished(subject: BeamSubject) -> Finding:
    """A text that ends early and is best must not be lost where longer prefixes are followed later."""
    for seed in range(0, 900, 100):
        model = _model(seed, ends=1.0)
        every = _all(model)
        ended = {text: total for text, total in every.items() if text[-1] == END}
        best = max(ended, key=lambda text: ended[text])
        got = [_bare(text) for text, _ in subject.search(model, 8)]
        if len(best) < LONGEST and every[best] == max(every.values()) and _bare(best) not in got:
            return SAYS.bad("beam_loses", text=list(best))
        if any(END in text for text in got):
            return SAYS.bad("beam_goes_on")
    return SAYS.good("finished_good")


def _scores(subject: BeamSubject) -> Finding:
    model = _model(3)
    for text, score in subject.search(model, 4):
        with_end = _log_probability(model, text)
        closed = _log_probability(model, (*_bare(text), END))
        if min(abs(score - with_end), abs(score - closed)) <= 1e-4:
            continue
        without = _log_probability(model, _bare(text))
        if abs(score - math.exp(with_end)) < 1e-4:
            return SAYS.bad("beam_probabilities", score=f"{score:.4g}", wanted=f"{with_end:.4g}")
        if abs(score - without) < 1e-4:
            return SAYS.bad("beam_end_free", score=f"{score:.4g}", wanted=f"{closed:.4g}")
        lengths = max(1, len(_bare(text))), len(_bare(text)) + 1
        if any(abs(score - total / n) < 1e-4 for total in (with_end, closed) for n in lengths):
            return SAYS.bad("beam_always_mean", score=f"{score:.4g}", wanted=f"{closed:.4g}")
        return SAYS.bad("beam_score", text=list(text), score=f"{score:.4g}", wanted=f"{closed:.4g}")
    return SAYS.good("scores_good")


def _sorted(subject: BeamSubject) -> Finding:
    found = subject.search(_model(5), 4)
    scores = [score for _, score in found]
    if scores != sorted(scores, reverse=True):
        return SAYS.bad("beam_unsorted", scores=[round(score, 2) for score in scores])
    if len({text for text, _ in found}) < len(found):
        return SAYS.bad("beam_repeats")
    return SAYS.good("sorted_good", n=len(found))


def _penalty(subject: BeamSubject) -> Finding:
    model, alpha = _model(11), 1.0
    found = subject.search(model, 4, alpha)
    rules = {
        "n": lambda n: n**alpha,
        "n without the end": lambda n: max(1, n - 1) ** alpha,
        "((5 + n) / 6)": lambda n: ((5 + n) / 6) ** alpha,
        "n with the begin": lambda n: (n + 1) ** alpha,
    }
    for name, rule in rules.items():
        if all(_penalised(model, text, score, rule) for text, score in found):
            scores = [score for _, score in found]
            if scores != sorted(scores, reverse=True):
                return SAYS.bad("beam_unsorted", scores=[round(score, 2) for score in scores])
            return SAYS.good("penalty_good", rule=name)
    return SAYS.bad("beam_penalty")


def _penalised(model: Model, text: Text, score: float, rule: Callable[[int], float]) -> bool:
    return any(abs(score - _log_probability(model, each) / rule(len(each))) < 1e-4 for each in _readings(text))


def _readings(text: Text) -> Iterator[Text]:
    """With its end, which may have been taken off, and as it is."""
    yield (*_bare(text), END)
    if len(_bare(text)) == LONGEST:
        yield _bare(text)


def _has_penalty(subject: BeamSubject) -> Said | None:
    return None if "alpha" in subject.names else SAYS.idle("no_penalty")


AFTER = ("beam_run",)

PROPERTIES: tuple[Property[BeamSubject], ...] = (
    Property("beam_run", WORDS, _runs),
    Property("beam_scores", WORDS, _scores, after=AFTER),
    Property("beam_greedy", WORDS, _greedy, after=(*AFTER, "beam_scores")),
    Property("beam_finished", WORDS, _finished, after=AFTER),
    Property("beam_best", WORDS, _exhaustive, after=(*AFTER, "beam_finished", "beam_greedy", "beam_sorted")),
    Property("beam_sorted", WORDS, _sorted, after=AFTER),
    Property("beam_penalty", WORDS, _penalty, _has_penalty, (*AFTER, "beam_scores")),
)
"""What a beam search is examined for."""
