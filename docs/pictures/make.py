"""The pictures of the documentation, made from a run of the demo: `python docs/pictures/make.py RUN`."""

from __future__ import annotations

import sys
from pathlib import Path

from glassformer.checkpoint.loading import load
from glassformer.inspection.canvas import save_png
from glassformer.inspection.figures import heat_map
from glassformer.training.report import cross_attention
from glassformer.training.run import read_recipe


def main() -> None:
    folder = Path(sys.argv[1])
    split = read_recipe(folder).task.build().test
    assert split is not None, "the demo has a test split"
    surest = next(iter(cross_attention(load(folder), split)))
    figure = heat_map(surest.weights, surest.rows, surest.columns, title=surest.caption)
    save_png(figure, Path(__file__).parent / "reverse-attention.png")


if __name__ == "__main__":
    main()
