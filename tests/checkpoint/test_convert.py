from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from glassformer.checkpoint.convert import convert, family_for
from glassformer.checkpoint.loading import ForeignFolder, load, load_transformer
from glassformer.checkpoint.native import save_model
from glassformer.checkpoint.verify import verify
from glassformer.core.errors import CheckpointError, ConfigError, UnsupportedError
from glassformer.families.registry import FAMILIES
from glassformer.generation.config import GenerationConfig
from glassformer.generation.text import generate_text
from glassformer.text.build import build_tokenizer, byte_tokenizer

from .folders import KINDS, edited, gpt2_folder, llama_folder, needs_stories, stories, t5_folder, transformers

TEXT = "the cat sat on the mat, and the dog sat by the cat"


@pytest.mark.parametrize("kind", KINDS)
def test_there_and_back_is_bit_equal(kind, tmp_path):
    source = KINDS[kind](tmp_path / "hf")
    form, kind_of_model = convert(source, tmp_path / "ours")
    assert (form, kind_of_model) == ("glassformer", load_transformer(source).config.kind)
    ours = load_transformer(tmp_path / "ours")
    for (name, one), (_, other) in zip(
        ours.named_parameters(), load_transformer(source).named_parameters(), strict=True
    ):
        assert torch.equal(one, other), name
    family = ForeignFolder.open(source).family.name
    assert convert(tmp_path / "ours", tmp_path / "back") == ("hf", family)
    before, after = (load_file(folder / "model.safetensors") for folder in (source, tmp_path / "back"))
    assert after.keys() <= before.keys()
    assert all(torch.equal(tensor, before[name]) for name, tensor in after.items())
    assert verify(ForeignFolder.open(tmp_path / "back")).equal
    if (source / "vocab.txt").exists() or (source / "merges.txt").exists():
        text = "the Cats sat"
        framed = load(source).tokenizer.framed(text)
        for folder in (tmp_path / "ours", tmp_path / "back"):
            again = load(folder).tokenizer
            assert again.framed(text) == framed
            assert again.roles == load(source).tokenizer.roles
            assert again.prefix == load(source).tokenizer.prefix


@needs_stories
def test_stories_come_back_bit_equal(tmp_path):
    source = stories(tmp_path / "stories")
    convert(source, tmp_path / "ours")
    convert(tmp_path / "ours", tmp_path / "back")
    for name in ("model.safetensors", "tokenizer.json"):
        before, after = (source / name).read_bytes(), (tmp_path / "back" / name).read_bytes()
        assert before == after if name.startswith("model") else json.loads(before) == json.loads(after)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    assert theirs("Once upon a time").input_ids == load(source).tokenizer.framed("Once upon a time").ids
    assert convert(source, tmp_path / "again", "hf") == ("hf", "llama")
    assert (tmp_path / "again" / "generation_config.json").read_bytes() == (
        source / "generation_config.json"
    ).read_bytes()


def ours(folder, tiny, tokenizer, **arguments):
    """A checkpoint of this project: a model that some family of the reference library can hold."""
    folder.mkdir()
    tokenizer.save(folder / "tokenizer.json")
    save_model(tiny(tokenizer.vocab_size, **arguments), folder / "model.safetensors")
    return folder


LLAMA_LIKE = {
    "positions": "rotary", "embedding_scale": False, "norm": "rms", "norm_place": "pre", "bias": False,
    "gated": True, "activation": "silu", "max_positions": 64,
}  # fmt: skip


def tokenizer_of(kind):
    sizes = {"bpe": 40, "byte_bpe": 290}
    return build_tokenizer(kind, [TEXT], ("<pad>", "<bos>", "<eos>", "<unk>"), vocab_size=sizes.get(kind))


