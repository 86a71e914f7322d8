from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from safetensors.torch import load_file, save_file

from glassformer.checkpoint.foreign import from_foreign, to_foreign
from glassformer.checkpoint.loading import ForeignFolder, load, load_transformer
from glassformer.core.errors import CheckpointError, UnsupportedError
from text.folders import WORDS

from .folders import bert_folder, edited, llama_folder, t5_folder, transformers

TOKENS = torch.tensor([[1, 12, 30, 7]])


def rewritten(folder, change):
    """Change the tensors of a folder's file."""
    file = folder / "model.safetensors"
    tensors = {name: tensor.clone() for name, tensor in load_file(file).items()}
    change(tensors)
    save_file(tensors, file, {"format": "pt"})
    return folder


def mess(tensors):
    tensors["extra.weight"] = torch.zeros(2)
    del tensors["model.layers.0.mlp.up_proj.weight"]
    tensors["model.norm.weight"] = torch.zeros(3)
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"] + 1


def test_every_tensor_is_accounted_for_in_one_error(tmp_path):
    rewritten(llama_folder(tmp_path, tie_word_embeddings=True), mess)
    with pytest.raises(CheckpointError) as raised:
        load_transformer(tmp_path)
    assert str(raised.value).splitlines() == [
        f"{tmp_path}: the tensors do not fit the config:",
        "  unexpected extra.weight",
        "  missing model.layers.0.mlp.up_proj.weight",
        "  model.norm.weight has shape (3,), the config needs (16,)",
        "  lm_head.weight differs from model.embed_tokens.weight, but the config says that they are one "
        "(tie_word_embeddings)",
    ]


def test_every_setting_is_accounted_for_in_one_error(tmp_path):
    edited(llama_folder(tmp_path), hidden_act="softplus", hidden_size=None, sliding=4, attention_dropou=0.1)
    with pytest.raises(CheckpointError) as raised:
        load_transformer(tmp_path)
    first, *lines = str(raised.value).splitlines()
    assert first == f"{tmp_path}: this llama config cannot be read:"
    assert lines[0] == "  hidden_size is missing"
    assert lines[1].startswith("  hidden_act is 'softplus'; known here are 'relu', 'gelu', ")
    assert lines[2] == "  sliding is 4, and not known here"
    assert lines[3] == "  attention_dropou is 0.1, and not known here; did you mean 'attention_dropout'?"
    assert len(lines) == 4


def test_tensor_that_is_no_weight_is_named(tmp_path):
    def counted(tensors):
        tensors["model.norm.weight"] = tensors["model.norm.weight"].to(torch.int8)

    rewritten(llama_folder(tmp_path), counted)
    with pytest.raises(CheckpointError, match=r"model\.norm\.weight is of torch\.int8: numbers that are quantised are"):
        load_transformer(tmp_path)


def test_copy_of_a_tied_tensor_alone_is_enough(tmp_path):
    def renamed(tensors):
        tensors["lm_head.weight"] = tensors.pop("model.embed_tokens.weight")

    rewritten(llama_folder(tmp_path / "one", tie_word_embeddings=True), renamed)
    one = load_transformer(tmp_path / "one")
    other = load_transformer(llama_folder(tmp_path / "other", tie_word_embeddings=True))
    assert torch.equal(one(TOKENS), other(TOKENS))
    assert one.head.weight is one.decoder.input.embedding.weight
    rewritten(tmp_path / "one", lambda tensors: tensors.update({n: t.bfloat16() for n, t in tensors.items()}))
    assert {parameter.dtype for parameter in load_transformer(tmp_path / "one").parameters()} == {torch.bfloat16}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_stays_unless_another_is_asked_for(dtype, tmp_path):
    def halved(tensors):
        tensors.update({name: tensor.to(dtype) for name, tensor in tensors.items()})

    rewritten(llama_folder(tmp_path), halved)
    stored = load_transformer(tmp_path)
    assert {parameter.dtype for parameter in stored.parameters()} == {dtype}
    whole = load_transformer(tmp_path, dtype=torch.float32)
    assert {parameter.dtype for parameter in whole.parameters()} == {torch.float32}
    assert whole(TOKENS).dtype == torch.float32
    torch.testing.assert_close(stored(TOKENS).float(), whole(TOKENS), atol=0.1, rtol=0.1)
    settings, tensors = to_foreign(stored, ForeignFolder.open(tmp_path).family)
    assert settings["dtype"] == str(dtype).removeprefix("torch.")
    assert {tensor.dtype for tensor in tensors.values()} == {dtype}


def test_model_is_trained_and_the_file_stays_as_it_is(tmp_path):
    folder = llama_folder(tmp_path, tie_word_embeddings=True)
    before = (folder / "model.safetensors").read_bytes()
    opened = ForeignFolder.open(folder)
    model, untouched = opened.load(), opened.load()
    start = untouched(TOKENS)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    first = None
    for _ in range(5):
        loss = torch.nn.functional.cross_entropy(model(TOKENS)[0, :-1], TOKENS[0, 1:])
        first = loss if first is None else first
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < first - 0.5
    assert all(parameter.requires_grad and parameter.grad is not None for parameter in model.parameters())
    assert model.head.weight is model.decoder.input.embedding.weight
    assert (folder / "model.safetensors").read_bytes() == before
    assert torch.equal(untouched(TOKENS), start)  # each has its own
    assert torch.equal(load_transformer(folder)(TOKENS), start)


