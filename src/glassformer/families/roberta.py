"""RoBERTa: BERT, trained longer on more text, with another tokenizer and without its sentence pairs.

It differs from the original Transformer as BERT does; from BERT in these: positions are counted after that of the
padding, so that two rows of their table are never read; the vector of a text goes through a projection of the
classifier's own; the transform of the masked-token head is always GELU.

Source: Liu et al. 2019, arXiv:1907.11692, and the released code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from glassformer.core.config import TransformerConfig
from glassformer.core.errors import CheckpointError
from glassformer.families.bert import (
    CLASSIFIER_DROPOUT,
    CONSTANTS,
    ENTRIES,
    PARTS,
    POOLER,
    Pooler,
    TokenTransform,
    body,
    size,
)
from glassformer.families.entries import Fixed, Foreign, Values
from glassformer.families.family import Architecture, Family, Preset
from glassformer.families.weights import Rule, Weights, linear

BODY = "roberta."


@dataclass(frozen=True)
class PositionsAfterPadding:
    """Positions begin after the id of the padding: rows 0 to `pad_token_id` of the table are never read."""

    @property
    def names(self) -> tuple[str, ...]:
        """Number of rows, and the id of the padding."""
        return ("max_position_embeddings", "pad_token_id")

    def read(self, foreign: Foreign) -> Values:
        """Return `max_positions` and `position_offset`."""
        if "max_position_embeddings" not in foreign:
            raise CheckpointError("max_position_embeddings is missing")
        rows, pad = foreign["max_position_embeddings"], foreign.get("pad_token_id", 1)
        if not isinstance(rows, int) or not isinstance(pad, int):
            raise CheckpointError(
                f"pad_token_id is {pad!r} and max_position_embeddings {rows!r}: both must be numbers, for positions "
                "are counted from the padding's"
            )
        return {"max_positions": rows - pad - 1, "position_offset": pad + 1}

    def write(self, values: Values) -> dict[str, Any]:
        """Return both."""
        offset = values["position_offset"]
        return {"max_position_embeddings": values["max_positions"] + offset, "pad_token_id": offset - 1}


def weights(config: TransformerConfig) -> Weights:
    """Return where each parameter is."""
    rules, copies, unused = list(body(config, BODY)), {}, set[str]()
    head, pooler = config.head, f"{BODY}pooler.dense"
    if head is not None and head.pooling is None:
        rules += linear("head.transform.linear", "lm_head.dense", bias=True)
        rules += linear("head.transform.norm", "lm_head.layer_norm", bias=True)
        rules.append(Rule("head.bias", ("lm_head.bias",)))
        copies = {
            "lm_head.decoder.weight": f"{BODY}embeddings.word_embeddings.weight",
            "lm_head.decoder.bias": "lm_head.bias",
        }
        unused = {f"{pooler}.{kind}" for kind in PARTS}
    elif head is not None and head.vocab_size is None:
        rules += linear("head.transform.linear", pooler, bias=True)
    elif head is not None:
        rules += linear("head.transform.linear", "classifier.dense", bias=True)
        rules += linear("head", "classifier.out_proj", bias=True)
        unused = {f"{pooler}.{kind}" for kind in PARTS}
    return Weights(tuple(rules), copies, ("embeddings.position_ids",), frozenset(unused))


TINY = size(128, 2, 2, norm_eps=1e-5, n_types=1).model_copy(update={"position_offset": 2})
PAPER = "arXiv:1907.11692, section 5"

ROBERTA = Family(
    name="roberta",
    model_type="roberta",
    architectures=(
        Architecture(
            "RobertaForMaskedLM",
            constants={"head_bias": True, "tied": True},
            entries=(TokenTransform("gelu"), Fixed("tie_word_embeddings", True)),
        ),
        Architecture("RobertaForSequenceClassification", "classes", POOLER, (CLASSIFIER_DROPOUT,)),
        Architecture("RobertaModel", "states", entries=(Pooler(),)),
    ),
    entries=(*ENTRIES, PositionsAfterPadding()),
    constants=CONSTANTS,
    weights=weights,
    prefix=BODY,
    presets={
        "roberta-tiny": Preset(TINY),
        "roberta-base": Preset(
            TINY.model_copy(update={"d_model": 768, "n_layers": 12, "n_heads": 12}), 50_265, "125M", PAPER
        ),
        "roberta-large": Preset(
            TINY.model_copy(update={"d_model": 1024, "n_layers": 24, "n_heads": 16}), 50_265, "355M", PAPER
        ),
    },
)
