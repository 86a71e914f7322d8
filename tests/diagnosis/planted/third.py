"""The third collection of planted bugs: mistakes that were found in the wild."""

from __future__ import annotations

from typing import Any

from . import (
    third_attention,
    third_classifier,
    third_decoder_layers,
    third_encoder_layers,
    third_forum_translator,
    third_lecture_gpt,
    third_multi30k,
    third_multi_head,
    third_past_gpt,
    third_positions,
    third_rope_gpt,
    third_schedules,
    third_segment_bert,
    third_tutorial_lm,
    third_video_transformer,
    third_wrapped_encoder,
)
from .records import Healthy, Planted, Shows, of_function


def _healthy() -> tuple[Healthy, ...]:
    records = [
        ("model.decoder", third_lecture_gpt.LectureGPT),
        ("model.decoder", third_past_gpt.PastGPT),
        ("model.decoder", third_rope_gpt.RopeGPT),
        ("model.decoder", third_rope_gpt.LastWordGPT),
        ("model.decoder", third_tutorial_lm.TutorialLM),
        ("model.decoder", third_tutorial_lm.DecoderStackLM),
        ("model.encoder", third_segment_bert.SegmentBert),
        ("model.encoder", third_classifier.TextClassifier),
        ("model.encoder", third_wrapped_encoder.WrappedEncoder),
        ("model.encoder_decoder", third_video_transformer.VideoTransformer),
        ("model.encoder_decoder", third_multi30k.Multi30kTransformer),
        ("model.encoder_decoder", third_forum_translator.ForumTranslator),
        ("model.encoder_decoder", third_forum_translator.TeacherForced),
        ("part.attention", third_attention.tutorial_attention),
        ("part.attention", third_attention.notebook_attention),
        ("part.attention", third_attention.book_attention),
        ("part.multi_head", third_multi_head.NotebookMultihead),
        ("part.multi_head", third_multi_head.AnnotatedMultiHead),
        ("part.multi_head", third_multi_head.BlogSelfAttention),
        ("part.position", third_positions.sinusoid_encoding_table),
        ("part.position", third_positions.timing_signal),
        ("part.position", third_positions.LoopedEncoder),
        ("part.position", third_positions.BufferedPositions),
        ("part.position", third_positions.NotebookRotary),
        ("part.encoder_layer", third_encoder_layers.PortedLayer),
        ("part.encoder_layer", third_encoder_layers.VisionBlock),
        ("part.encoder_layer", third_encoder_layers.KerasStyleLayer),
        ("part.decoder_layer", third_decoder_layers.PortedDecoderLayer),
        ("part.decoder_layer", third_decoder_layers.LambdaDecoderBlock),
        ("part.decoder_layer", third_decoder_layers.TriangleDecoderLayer),
        ("part.schedule", third_schedules.NoamRate),
        ("part.schedule", third_schedules.cosine_with_warmup),
        ("part.schedule", third_schedules.linear_by_proportion),
        ("part.schedule", third_schedules.InverseSqrtSchedule),
        ("part.schedule", third_schedules.cosine_times_warmup),
    ]
    return tuple(
        Healthy(made.__name__, kind, made if isinstance(made, type) else of_function(made)) for kind, made in records
    )


