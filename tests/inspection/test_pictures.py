from __future__ import annotations

from pathlib import Path

import pytest
import torch

from glassformer.core.errors import ConfigError
from glassformer.inspection import canvas
from glassformer.inspection.inspect import Inspection, LayerAttention, LayerSize
from glassformer.inspection.pictures import write_pictures

LABELS = ("<bos>", "闫", "同学")


def sample() -> Inspection:
    weights = torch.full((2, 3, 3), 1 / 3)
    return Inspection(
        (
            LayerAttention("encoder", 0, (0, 5), weights, LABELS, LABELS),
            LayerAttention("cross", 11, (0, 5), weights, LABELS, LABELS),
        ),
        (LayerSize("encoder", 0, 1.5, torch.ones(3), LABELS),),
    )


def test_one_picture_for_each_layer_and_one_of_the_norms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(canvas, "CJK", ())
    files, undrawn = write_pictures(tmp_path, sample())
    assert [file.name for file in files] == ["encoder-layer-00.png", "cross-layer-11.png", "norms.png"]
    assert sorted(files) == sorted(tmp_path.iterdir())
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in files)
    assert undrawn == ["闫", "同学"], "each is named once"


def test_no_such_language(tmp_path: Path):
    with pytest.raises(ConfigError, match="no language 'fr'"):
        write_pictures(tmp_path, sample(), language="fr")
