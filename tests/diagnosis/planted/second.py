"""The second collection of planted bugs, in other styles than the first."""

from __future__ import annotations

from typing import Any

from . import (
    fresh_alibi,
    fresh_attention,
    fresh_bart,
    fresh_bert,
    fresh_decoder_layers,
    fresh_einsum_seq2seq,
    fresh_encoder_layers,
    fresh_functional_gpt,
    fresh_llama,
    fresh_multi_head,
    fresh_positions,
    fresh_schedules,
    fresh_sentence_encoder,
    fresh_t5_encoder,
    fresh_time_first_gpt,
    fresh_torch_translator,
)
from .records import Healthy, Planted, Shows, of_function


def _healthy() -> tuple[Healthy, ...]:
    records = [
        ("model.decoder", fresh_time_first_gpt.TimeFirstGPT),
        ("model.decoder", fresh_llama.LittleLlama),
        ("model.decoder", fresh_alibi.AlibiGPT),
        ("model.decoder", fresh_functional_gpt.FunctionalGPT),
        ("model.encoder", fresh_bert.LittleBert),
        ("model.encoder", fresh_t5_encoder.T5Encoder),
        ("model.encoder", fresh_sentence_encoder.SentenceEncoder),
        ("model.encoder_decoder", fresh_einsum_seq2seq.EinsumTranslator),
        ("model.encoder_decoder", fresh_bart.LittleBart),
        ("model.encoder_decoder", fresh_torch_translator.TorchTranslator),
        ("part.attention", fresh_attention.reference_attention),
        ("part.attention", fresh_attention.blockwise_attention),
        ("part.attention", fresh_attention.flat_attention),
        ("part.multi_head", fresh_multi_head.KerasMultiHead),
        ("part.multi_head", fresh_multi_head.ContextAttention),
        ("part.multi_head", fresh_multi_head.MultiQueryAttention),
        ("part.position", fresh_positions.position_table),
        ("part.position", fresh_positions.DroppedPositions),
        ("part.position", fresh_positions.ComplexRotary),
        ("part.position", fresh_positions.alibi_bias),
        ("part.position", fresh_positions.ParameterPositions),
        ("part.encoder_layer", fresh_encoder_layers.FusedLayer),
        ("part.encoder_layer", fresh_encoder_layers.GatedLayer),
        ("part.encoder_layer", fresh_encoder_layers.KerasBlock),
        ("part.decoder_layer", fresh_decoder_layers.FusedDecoderLayer),
        ("part.decoder_layer", fresh_decoder_layers.PlainDecoderLayer),
        ("part.schedule", fresh_schedules.warmup_cosine),
        ("part.schedule", fresh_schedules.CustomSchedule),
        ("part.schedule", fresh_schedules.trapezoid),
        ("part.schedule", fresh_schedules.PolynomialDecay),
    ]
    return tuple(
        Healthy(made.__name__, kind, made if isinstance(made, type) else of_function(made)) for kind, made in records
    )


