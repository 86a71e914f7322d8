"""The pictures of an inspection, as PNG files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from glassformer.core.wording import known_language
from glassformer.inspection.canvas import save_png
from glassformer.inspection.figures import bars, heat_maps
from glassformer.inspection.inspect import Inspection
from glassformer.inspection.wording import word


def write_pictures(
    folder: Path,
    inspection: Inspection,
    *,
    language: str = "en",
    advanced: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[list[Path], list[str]]:
    """Write one picture for each layer of each stack, "decoder-layer-00.png", with all heads, and "norms.png".

    Args:
        folder: Where to; it is there.
        inspection: From `inspect_sample`.
        language: "en" or "zh".
        advanced: Called with (done, total) pictures.

    Returns:
        The files, and the labels that no installed font can draw in full; see `canvas.save_png`.

    Raises:
        ConfigError: There is no such language.
        CheckpointError: A file cannot be written.
    """
    known_language(language)
    written: list[Path] = []
    missing: dict[str, None] = {}
    for layer in inspection.attention:
        title = word("part_layer", language).format(part=word(f"part_{layer.part}", language), layer=layer.layer)
        names = [word("head_number", language).format(head=head) for head in layer.heads]
        figure = heat_maps(layer.weights, layer.rows, layer.columns, names=names, title=title)
        written.append(folder / f"{layer.part}-layer-{layer.layer:02}.png")
        missing |= dict.fromkeys(save_png(figure, written[-1]))
        advanced(len(written), len(inspection.attention) + 1)
    if not inspection.sizes:  # a model of the user's own says nothing of its stream
        return written, list(missing)
    overall = {f"{size.part}.blocks.{size.layer}": size.overall for size in inspection.sizes}
    figure = bars(overall, title=word("norms_sample", language), x_label=word("norms_axis", language))
    written.append(folder / "norms.png")
    missing |= dict.fromkeys(save_png(figure, written[-1]))
    return written, list(missing)