@pytest.mark.parametrize("kind", ["character", "byte", "word", "bpe", "byte_bpe"])
@torch.no_grad()
def test_model_of_ours_is_read_by_the_reference(kind, tiny, tmp_path):
    source = ours(tmp_path / "ours", tiny, tokenizer_of(kind), **LLAMA_LIKE)
    assert convert(source, tmp_path / "hf") == ("hf", "llama")
    loaded = load(source)
    hf = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "hf")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    ids = loaded.tokenizer.encode(TEXT)
    assert theirs(TEXT).input_ids == ids
    assert theirs.decode(ids) == loaded.tokenizer.decode(ids)
    for role in ("pad", "bos", "eos", "unk"):
        assert getattr(theirs, f"{role}_token_id") == getattr(loaded.tokenizer, f"{role}_id")
        if role != "unk":
            assert getattr(hf.config, f"{role}_token_id") == getattr(loaded.tokenizer, f"{role}_id")
    tokens = torch.tensor([ids[:40]])
    torch.testing.assert_close(loaded.model(tokens), hf(tokens).logits, atol=2e-5, rtol=0)
    again = load(tmp_path / "hf")
    assert again.tokenizer.prefix == loaded.tokenizer.prefix
    config = GenerationConfig(max_new_tokens=5)
    assert generate_text(again, "the cat", config).text == generate_text(loaded, "the cat", config).text


def test_encoder_decoder_of_ours_begins_as_the_reference_is_told(tiny, tmp_path):
    source = t5_folder(tmp_path / "t5")
    convert(source, tmp_path / "ours")
    convert(tmp_path / "ours", tmp_path / "hf")
    settings = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert (settings["decoder_start_token_id"], settings["eos_token_id"], settings["pad_token_id"]) == (0, 1, 0)
    assert load(tmp_path / "ours").tokenizer.bos_id == load(source).tokenizer.bos_id == 0


def test_every_end_token_goes_along(tmp_path):
    source = edited(gpt2_folder(tmp_path / "hf"), eos_token_id=[259, 260, 261])
    (source / "generation_config.json").unlink()
    convert(source, tmp_path / "ours")
    convert(tmp_path / "ours", tmp_path / "back")
    for folder in (source, tmp_path / "ours", tmp_path / "back"):
        assert load(folder).tokenizer.eos_ids == (259, 260, 261)
    assert json.loads((tmp_path / "back" / "config.json").read_text())["eos_token_id"] == [259, 260, 261]
    assert transformers.AutoTokenizer.from_pretrained(tmp_path / "back").eos_token_id == 259
    hf = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "back")
    assert hf.generation_config.eos_token_id == [259, 260, 261]


def test_generation_config_has_the_last_word_on_end_tokens(tmp_path):
    """As in the reference library: config.json of an instructed model often knows one end token of two."""
    source = edited(gpt2_folder(tmp_path), eos_token_id=259)
    (source / "generation_config.json").write_text('{"eos_token_id": [260, 259], "bos_token_id": null}')
    tokenizer = load(source).tokenizer
    assert tokenizer.eos_ids == (260, 259)
    assert tokenizer.bos_id == 259


def test_folder_without_a_tokenizer_is_converted_without(tmp_path):
    convert(llama_folder(tmp_path / "hf"), tmp_path / "ours")
    assert [file.name for file in (tmp_path / "ours").iterdir()] == ["model.safetensors"]
    convert(tmp_path / "ours", tmp_path / "back")
    assert sorted(file.name for file in (tmp_path / "back").iterdir()) == ["config.json", "model.safetensors"]


def test_type_of_the_numbers_can_be_chosen(tmp_path):
    source = llama_folder(tmp_path / "hf")
    convert(source, tmp_path / "half", "hf", dtype=torch.bfloat16)
    assert {tensor.dtype for tensor in load_file(tmp_path / "half" / "model.safetensors").values()} == {torch.bfloat16}
    assert json.loads((tmp_path / "half" / "config.json").read_text())["dtype"] == "bfloat16"
    assert verify(ForeignFolder.open(tmp_path / "half")).equal


def test_family_can_be_named(tiny, tmp_path):
    source = ours(tmp_path / "ours", tiny, byte_tokenizer(("<pad>", "<bos>", "<eos>")), **LLAMA_LIKE)
    with pytest.raises(UnsupportedError, match=r"none that a gpt2 checkpoint can hold:"):
        convert(source, tmp_path / "hf", family="gpt2")
    with pytest.raises(ConfigError, match=r"unknown family 'lama'; did you mean 'llama'"):
        convert(source, tmp_path / "hf", family="lama")
    assert not (tmp_path / "hf").exists()
    assert convert(source, tmp_path / "hf", family="mistral") == ("hf", "mistral")
    with pytest.raises(
        ConfigError, match=r"family is llama, but only a checkpoint for the reference library is of one"
    ):
        convert(tmp_path / "hf", tmp_path / "back", family="llama")


