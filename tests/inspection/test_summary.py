from __future__ import annotations

import json

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from glassformer.core.errors import DataError
from glassformer.families.registry import preset
from glassformer.inspection.summary import summarise, table
from glassformer.models.arguments import AttentionArguments, ModelArguments
from glassformer.models.quantise import quantise_model
from glassformer.models.transformer import Transformer

REFERENCE = AttentionArguments(kernel="reference")


def model_of(classes: tuple[str, ...] | None = None, **arguments: object) -> Transformer:
    base = {"d_model": 24, "n_layers": 2, "n_heads": 4, "d_ff": 40, "dropout": 0.0, "attention": REFERENCE}
    return Transformer(ModelArguments(**(base | arguments)).resolve(32, classes=classes))


@pytest.mark.parametrize(
    "model",
    [
        model_of(kind="decoder", norm_place="pre"),
        model_of(
            kind="decoder", n_kv_heads=2, d_head=10, gated=True, positions="rotary", parallel=True, norm_place="pre"
        ),
        model_of(kind="encoder", tied=False, head_bias=True),
        model_of(kind="encoder_decoder", n_kv_heads=1),
        model_of(kind="encoder", classes=tuple("abc")),
    ],
    ids=["decoder", "grouped_gated", "encoder", "encoder_decoder", "classifier"],
)
def test_flops_are_those_that_torch_counts(model: Transformer):
    tokens = torch.randint(0, 32, (1, 7))
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        both = model.encoder is not None and model.decoder is not None
        model(tokens, memory=model.encode(tokens) if both else None)
    assert summarise(model, 7).total.flops == counter.get_total_flops()


@pytest.mark.parametrize("kind", ["decoder", "encoder", "encoder_decoder"])
def test_every_parameter_counts_once(kind: str):
    model = model_of(kind=kind)
    summary = summarise(model, 7)
    assert summary.total.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert summary.total.bytes == 4 * summary.total.parameters
    for column in ("parameters", "flops", "bytes"):
        assert sum(getattr(row, column) for row in summary.kinds) == getattr(summary.total, column)


@pytest.mark.parametrize(
    "arguments", [{"kind": "decoder"}, {"kind": "encoder_decoder"}, {"kind": "decoder", "tied": False}]
)
def test_model_in_8_bits_has_the_parameters_it_stands_for(arguments: dict[str, object]):
    model = model_of(**arguments)
    before = summarise(model, 7)
    after = summarise(quantise_model(model), 7)
    for one, other in ((before.rows, after.rows), (before.kinds, after.kinds), ([before.total], [after.total])):
        assert [(row.name, row.parameters, row.flops, row.shared) for row in one] == [
            (row.name, row.parameters, row.flops, row.shared) for row in other
        ]
    assert after.total.bytes == sum(parameter.nbytes for parameter in model.parameters())


def test_rows_are_the_parts_and_kinds_in_the_order_of_the_forward_pass():
    summary = summarise(model_of(kind="encoder_decoder", norm_place="pre"))
    assert [row.name for row in summary.rows] == [
        "encoder.input",
        "encoder.blocks.0",
        "encoder.blocks.1",
        "encoder.final_norm",
        "decoder.input",
        "decoder.blocks.0",
        "decoder.blocks.1",
        "decoder.final_norm",
        "head",
    ]
    kinds = [row.name for row in summary.kinds]
    assert kinds == ["embedding", "attention", "cross-attention", "feed-forward", "norm", "head"]


def test_tied_and_shared_tables_name_where_they_are_counted():
    rows = {row.name: row for row in summarise(model_of(kind="encoder_decoder")).rows}
    assert rows["encoder.input"].parameters == 32 * 24
    for name in ("decoder.input", "head"):
        assert rows[name].parameters == 0
        assert rows[name].shared == ("encoder.input.embedding.weight",)
    assert rows["head"].flops == 2 * 128 * 24 * 32


