from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from glassformer.core.errors import DataError
from glassformer.inspection import canvas
from glassformer.inspection.canvas import MISSING, inches, readable, save_png, svg
from glassformer.inspection.figures import bars, curve, heat_map, heat_maps

CHINESE = ["<bos>", "闫", "同学", "在看", "注意力"]
AWKWARD = ["</script><b>", "$x^2$", "\\n", "a & b", '"', "_a", "🎉"]


def texts(drawing: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(drawing).iter() if element.tag.endswith("text")]


def size_of(png: bytes) -> tuple[int, int]:
    return int.from_bytes(png[16:20]), int.from_bytes(png[20:24])


@pytest.mark.parametrize("labels", [CHINESE, AWKWARD], ids=["chinese", "awkward"])
def test_every_label_of_a_heat_map_is_in_the_svg(labels: list[str]):
    drawing = svg(heat_map(torch.rand(len(labels), len(labels)), labels, labels, title="第 1 层 & head 0"))
    found = texts(drawing)
    letters = "".join(found)
    for label in labels:
        assert label in found, "beside its row"
        assert letters.count(label) >= 2, "and under its column, where a Chinese one may be stacked"
    assert "第 1 层 & head 0" in found
    assert drawing.startswith("<svg ")
    assert drawing.endswith("</svg>")


def test_o28_heat_map_refuses_labels_that_do_not_fit():
    with pytest.raises(DataError, match="7 labels for 8 positions"):
        heat_map(torch.rand(3, 8), ["a"] * 3, ["a"] * 7, title="")
    with pytest.raises(DataError, match="2 labels for 3 positions"):
        heat_map(torch.rand(3, 8), ["a"] * 2, ["a"] * 8, title="")


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 40), (40, 3)])
def test_no_label_is_cut_off(rows: int, columns: int):
    figure = heat_map(
        torch.rand(rows, columns), ["WWWWWWWW"] * rows, ["mmmm<eos>"] * columns, title="a title that is long " * 3
    )
    inside(figure)


def test_no_text_of_curves_and_bars_is_cut_off():
    names = {f"encoder.blocks.{layer}": 10.0**layer for layer in range(8)}
    inside(bars(names, title="Layers", x_label="root mean square"))
    inside(bars(names, title="Layers", x_label="share of a row, mean over heads and over all the rows"))
    series = {name: [(0, 1e-5), (250_000, size)] for name, size in names.items()}
    inside(curve(series, title="Layers", x_label="step", y_label="root mean square", log=True))


def inside(figure: Figure) -> None:
    sheet = FigureCanvasAgg(figure)
    with canvas.style():
        sheet.draw()
    renderer = sheet.get_renderer()
    width, height = figure.bbox.width, figure.bbox.height
    for text in drawn(figure):
        box = text.get_window_extent(renderer)
        if text.get_text():
            assert min(box.x0, box.y0) >= -0.5, text
            assert box.x1 <= width + 0.5, text
            assert box.y1 <= height + 0.5, text


def drawn(figure: Figure) -> Iterator[Text]:
    """Every text that is really drawn: not those of an axis that is off, nor of ticks beyond its ends."""
    yield from figure.texts
    for legend in figure.legends:
        yield from legend.get_texts()
    for axes in figure.axes:
        yield from axes.texts
        for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            if axes.axison:
                yield axis.label
                yield from (tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high)