def _planted() -> tuple[Planted, ...]:
    records: list[Planted] = []

    def plant(kind: str, twin: Any, made: Any, *broken: str, shows: Shows = "output", where: str | None = None) -> None:
        factory = made if isinstance(made, type) else of_function(made)
        records.append(Planted(made.__name__, kind, factory, broken, twin.__name__, shows, where))

    kind, code, twin = "model.decoder", third_lecture_gpt, third_lecture_gpt.LectureGPT
    plant(kind, twin, code.EmbeddingScaledGPT, "scale")
    plant(kind, twin, code.ZeroFilledGPT, "causality", "mask")
    plant(kind, twin, code.KeyTwiceGPT, "own_values", "gradient")
    plant(kind, twin, code.HeadsInAListGPT, "gradient", "determinism")
    plant(kind, twin, code.UnprojectedGPT, "gradient")
    plant(kind, twin, code.DropFunctionGPT, "determinism")
    plant(kind, twin, code.StreamDoubledGPT, "residual")
    plant(kind, twin, code.PositionsUnusedGPT, "position", "gradient")
    plant(kind, twin, code.LossViewedGPT, "label_shift", "memorise")
    plant(kind, twin, code.LossOfInputGPT, "label_shift")

    kind, code, twin = "model.decoder", third_past_gpt, third_past_gpt.PastGPT
    plant(kind, twin, code.PositionPlusOneGPT, "cache", "position")
    plant(kind, twin, code.PositionFromZeroGPT, "cache", "position")
    plant(kind, twin, code.TopRowsGPT, "cache", "mask")
    plant(kind, twin, code.OnlyNewKeptGPT, "cache")
    plant(kind, twin, code.ValuesNotJoinedGPT, "cache", "own_values")
    plant(kind, twin, code.SmallPenaltyGPT, "causality", "mask")
    plant(kind, twin, code.WholeNormGPT, "norm", "batch_mates", "causality")
    plant(kind, twin, code.TiedByCopyGPT, "tied", shows="training", where="lm_head")

    kind, code, twin = "model.decoder", third_rope_gpt, third_rope_gpt.RopeGPT
    plant(kind, twin, code.TurnedByHeadGPT, "position")
    plant(kind, twin, code.PairsAndHalvesGPT, "position")
    plant(kind, twin, code.AlwaysDropoutGPT, "determinism")
    plant(kind, twin, code.NotToldCausalGPT, "causality", "mask")
    plant(kind, twin, code.ScaledTwiceGPT, "scale")
    plant(kind, twin, code.SquareOfMeanGPT, "norm")
    plant(kind, twin, code.NormedBeforeSumGPT, "residual", "norm")
    plant(kind, twin, code.FrozenWordsGPT, "gradient", shows="training", where="wte")

    kind, code, twin = "model.decoder", third_tutorial_lm, third_tutorial_lm.TutorialLM
    plant(kind, twin, code.RowsForPlacesLM, "position", "batch_mates")
    plant(kind, twin, code.ZeroOneMaskLM, "causality", "mask")
    plant(kind, twin, code.TrueMeansSeenLM, "causality", "mask")
    plant(kind, twin, code.NeverInitialisedLM, "initial_loss", shows="initialisation")
    plant(kind, twin, code.LogSoftmaxOverTimeLM, "softmax_axis", "causality")

    kind, code, twin = "model.decoder", third_tutorial_lm, third_tutorial_lm.DecoderStackLM
    plant(kind, twin, code.OpenMemoryLM, "causality", "mask", "cross_attention")

    kind, code, twin = "model.encoder", third_segment_bert, third_segment_bert.SegmentBert
    plant(kind, twin, code.RowsMaskedBert, "padding", "mask")
    plant(kind, twin, code.FillsTheRealBert, "padding", "mask")
    plant(kind, twin, code.ExponentSignBert, "padding", "mask")
    plant(kind, twin, code.MaskStaysBehindBert, "padding", "mask")
    plant(kind, twin, code.SplitByViewBert, "heads", "padding")
    plant(kind, twin, code.NothingAddedBert, "residual")
    plant(kind, twin, code.TimesTheListBert, "tied")
    plant(kind, twin, code.AlwaysFromTheStartBert, "gradient", where="transformer_blocks.0")
    plant(kind, twin, code.MeanOfEverythingBert, "loss_padding", "accumulation")

    kind, code, twin = "model.encoder", third_classifier, third_classifier.TextClassifier
    plant(kind, twin, code.MaskTurnedToFitClassifier, "batch_mates", "padding")
    plant(kind, twin, code.OnesArePaddingClassifier, "padding", "mask")
    plant(kind, twin, code.ZeroedPaddingClassifier, "padding", "mask")
    plant(kind, twin, code.FirstOfBatchClassifier, "shapes", "batch_mates")
    plant(kind, twin, code.MeanByLengthClassifier, "padding")
    plant(kind, twin, code.SoftmaxOverTextsClassifier, "softmax_axis", "batch_mates")

    kind, code, twin = "model.encoder", third_wrapped_encoder, third_wrapped_encoder.WrappedEncoder
    plant(kind, twin, code.DividedByScaleEncoder, "scale")
    plant(kind, twin, code.MergedAsItLiesEncoder, "heads", "padding")
    plant(kind, twin, code.HiddenTooLateEncoder, "padding", "mask", "softmax_axis")
    plant(kind, twin, code.TriangleLeftEncoder, "mask", "causality")
    plant(kind, twin, code.NormOnStreamEncoder, "residual", "norm")
    plant(kind, twin, code.NewTableEachTimeEncoder, "determinism", "position", "gradient")
    plant(kind, twin, code.NormOverWordsEncoder, "norm", "padding")

    kind, code, twin = "model.encoder_decoder", third_video_transformer, third_video_transformer.VideoTransformer
    plant(kind, twin, code.EmbedRootTransformer, "scale")
    plant(kind, twin, code.HeadsShareOneTransformer, "softmax_axis", "causality", "padding", "heads")
    plant(kind, twin, code.QueryNotAddedTransformer, "residual")
    plant(kind, twin, code.TriangleOnSourceTransformer, "cross_attention", "mask", "shapes", "padding")
    plant(kind, twin, code.ReadsItselfTransformer, "cross_attention", "gradient", "causality", "shapes")
    plant(kind, twin, code.WordsOnlyTransformer, "position", "gradient")

    kind, code, twin = "model.encoder_decoder", third_multi30k, third_multi30k.Multi30kTransformer
    plant(kind, twin, code.EitherMaskTransformer, "causality", "mask", "padding")
    plant(kind, twin, code.MinusLostTransformer, "causality", "mask", "padding")
    plant(kind, twin, code.CrossWithoutMaskTransformer, "padding", "cross_attention", "mask")
    plant(kind, twin, code.MergedByViewTransformer, "heads", "causality", "padding")
    plant(kind, twin, code.KeyMatrixTwiceTransformer, "own_values", "gradient")
    plant(kind, twin, code.DetachedMemoryTransformer, "gradient", shows="training")

    kind, code, twin = "model.encoder_decoder", third_forum_translator, third_forum_translator.ForumTranslator
    plant(kind, twin, code.NoTargetMaskTranslator, "causality", "mask")
    plant(kind, twin, code.MemoryPaddingReadTranslator, "padding", "cross_attention", "mask")
    plant(kind, twin, code.TriangleForSourceTranslator, "mask", "causality")
    plant(kind, twin, code.SourcePaddingTwiceTranslator, "padding", "mask", "shapes")

    kind, code, twin = "model.encoder_decoder", third_forum_translator, third_forum_translator.TeacherForced
    plant(kind, twin, code.AskedForItsInput, "label_shift")
    plant(kind, twin, code.AskedForThePast, "label_shift", "causality")
    plant(kind, twin, code.AskedForPadding, "loss_padding")
    plant(kind, twin, code.AnotherWordIgnored, "loss_padding")

    kind, code, twin = "part.attention", third_attention, third_attention.tutorial_attention
    plant(kind, twin, code.tutorial_divided_by_depth, "scale")
    plant(kind, twin, code.tutorial_tiny_mask, "mask")
    plant(kind, twin, code.tutorial_softmax_dim_one, "softmax_axis", "heads", "mask")

    kind, code, twin = "part.attention", third_attention, third_attention.notebook_attention
    plant(kind, twin, code.notebook_unscaled, "scale")
    plant(kind, twin, code.notebook_zero_filled, "mask")
    plant(kind, twin, code.notebook_logits_used, "softmax_axis")
    plant(kind, twin, code.notebook_masked_weights, "mask", "softmax_axis")

    kind, code, twin = "part.attention", third_attention, third_attention.book_attention
    plant(kind, twin, code.book_root_of_length, "scale")
    plant(kind, twin, code.book_one_too_many, "mask", "padding")
    plant(kind, twin, code.book_hides_the_valid, "mask", "padding")

    kind, code, twin = "part.multi_head", third_multi_head, third_multi_head.NotebookMultihead
    plant(kind, twin, code.HeadsInPlaceOfTime, "heads", "mask")
    plant(kind, twin, code.NotPermutedBack, "heads", "mask")
    plant(kind, twin, code.RootOfAllHeads, "scale")

    kind, code, twin = "part.multi_head", third_multi_head, third_multi_head.AnnotatedMultiHead
    plant(kind, twin, code.FourTimesOneLinear, "tied", "own_values", "gradient")
    plant(kind, twin, code.KeyForValue, "own_values")
    plant(kind, twin, code.QueryForAll, "cross_attention", "own_values", "shapes")
    plant(kind, twin, code.NoLastLinear, "gradient")
    plant(kind, twin, code.AttentionAlwaysDropped, "determinism")

    kind, code, twin = "part.multi_head", third_multi_head, third_multi_head.BlogSelfAttention
    plant(kind, twin, code.FoldedAsItLies, "heads", "mask")
    plant(kind, twin, code.HalfTheScale, "scale")
    plant(kind, twin, code.SoftmaxDimOne, "softmax_axis", "mask")

    kind, code, twin = "part.position", third_positions, third_positions.sinusoid_encoding_table
    plant(kind, twin, code.sinusoid_two_j, "position")
    plant(kind, twin, code.sinusoid_rows, "position")

    kind, code, twin = "part.position", third_positions, third_positions.LoopedEncoder
    plant(kind, twin, code.LoopedTwice, "position")
    plant(kind, twin, code.PlacesOfRows, "position", "batch_mates")

    kind, code, twin = "part.position", third_positions, third_positions.BufferedPositions
    plant(kind, twin, code.OneRowForAll, "position")
    plant(kind, twin, code.MinusForgotten, "position")

    kind, code, twin = "part.position", third_positions, third_positions.NotebookRotary
    plant(kind, twin, code.TurnedByRowOfHeads, "position")
    plant(kind, twin, code.AnglesInPairs, "position")
    plant(kind, twin, code.EveryOtherHalf, "position")

    kind, code, twin = "part.encoder_layer", third_encoder_layers, third_encoder_layers.PortedLayer
    plant(kind, twin, code.SavedTooLate, "residual")
    plant(kind, twin, code.SavedOnce, "residual")
    plant(kind, twin, code.PortedNormOverLength, "norm", "padding")
    plant(kind, twin, code.ScoreOfRowsHidden, "padding", "mask")

    kind, code, twin = "part.encoder_layer", third_encoder_layers, third_encoder_layers.VisionBlock
    plant(kind, twin, code.NormedFirstBlock, "residual", "norm")
    plant(kind, twin, code.TimesNotPlusBlock, "residual")
    plant(kind, twin, code.NothingBetweenBlock, "position_wise")

    kind, code, twin = "part.encoder_layer", third_encoder_layers, third_encoder_layers.KerasStyleLayer
    plant(kind, twin, code.BatchNotFirstLayer, "batch_mates", "padding", "shapes")
    plant(kind, twin, code.MaskUpsideDownLayer, "padding", "mask")
    plant(kind, twin, code.TriangleKeptLayer, "mask", "causality")

    kind, code, twin = "part.decoder_layer", third_decoder_layers, third_decoder_layers.PortedDecoderLayer
    plant(kind, twin, code.CrossHasTargetMask, "cross_attention", "mask", "padding", "shapes")
    plant(kind, twin, code.OwnHasSourceMask, "causality", "mask", "shapes")
    plant(kind, twin, code.SavedBeforeAll, "residual")

    kind, code, twin = "part.decoder_layer", third_decoder_layers, third_decoder_layers.LambdaDecoderBlock
    plant(kind, twin, code.CrossAttendsToItself, "cross_attention", "gradient", "shapes")
    plant(kind, twin, code.NormNeverAsked, "norm", "gradient")
    plant(kind, twin, code.OneConnectionThrice, "tied", shows="training")

    kind, code, twin = "part.decoder_layer", third_decoder_layers, third_decoder_layers.TriangleDecoderLayer
    plant(kind, twin, code.OneWordAhead, "causality", "mask")
    plant(kind, twin, code.MemoryPaddingRead, "padding", "cross_attention", "mask")
    plant(kind, twin, code.TriangleOnWrongCall, "causality", "mask", "cross_attention", "shapes")
    plant(kind, twin, code.HiddenUnitsAlwaysDropped, "determinism")

    kind, code, twin = "part.schedule", third_schedules, third_schedules.NoamRate
    plant(kind, twin, code.NoamBracket, "schedule")
    plant(kind, twin, code.NoamByEpoch, "schedule")
    plant(kind, twin, code.NoamWholeNumbers, "schedule")

    kind, code, twin = "part.schedule", third_schedules, third_schedules.cosine_with_warmup
    plant(kind, twin, code.cosine_ends_early, "schedule")
    plant(kind, twin, code.cosine_without_half, "schedule")

    kind, code, twin = "part.schedule", third_schedules, third_schedules.linear_by_proportion
    plant(kind, twin, code.linear_below_zero, "schedule")
    plant(kind, twin, code.proportion_for_steps, "schedule")

    kind, code, twin = "part.schedule", third_schedules, third_schedules.InverseSqrtSchedule
    plant(kind, twin, code.InverseSqrtOfStep, "schedule")

    kind, code, twin = "part.schedule", third_schedules, third_schedules.cosine_times_warmup
    plant(kind, twin, code.cosine_warmup_for_ever, "schedule")

    return tuple(records)


THIRD_HEALTHY = tuple(_healthy())
THIRD = tuple(_planted())
