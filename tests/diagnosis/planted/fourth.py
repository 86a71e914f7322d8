"""The fourth collection of planted bugs: mistakes that were found in the wild, in other styles again."""

from __future__ import annotations

from typing import Any

from . import (
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
)
from .records import Healthy, Planted, Shows, of_function


def _healthy() -> tuple[Healthy, ...]:
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
    ]
    return tuple(
        Healthy(made.__name__, kind, made if isinstance(made, type) else of_function(made)) for kind, made in records
    )


def _planted() -> tuple[Planted, ...]:
    records: list[Planted] = []

    def plant(kind: str, twin: Any, made: Any, *broken: str, shows: Shows = "output", where: str | None = None) -> None:
        factory = made if isinstance(made, type) else of_function(made)
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

    return tuple(records)


FOURTH_HEALTHY = tuple(_healthy())
FOURTH = tuple(_planted())
