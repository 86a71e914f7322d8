"""Checkpoints from one format to the other: this project's, and that of the reference library."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import torch

from glassformer.checkpoint.foreign import to_foreign
from glassformer.checkpoint.foreign_folder import write_folder
from glassformer.checkpoint.loading import (
    PRESET_PREFIX,
    ForeignFolder,
    check_belongs,
    is_foreign,
    load,
    load_transformer,
)
from glassformer.checkpoint.native import MODEL_FILE, TOKENIZER_FILE, save_model
from glassformer.checkpoint.whole_folder import GENERATION_FILE, RECIPE_FILE, write_whole
from glassformer.core.errors import CheckpointError, ConfigError, UnsupportedError
from glassformer.families.family import Family
from glassformer.families.registry import FAMILIES, family_named
from glassformer.models.quantise import is_quantised
from glassformer.models.transformer import Transformer
from glassformer.text.foreign import holds_tokenizer
from glassformer.text.tokenizer import TextTokenizer

Format = Literal["hf", "glassformer"]


def convert(
    source: str | Path,
    target: Path,
    to: Format | None = None,
    *,
    family: str | None = None,
    dtype: torch.dtype | None = None,
    overwrite: bool = False,
) -> tuple[Format, str]:
    """Write a checkpoint in another format; no number changes unless another type is asked for.

    Args:
        source: A run folder, a checkpoint of this project, a folder of the Hugging Face kind, or `preset:NAME`.
        target: Where to write.
        to: "hf" = a folder that the reference library loads, "glassformer" = ours; None = the other one than it is.
        family: As what to write a model of ours for the reference library; None = the first that can hold it.
        dtype: Of the written numbers; None = as they are stored.
        overwrite: Whether the target may hold something already.

    Returns:
        The format, and the family, or the kind of model, that was written.

    Raises:
        CheckpointError: The source is no checkpoint or damaged, or the target cannot be written.
        UnsupportedError: No family can hold the model, or its tokenizer has other ids than the family counts on; the
            message says what differs.
        ConfigError: There is no such family, or the format has none.
    """
    as_family = None if family is None else family_named(family)
    foreign, model, tokenizer = opened(source)
    form: Format = to or ("hf" if foreign is None else "glassformer")
    if target.resolve() == Path(source).resolve():
        raise CheckpointError(f"{target} is the source itself; choose another folder")
    if form == "glassformer" and family is not None:
        raise ConfigError(
            f"family is {family}, but only a checkpoint for the reference library is of one; leave it out"
        )
    if form == "hf" and is_quantised(model):
        raise UnsupportedError(
            "this model is in 8 bits, as only glassformer reads them; convert the one it was made from"
        )
    model = model.to(dtype=dtype)
    if form == "glassformer":
        write_ours(model, tokenizer, target, overwrite=overwrite)
        return form, model.config.kind
    chosen = as_family or (family_for(model) if foreign is None else foreign.family)
    written, tensors = to_foreign(model, chosen)
    settings = written | ({} if tokenizer is None else _token_ids(tokenizer, model))
    settings |= {} if foreign is None else _said_of_tokens(foreign.settings)
    if chosen.read(settings, tensors) != chosen.read(written, tensors):
        raise UnsupportedError(
            f"the ids of this tokenizer do not belong to a {chosen.name} checkpoint of this model: it needs "
            + " and ".join(f"{name} {id}, not {settings[name]}" for name, id in written.items() if settings[name] != id)
        )
    texts = {} if tokenizer is None else _tokenizer_files(tokenizer)
    said = Path(source) / GENERATION_FILE
    if foreign is not None and said.is_file():
        texts[GENERATION_FILE] = said.read_text(encoding="utf-8")
    write_folder(target, tensors, settings, texts, overwrite=overwrite)
    return form, chosen.name


def family_for(model: Transformer) -> Family:
    """Return the first family whose checkpoints can hold a model.

    Raises:
        UnsupportedError: None can; the message says for each what differs, the nearest first.
    """
    refused = []
    for family in FAMILIES:
        if not family.architectures:
            continue  # nobody has published weights of it
        try:
            family.write(model.config)
        except UnsupportedError as error:
            reasons = str(error).partition("can hold:")[2] or str(error)
            refused.append(f"  {family.name}: " + "; ".join(map(str.strip, reasons.strip().splitlines())))
        else:
            return family
    refused.sort(key=lambda reasons: ("kind is" in reasons, reasons.count(";")))
    raise UnsupportedError("no family known to the reference library can hold this model:\n" + "\n".join(refused))


def opened(source: str | Path) -> tuple[ForeignFolder | None, Transformer, TextTokenizer | None]:
    """Return the model, and the tokenizer that is there: a folder that has none is converted without."""
    if str(source).startswith(PRESET_PREFIX):
        made = load(source)
        return None, made.model, made.tokenizer
    folder = Path(source)
    if is_foreign(folder):
        foreign = ForeignFolder.open(folder)
        model, tokenizer = foreign.load(), foreign.tokenizer() if holds_tokenizer(folder) else None
    else:
        file = folder / TOKENIZER_FILE
        foreign, model = None, load_transformer(folder)
        tokenizer = TextTokenizer.load(file) if file.is_file() else None
    if tokenizer is not None:
        check_belongs(tokenizer, model, folder)
    return foreign, model, tokenizer


def write_ours(
    model: Transformer,
    tokenizer: TextTokenizer | None,
    target: Path,
    *,
    overwrite: bool,
    recipe: Path | None = None,
) -> None:
    """Write a folder of this project's.

    Args:
        model: What it holds.
        tokenizer: Of its texts, if it has one.
        target: The folder.
        overwrite: Whether it may hold something, see `write_whole`.
        recipe: The recipe file of the run that the model is of, which goes along.

    Raises:
        CheckpointError: The target holds something, or cannot be written.
    """

    def write(into: Path) -> None:
        if tokenizer is not None:
            tokenizer.save(into / TOKENIZER_FILE)
        if recipe is not None:
            shutil.copyfile(recipe, into / RECIPE_FILE)
        save_model(model, into / MODEL_FILE)

    write_whole(target, write, MODEL_FILE, overwrite=overwrite)


def _token_ids(tokenizer: TextTokenizer, model: Transformer) -> dict[str, Any]:
    """What the reference library reads of a vocabulary in config.json."""
    ends = list(tokenizer.eos_ids)
    ids: dict[str, Any] = {"bos_token_id": tokenizer.bos_id, "pad_token_id": tokenizer.pad_id}
    ids["eos_token_id"] = ends if len(ends) > 1 else tokenizer.eos_id
    if model.config.kind == "encoder_decoder":
        ids["decoder_start_token_id"] = tokenizer.bos_id
    return {name: value for name, value in ids.items() if value is not None}


def _said_of_tokens(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What a foreign config said of its tokens stays as it was said."""
    return {name: value for name, value in settings.items() if name.endswith("_token_id") and value is not None}


def _tokenizer_files(tokenizer: TextTokenizer) -> dict[str, str]:
    """tokenizer.json, and beside it what the reference library wants to be told."""
    with TemporaryDirectory() as folder:
        tokenizer.save(Path(folder) / TOKENIZER_FILE)
        files = {path.name: path.read_text(encoding="utf-8") for path in sorted(Path(folder).iterdir())}
    told: dict[str, Any] = json.loads(files.get("tokenizer_config.json", "{}"))
    told |= {"tokenizer_class": "PreTrainedTokenizerFast"}
    told |= {f"{role}_token": name for role, name in tokenizer.roles.items()}
    return files | {"tokenizer_config.json": json.dumps(told, indent=2, ensure_ascii=False) + "\n"}
