"""A real LLaMA of 260,000 parameters writes the story that its author's own program writes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from glassformer.checkpoint.loading import load
from glassformer.generation.config import GenerationConfig
from glassformer.generation.text import generate_text, stream_text

pytestmark = pytest.mark.skipif(
    "GLASSFORMER_TEST_DATA" not in os.environ, reason="GLASSFORMER_TEST_DATA names no folder of data"
)

FOLDER = Path(os.environ.get("GLASSFORMER_TEST_DATA", "")) / "stories260K"
GREEDY = GenerationConfig(max_new_tokens=256)


@pytest.fixture(scope="module")
def stories():
    return load(FOLDER / "hf")


def published():
    return (FOLDER / "expected_256.txt").read_text(encoding="utf-8").removesuffix("\n")  # the file ends with a line


@pytest.fixture(scope="module")
def ids():
    return json.loads((FOLDER / "expected_ids.json").read_text())["greedy_ids_from_bos"]


def test_story_is_the_published_one_token_by_token(stories, ids):
    begin, *story = ids
    assert stories.tokenizer.prefix == (begin,)
    assert len(story) == 256
    steps = list(stream_text(stories, "", GREEDY))
    assert [step.token for step in steps] == story
    assert "".join(step.text for step in steps) == published()
    assert generate_text(stories, "", GREEDY).text == published()


def test_beginning_of_the_story_leads_to_the_same_one(stories, ids):
    tokenizer = stories.tokenizer
    start = tokenizer.decode(ids[1:21])
    assert tokenizer.encode(start) == ids[1:21]
    written = generate_text(stories, start, GenerationConfig(max_new_tokens=236))
    assert start + written.text == published()


@torch.no_grad()
def test_scores_are_the_published_ones(stories):
    with np.load(FOLDER / "expected_logits.npz") as expected:
        logits = stories.model(torch.from_numpy(expected["input_ids"]).long().unsqueeze(0))[0]
        np.testing.assert_allclose(logits.numpy(), expected["logits"], atol=1e-4, rtol=0)