def test_model_that_no_family_holds_is_told_why(tiny, tmp_path):
    model = tiny(positions="alibi")
    with pytest.raises(UnsupportedError) as raised:
        family_for(model)
    first, *reasons = str(raised.value).splitlines()
    assert first.startswith("no family known to the reference library can hold this model")
    for family in FAMILIES:
        if family.model_type:
            assert any(f" {family.name} " in reason or f"{family.name}:" in reason for reason in reasons), family.name
    assert len(reasons) < 100
    assert max(map(len, reasons)) < 400


@pytest.mark.parametrize("to", ["hf", "glassformer"])
def test_target_that_holds_something_is_kept_unless_it_may_go(to, tmp_path):
    source = llama_folder(tmp_path / "hf")
    target = tmp_path / "target"
    target.mkdir()
    (target / "notes.txt").write_text("mine")
    with pytest.raises(CheckpointError, match=r"target is not empty.*ask for overwriting"):
        convert(source, target, to)
    assert [file.name for file in target.iterdir()] == ["notes.txt"]
    convert(source, target, to, overwrite=True)
    assert (target / "notes.txt").read_text() == "mine"
    assert torch.equal(load_transformer(target).head.weight, load_transformer(source).head.weight)
    with pytest.raises(CheckpointError, match=r"is the source itself; choose another folder"):
        convert(source, tmp_path / "target" / ".." / "hf", to)


def test_format_written_over_the_other_is_read_as_what_was_written_last(tmp_path):
    """One folder cannot be both: config.json would say another model than the file is of."""
    source = llama_folder(tmp_path / "hf")
    convert(source, tmp_path / "target", "hf")
    convert(gpt2_folder(tmp_path / "gpt2"), tmp_path / "target", "glassformer", overwrite=True)
    assert load_transformer(tmp_path / "target").config.output_stack.input.positions.kind == "learned"
    convert(source, tmp_path / "target", "hf", overwrite=True)
    assert verify(ForeignFolder.open(tmp_path / "target")).equal


def test_tokenizer_that_does_not_belong_is_refused(tiny, tmp_path):
    source = ours(tmp_path / "ours", tiny, byte_tokenizer(("<pad>", "<bos>", "<eos>")), **LLAMA_LIKE)
    save_model(tiny(200, **LLAMA_LIKE), source / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"has 259 entries, the model's embedding 200"):
        convert(source, tmp_path / "hf")
    assert not (tmp_path / "hf").exists()


TINY = [name for family in FAMILIES if family.architectures for name in family.presets if name.endswith("tiny")]


@pytest.mark.parametrize("name", TINY)
def test_preset_is_written_and_comes_back_equal(name, tmp_path):
    if name == "roberta-tiny":  # which pads with 1: its positions are counted from there
        with pytest.raises(UnsupportedError, match=r"a roberta checkpoint .*needs pad_token_id 1, not 0"):
            convert(f"preset:{name}", tmp_path / "hf")
        assert not (tmp_path / "hf").exists()
        return
    convert(f"preset:{name}", tmp_path / "hf")
    made, read = load(f"preset:{name}"), load(tmp_path / "hf")
    assert read.model.config.model_copy(update={"init": made.model.config.init}) == made.model.config
    assert all(map(torch.equal, read.model.parameters(), made.model.parameters()))
    assert read.tokenizer.encode("é") == made.tokenizer.encode("é")


def test_full_disk_leaves_the_old_folder_of_ours(tmp_path, monkeypatch):
    source, target = gpt2_folder(tmp_path / "hf"), tmp_path / "ours"
    convert("preset:tiny", target, "glassformer")
    before = {path.name: path.read_bytes() for path in target.iterdir()}

    def full(model: object, path: Path) -> None:
        path.write_bytes(b"torn")
        raise CheckpointError(f"could not write {path}: No space left on device")

    monkeypatch.setattr("glassformer.checkpoint.convert.save_model", full)
    with pytest.raises(CheckpointError, match="No space left"):
        convert(source, target, overwrite=True)
    assert {path.name: path.read_bytes() for path in target.iterdir()} == before
