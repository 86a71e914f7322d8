"""The picture of the demo's attention, from a run of it: `python docs/pictures/make.py RUN`.

That of a translation is what `glassformer inspect RUN TEXT --png FOLDER --layers 1 --heads 2` writes.
"""

from __future__ import annotations

import sys
from pathlib import Path

from glassformer.checkpoint.loading import load
from glassformer.inspection.canvas import save_png
from glassformer.inspection.figures import heat_map
from glassformer.training.report import cross_attention


def main() -> None:
    surest = next(iter(cross_attention(load(Path(sys.argv[1])), "3141592653")))
    figure = heat_map(surest.weights, surest.rows, surest.columns, title=surest.caption)
    save_png(figure, Path(__file__).parent / "reverse-attention.png")


if __name__ == "__main__":
    main()
