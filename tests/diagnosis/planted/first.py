"""The first collection of planted bugs."""

from __future__ import annotations

from typing import Any

from . import (
    annotated_encoder,
    annotated_seq2seq,
    attention_functions,
    cached_gpt,
    decoder_layers,
    encoder_layers,
    multi_head,
    nano_gpt,
    positions,
    schedules,
    torch_encoder,
    torch_gpt,
    torch_seq2seq,
)
from .records import Healthy, Planted, Shows, of_function


def _healthy() -> list[Healthy]:
    records = [
        ("model.decoder", nano_gpt.NanoGPT),
        ("model.decoder", nano_gpt.ParallelGPT),
        ("model.decoder", cached_gpt.CachedGPT),
        ("model.decoder", torch_gpt.TorchGPT),
        ("model.encoder", annotated_encoder.Encoder),
        ("model.encoder", torch_encoder.TinyBert),
        ("model.encoder_decoder", annotated_seq2seq.AnnotatedSeq2Seq),
        ("model.encoder_decoder", annotated_seq2seq.LogProbsSeq2Seq),
        ("model.encoder_decoder", torch_seq2seq.TorchSeq2Seq),
        ("part.attention", attention_functions.attention),
        ("part.attention", attention_functions.scaled_dot_product),
        ("part.attention", attention_functions.einsum_attention),
        ("part.attention", attention_functions.stable_attention),
        ("part.attention", attention_functions.torch_attention),
        ("part.multi_head", multi_head.MultiHeadAttention),
        ("part.multi_head", multi_head.SelfAttention),
        ("part.multi_head", multi_head.HeadByHead),
        ("part.multi_head", multi_head.GroupedQueryAttention),
        ("part.position", positions.sinusoidal_table),
        ("part.position", positions.numpy_table),
        ("part.position", positions.PositionalEncoding),
        ("part.position", positions.LearnedPositions),
        ("part.position", positions.Rotary),
        ("part.position", positions.InterleavedRotary),
        ("part.encoder_layer", encoder_layers.PostNormLayer),
        ("part.encoder_layer", encoder_layers.PreNormLayer),
        ("part.encoder_layer", encoder_layers.TorchLayer),
        ("part.decoder_layer", decoder_layers.PostNormDecoderLayer),
        ("part.decoder_layer", decoder_layers.PreNormDecoderLayer),
        ("part.decoder_layer", decoder_layers.TorchDecoderLayer),
        ("part.schedule", schedules.rate),
        ("part.schedule", schedules.get_lr),
        ("part.schedule", schedules.LinearWithWarmup),
        ("part.schedule", schedules.InverseSquareRoot),
    ]
    return [
        Healthy(made.__name__, kind, made if isinstance(made, type) else of_function(made)) for kind, made in records
    ]


