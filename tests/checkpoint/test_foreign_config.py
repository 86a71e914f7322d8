from __future__ import annotations

import json

import pytest

from glassformer.checkpoint.foreign_config import read_config
from glassformer.core.errors import CheckpointError


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "llama", "rope_scaling": None, "zz": {"more": [1, 2.5]}},
        {"architectures": ["BertModel"], "hidden_size": 8},
        {"model_type": "闫", "architectures": ["A", "B"]},
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_config_is_given_word_for_word(tmp_path, config, encoding):
    (tmp_path / "config.json").write_text(json.dumps(config, ensure_ascii=False), encoding=encoding)
    assert read_config(tmp_path) == config


def test_missing_config_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"there is no .*config\.json: .*give the folder that has it"):
        read_config(tmp_path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is damaged, fetch it again: it is no JSON"),
        (b'{"model_type": ', "is damaged, fetch it again: it is no JSON"),
        (b'{"model_type": "\xff"}', "is damaged, fetch it again: it is no JSON"),
        (b"[" * 100_000, "is damaged, fetch it again: it is no JSON"),
        (b'["llama"]', r"must hold a JSON object \{\.\.\.\}, it holds a list"),
        (b"null", r"must hold a JSON object \{\.\.\.\}, it holds a NoneType"),
        (b'{"hidden_size": 8}', 'says neither "model_type" nor "architectures"'),
    ],
)
def test_config_that_is_none_is_refused(tmp_path, content, problem):
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"config\.json " + problem):
        read_config(tmp_path)
