from __future__ import annotations

import pytest
import torch

from checkpoint.folders import bert_folder, gpt2_folder, roberta_folder, transformers
from glassformer.checkpoint.loading import load
from glassformer.core.errors import DataError, UnsupportedError
from glassformer.generation.fill import fill_masks, fills_masks


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return load(bert_folder(tmp_path_factory.mktemp("bert")))


@pytest.fixture(scope="module")
def roberta(tmp_path_factory):
    return load(roberta_folder(tmp_path_factory.mktemp("roberta")))


@torch.no_grad()
def guesses(loaded, ids):
    """What the reference guesses at each mask, and how probable each token is."""
    hf = transformers.AutoModelForMaskedLM.from_pretrained(loaded.source).eval()
    at = torch.tensor(ids) == loaded.tokenizer.mask_id
    return hf(torch.tensor([ids])).logits[0, at].softmax(-1)


def test_mask_is_filled_as_the_reference_does(bert):
    words = bert.tokenizer
    found = fill_masks(bert, "the cat [MASK] the cats.", top=3)
    the, cat, s, dot = (words.encode(text)[-1] for text in ("the", "cat", "cats", "."))
    ids = [2, the, cat, words.mask_id, the, cat, s, dot, 3]
    expected = guesses(bert, ids)
    assert found.tokens == (int(expected.argmax()),)
    values, best = expected[0].topk(3)
    assert [token for token, _ in found.candidates[0]] == best.tolist()
    assert [p for _, p in found.candidates[0]] == pytest.approx(values.tolist(), abs=1e-5)
    assert found.text == f"the cat {words.label(found.tokens[0])} the cats."


def test_guess_that_stands_for_no_text_is_called_by_its_name(tmp_path):
    loaded = load(bert_folder(tmp_path))
    words = loaded.tokenizer
    for token, name, bias in ((words.unk_id, "[UNK]", 1e3), (words.mask_id, "[MASK]", 1e4)):
        with torch.no_grad():
            loaded.model.head.bias[token] = bias
        assert fill_masks(loaded, "the [MASK], [MASK]!").text == f"the {name}, {name}!"


def test_several_masks_are_guessed_each_by_itself(bert):
    the, cat = bert.tokenizer.encode("the cat")
    mask = bert.tokenizer.mask_id
    found = fill_masks(bert, "[MASK] the [MASK][MASK] cat")
    expected = guesses(bert, [2, mask, the, mask, mask, cat, 3])
    assert found.tokens == tuple(expected.argmax(-1).tolist())
    assert "[MASK]" not in found.text
    assert len(found.candidates) == 3


def test_space_before_the_mask_of_roberta_is_behind_it(roberta):
    encode, mask = roberta.tokenizer.encode, roberta.tokenizer.mask_id
    before, after = encode("the"), encode(" the")
    start, end = roberta.tokenizer.framed("").ids[0], roberta.tokenizer.framed("").ids[-1]
    found = fill_masks(roberta, "the <mask> the", top=2)
    ids = [start, *before, mask, *after, end]
    theirs = transformers.AutoTokenizer.from_pretrained(roberta.source)
    assert theirs("the<mask> the").input_ids == ids
    expected = guesses(roberta, ids)
    assert found.tokens == (int(expected.argmax()),)
    assert fill_masks(roberta, "the<mask> the").tokens == found.tokens


def test_only_the_mask_is_a_special_token(bert):
    """What else a person types stays text: no [SEP] ends it early."""
    found = fill_masks(bert, "[SEP] [MASK]")
    ids = [2, *bert.tokenizer.encode("[SEP]"), bert.tokenizer.mask_id, 3]
    assert 3 not in ids[1:-1]
    assert found.tokens == (int(guesses(bert, ids).argmax()),)


def test_text_without_a_mask_is_refused(bert):
    with pytest.raises(DataError, match=r"nothing to fill: write \[MASK\] where"):
        fill_masks(bert, "the cat <mask> [mask]")


def test_text_that_is_too_long_is_refused(bert):
    assert fill_masks(bert, "the " * 21 + "[MASK]").tokens
    with pytest.raises(DataError, match=r"has 23 tokens, more than the 22 that the model can read"):
        fill_masks(bert, "the " * 22 + "[MASK]")


def test_model_that_fills_no_masks_is_refused_with_what_it_does(bert, tmp_path):
    assert fills_masks(bert)
    labels = load(bert_folder(tmp_path / "labels", "BertForSequenceClassification", num_labels=3))
    assert not fills_masks(labels)
    with pytest.raises(UnsupportedError, match=r"labels texts.*use predict"):
        fill_masks(labels, "[MASK]")
    with pytest.raises(UnsupportedError, match=r"makes vectors of texts.*use embed"):
        fill_masks(load(bert_folder(tmp_path / "body", "BertModel")), "[MASK]")
    with pytest.raises(UnsupportedError, match=r"fills no masks: that is for an encoder"):
        fill_masks(load(gpt2_folder(tmp_path / "gpt2")), "<mask>")
