"""Folders of tiny models with tokenizers, as the reference library writes them; and the LLaMA of the test data."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from text.folders import WORDS, bert, gpt2, needs_data, t5

transformers = pytest.importorskip("transformers", reason="the reference library is the oracle here")
transformers.utils.logging.disable_progress_bar()

needs_stories = needs_data
STORIES = Path(os.environ.get("GLASSFORMER_TEST_DATA", "")) / "stories260K"

WIDTH = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
BERT = {"vocab_size": len(WORDS), "max_position_embeddings": 24, **WIDTH}
BYTES = 263
"""Tokens of the small vocabulary of GPT-2's kind."""

LLAMA = {"vocab_size": 40, "max_position_embeddings": 64, "num_key_value_heads": 1, **WIDTH}
ENCODER_DECODER = {
    "d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": 24,
    "pad_token_id": 0, "decoder_start_token_id": 0, "eos_token_id": 1,
}  # fmt: skip


def saved(model: Any, folder: Path, *, std: float = 0.3) -> Path:
    """Write a model of the reference library, every parameter of which is drawn anew."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * std)
    model.eval().save_pretrained(folder)
    return folder


def bert_folder(folder: Path, name: str = "BertForMaskedLM", **settings: Any) -> Path:
    config = transformers.BertConfig(**{**BERT, **settings})
    return bert(saved(getattr(transformers, name)(config), folder))


ROBERTA_ROLES = {
    "bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>",
    "unk_token": "<|endoftext|>",
}  # fmt: skip


def roberta_folder(folder: Path, name: str = "RobertaForMaskedLM", **settings: Any) -> Path:
    own = {"vocab_size": BYTES, "type_vocab_size": 1, "pad_token_id": 1}
    config = transformers.RobertaConfig(**{**BERT, **own, **settings})
    model = getattr(transformers, name)(config)
    return gpt2(saved(model, folder), **{"tokenizer_config.json": ROBERTA_ROLES})


def gpt2_folder(folder: Path, name: str = "GPT2LMHeadModel") -> Path:
    end = BYTES - 4
    config = transformers.GPT2Config(
        vocab_size=BYTES, n_embd=16, n_layer=2, n_head=2, n_positions=24, bos_token_id=end, eos_token_id=end
    )
    return gpt2(saved(getattr(transformers, name)(config), folder))


def t5_folder(folder: Path) -> Path:
    config = transformers.T5Config(
        vocab_size=128, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2, decoder_start_token_id=0
    )
    return t5(saved(transformers.T5ForConditionalGeneration(config), folder))


def marian_folder(folder: Path) -> Path:
    """Without a tokenizer: that of Marian is of a kind that cannot be read here."""
    return saved(transformers.MarianMTModel(transformers.MarianConfig(vocab_size=40, **ENCODER_DECODER)), folder)


def llama_folder(folder: Path, name: str = "LlamaForCausalLM", **settings: Any) -> Path:
    """Without a tokenizer."""
    config = transformers.LlamaConfig(**{**LLAMA, **settings})
    return saved(getattr(transformers, name)(config), folder)


def stories(folder: Path) -> Path:
    """A copy of the small LLaMA that writes stories."""
    shutil.copytree(STORIES / "hf", folder, copy_function=shutil.copyfile)
    folder.chmod(0o755)
    return folder


KINDS: dict[str, Callable[[Path], Path]] = {
    "llama": llama_folder,
    "llama body": lambda folder: llama_folder(folder, "LlamaModel"),
    "bert": bert_folder,
    "bert classes": lambda folder: bert_folder(folder, "BertForSequenceClassification", num_labels=3),
    "bert body": lambda folder: bert_folder(folder, "BertModel"),
    "roberta": roberta_folder,
    "gpt2": gpt2_folder,
    "t5": t5_folder,
    "marian": marian_folder,
}


def edited(folder: Path, **settings: Any) -> Path:
    """Change settings in config.json; None takes one out."""
    file = folder / "config.json"
    content = json.loads(file.read_text()) | settings
    file.write_text(json.dumps({name: value for name, value in content.items() if value is not None}))
    return folder