def _planted() -> tuple[Planted, ...]:
    records: list[Planted] = []

    def plant(kind: str, twin: Any, made: Any, *broken: str, shows: Shows = "output", where: str | None = None) -> None:
        factory = made if isinstance(made, type) else of_function(made)
        records.append(Planted(made.__name__, kind, factory, broken, twin.__name__, shows, where))

    kind, code, twin = "model.decoder", fresh_time_first_gpt, fresh_time_first_gpt.TimeFirstGPT
    plant(kind, twin, code.ViewedTimeFirstGPT, "batch_mates", "causality", "position")
    plant(kind, twin, code.PositionsBeforeTurnGPT, "position", "batch_mates")
    plant(kind, twin, code.TutorialMaskReversedGPT, "causality", "mask")
    plant(kind, twin, code.MaskKeptFromFirstCallGPT, "shapes", "mask")
    plant(kind, twin, code.MaskZeroOneSubtractedGPT, "causality", "mask")
    plant(kind, twin, code.QueryNormedGPT, "norm")
    plant(kind, twin, code.ShiftedBackwardsGPT, "label_shift")
    plant(kind, twin, code.TimeFirstLossGPT, "label_shift", "batch_mates", "memorise")
    plant(kind, twin, code.UniformOneGPT, "initial_loss", shows="initialisation")

    kind, code, twin = "model.decoder", fresh_llama, fresh_llama.LittleLlama
    plant(kind, twin, code.ValuesTurnedLlama, "position", "own_values")
    plant(kind, twin, code.QueriesTurnedLlama, "position")
    plant(kind, twin, code.BareKeysCachedLlama, "cache", "position")
    plant(kind, twin, code.RepeatedCachedLlama, "cache", "shapes")
    plant(kind, twin, code.HeadsCountedLlama, "cache", "position")
    plant(kind, twin, code.PastMaskBehindLlama, "cache", "causality", "mask")
    plant(kind, twin, code.NewKeysFirstLlama, "cache", "causality", "mask")
    plant(kind, twin, code.PresentsReversedLlama, "cache")
    plant(kind, twin, code.SummedNormLlama, "norm")
    plant(kind, twin, code.TimeNormLlama, "norm", "causality")
    plant(kind, twin, code.ScaledUpLlama, "scale")
    plant(kind, twin, code.TiedThenReplacedLlama, "tied", shows="training", where="lm_head")
    plant(kind, twin, code.OldResidualLlama, "residual")

    kind, code, twin = "model.decoder", fresh_alibi, fresh_alibi.AlibiGPT
    plant(kind, twin, code.FarIsNearGPT, "position")
    plant(kind, twin, code.RowBiasGPT, "position")
    plant(kind, twin, code.BiasAfterSoftmaxGPT, "softmax_axis", "position")
    plant(kind, twin, code.TimesTriangleGPT, "causality", "mask")
    plant(kind, twin, code.LettersTurnedGPT, "causality", "softmax_axis")
    plant(kind, twin, code.DataAsHeadGPT, "tied", "gradient", shows="training")
    plant(kind, twin, code.PerRowLossGPT, "accumulation", "loss_padding")

    kind, code, twin = "model.decoder", fresh_functional_gpt, fresh_functional_gpt.FunctionalGPT
    plant(kind, twin, code.SumOfAllGPT, "softmax_axis", "batch_mates", "causality")
    plant(kind, twin, code.ScaledAfterSoftmaxGPT, "softmax_axis", "scale")
    plant(kind, twin, code.BracketNormGPT, "norm")
    plant(kind, twin, code.TriTimesMinusGPT, "causality", "mask")
    plant(kind, twin, code.LenOfBatchGPT, "shapes", "position", shows="raises")
    plant(kind, twin, code.FirstBlockAgainGPT, "gradient", "tied", where="blocks.1")
    plant(kind, twin, code.FirstNormTwiceGPT, "gradient", "norm", shows="training")
    plant(kind, twin, code.PlainDictGPT, "gradient", shows="training", where="blocks")
    plant(kind, twin, code.NormedStreamGPT, "residual", "norm")

    kind, code, twin = "model.encoder", fresh_bert, fresh_bert.LittleBert
    plant(kind, twin, code.MaskNotSubtractedBert, "padding", "mask")
    plant(kind, twin, code.MaskOneAxisShortBert, "shapes", "padding", "mask", shows="raises")
    plant(kind, twin, code.TinyNotMinBert, "padding", "mask")
    plant(kind, twin, code.OneWayBert, "mask", "causality")
    plant(kind, twin, code.QuerySoftmaxBert, "softmax_axis", "padding")
    plant(kind, twin, code.ContextNotPermutedBert, "heads", "padding")
    plant(kind, twin, code.OutputFromInputBert, "residual")
    plant(kind, twin, code.PositionsOfTheWordsBert, "position")
    plant(kind, twin, code.SegmentsDroppedBert, "gradient")
    plant(kind, twin, code.ShallowCopiesBert, "tied")
    plant(kind, twin, code.MasksInForwardBert, "determinism")
    plant(kind, twin, code.ShiftedLikeGPTBert, "label_shift")
    plant(kind, twin, code.ZeroIgnoredBert, "loss_padding")

    kind, code, twin = "model.encoder", fresh_t5_encoder, fresh_t5_encoder.T5Encoder
    plant(kind, twin, code.OneSidedBucketsT5, "position")
    plant(kind, twin, code.BiasOverwrittenT5, "position")
    plant(kind, twin, code.FirstRowsMaskT5, "padding", "mask", "batch_mates")
    plant(kind, twin, code.NoKeepdimT5, "norm", "shapes", shows="raises")
    plant(kind, twin, code.NormedStreamT5, "residual", "norm")
    plant(kind, twin, code.GateOverWordsT5, "position_wise", "padding")
    plant(kind, twin, code.WeightsAlwaysDroppedT5, "determinism")

    kind, code, twin = "model.encoder", fresh_sentence_encoder, fresh_sentence_encoder.SentenceEncoder
    plant(kind, twin, code.PaddingInTheMean, "padding")
    plant(kind, twin, code.LastStateOfPadding, "padding")
    plant(kind, twin, code.TrueForPadding, "padding", "mask")
    plant(kind, twin, code.UnitOverBatch, "batch_mates", "norm")
    plant(kind, twin, code.SqueezedBatch, "shapes", "batch_mates")

    kind, code, twin = "model.encoder_decoder", fresh_einsum_seq2seq, fresh_einsum_seq2seq.EinsumTranslator
    plant(kind, twin, code.EmbedSizeTranslator, "scale")
    plant(kind, twin, code.QuerySoftmaxTranslator, "softmax_axis", "causality")
    plant(kind, twin, code.MasksExchangedTranslator, "causality", "mask", "shapes", "cross_attention")
    plant(kind, twin, code.QueryFirstTranslator, "cross_attention", "shapes", "causality")
    plant(kind, twin, code.ValueResidualTranslator, "residual", "cross_attention", "shapes")
    plant(kind, twin, code.LastLayerOnlyTranslator, "gradient")
    plant(kind, twin, code.TrimmedTwiceTranslator, "shapes", "label_shift")
    plant(kind, twin, code.SourceMaskStandsTranslator, "padding", "mask", "shapes")
    plant(kind, twin, code.DiagonalHiddenTranslator, "causality", "mask")

    kind, code, twin = "model.encoder_decoder", fresh_bart, fresh_bart.LittleBart
    plant(kind, twin, code.LabelsReadBart, "label_shift")
    plant(kind, twin, code.RolledLabelsBart, "label_shift", "causality")
    plant(kind, twin, code.ShiftedLeftBart, "label_shift")
    plant(kind, twin, code.MinusHundredReadBart, "loss_padding", "label_shift")
    plant(kind, twin, code.PaddingAskedBart, "loss_padding")
    plant(kind, twin, code.LossShiftsAgainBart, "label_shift")
    plant(kind, twin, code.LastStateBart, "cross_attention", "padding")
    plant(kind, twin, code.FloatKeepBart, "padding", "mask")
    plant(kind, twin, code.CausalEncoderBart, "mask", "cross_attention", "causality", "padding")
    plant(kind, twin, code.DecoderNotCausalBart, "causality", "mask")
    plant(kind, twin, code.MemoryNotAddedBart, "residual")

    kind, code, twin = "model.encoder_decoder", fresh_torch_translator, fresh_torch_translator.TorchTranslator
    plant(kind, twin, code.MaskOfBatchSizeTranslator, "shapes", "causality", "mask", shows="raises")
    plant(kind, twin, code.SourceTriangleTranslator, "mask", "cross_attention", "causality")
    plant(kind, twin, code.MemoryMaskTurnedTranslator, "padding", "cross_attention", "mask")
    plant(kind, twin, code.SourceMaskTwiceTranslator, "padding", "shapes", "mask")
    plant(kind, twin, code.MemoryAsTargetTranslator, "cross_attention", "shapes", "causality")
    plant(kind, twin, code.ViewedBackTranslator, "batch_mates", "causality")
    plant(kind, twin, code.RowsAsPlacesTranslator, "position", "batch_mates")
    plant(kind, twin, code.LayersSharedTranslator, "tied")

    kind, code, twin = "part.attention", fresh_attention, fresh_attention.reference_attention
    plant(kind, twin, code.reference_mask_as_it_is, "mask")
    plant(kind, twin, code.reference_mask_flipped_in_place, "determinism", "mask")
    plant(kind, twin, code.reference_bias_after_softmax, "mask", "softmax_axis")
    plant(kind, twin, code.reference_scaled_by_heads, "scale")

    kind, code, twin = "part.attention", fresh_attention, fresh_attention.blockwise_attention
    plant(kind, twin, code.blockwise_not_rescaled, "softmax_axis")
    plant(kind, twin, code.blockwise_last_block_lost, "mask", "softmax_axis", "own_values", "shapes")
    plant(kind, twin, code.blockwise_hidden_counted, "mask", "softmax_axis")
    plant(kind, twin, code.blockwise_mean_of_blocks, "softmax_axis", "mask")

    kind, code, twin = "part.attention", fresh_attention, fresh_attention.flat_attention
    plant(kind, twin, code.flat_mask_repeated, "mask", "batch_mates", "padding")
    plant(kind, twin, code.flat_keys_reshaped, "heads", "mask", "shapes")
    plant(kind, twin, code.flat_softmax_over_rows, "softmax_axis", "batch_mates", "heads")
    plant(kind, twin, code.flat_queries_as_values, "own_values")

    kind, code, twin = "part.multi_head", fresh_multi_head, fresh_multi_head.KerasMultiHead
    plant(kind, twin, code.KerasKeyIsQuery, "cross_attention", "shapes")
    plant(kind, twin, code.KerasHeadSoftmax, "softmax_axis", "heads")
    plant(kind, twin, code.KerasScoresTurned, "cross_attention", "shapes")
    plant(kind, twin, code.KerasMaskTimesMinus, "mask")

    kind, code, twin = "part.multi_head", fresh_multi_head, fresh_multi_head.ContextAttention
    plant(kind, twin, code.ContextOrX, "cross_attention", "shapes")
    plant(kind, twin, code.ContextUnread, "cross_attention")
    plant(kind, twin, code.OutputInAList, "gradient", shows="training")
    plant(kind, twin, code.MaskFilledAfter, "mask")
    plant(kind, twin, code.ValuesAreKeysOfContext, "own_values", "gradient")

    kind, code, twin = "part.multi_head", fresh_multi_head, fresh_multi_head.MultiQueryAttention
    plant(kind, twin, code.FusedAlwaysDrops, "determinism")
    plant(kind, twin, code.FusedScaleInverse, "scale")
    plant(kind, twin, code.FusedMaskDropped, "mask", "padding")

    kind, code, twin = "part.position", fresh_positions, fresh_positions.position_table
    plant(kind, twin, code.position_table_order, "position")
    plant(kind, twin, code.position_table_doubled, "position")
    plant(kind, twin, code.position_table_log10, "position")
    plant(kind, twin, code.position_table_overwritten, "position")

    kind, code, twin = "part.position", fresh_positions, fresh_positions.DroppedPositions
    plant(kind, twin, code.DroppedInEvaluation, "determinism")
    plant(kind, twin, code.FirstPlaceForAll, "position")

    kind, code, twin = "part.position", fresh_positions, fresh_positions.ComplexRotary
    plant(kind, twin, code.PolarExchanged, "position")
    plant(kind, twin, code.OffsetUnused, "position", "cache")
    plant(kind, twin, code.RotatedByLast, "position")

    kind, code, twin = "part.position", fresh_positions, fresh_positions.alibi_bias
    plant(kind, twin, code.alibi_bias_upwards, "position")
    plant(kind, twin, code.alibi_bias_by_query, "position")

    kind, code, twin = "part.position", fresh_positions, fresh_positions.ParameterPositions
    plant(kind, twin, code.SlicedByWidth, "shapes", "position", shows="raises")
    plant(kind, twin, code.FrozenPretrained, "gradient", shows="training")

    kind, code, twin = "part.encoder_layer", fresh_encoder_layers, fresh_encoder_layers.FusedLayer
    plant(kind, twin, code.PaddingSeen, "padding", "mask")
    plant(kind, twin, code.PathAlwaysDropped, "determinism")
    plant(kind, twin, code.NormedAtBothEnds, "norm")
    plant(kind, twin, code.TriangleInEncoder, "mask", "causality", "padding")
    plant(kind, twin, code.HeadsBeforeThree, "heads", "batch_mates", "padding")

    kind, code, twin = "part.encoder_layer", fresh_encoder_layers, fresh_encoder_layers.GatedLayer
    plant(kind, twin, code.NormOverWords, "norm", "padding")
    plant(kind, twin, code.MultipliedByRoot, "norm")
    plant(kind, twin, code.FoundIsStream, "residual")
    plant(kind, twin, code.GateFromNeighbour, "position_wise", "padding")

    kind, code, twin = "part.encoder_layer", fresh_encoder_layers, fresh_encoder_layers.KerasBlock
    plant(kind, twin, code.SecondSumFromInputs, "residual")
    plant(kind, twin, code.TrainingIsTrue, "determinism")
    plant(kind, twin, code.HeadsMaskRepeated, "padding", "mask", "batch_mates")

    kind, code, twin = "part.decoder_layer", fresh_decoder_layers, fresh_decoder_layers.FusedDecoderLayer
    plant(kind, twin, code.PaddingsExchanged, "padding", "shapes", "mask", "cross_attention")
    plant(kind, twin, code.MemoryIsStream, "residual", "shapes", "cross_attention")
    plant(kind, twin, code.ValuesOfTarget, "cross_attention", "shapes", "causality", "own_values")
    plant(kind, twin, code.PaddingEndsTriangle, "causality", "mask")
    plant(kind, twin, code.MemoryCut, "cross_attention")
    plant(kind, twin, code.OldKeysKept, "determinism", "cache", "cross_attention")

    kind, code, twin = "part.decoder_layer", fresh_decoder_layers, fresh_decoder_layers.PlainDecoderLayer
    plant(kind, twin, code.CrossSoftmaxOverQueries, "softmax_axis", "causality", "cross_attention")
    plant(kind, twin, code.CrossPaddingOnly, "padding", "cross_attention", "mask")
    plant(kind, twin, code.TriangleTurned, "causality", "mask")
    plant(kind, twin, code.MasksSummed, "causality", "mask", "padding")
    plant(kind, twin, code.NextWordConvolved, "position_wise", "causality")
    plant(kind, twin, code.CrossFromTheStart, "residual")

    kind, code, twin = "part.schedule", fresh_schedules, fresh_schedules.warmup_cosine
    plant(kind, twin, code.warmup_cosine_of_total, "schedule")
    plant(kind, twin, code.warmup_cosine_degrees, "schedule")
    plant(kind, twin, code.warmup_cosine_minus, "schedule")
    plant(kind, twin, code.warmup_cosine_by_epoch, "schedule")

    kind, code, twin = "part.schedule", fresh_schedules, fresh_schedules.CustomSchedule
    plant(kind, twin, code.PowerWithoutMinus, "schedule")
    plant(kind, twin, code.RootNotRsqrt, "schedule")
    plant(kind, twin, code.StepOfItsOwn, "schedule", "determinism")

    kind, code, twin = "part.schedule", fresh_schedules, fresh_schedules.trapezoid
    plant(kind, twin, code.trapezoid_cools_from_zero, "schedule")
    plant(kind, twin, code.trapezoid_two_units, "schedule")

    kind, code, twin = "part.schedule", fresh_schedules, fresh_schedules.PolynomialDecay
    plant(kind, twin, code.ParabolaRisesAgain, "schedule")
    plant(kind, twin, code.FractionTurned, "schedule")
    plant(kind, twin, code.DecaysFromStepZero, "schedule")

    return tuple(records)


FRESH_HEALTHY = tuple(_healthy())
FRESH = tuple(_planted())