def test_png_of_chinese_labels_is_made_without_a_warning(tmp_path: Path):
    from matplotlib.font_manager import fontManager

    figure = heat_map(torch.rand(5, 5), CHINESE, CHINESE, title="注意力")
    missing = save_png(figure, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    can = bool({entry.name for entry in fontManager.ttflist} & set(canvas.CJK))
    assert missing == (() if can else ("注意力", *CHINESE[1:4]))


def test_labels_that_no_font_can_draw_are_returned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(canvas, "CJK", ())
    figure = heat_map(torch.rand(5, 5), CHINESE, CHINESE, title="t")
    assert set(save_png(figure, tmp_path / "a.png")) == set(CHINESE[1:])
    assert "注意力" in texts(svg(figure)), "the figure still has its own labels"
    assert MISSING not in texts(svg(figure))


def test_equal_figures_are_equal_svgs_without_outside_links():
    drawings = {svg(heat_map(torch.eye(3), list("abc"), list("abc"), title="t")) for _ in range(2)}
    assert len(drawings) == 1
    (drawing,) = drawings
    links = set(re.findall(r"https?://[^\"]+", drawing))
    assert links == {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def test_o29_heat_map_of_many_tokens_stays_small(tmp_path: Path):
    labels = [f"t{index}" for index in range(128)]
    figure = heat_map(torch.rand(128, 128), labels, labels, title="many")
    assert len(svg(figure)) < 300_000
    save_png(figure, tmp_path / "a.png", dpi=300)
    assert max(size_of((tmp_path / "a.png").read_bytes())) <= canvas.MOST_PIXELS


def test_curve_has_its_names_and_leaves_gaps():
    points = [(0, 2.0), (10, math.nan), (20, math.inf), (30, 1.0)]
    found = texts(svg(curve({"train": points, "valid": [(30, 1.1)]}, title="Loss", x_label="step", y_label="nats")))
    for text in ("train", "valid", "Loss", "step", "nats"):
        assert text in found


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("points", [[], [(1, math.nan)], [(1, -1.0), (2, -2.0)], [(1, 0.0)], [(5, 1.3), (6, 1.4)]])
def test_curve_of_odd_points_is_drawn(points: list[tuple[float, float]], log: bool):
    assert "step" in texts(svg(curve({"a": points}, title="", x_label="step", y_label="", log=log)))


def test_long_curves_stay_small():
    noisy = [(step, 2 + math.sin(step * step)) for step in range(50_000)]
    assert len(svg(curve({"train": noisy}, title="t", x_label="x", y_label="y"))) < 300_000


def test_bars_show_names_and_numbers():
    found = texts(svg(bars({"decoder.blocks.0": 1.25, "层": math.nan}, title="t", x_label="rms")))
    for text in ("decoder.blocks.0", "1.25", "层", "nan", "rms"):
        assert text in found


def test_style_leaves_matplotlib_as_it_was():
    import matplotlib

    before = dict(matplotlib.rcParams)
    svg(bars({"a": 1.0}, title="t", x_label="x"))
    assert dict(matplotlib.rcParams) == before


def test_labels_are_made_readable():
    assert readable("a\nb\x00\u200b闫") == "a\\nb\\x00\\u200b闫"
    assert readable("x" * 40) == "x" * 31 + "…"
    assert inches("闫", 72) == 1.0


@pytest.mark.parametrize("shape", [(2, 10, 10), (16, 40, 8), (5, 3, 60), (3, 60, 3), (1, 1, 1)])
def test_no_label_of_a_grid_is_cut_off(shape: tuple[int, int, int]):
    heads, rows, columns = shape
    names = [f"Head {head}" for head in range(heads)]
    figure = heat_maps(
        torch.rand(shape), ["WWWW"] * rows, ["mm<eos>"] * columns, names=names, title="Decoder, layer 0 " * 3
    )
    inside(figure)
    found = [text.get_text() for text in drawn(figure)]
    assert [text for text in found if text.startswith("Head")] == names


@pytest.mark.parametrize(("heads", "across"), [(1, 1), (2, 2), (4, 2), (6, 3), (8, 4), (12, 4), (16, 4)])
def test_grid_has_no_gaps_where_that_can_be(heads: int, across: int):
    figure = heat_maps(torch.rand(heads, 5, 5), list("abcde"), list("vwxyz"), names=["h"] * heads, title="t")
    found = [text.get_text() for text in drawn(figure)]
    assert found.count("a") == heads // across, "labels of rows stand at the left of the grid only"
    assert found.count("v") == across, "and those of columns under it"


def test_grid_of_few_columns_has_room_for_the_names_over_them():
    names = [f"Head number {head}" for head in range(6)]
    figure = heat_maps(torch.rand(6, 300, 2), [""] * 300, ["a", "b"], names=names, title="t")
    sheet = FigureCanvasAgg(figure)
    sheet.draw()
    boxes = sorted(
        (text.get_window_extent(sheet.get_renderer()) for text in drawn(figure) if text.get_text().startswith("Head")),
        key=lambda box: (box.y0, box.x0),
    )
    for left, right in pairwise(boxes):
        assert left.x1 < right.x0 or left.y1 <= right.y0
    inside(figure)


@pytest.mark.parametrize(("label", "stacked"), [("同学", True), ("␣同学", True), ("同 a", False), ("abc", False)])
def test_chinese_labels_of_narrow_columns_are_stacked_not_turned(label: str, stacked: bool):
    figure = heat_map(torch.rand(40, 40), ["x"] * 40, [label] * 40, title="t")
    found = {text.get_text(): text.get_rotation() for axes in figure.axes for text in axes.texts}
    assert found["\n".join(label) if stacked else label] == (0 if stacked else 90)
    inside(figure)


def test_o29_grid_of_many_tokens_labels_some_of_them(tmp_path: Path):
    labels = [f"t{index}" for index in range(300)]
    figure = heat_maps(torch.rand(1, 300, 300), labels, labels, names=["0"], title="many")
    found = {text.get_text() for text in drawn(figure)} & set(labels)
    assert {"t0", "t5", "t10"} <= found
    assert "t1" not in found
    save_png(figure, tmp_path / "a.png")
    assert max(size_of((tmp_path / "a.png").read_bytes())) <= canvas.MOST_PIXELS


def test_o28_grid_refuses_labels_that_do_not_fit():
    with pytest.raises(DataError, match="7 labels for 8 positions"):
        heat_maps(torch.rand(2, 3, 8), ["a"] * 3, ["a"] * 7, names=["0", "1"], title="")
