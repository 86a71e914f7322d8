"""The planted bugs in one list, with what is wrong with each, and the healthy code they were made from.

`PLANTED` and `HEALTHY` hold records whose `factory()` takes no argument and returns a fresh model, part or function;
<<<<<<< HEAD
`FRESH` and `FRESH_HEALTHY` hold a second collection, in other styles and all held out;
`THIRD` and `THIRD_HEALTHY` a third, of mistakes that were found in the wild, held out too.
=======
`FRESH` and `FRESH_HEALTHY` hold a second collection, in other styles and all held out; `FOURTH` and `FOURTH_HEALTHY`
hold one of bugs that people have reported, in other styles again.
>>>>>>> e3c8e421780c421dccb49fbcc5081e8415529e1a
Build from one seed to compare a bug with its twin: `torch.manual_seed(0); record.factory()`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from . import (
    annotated_encoder,
    annotated_seq2seq,
    attention_functions,
    cached_gpt,
    decoder_layers,
    encoder_layers,
    fourth_attention,
    fourth_decoder_layers,
    fourth_distilbert,
    fourth_encoder_layers,
    fourth_gemma,
    fourth_gptj,
    fourth_marian,
    fourth_mingpt,
    fourth_multi_head,
    fourth_music,
    fourth_positions,
    fourth_schedules,
    fourth_t5,
    fourth_tagger,
    fourth_vit,
    fourth_zh_translator,
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
    multi_head,
    nano_gpt,
    positions,
    schedules,
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
    torch_encoder,
    torch_gpt,
    torch_seq2seq,
)

PROPERTIES = (
    "causality",
    "padding",
    "batch_mates",
    "loss_padding",
    "position",
    "cache",
    "determinism",
    "scale",
    "softmax_axis",
    "own_values",
    "heads",
    "position_wise",
    "residual",
    "norm",
    "gradient",
    "tied",
    "label_shift",
    "accumulation",
    "initial_loss",
    "memorise",
    "cross_attention",
    "shapes",
    "mask",
    "schedule",
)

KINDS = (
    "model.decoder",
    "model.encoder",
    "model.encoder_decoder",
    "part.attention",
    "part.multi_head",
    "part.position",
    "part.encoder_layer",
    "part.decoder_layer",
    "part.schedule",
)

Factory = Callable[[], Any]
Shows = Literal["output", "training", "initialisation", "raises"]


@dataclass(frozen=True)
class Healthy:
    name: str
    kind: str
    factory: Factory


@dataclass(frozen=True)
class Planted:
    """One bug.

    property: what it breaks, the best word first; any of them is a right answer.
    twin: the name of the healthy record it was made from.
    shows: where it differs from its twin: in the output with equal weights, only after a training step, only in the
        weights it starts with, or by raising.
    where: the submodule at fault, if it is one layer and not all.
    """

    name: str
    kind: str
    factory: Factory
    property: tuple[str, ...]
    twin: str
    shows: Shows
    where: str | None


def _function(function: Callable[..., Any]) -> Factory:
    """A factory that returns the function itself."""
    return lambda: function


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
    return [Healthy(made.__name__, kind, made if isinstance(made, type) else _function(made)) for kind, made in records]


def _planted() -> list[Planted]:
    drafts: list[dict[str, Any]] = []

    def plant(kind: str, twin: Any, made: Any, *broken: str, shows: Shows = "output", where: str | None = None) -> None:
        factory = made if isinstance(made, type) else _function(made)
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


def _fresh_healthy() -> tuple[Healthy, ...]:
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
        Healthy(made.__name__, kind, made if isinstance(made, type) else _function(made)) for kind, made in records
    )


def _fresh() -> tuple[Planted, ...]:
    records: list[Planted] = []

    def plant(kind: str, twin: Any, made: Any, *broken: str, shows: Shows = "output", where: str | None = None) -> None:
        factory = made if isinstance(made, type) else _function(made)
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


<<<<<<< HEAD
def _third_healthy() -> tuple[Healthy, ...]:
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
=======
def _fourth_healthy() -> tuple[Healthy, ...]:
    records = [
        ("model.decoder", fourth_gptj.GPTJForCausalLM),
        ("model.decoder", fourth_gptj.MultiQueryGPTJ),
        ("model.decoder", fourth_gemma.LittleGemma),
        ("model.decoder", fourth_gemma.WideGemma),
        ("model.decoder", fourth_music.MusicTransformer),
        ("model.decoder", fourth_mingpt.MinGPT),
        ("model.encoder", fourth_distilbert.LittleDistilBert),
        ("model.encoder", fourth_distilbert.LittleAlbert),
        ("model.encoder", fourth_tagger.Tagger),
        ("model.encoder", fourth_vit.TokenViT),
        ("model.encoder", fourth_vit.MeanViT),
        ("model.encoder_decoder", fourth_t5.LittleT5),
        ("model.encoder_decoder", fourth_marian.LittleMarian),
        ("model.encoder_decoder", fourth_zh_translator.ZhTransformer),
        ("part.attention", fourth_attention.flax_attention),
        ("part.attention", fourth_attention.attend),
        ("part.attention", fourth_attention.sdpa),
        ("part.multi_head", fourth_multi_head.DenseGeneralAttention),
        ("part.multi_head", fourth_multi_head.MultiHeadedAttention),
        ("part.multi_head", fourth_multi_head.DictAttention),
        ("part.multi_head", fourth_multi_head.SharedKeyAttention),
        ("part.position", fourth_positions.halves_table),
        ("part.position", fourth_positions.relative_buckets),
        ("part.position", fourth_positions.SinusoidZh),
        ("part.position", fourth_positions.NeoXRotary),
        ("part.position", fourth_positions.PositionRows),
        ("part.encoder_layer", fourth_encoder_layers.HarvardLayer),
        ("part.encoder_layer", fourth_encoder_layers.PostLayer),
        ("part.encoder_layer", fourth_encoder_layers.SideBySideLayer),
        ("part.encoder_layer", fourth_encoder_layers.SandwichLayer),
        ("part.decoder_layer", fourth_decoder_layers.HarvardDecoderLayer),
        ("part.decoder_layer", fourth_decoder_layers.T5DecoderLayer),
        ("part.decoder_layer", fourth_decoder_layers.BuiltInDecoderLayer),
        ("part.schedule", fourth_schedules.NoamOpt),
        ("part.schedule", fourth_schedules.cosine_lambda),
        ("part.schedule", fourth_schedules.joined),
        ("part.schedule", fourth_schedules.by_epoch),
>>>>>>> e3c8e421780c421dccb49fbcc5081e8415529e1a
    ]
    return tuple(
        Healthy(made.__name__, kind, made if isinstance(made, type) else _function(made)) for kind, made in records
    )


<<<<<<< HEAD
def _third() -> tuple[Planted, ...]:
=======
def _fourth() -> tuple[Planted, ...]:
>>>>>>> e3c8e421780c421dccb49fbcc5081e8415529e1a
    records: list[Planted] = []

    def plant(kind: str, twin: Any, made: Any, *broken: str, shows: Shows = "output", where: str | None = None) -> None:
        factory = made if isinstance(made, type) else _function(made)
<<<<<<< HEAD
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
=======
        records.append(Planted(made.__name__, kind, factory, broken, twin.__name__, shows, where))

    kind, code, twin = "model.decoder", fourth_gptj, fourth_gptj.GPTJForCausalLM
    plant(kind, twin, code.NoMinusGPTJ, "position")
    plant(kind, twin, code.NormReassignedGPTJ, "residual", "norm")
    plant(kind, twin, code.TrilAddedGPTJ, "causality", "mask")
    plant(kind, twin, code.LabelsAsTheyAreGPTJ, "label_shift")
    plant(kind, twin, code.ShiftedByBothGPTJ, "label_shift")
    plant(kind, twin, code.NoReductionMeanGPTJ, "loss_padding", "accumulation")

    kind, code, twin = "model.decoder", fourth_gemma, fourth_gemma.LittleGemma
    plant(kind, twin, code.WindowBothWaysGemma, "causality", "mask")
    plant(kind, twin, code.MultipliedMaskGemma, "causality", "mask")
    plant(kind, twin, code.PlainWeightGemma, "norm", "gradient", "memorise")
    plant(kind, twin, code.OneFurtherGemma, "cache", "position")
    plant(kind, twin, code.NeverAppendedGemma, "cache")
    plant(kind, code.WideGemma, code.TopLeftCausalGemma, "cache", "mask")

    kind, code, twin = "model.decoder", fourth_music, fourth_music.MusicTransformer
    plant(kind, twin, code.NotSkewedMusic, "position")
    plant(kind, twin, code.FirstRowsMusic, "position", "causality")
    plant(kind, twin, code.PlusBillionMusic, "causality", "mask")
    plant(kind, twin, code.FunctionalDropoutMusic, "determinism")
    plant(kind, twin, code.KerasListMusic, "gradient", "determinism", where="enc_layers")

    kind, code, twin = "model.decoder", fourth_mingpt, fourth_mingpt.MinGPT
    plant(kind, twin, code.MinusTinyMinGPT, "causality", "mask")
    plant(kind, twin, code.NotInPlaceMinGPT, "causality", "mask")
    plant(kind, twin, code.PositionsOfTheBatchMinGPT, "position", "batch_mates")
    plant(kind, twin, code.TimesListMinGPT, "tied")
    plant(kind, twin, code.ProbabilitiesMinGPT, "memorise")

    kind, code, twin = "model.encoder", fourth_distilbert, fourth_distilbert.LittleDistilBert
    plant(kind, twin, code.QueryPaddingDistilBert, "padding", "mask")
    plant(kind, twin, code.WholeDimScaleDistilBert, "scale")
    plant(kind, twin, code.UnshapedDistilBert, "heads", "padding")
    plant(kind, twin, code.DropoutMadeAnewDistilBert, "determinism")
    plant(kind, twin, code.PositionsNotAddedDistilBert, "position", "gradient")
    plant(kind, twin, code.SumOverNumelDistilBert, "loss_padding", "accumulation")

    kind, code, twin = "model.encoder", fourth_tagger, fourth_tagger.Tagger
    plant(kind, twin, code.ViewedHeadsTagger, "heads", "padding")
    plant(kind, twin, code.RepeatedMaskTagger, "padding", "mask", "batch_mates")
    plant(kind, twin, code.ScaledTheWrongWayTagger, "scale")
    plant(kind, twin, code.LengthsByOneTagger, "padding", "mask")
    plant(kind, twin, code.NotCopiedTagger, "tied", shows="training")

    kind, code, twin = "model.encoder", fourth_vit, fourth_vit.TokenViT
    plant(kind, code.MeanViT, code.BatchAsTimeViT, "batch_mates", "padding", "shapes")
    plant(kind, twin, code.FirstOfBatchViT, "shapes", "batch_mates")
    plant(kind, twin, code.KeepAsPaddingViT, "padding", "mask")
    plant(kind, twin, code.ClassForgottenViT, "shapes", "padding", "mask", shows="raises")

    kind, code, twin = "model.encoder_decoder", fourth_t5, fourth_t5.LittleT5
    plant(kind, twin, code.SelfTwiceT5, "cross_attention", "causality")
    plant(kind, twin, code.GivenMaskOnlyT5, "causality", "mask")
    plant(kind, twin, code.ContextMinusMemoryT5, "position")
    plant(kind, twin, code.OneConfigT5, "mask", "causality", "position")

    kind, code, twin = "model.encoder_decoder", fourth_marian, fourth_marian.LittleMarian
    plant(kind, twin, code.ClonedHeadMarian, "tied", shows="training", where="lm_head")
    plant(kind, twin, code.DefaultEmbeddingMarian, "initial_loss", shows="initialisation")
    plant(kind, twin, code.LabelsOverwrittenMarian, "loss_padding", "determinism")
    plant(kind, twin, code.CrossUnmaskedMarian, "padding", "cross_attention", "mask")
    plant(kind, twin, code.NotAssignedMarian, "gradient", "cross_attention", where="encoder_layers")

    kind, code, twin = "model.encoder_decoder", fourth_zh_translator, fourth_zh_translator.ZhTransformer
    plant(kind, twin, code.PadMaskTurnedZh, "padding", "mask")
    plant(kind, twin, code.DecoderPaddingForSourceZh, "padding", "shapes", "cross_attention", "mask")
    plant(kind, twin, code.GreaterThanOneZh, "causality", "mask", "padding")
    plant(kind, twin, code.KeyForValueZh, "own_values", "gradient")
    plant(kind, twin, code.NormMadeInForwardZh, "gradient", "norm", shows="training")
    plant(kind, twin, code.BatchForTimeZh, "position", "batch_mates")
    plant(kind, twin, code.SoftmaxAtTheEndZh, "memorise")
    plant(kind, twin, code.ResidualForgottenZh, "residual")

    kind, code, twin = "part.attention", fourth_attention, fourth_attention.flax_attention
    plant(kind, twin, code.flax_divided_by_depth, "scale")

    kind, code, twin = "part.attention", fourth_attention, fourth_attention.attend
    plant(kind, twin, code.attend_softmax_over_heads, "softmax_axis", "heads")
    plant(kind, twin, code.attend_mask_last, "mask", "softmax_axis")
    plant(kind, twin, code.attend_dropout_on, "determinism")

    kind, code, twin = "part.attention", fourth_attention, fourth_attention.sdpa
    plant(kind, twin, code.sdpa_scaled_before, "scale")
    plant(kind, twin, code.sdpa_mask_as_in_module, "mask")

    kind, code, twin = "part.multi_head", fourth_multi_head, fourth_multi_head.DenseGeneralAttention
    plant(kind, twin, code.ValuesFromQuerySide, "cross_attention")

    kind, code, twin = "part.multi_head", fourth_multi_head, fourth_multi_head.MultiHeadedAttention
    plant(kind, twin, code.ClonesNotCopied, "tied", "own_values", shows="training")
    plant(kind, twin, code.HeadsBeforeWords, "heads", "mask")
    plant(kind, twin, code.FinalLinearForgotten, "gradient")

    kind, code, twin = "part.multi_head", fourth_multi_head, fourth_multi_head.DictAttention
    plant(kind, twin, code.PlainDictAttention, "gradient", shows="training", where="proj")
    plant(kind, twin, code.FloatedMaskAttention, "mask")

    kind, code, twin = "part.position", fourth_positions, fourth_positions.halves_table
    plant(kind, twin, code.halves_table_floored, "position")

    kind, code, twin = "part.position", fourth_positions, fourth_positions.relative_buckets
    plant(kind, twin, code.relative_buckets_clamped, "position")

    kind, code, twin = "part.position", fourth_positions, fourth_positions.SinusoidZh
    plant(kind, twin, code.MinusForgottenZh, "position")

    kind, code, twin = "part.position", fourth_positions, fourth_positions.NeoXRotary
    plant(kind, twin, code.MinusForgottenRotary, "position")
    plant(kind, twin, code.TwoFormsMixedRotary, "position")

    kind, code, twin = "part.position", fourth_positions, fourth_positions.PositionRows
    plant(kind, twin, code.RowsMadeInForward, "determinism", "gradient", "position")

    kind, code, twin = "part.encoder_layer", fourth_encoder_layers, fourth_encoder_layers.HarvardLayer
    plant(kind, twin, code.NormedOnBothPathsLayer, "residual", "norm")
    plant(kind, twin, code.NormUnusedLayer, "norm", "gradient")
    plant(kind, twin, code.NotTurnedLayer, "heads", "padding")

    kind, code, twin = "part.encoder_layer", fourth_encoder_layers, fourth_encoder_layers.PostLayer
    plant(kind, twin, code.NothingBetweenLayer, "position_wise")

    kind, code, twin = "part.encoder_layer", fourth_encoder_layers, fourth_encoder_layers.SideBySideLayer
    plant(kind, twin, code.DropsInEvaluationLayer, "determinism")
    plant(kind, twin, code.NormOfTheSentenceLayer, "norm", "padding")

    kind, code, twin = "part.decoder_layer", fourth_decoder_layers, fourth_decoder_layers.HarvardDecoderLayer
    plant(kind, twin, code.SourceIsTargetLayer, "cross_attention")
    plant(kind, twin, code.SourceMaskTurnedLayer, "padding", "mask", "shapes")

    kind, code, twin = "part.decoder_layer", fourth_decoder_layers, fourth_decoder_layers.T5DecoderLayer
    plant(kind, twin, code.OneResidualLayer, "residual")
    plant(kind, twin, code.MemoryWithoutGradLayer, "gradient", shows="training")

    kind, code, twin = "part.decoder_layer", fourth_decoder_layers, fourth_decoder_layers.BuiltInDecoderLayer
    plant(kind, twin, code.TrilForTriuLayer, "causality", "mask")
    plant(kind, twin, code.HintAloneLayer, "causality", "mask", "shapes")

    kind, code, twin = "part.schedule", fourth_schedules, fourth_schedules.NoamOpt
    plant(kind, twin, code.MaxForMin, "schedule")
    plant(kind, twin, code.StepZeroDivides, "schedule", shows="raises")

    kind, code, twin = "part.schedule", fourth_schedules, fourth_schedules.cosine_lambda
    plant(kind, twin, code.cosine_lambda_unclipped, "schedule")
    plant(kind, twin, code.cosine_lambda_floored, "schedule")

    kind, code, twin = "part.schedule", fourth_schedules, fourth_schedules.joined
    plant(kind, twin, code.joined_counts_on, "schedule")

    kind, code, twin = "part.schedule", fourth_schedules, fourth_schedules.by_epoch
    plant(kind, twin, code.by_epoch_each_step, "schedule")
>>>>>>> e3c8e421780c421dccb49fbcc5081e8415529e1a

    return tuple(records)


HEALTHY: list[Healthy] = _healthy()
PLANTED: list[Planted] = _planted()
FRESH_HEALTHY: tuple[Healthy, ...] = _fresh_healthy()
FRESH: tuple[Planted, ...] = _fresh()
<<<<<<< HEAD
THIRD_HEALTHY: tuple[Healthy, ...] = _third_healthy()
THIRD: tuple[Planted, ...] = _third()
=======
FOURTH_HEALTHY: tuple[Healthy, ...] = _fourth_healthy()
FOURTH: tuple[Planted, ...] = _fourth()
>>>>>>> e3c8e421780c421dccb49fbcc5081e8415529e1a
