"""This project's own format: one safetensors file that says what model it is."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import torch

from glassformer.checkpoint.tensors import read_metadata, read_tensors, save_tensors
from glassformer.checkpoint.weights import load_weights, weights_of
from glassformer.core.config import TransformerConfig
from glassformer.core.errors import CheckpointError, ConfigError
from glassformer.models.own import OwnTransformer, own_from
from glassformer.models.quantise import is_quantised, quantise_model
from glassformer.models.transformer import Transformer

MODEL_FILE = "model.safetensors"
TOKENIZER_FILE = "tokenizer.json"
FORMAT = "glassformer 1"

QUANTISED, INT8 = "quantised", "int8"
"""How a file says that its matrices are in 8 bits."""


def save_model(model: Transformer, path: Path) -> None:
    """Write a model's config and parameters; a tied tensor is stored once.

    Raises:
        CheckpointError: The disk is full or the folder cannot be written.
    """
    config = model.config.model_dump_json()
    metadata = {"format": FORMAT, "config": config, "checksum": _checksum(config)}
    if is_quantised(model):
        metadata[QUANTISED] = INT8
    if isinstance(model, OwnTransformer):
        code = model.code
        told = {"file": code.file.name, "name": code.name, "checksum": code.checksum(), "arguments": code.arguments}
        metadata["own"] = json.dumps({**told, "vocab_size": model.config.output_stack.input.vocab_size})
    save_tensors(path, weights_of(model), metadata)


def load_model(path: Path, *, device: torch.device | str = "cpu") -> Transformer:
    """Return the model of a file, or of the model file in a folder, in eval mode.

    Raises:
        CheckpointError: There is none, it is damaged, of another format, or does not fit its own config; or its config
            was changed.
    """
    file = path / MODEL_FILE if path.is_dir() else path
    tensors, metadata = read_tensors(file)
    if metadata.get("format") != FORMAT:
        raise CheckpointError(f"{file} was not written by glassformer (its format is {metadata.get('format')!r})")
    if metadata.get("checksum", "") not in ("", _checksum(metadata.get("config", ""))):
        raise CheckpointError(
            f"the config in {file} is not the one it was saved with, and in any model but their own weights answer "
            "noise: copy the file anew (who knows better takes the checksum out of its metadata)"
        )
    if "own" in metadata:
        own = own_from(file.parent, json.loads(metadata["own"])).to(device)
        load_weights(own, tensors, str(file))
        return own.eval()
    told = metadata.get(QUANTISED, INT8)
    if told != INT8:
        raise CheckpointError(f"{file} holds numbers of a kind that is unknown: {told}; known: {INT8}")
    try:
        config = TransformerConfig.parse(json.loads(metadata["config"]))
    except (ConfigError, KeyError, json.JSONDecodeError) as error:
        raise CheckpointError(f"{file} has no readable config: {error}") from error
    with torch.device("meta"):
        model = Transformer(config)
        if QUANTISED in metadata:
            quantise_model(model)
    model.to_empty(device=device)
    load_weights(model, tensors, str(file))
    return model.eval()


def holds_quantised(folder: Path) -> bool:
    """Return whether the model file of a folder says that it is in 8 bits; a file that is not there says nothing."""
    try:
        return QUANTISED in read_metadata(folder / MODEL_FILE)
    except CheckpointError:
        return False


def _checksum(config: str) -> str:
    return f"{zlib.crc32(config.encode()):08x}"
