"""Each experiment on whole models, on a planted bug that it was made for."""

from __future__ import annotations

import pytest
import torch

from glassformer.diagnosis.user_model import examine_named

from .planted.catalogue import FOURTH, FOURTH_HEALTHY, FRESH, FRESH_HEALTHY, THIRD, THIRD_HEALTHY

BUGS = {record.name: record for record in (*FRESH, *THIRD, *FOURTH)}
TWINS = {record.name: record for record in (*FRESH_HEALTHY, *THIRD_HEALTHY, *FOURTH_HEALTHY)}

FOUND = {
    # Labels that the model turns into its decoder's text.
    "LabelsReadBart": ("label_shift", "label_shift.never"),
    "RolledLabelsBart": ("label_shift", "label_shift.fed"),
    "ShiftedLeftBart": ("label_shift", "label_shift.fed"),
    "LossShiftsAgainBart": ("label_shift", "label_shift.twice"),
    "MinusHundredReadBart": ("loss_padding", None),
    "PaddingAskedBart": ("loss_padding", None),
    # One row for a text.
    "PaddingInTheMean": ("padding", None),
    "TrueForPadding": ("padding", "padding.inverted"),
    "UnitOverBatch": ("batch_mates", None),
    "SqueezedBatch": ("shapes", "shapes.row"),
    # Losses.
    "TimeFirstLossGPT": ("label_shift", "label_shift.scrambled"),
    "PerRowLossGPT": ("accumulation", "accumulation.sum"),
    "ShiftedLikeGPTBert": ("label_shift", "label_shift.twice"),
    # Norms, weights, and what learns.
    "QueryNormedGPT": ("norm", "norm.query"),
    "SummedNormLlama": ("norm", "norm.sum"),
    "SquareOfMeanGPT": ("norm", "norm.none"),
    "DataAsHeadGPT": ("gradient", "gradient.cut"),
    "PlainDictGPT": ("gradient", "gradient.unregistered"),
    "ShallowCopiesBert": ("layers", "layers.same"),
    # Weights of attention.
    "BiasAfterSoftmaxGPT": ("softmax_axis", "softmax_axis.added"),
    "ScaledAfterSoftmaxGPT": ("softmax_axis", "softmax_axis.scaled"),
    "SumOfAllGPT": ("softmax_axis", None),
    # Positions by distance.
    "FarIsNearGPT": ("position", "position.far"),
    "OneSidedBucketsT5": ("position", "position.one_sided"),
    "BiasOverwrittenT5": ("position", "position.masked"),
    # Outputs and caches.
    "FirstOfBatchClassifier": ("shapes", None),
    "RepeatedCachedLlama": ("cache", None),
    # Padding by its id, and masks of the wrong text.
    "CrossWithoutMaskTransformer": ("cross_attention", "cross_attention.padding"),
    "MemoryPaddingReadTranslator": ("cross_attention", "cross_attention.padding"),
    "SourcePaddingTwiceTranslator": ("cross_attention", "cross_attention.lengths"),
    # Texts that hold their labels.
    "AskedForItsInput": ("label_shift", "label_shift.never"),
    "AskedForPadding": ("loss_padding", None),
    "LossViewedGPT": ("label_shift", "label_shift.scrambled"),
    "LabelsOverwrittenMarian": ("determinism", "determinism.changed"),
    # The number of tokens in place of a mask; masks that lie on their side.
    "LengthsByOneTagger": ("padding", None),
    "PadMaskTurnedZh": ("cross_attention", "cross_attention.padding"),
    "PlainWeightGemma": ("norm", "norm.silent"),
    # A mask of padding in the place of the triangle; positions that depend on what follows.
    "GivenMaskOnlyT5": ("causality", "causality.masked"),
    "NotSkewedMusic": ("position", "position.prefix"),
}


@pytest.mark.parametrize("name", FOUND)
def test_bug_is_named_first(name: str) -> None:
    torch.manual_seed(0)
    first = examine_named(BUGS[name].factory(), name).failures[0]
    assert (first.key, first.finding.fault) == FOUND[name]


@pytest.mark.parametrize(
    "name", sorted({"LastWordGPT", "LittleT5", "MusicTransformer", *(BUGS[name].twin for name in FOUND)})
)
def test_healthy_twin_is_not_accused(name: str) -> None:
    torch.manual_seed(0)
    assert not examine_named(TWINS[name].factory(), name).failures