def test_numbers_of_one_block_by_hand():
    """d_model 24, 4 heads of 6, d_ff 40, 10 tokens."""
    summary = summarise(model_of(kind="decoder", n_layers=1), 10)
    block = next(row for row in summary.rows if row.name == "decoder.blocks.0")
    projections = 3 * (24 * 24 + 24) + (24 * 24 + 24)
    assert block.parameters == projections + (24 * 40 + 40) + (40 * 24 + 24) + 2 * (24 + 24)
    assert block.flops == 2 * 10 * 4 * 24 * 24 + 4 * 4 * 10 * 10 * 6 + 2 * 10 * 2 * 24 * 40


@pytest.mark.parametrize("kind", ["decoder", "encoder", "encoder_decoder"])
def test_head_that_pools_is_counted_once_a_row(kind: str):
    model = model_of(kind=kind, classes=tuple("abc"))
    summary = summarise(model)
    head = summary.rows[-1]
    assert (head.name, head.parameters, head.flops, head.shared) == ("head", 3 * 24 + 3, 2 * 24 * 3, ())
    assert {"head.weight", "head.bias"} <= {value.name for value in summary.init}
    assert "head.weight" in table(summary)
    pooled, every = (
        [site.name for site in each.sites() if not site.name.startswith("head.")]
        for each in (model, model_of(kind=kind))
    )
    assert pooled == every
    heads = [(site.name, site.shape) for site in model.sites() if site.name.startswith("head.")]
    assert heads == [("head.pooled", "B D"), ("head.logits", "B C")]


def test_bytes_are_those_of_the_parameters_type():
    model = model_of(kind="decoder").to(torch.bfloat16)
    summary = summarise(model)
    assert summary.total.bytes == 2 * summary.total.parameters


def test_init_rows_show_expected_and_measured_deviation():
    model = Transformer(preset("tiny").resolve(256), generator=torch.Generator().manual_seed(0))
    values = {value.name: value for value in summarise(model).init}
    output = values["decoder.blocks.0.attention.output.weight"]
    assert (output.rule, output.expected_std) == ("normal / sqrt(4)", 0.01)
    for value in values.values():
        assert value.measured_std == pytest.approx(value.expected_std, rel=0.05, abs=1e-9), value.name


def test_meta_model_is_summarised_without_values():
    with torch.device("meta"):
        model = model_of(kind="encoder_decoder")
    summary = summarise(model)
    assert {value.measured_std for value in summary.init} == {None}
    assert summary.total == summarise(model_of(kind="encoder_decoder")).total
    assert "-" in table(summary)


def test_length_is_checked_and_fits_the_model():
    short = Transformer(preset("tiny").model_copy(update={"max_positions": 16}).resolve(32))
    assert summarise(short).length == 16
    assert summarise(model_of(kind="decoder")).length == 128
    with pytest.raises(DataError, match="17; choose from 1 to 16"):
        summarise(short, 17)
    with pytest.raises(DataError, match="length is 0"):
        summarise(short, 0)


def test_dict_is_json_and_table_shows_every_row():
    summary = summarise(model_of(kind="encoder_decoder"))
    read = json.loads(json.dumps(summary.to_dict()))
    assert read["total"]["parameters"] == summary.total.parameters
    text = table(summary)
    for name in [row.name for row in (*summary.rows, *summary.kinds)] + [value.name for value in summary.init]:
        assert name in text
    assert f"{summary.total.parameters:,}" in text
    assert "+ encoder.input.embedding.weight, counted above" in text


def test_table_of_a_narrow_terminal_breaks_between_cells_and_words():
    summary = summarise(model_of(kind="encoder_decoder", share_embeddings=True))
    whole = table(summary)
    assert max(map(len, whole.splitlines())) > 80
    narrow = table(summary, 60).splitlines()
    assert max(map(len, narrow)) <= 60
    assert " ".join(narrow).split() == whole.split()
    assert table(summary, 500) == whole


def test_summary_of_a_model_in_8_bits_gives_whole_numbers_no_spread():
    model = quantise_model(Transformer(preset("tiny").resolve(259)))
    found = summarise(model)
    measured = {value.name: value.measured_std for value in found.init}
    assert measured["decoder.input.embedding.weight"] is None
    assert measured["decoder.final_norm.weight"] == 0.0
    assert "decoder.final_norm.weight" in table(found, 100)
