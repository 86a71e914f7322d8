"""How many planted bugs the examiner finds and names, and how often it accuses healthy code.

    python bench/examiner.py --set first|second|third|fourth [--healthy] [--of model|part] [--seeds N] [--classes]

The bugs and their healthy twins are those of tests/diagnosis/planted. Every one is built under a seed and examined as
`glassformer check FILE.py:NAME` examines it, with its kind (`--as`) and without; with --classes a class is handed over
as it is named in a file, and not made.

caught: some verdict failed. named: the verdict that comes first says the property that was broken.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from diagnosis.planted.catalogue import (
    FOURTH,
    FOURTH_HEALTHY,
    FRESH,
    FRESH_HEALTHY,
    HEALTHY,
    PLANTED,
    PROPERTIES,
    THIRD,
    THIRD_HEALTHY,
    Healthy,
    Planted,
)
from glassformer.core.errors import GlassformerError
from glassformer.diagnosis.user_model import examine_named
from glassformer.diagnosis.verdict import Verdict

SETS: dict[str, tuple[Sequence[Planted], Sequence[Healthy]]] = {
    "first": (PLANTED, HEALTHY),
    "second": (FRESH, FRESH_HEALTHY),
    "third": (THIRD, THIRD_HEALTHY),
    "fourth": (FOURTH, FOURTH_HEALTHY),
}
"""Collections by several people in several styles: the bugs, and the healthy code that they were made from."""

MEANS: dict[str, tuple[str, ...]] = {
    # Of models; keys that are words of the catalogue mean themselves.
    "layers": ("gradient",),
    "layers.same": ("tied",),
    "feed_forward": ("position_wise",),
    "finite": ("shapes",),
    "cross_attention.padding": ("padding", "cross_attention"),
    "cross_attention.lengths": ("shapes", "mask", "padding", "cross_attention"),
    "cache.position": ("cache", "position"),
    "residual.normed": ("residual", "norm"),
    "position_wise.rows": ("norm", "batch_mates"),
    "position_wise.norm": ("norm", "position_wise"),
    "shapes.softmaxed": ("memorise",),
    "label_shift.softmaxed": ("memorise", "label_shift"),
    "label_shift.raw": ("memorise", "label_shift"),
    "causality.one_sided": ("mask", "causality"),
    "dropout.modes": ("determinism",),
    "dropout": ("determinism",),
    "cross_attention.one_sided": ("mask", "causality", "cross_attention"),
    "cross_attention.hidden": ("cross_attention", "mask"),
    "position.unregistered": ("gradient", "position"),
    "position_wise.before": ("norm", "position_wise"),
    # Attention by itself, and inside what has one.
    "attention_runs": ("shapes",),
    "attention_repeats": ("determinism",),
    "attention_lengths": ("shapes",),
    "attention_mask": ("mask",),
    "attention_large": ("shapes",),
    "attention_blind": ("mask",),
    "weights_shape": ("shapes",),
    "weights_sum": ("softmax_axis",),
    "scale_none": ("scale",),
    "scale_d_k": ("scale",),
    "scale_d_model": ("scale",),
    "scale_times": ("scale",),
    "scale_keys": ("scale",),
    "scale_other": ("scale",),
    "axis_queries": ("softmax_axis",),
    "axis_heads": ("softmax_axis",),
    "axis_batch": ("softmax_axis",),
    "axis_nothing": ("softmax_axis",),
    "axis_twice": ("softmax_axis",),
    "axis_sums": ("softmax_axis",),
    "axis_parts": ("softmax_axis",),
    "keys_unread": ("mask", "own_values"),
    "sides_reshaped": ("heads", "shapes"),
    "sides_swapped": ("softmax_axis",),
    "values_k": ("own_values",),
    "values_q": ("own_values",),
    "keys_q": ("own_values",),
    "mask_always": ("mask", "causality"),
    "argument_ignored": ("own_values", "cross_attention"),
    "input_changed": ("determinism",),
    "dropout_on": ("determinism",),
    "no_gradient_back": ("gradient",),
    "position_unregistered": ("gradient",),
    "heads_unmerged": ("heads",),
    "heads_run": ("shapes",),
    "heads_repeat": ("determinism",),
    "heads_equation": ("heads",),
    "heads_order": ("heads",),
    "heads_rows": ("batch_mates",),
    "heads_learn": ("gradient",),
    "heads_mask": ("mask",),
    "heads_padding": ("padding", "mask"),
    "heads_divide": ("heads",),
    "heads_cross": ("cross_attention",),
    "unlisted": ("gradient",),
    "cross_crash": ("cross_attention", "shapes"),
    # Layers.
    "layer_run": ("shapes",),
    "layer_repeat": ("determinism",),
    "layer_residual": ("residual",),
    "layer_norm": ("norm",),
    "norm_stream": ("norm", "residual"),
    "layer_attention": ("heads",),
    "layer_feed_forward": ("position_wise",),
    "feed_forward_local": ("position_wise",),
    "feed_forward_curved": ("position_wise",),
    "layer_mixes": ("mask",),
    "layer_order": ("heads",),
    "layer_rows": ("batch_mates",),
    "layer_padding": ("padding",),
    "layer_learns": ("gradient",),
    "layer_cross": ("cross_attention",),
    "layer_shared": ("tied",),
    "layer_causal": ("causality",),
    "layer_memory_padding": ("padding", "cross_attention"),
    "meanings_differ": ("padding", "mask"),
    "memory_padding_length": ("padding", "shapes"),
    # Positions, schedules, and what else there is.
    "position_over_rows": ("position", "batch_mates"),
    "position_learns": ("gradient",),
    "position_offset": ("position", "cache"),
    "position_dtype": ("position", "shapes"),
    **dict.fromkeys(
        (
            "position_run",
            "position_over_time",
            "position_adds",
            "position_distinct",
            "position_begins",
            "position_prefix",
            "position_shift",
            "position_paper",
            "rotary_norms",
            "rotary_relative",
            "rotary_pairs",
            "position_near",
            "rotary_apart",
            "bias_moves",
            "bias_alike",
            "bias_falls",
        ),
        ("position",),
    ),
}
"""What a fault, or else the key of a verdict, is called in the catalogue."""


@dataclass(frozen=True)
class Result:
    """What the examiner said of one record.

    Attributes:
        name: Of the record.
        kind: Of the record.
        given: Whether the kind was told.
        seed: Of the weights and of the examination.
        wanted: Words that are right answers; none for healthy code.
        said: The failed verdicts in their order: key, fault, what was seen.
        refused: Why it was not examined at all.
    """

    name: str
    kind: str
    given: bool
    seed: int
    wanted: tuple[str, ...]
    said: tuple[tuple[str, str | None, str], ...] = ()
    refused: str | None = None

    @property
    def named(self) -> bool:
        """Whether the verdict that comes first is right."""
        return bool(self.said) and self._right(self.said[0])

    @property
    def named_anywhere(self) -> bool:
        """Whether any is."""
        return any(self._right(each) for each in self.said)

    def _right(self, said: tuple[str, str | None, str]) -> bool:
        return bool(set(words_of(said[0], said[1])) & set(self.wanted))


def words_of(key: str, fault: str | None) -> tuple[str, ...]:
    """Return what a verdict is called in the catalogue; nothing if it has no word for it.

    Args:
        key: Of the property.
        fault: Of the finding.
    """
    if fault in MEANS:
        return MEANS[fault]
    if key in MEANS:
        return MEANS[key]
    word = key.partition("_")[0] if key.startswith(("schedule_", "mask_", "cache_")) else key
    return (word,) if word in PROPERTIES else ()


def examined(record: Planted | Healthy, *, given: bool, seed: int, classes: bool = False) -> Result:
    """Return what the examiner says of a record.

    Args:
        record: What is examined.
        given: Whether its kind is told.
        seed: Of its weights and of the examination.
        classes: Whether a class is handed over unmade.
    """
    wanted = record.property if isinstance(record, Planted) else ()
    about = (record.name, record.kind, given, seed, wanted)
    torch.manual_seed(seed)
    value: Any = record.factory if classes and isinstance(record.factory, type) else record.factory()
    try:
        report = examine_named(value, record.name, kind=record.kind.partition(".")[2] if given else None, seed=seed)
    except GlassformerError as error:
        return Result(*about, refused=str(error).partition("\n")[0])
    return Result(*about, said=tuple(_said(verdict) for verdict in report.failures))


def _said(verdict: Verdict) -> tuple[str, str | None, str]:
    return verdict.key, verdict.finding.fault, verdict.seen("en")


def lines_of(results: Sequence[Result]) -> list[str]:
    """Return the counts, by kind, and every miss or false alarm by name."""
    lines = []
    for given in (True, False):
        some = [each for each in results if each.given == given]
        lines.append("with the kind (--as)" if given else "kind recognised")
        kinds = list(dict.fromkeys(each.kind for each in some))
        lines += [_counts(kind, [each for each in some if each.kind == kind]) for kind in kinds]
        lines.append(_counts("all", some))
    wrong = [each for each in results if not (each.named if each.wanted else not each.said and each.refused is None)]
    lines += [_miss(each) for each in wrong]
    return lines


def _counts(kind: str, results: Sequence[Result]) -> str:
    if not any(each.wanted for each in results):
        alarms = sum(bool(each.said) or each.refused is not None for each in results)
        return f"  {kind:24} {alarms} false alarms of {len(results)}"
    counts = {
        "caught": sum(bool(each.said) for each in results),
        "named": sum(each.named for each in results),
        "named anywhere": sum(each.named_anywhere for each in results),
    }
    shares = ", ".join(f"{name} {n}/{len(results)} ({n / len(results):.1%})" for name, n in counts.items())
    return f"  {kind:24} {shares}"


def _miss(each: Result) -> str:
    how = f"{each.kind} {each.name} (seed {each.seed}, {'--as' if each.given else 'recognised'})"
    said = "; ".join(f"{key}/{fault}: {seen}" if fault else f"{key}: {seen}" for key, fault, seen in each.said)
    wanted = f" wanted {'|'.join(each.wanted)}," if each.wanted else ""
    return f"{how}:{wanted} said {said or each.refused or 'nothing'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", choices=tuple(SETS), required=True)
    parser.add_argument("--healthy", action="store_true", help="the healthy code in place of the bugs")
    parser.add_argument("--of", choices=("model", "part"), help="only whole models, or only parts")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--classes", action="store_true", help="hand classes over unmade")
    parser.add_argument("--only", nargs="*", help="names of records")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    chosen: Sequence[Planted | Healthy] = SETS[arguments.set][arguments.healthy]
    chosen = [each for each in chosen if not arguments.of or each.kind.startswith(f"{arguments.of}.")]
    records = [each for each in chosen if not arguments.only or each.name in arguments.only]
    trials = [(each, given, seed) for given in (True, False) for each in records for seed in range(arguments.seeds)]
    results = []
    for number, (record, given, seed) in enumerate(trials):
        print(f"\r{number + 1}/{len(trials)} {record.name:40}", end="", file=sys.stderr)
        results.append(examined(record, given=given, seed=seed, classes=arguments.classes))
    print("\r", end="", file=sys.stderr)
    if arguments.json:
        print(json.dumps([asdict(each) | {"named": each.named} for each in results], ensure_ascii=False))
    else:
        print("\n".join(lines_of(results)))


if __name__ == "__main__":
    main()