@pytest.mark.parametrize("make", [llama_folder, bert_folder, t5_folder])
def test_model_can_be_copied_moved_and_stored(make, tmp_path):
    model = load_transformer(make(tmp_path))
    memory = model.encode(TOKENS % 15) if model.config.kind == "encoder_decoder" else None
    expected = model(TOKENS % 15, memory=memory)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model)), torch.load(file, weights_only=False)]
    for copied in copies:
        memory = copied.encode(TOKENS % 15) if memory is not None else None
        assert torch.equal(copied(TOKENS % 15, memory=memory), expected)
        if copied.head.tied:
            assert copied.head.weight is copied.output_stack.input.embedding.weight
        with torch.no_grad():
            copied.output_stack.input.embedding.weight.zero_()
    memory = model.encode(TOKENS % 15) if memory is not None else None
    assert torch.equal(model(TOKENS % 15, memory=memory), expected)
    double = model.to(torch.float64)
    assert {parameter.dtype for parameter in double.parameters()} == {torch.float64}


def test_file_is_replaced_while_its_model_is_used(tmp_path):
    folder = llama_folder(tmp_path / "one")
    model = load_transformer(folder)
    expected = load_transformer(folder)(TOKENS)
    llama_folder(tmp_path / "other", vocab_size=50)
    (tmp_path / "other" / "model.safetensors").replace(folder / "model.safetensors")
    assert torch.equal(model(TOKENS), expected)
    with pytest.raises(
        CheckpointError, match=r"embed_tokens\.weight has shape \(50, 16\), the config needs \(40, 16\)"
    ):
        load_transformer(folder)


def test_tensors_are_read_when_they_are_used(tmp_path):
    """What a rule takes over as it is stays in the file: the parameter's memory is the mapping."""
    opened = ForeignFolder.open(llama_folder(tmp_path))
    model = from_foreign(opened.family, opened.settings, opened.tensors.tensors)
    mapped = opened.tensors.tensor("model.layers.1.mlp.down_proj.weight")
    assert model.decoder.blocks[1].feed_forward.output.weight.data_ptr() == mapped.data_ptr()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"model_type": "mamba"}, r"a checkpoint of model_type 'mamba' cannot be loaded; known here are bert, roberta"),
        (
            {"architectures": ["LlamaForSequenceClassification"]},
            r"the architecture LlamaForSequenceClassification cannot be loaded; of llama known here are Llama",
        ),
    ],
)
def test_model_that_is_not_known_is_refused_with_its_folder(settings, says, tmp_path):
    edited(llama_folder(tmp_path), **settings)
    with pytest.raises(UnsupportedError, match=rf"^{tmp_path}: {says}"):
        load_transformer(tmp_path)
    (bert_folder(tmp_path / "words") / "vocab.txt").replace(tmp_path / "vocab.txt")
    with pytest.raises(UnsupportedError, match=says):
        load(tmp_path)


BAD = {
    "nothing": (lambda folder: [file.unlink() for file in folder.iterdir()], r"holds no model\.safetensors; give the"),
    "config alone": (
        lambda folder: [file.unlink() for file in folder.iterdir() if file.name != "config.json"],
        r"holds no weights: looked for model\.safetensors, .*; found config\.json",
    ),
    "no config": (
        lambda folder: (folder / "config.json").unlink(),
        r"weights that were not written by glassformer, and no config\.json.*; copy that from where they came",
    ),
    "cut off": (
        lambda folder: (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-9]),
        r"damaged checkpoint .*model\.safetensors: .*; get the file again",
    ),
    "not known whose": (
        lambda folder: (folder / "config.json").write_text("{}"),
        r'config\.json says neither "model_type" nor "architectures"',
    ),
    "torn config": (lambda folder: (folder / "config.json").write_text("{"), r"config\.json is damaged, fetch"),
    "kind is a list": (lambda folder: edited(folder, model_type=["bert"]), r"\['bert'\]; it must be a name"),
    "one word": (lambda folder: edited(folder, architectures="BertModel"), r"'BertModel'; it must be a list of names"),
    "classes in a row": (
        lambda folder: edited(folder, architectures=["BertForSequenceClassification"], id2label=["bad", "good"]),
        r"id2label is \['bad', 'good'\] and num_labels 2: the first must name each class by its number",
    ),
    "no whole number": (lambda folder: edited(folder, num_hidden_layers="x"), r"n_layers is 'x'"),
    "no ids": (lambda folder: edited(folder, vocab_size=0), r"vocab_size is 0"),
    "no tokenizer": (
        lambda folder: (folder / "vocab.txt").unlink(),
        r"holds no tokenizer: there is none of tokenizer\.json, .*; copy the files of the tokenizer into it",
    ),
    "another's tokenizer": (
        lambda folder: (folder / "vocab.txt").write_text("\n".join([*WORDS[:5], *map(chr, range(97, 123))])),
        r"the tokenizer of .* has 31 entries, the model's embedding 15: .*; copy both from the same place",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", BAD)
def test_bad_folder_is_refused_with_the_way_out(fault, tmp_path):
    damage, says = BAD[fault]
    damage(bert_folder(tmp_path))
    with pytest.raises(CheckpointError, match=says) as raised:
        load(tmp_path)
    assert str(tmp_path) in str(raised.value)


def test_shard_that_is_missing_is_named(tmp_path):
    config = transformers.LlamaConfig.from_pretrained(llama_folder(tmp_path / "whole"))
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path / "cut", max_shard_size="4KB")
    assert load_transformer(tmp_path / "cut").config.output_stack.input.vocab_size == 40
    shard = sorted((tmp_path / "cut").glob("model-00002-of-*.safetensors"))[0]
    shard.unlink()
    with pytest.raises(CheckpointError, match=rf"names {shard.name}, missing in its folder; fetch what is missing"):
        load_transformer(tmp_path / "cut")