def _planted() -> list[Planted]:
    drafts: list[dict[str, Any]] = []

    def plant(kind: str, twin: Any, made: Any, *broken: str, shows: Shows = "output", where: str | None = None) -> None:
        factory = made if isinstance(made, type) else of_function(made)
        draft = {"name": made.__name__, "kind": kind, "factory": factory, "property": broken}
        drafts.append(draft | {"twin": twin.__name__, "shows": shows, "where": where})

    kind, code, twin = "model.decoder", nano_gpt, nano_gpt.NanoGPT
    plant(kind, twin, code.LastLayerUnmaskedGPT, "causality", "mask", where="h.1.attn")
    plant(kind, twin, code.OneTooManyGPT, "causality", "mask")
    plant(kind, twin, code.OneTooFewGPT, "causality", "mask")
    plant(kind, twin, code.UpperTriangleGPT, "causality", "mask")
    plant(kind, twin, code.MaskAfterSoftmaxGPT, "causality", "mask", "softmax_axis")
    plant(kind, twin, code.QueryAxisSoftmaxGPT, "softmax_axis", "causality")
    plant(kind, twin, code.UnscaledGPT, "scale")
    plant(kind, twin, code.HeadsViewedGPT, "heads")
    plant(kind, twin, code.MergedWithoutTransposeGPT, "heads", "causality")
    plant(kind, twin, code.NoResidualGPT, "residual")
    plant(kind, twin, code.ResidualFromNormedGPT, "residual", "norm")
    plant(kind, twin, code.ConvGPT, "position_wise", "causality")
    plant(kind, twin, code.LinearGPT, "position_wise")
    plant(kind, twin, code.NormOverTimeGPT, "norm", "causality")
    plant(kind, twin, code.AlwaysDropGPT, "determinism")
    plant(kind, twin, code.NoPositionsGPT, "position", "gradient")
    plant(kind, twin, code.EqualPositionsGPT, "position")
    plant(kind, twin, code.PositionsOverBatchGPT, "position", "batch_mates")
    plant(kind, twin, code.FinalNormForgottenGPT, "gradient", "norm")
    plant(kind, twin, code.DetachedGPT, "gradient", shows="training", where="h.0")
    plant(kind, twin, code.PlainListGPT, "gradient", shows="training", where="h")
    plant(kind, twin, code.OneBlockGPT, "tied")
    plant(kind, twin, code.CopiedHeadGPT, "tied", shows="training", where="lm_head")
    plant(kind, twin, code.LargeInitGPT, "initial_loss", shows="initialisation")
    plant(kind, twin, code.InputEditedGPT, "determinism")
    plant(kind, twin, code.ShiftedTwiceGPT, "label_shift")
    plant(kind, twin, code.NeverShiftedGPT, "label_shift")
    plant(kind, twin, code.LossOverPaddingGPT, "loss_padding")
    plant(kind, twin, code.DividedByAllGPT, "loss_padding", "accumulation")
    plant(kind, twin, code.MeanOfMeansGPT, "accumulation", "loss_padding")
    plant(kind, twin, code.SoftmaxInFrontGPT, "memorise")

    code, twin = cached_gpt, cached_gpt.CachedGPT
    plant(kind, twin, code.CacheWithoutPositionsGPT, "cache", "position")
    plant(kind, twin, code.CacheOffByOneGPT, "cache", "position")
    plant(kind, twin, code.CacheOverwrittenGPT, "cache")
    plant(kind, twin, code.CacheStaleOrderGPT, "cache")
    plant(kind, twin, code.CacheRotatedAgainGPT, "cache", "position")
    plant(kind, twin, code.CacheCornerMaskGPT, "cache", "mask")
    plant(kind, twin, code.CacheChunkUnmaskedGPT, "cache", "causality", "mask")
    plant(kind, twin, code.LastLayerNotCachedGPT, "cache", where="layers.1")
    plant(kind, twin, code.NeverResetGPT, "cache", "determinism")
    plant(kind, twin, code.RotatedByHeadGPT, "position")
    plant(kind, twin, code.ValuesFromKeysGPT, "own_values", "gradient")

    code, twin = torch_gpt, torch_gpt.TorchGPT
    plant(kind, twin, code.TorchMaskForgottenGPT, "causality", "mask")
    plant(kind, twin, code.TorchMaskInvertedGPT, "causality", "mask")
    plant(kind, twin, code.TorchFloatMaskGPT, "causality", "mask")
    plant(kind, twin, code.TorchBatchSecondGPT, "batch_mates")
    plant(kind, twin, code.TorchNoGradGPT, "gradient", shows="training", where="embedding")
    plant(kind, twin, code.TorchDropoutMadeInForwardGPT, "determinism")

    kind, code, twin = "model.encoder", annotated_encoder, annotated_encoder.Encoder
    plant(kind, twin, code.MaskUnusedEncoder, "padding", "mask")
    plant(kind, twin, code.FirstLayerOnlyEncoder, "padding", "mask", where="layers.1")
    plant(kind, twin, code.InvertedMaskEncoder, "padding", "mask")
    plant(kind, twin, code.QueryAxisMaskEncoder, "padding", "mask")
    plant(kind, twin, code.MultipliedMaskEncoder, "padding", "mask")
    plant(kind, twin, code.SmallNumberEncoder, "padding", "mask")
    plant(kind, twin, code.NoPositionsEncoder, "position")
    plant(kind, twin, code.BatchPositionsEncoder, "position", "batch_mates")
    plant(kind, twin, code.ValuesByKeyMatrixEncoder, "own_values", "gradient")
    plant(kind, twin, code.HeadAxisSoftmaxEncoder, "softmax_axis", "heads", "padding")
    plant(kind, twin, code.NormOverSentenceEncoder, "norm", "padding")
    plant(kind, twin, code.NormOverBatchEncoder, "batch_mates", "norm")
    plant(kind, twin, code.NoResidualEncoder, "residual")
    plant(kind, twin, code.SharedLayerEncoder, "tied")
    plant(kind, twin, code.WordMixingEncoder, "position_wise", "padding")

    code, twin = torch_encoder, torch_encoder.TinyBert
    plant(kind, twin, code.InvertedBert, "padding", "mask")
    plant(kind, twin, code.FloatMaskBert, "padding", "mask")
    plant(kind, twin, code.BatchSecondBert, "batch_mates", "padding")
    plant(kind, twin, code.FrozenBert, "gradient", shows="training")
    plant(kind, twin, code.StillTrainingBert, "determinism")
    plant(kind, twin, code.SamePositionBert, "position")
    plant(kind, twin, code.EmbeddingNormForgottenBert, "gradient", "norm")
    plant(kind, twin, code.WideInitBert, "initial_loss", shows="initialisation")

    kind, code, twin = "model.encoder_decoder", annotated_seq2seq, annotated_seq2seq.AnnotatedSeq2Seq
    plant(kind, twin, code.CrossUnmaskedSeq2Seq, "padding", "cross_attention", "mask")
    plant(kind, twin, code.EncoderUnmaskedSeq2Seq, "padding", "mask")
    plant(kind, twin, code.TargetPaddingSeq2Seq, "padding", "mask")
    plant(kind, twin, code.OrMaskSeq2Seq, "causality", "mask", "padding")
    plant(kind, twin, code.PaddingOnlySeq2Seq, "causality", "mask")
    plant(kind, twin, code.OneTooManySeq2Seq, "causality", "mask")
    plant(kind, twin, code.SecondLayerOpenSeq2Seq, "causality", "mask", "padding", where="decoder.1")
    plant(kind, twin, code.CrossTriangleSeq2Seq, "cross_attention", "mask")
    plant(kind, twin, code.SelfTwiceSeq2Seq, "cross_attention", "causality", "gradient")
    plant(kind, twin, code.SkippedCrossSeq2Seq, "cross_attention", "gradient")
    plant(kind, twin, code.QueryFromMemorySeq2Seq, "cross_attention", "shapes", "causality")
    plant(kind, twin, code.EmbeddingAsMemorySeq2Seq, "gradient", "cross_attention")
    plant(kind, twin, code.DetachedMemorySeq2Seq, "gradient", shows="training", where="encoder")
    plant(kind, twin, code.AveragedMemorySeq2Seq, "padding", "cross_attention")
    plant(kind, twin, code.NoTargetPositionsSeq2Seq, "position")
    plant(kind, twin, code.NoSourcePositionsSeq2Seq, "position")
    plant(kind, twin, code.ShiftedInsideSeq2Seq, "label_shift")
    plant(kind, twin, code.CopiedWeightsSeq2Seq, "tied", shows="training")
    plant(kind, twin, code.ProbabilitiesSeq2Seq, "memorise")
    plant(kind, twin, code.HugeEmbeddingSeq2Seq, "initial_loss", shows="initialisation")

    code, twin = torch_seq2seq, torch_seq2seq.TorchSeq2Seq
    plant(kind, twin, code.TorchNoTargetMaskSeq2Seq, "causality", "mask")
    plant(kind, twin, code.TorchMemoryMaskForgottenSeq2Seq, "padding", "cross_attention", "mask")
    plant(kind, twin, code.TorchMasksSwappedSeq2Seq, "padding", "cross_attention", "shapes", "mask")
    plant(kind, twin, code.TorchKeepAsPadSeq2Seq, "padding", "mask")
    plant(kind, twin, code.TorchBatchSecondSeq2Seq, "batch_mates", "shapes", "padding")
    plant(kind, twin, code.TorchOneEmbeddingSeq2Seq, "gradient", "tied")
    plant(kind, twin, code.TorchTargetPositionsByBatchSeq2Seq, "position", "batch_mates")
    plant(kind, twin, code.TorchFunctionalDropoutSeq2Seq, "determinism")

    kind, code = "part.attention", attention_functions
    plant(kind, code.attention, code.attention_without_scale, "scale")
    plant(kind, code.attention, code.attention_scaled_by_d_k, "scale")
    plant(kind, code.scaled_dot_product, code.attention_scaled_by_d_model, "scale")
    plant(kind, code.scaled_dot_product, code.attention_scaled_by_length, "scale")
    plant(kind, code.scaled_dot_product, code.attention_multiplied_by_root, "scale")
    plant(kind, code.scaled_dot_product, code.attention_softmax_over_queries, "softmax_axis", "mask")
    plant(kind, code.attention, code.attention_softmax_over_heads, "softmax_axis", "heads")
    plant(kind, code.stable_attention, code.attention_without_normaliser, "softmax_axis")
    plant(kind, code.scaled_dot_product, code.attention_masked_after, "mask", "softmax_axis")
    plant(kind, code.scaled_dot_product, code.attention_mask_transposed, "mask", "causality")
    plant(kind, code.einsum_attention, code.attention_mask_inverted, "mask")
    plant(kind, code.torch_attention, code.attention_mask_added, "mask")
    plant(kind, code.scaled_dot_product, code.attention_mask_on_rows, "mask", "padding")
    plant(kind, code.stable_attention, code.attention_mask_before_scale, "mask", "padding")
    plant(kind, code.attention, code.attention_mask_filled_with_zero, "mask", "padding")
    plant(kind, code.stable_attention, code.attention_mask_unused, "mask")
    plant(kind, code.einsum_attention, code.attention_keys_as_values, "own_values")
    plant(kind, code.einsum_attention, code.attention_weights_transposed, "softmax_axis", "shapes", "mask")
    plant(kind, code.stable_attention, code.attention_in_place, "determinism")
    plant(kind, code.torch_attention, code.attention_with_dropout, "determinism")

    kind, code = "part.multi_head", multi_head
    plant(kind, code.MultiHeadAttention, code.ValuesByKeyMatrix, "own_values", "gradient")
    plant(kind, code.MultiHeadAttention, code.KeysByQueryMatrix, "gradient", "own_values")
    plant(kind, code.MultiHeadAttention, code.ValuesOfTheQuery, "own_values", "cross_attention", "shapes")
    plant(kind, code.MultiHeadAttention, code.NoOutputMatrix, "gradient")
    plant(kind, code.MultiHeadAttention, code.SplitWithoutTranspose, "heads")
    plant(kind, code.MultiHeadAttention, code.CombineWithoutTranspose, "heads")
    plant(kind, code.MultiHeadAttention, code.NeverCombined, "heads", "shapes", shows="raises")
    plant(kind, code.MultiHeadAttention, code.HeadTooWide, "heads", "shapes", shows="raises")
    plant(kind, code.MultiHeadAttention, code.SoftmaxForgotten, "softmax_axis")
    plant(kind, code.SelfAttention, code.HeadsAttendToHeads, "heads", "mask")
    plant(kind, code.SelfAttention, code.FirstHeadMasked, "mask")
    plant(kind, code.HeadByHead, code.HeadsAveraged, "heads")
    plant(kind, code.HeadByHead, code.OneHeadRepeated, "heads", "gradient")
    plant(kind, code.HeadByHead, code.ScaledByModelWidth, "scale")
    plant(kind, code.HeadByHead, code.SoftmaxOverQueries, "softmax_axis", "mask")
    plant(kind, code.GroupedQueryAttention, code.MaskNotPassed, "mask", "causality", "padding")
    plant(kind, code.GroupedQueryAttention, code.RepeatedAlongTime, "heads", "shapes", shows="raises")

    kind, code = "part.position", positions
    plant(kind, code.sinusoidal_table, code.table_sine_for_both, "position")
    plant(kind, code.sinusoidal_table, code.table_exponent_of_its_own, "position")
    plant(kind, code.sinusoidal_table, code.table_floor_division, "position")
    plant(kind, code.numpy_table, code.numpy_table_multiplied, "position")
    plant(kind, code.PositionalEncoding, code.PositionsOverBatch, "position", "batch_mates")
    plant(kind, code.PositionalEncoding, code.PositionsTwice, "position")
    plant(kind, code.PositionalEncoding, code.PositionsAllEqual, "position")
    plant(kind, code.PositionalEncoding, code.PositionsMultiplied, "position")
    plant(kind, code.PositionalEncoding, code.PositionsInPlace, "determinism")
    plant(kind, code.PositionalEncoding, code.PositionsBackwards, "position", "causality")
    plant(kind, code.LearnedPositions, code.LearnedZeroIndex, "position")
    plant(kind, code.LearnedPositions, code.LearnedNotAParameter, "gradient", shows="training")
    plant(kind, code.Rotary, code.RotaryOverHeads, "position", "heads")
    plant(kind, code.Rotary, code.RotaryWithoutMinus, "position")
    plant(kind, code.Rotary, code.RotaryMixedLayouts, "position")
    plant(kind, code.Rotary, code.RotaryIntegerAngles, "position")

    kind, code = "part.encoder_layer", encoder_layers
    plant(kind, code.PreNormLayer, code.SaysPreIsPost, "norm", "residual")
    plant(kind, code.PostNormLayer, code.NoResidualAroundAttention, "residual")
    plant(kind, code.PreNormLayer, code.NoResidualAroundFeedForward, "residual")
    plant(kind, code.PreNormLayer, code.ResidualFromNormed, "residual", "norm")
    plant(kind, code.PreNormLayer, code.ResidualFromTheStart, "residual")
    plant(kind, code.PostNormLayer, code.ResidualTwice, "residual")
    plant(kind, code.PostNormLayer, code.OneNormForBoth, "gradient", "norm", shows="training", where="norm2")
    plant(kind, code.PostNormLayer, code.NormOverTimeAndWidth, "norm", "padding")
    plant(kind, code.PostNormLayer, code.BatchNormLayer, "norm", "batch_mates", "padding")
    plant(kind, code.PreNormLayer, code.KeepIgnored, "padding", "mask")
    plant(kind, code.TorchLayer, code.KeepInverted, "padding", "mask")
    plant(kind, code.PostNormLayer, code.KeepOnQueries, "padding", "mask")
    plant(kind, code.PostNormLayer, code.ZeroedPadding, "padding", "mask")
    plant(kind, code.PreNormLayer, code.ConvFeedForward, "position_wise", "padding")
    plant(kind, code.PostNormLayer, code.LinearFeedForward, "position_wise")
    plant(kind, code.PostNormLayer, code.PooledFeedForward, "position_wise", "padding")
    plant(kind, code.PreNormLayer, code.FunctionalDropout, "determinism")
    plant(kind, code.PreNormLayer, code.AttentionWithoutGradient, "gradient", shows="training", where="attn")
    plant(kind, code.TorchLayer, code.BatchSecond, "batch_mates", "padding")
    plant(kind, code.PreNormLayer, code.AddsInPlace, "determinism", "gradient")

    kind, code = "part.decoder_layer", decoder_layers
    plant(kind, code.PostNormDecoderLayer, code.LayerWithoutTriangle, "causality", "mask")
    plant(kind, code.PreNormDecoderLayer, code.LayerOneTooMany, "causality", "mask")
    plant(kind, code.TorchDecoderLayer, code.LayerTriangleInverted, "causality", "mask")
    plant(kind, code.PostNormDecoderLayer, code.LayerQueryFromMemory, "cross_attention", "shapes", "causality")
    plant(kind, code.PostNormDecoderLayer, code.LayerValuesFromDecoder, "cross_attention", "shapes", "causality")
    plant(kind, code.PreNormDecoderLayer, code.LayerSelfTwice, "cross_attention", "gradient")
    plant(kind, code.PostNormDecoderLayer, code.LayerSharedAttention, "gradient", "cross_attention")
    plant(kind, code.PreNormDecoderLayer, code.LayerCrossUnmasked, "padding", "cross_attention", "mask")
    plant(kind, code.PostNormDecoderLayer, code.LayerCrossTriangle, "cross_attention", "mask")
    plant(kind, code.PostNormDecoderLayer, code.LayerTargetPadding, "padding", "mask")
    plant(kind, code.PreNormDecoderLayer, code.LayerMemoryDetached, "gradient", "cross_attention", shows="training")
    plant(kind, code.PostNormDecoderLayer, code.LayerNoResidualAroundCross, "residual")
    plant(kind, code.PreNormDecoderLayer, code.LayerLastNormForgotten, "gradient", "norm")
    plant(kind, code.PostNormDecoderLayer, code.LayerMemoryMean, "cross_attention", "gradient")
    plant(kind, code.PreNormDecoderLayer, code.LayerAlwaysDrops, "determinism")

    kind, code = "part.schedule", schedules
    plant(kind, code.rate, code.rate_step_zero, "schedule")
    plant(kind, code.rate, code.rate_max, "schedule")
    plant(kind, code.rate, code.rate_late_peak, "schedule")
    plant(kind, code.rate, code.rate_never_falls, "schedule")
    plant(kind, code.get_lr, code.get_lr_without_pi, "schedule")
    plant(kind, code.get_lr, code.get_lr_rises_again, "schedule")
    plant(kind, code.get_lr, code.get_lr_jump, "schedule")
    plant(kind, code.get_lr, code.get_lr_warm_down, "schedule")
    plant(kind, code.LinearWithWarmup, code.WarmupInWholeNumbers, "schedule")
    plant(kind, code.LinearWithWarmup, code.BelowZero, "schedule")
    plant(kind, code.LinearWithWarmup, code.CountsTwice, "schedule", "determinism")
    plant(kind, code.InverseSquareRoot, code.PeakTooLate, "schedule")
    plant(kind, code.InverseSquareRoot, code.SquareRootWithoutWarmup, "schedule")

    return [Planted(**draft) for draft in drafts]


HEALTHY = tuple(_healthy())
PLANTED = tuple(_planted())
