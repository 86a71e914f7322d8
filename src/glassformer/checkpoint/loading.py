"""A model and its tokenizer, from wherever the user says."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from glassformer.checkpoint.foreign import from_foreign
from glassformer.checkpoint.foreign_config import CONFIG_FILE, read_config, read_json_object
from glassformer.checkpoint.hub import resolve_folder
from glassformer.checkpoint.native import FORMAT, MODEL_FILE, TOKENIZER_FILE, holds_quantised, load_model
from glassformer.checkpoint.shards import SOURCES, TensorFolder
from glassformer.checkpoint.tensors import read_metadata
from glassformer.checkpoint.whole_folder import GENERATION_FILE, RECIPE_FILE, former
from glassformer.core.errors import CheckpointError, GlassformerError, UnsupportedError
from glassformer.families.family import Family
from glassformer.families.registry import family_of, preset
from glassformer.models.own import OwnTransformer
from glassformer.models.transformer import Transformer
from glassformer.text.build import byte_tokenizer
from glassformer.text.foreign import Role, load_tokenizer
from glassformer.text.tokenizer import TextTokenizer

PRESET_PREFIX = "preset:"


@dataclass(frozen=True, eq=False)
class Loaded:
    """A model that can read and write text.

    Attributes:
        model: In eval mode.
        tokenizer: Its vocabulary.
        source: Where it came from, as the user said it.
    """

    model: Transformer
    tokenizer: TextTokenizer
    source: str


@dataclass(frozen=True, eq=False)
class ForeignFolder:
    """A local checkpoint folder of the Hugging Face kind.

    Attributes:
        path: The folder.
        settings: Its config.json.
        tensors: Its tensors, read when they are used.
        family: What it is of.
    """

    path: Path
    settings: Mapping[str, Any]
    tensors: TensorFolder
    family: Family

    @staticmethod
    def open(path: Path) -> ForeignFolder:
        """Return a folder; nothing of its weights is read yet.

        Raises:
            CheckpointError: It holds no checkpoint, or one that is damaged.
            UnsupportedError: Its family is not known here.
        """
        if not path.is_dir():
            raise CheckpointError(f"there is no folder {path}; give a checkpoint folder of the Hugging Face kind")
        if not is_foreign(path):
            if holds_quantised(path):
                raise CheckpointError(
                    f"{path} is in 8 bits, as only glassformer reads them; the one it was made from can be written in "
                    "the Hugging Face format (convert)"
                )
            raise CheckpointError(
                f"{path} is in glassformer's own format, not in the Hugging Face one; it can be written as such: "
                f"glassformer convert {shlex.quote(str(path))} FOLDER"
            )
        settings = read_config(path)
        try:
            family = family_of(settings)
        except UnsupportedError as error:
            raise UnsupportedError(f"{path}: {error}") from error
        return ForeignFolder(path, settings, TensorFolder(path), family)

    def load(self, *, device: torch.device | str = "cpu", dtype: torch.dtype | None = None) -> Transformer:
        """Return its model, in eval mode; each call returns one of its own, which may be trained.

        Args:
            device: Where to put the parameters.
            dtype: Of the parameters; None = as they are stored.

        Raises:
            CheckpointError: Its settings or tensors do not fit what is known of its family; all of it in one message.
        """
        own = TensorFolder(self.path)  # mapped anew: what is written to the tensors of one mapping, all its users see
        try:
            return from_foreign(self.family, self.settings, own.tensors, device=device, dtype=dtype)
        except GlassformerError as error:
            raise type(error)(f"{self.path}: {error}") from error

    def tokenizer(self) -> TextTokenizer:
        """Return its tokenizer; which token begins and ends a text is what its configs say.

        Raises:
            CheckpointError: There is none, or it is damaged.
            UnsupportedError: It is of a kind that cannot be used.
        """
        return load_tokenizer(self.path, self._roles(), extra_ids=self.family.extra_ids)

    def _roles(self) -> dict[str, Role | None]:
        """What generation_config.json says counts, as in the reference library; config.json where that is silent.

        A decoder that reads from an encoder begins with its start token, whatever begins other texts.
        """
        generation = self.path / GENERATION_FILE
        told = read_json_object(generation) if generation.is_file() else {}
        said = dict(self.settings) | {name: value for name, value in told.items() if value is not None}
        roles: dict[str, Role | None] = {role: said.get(f"{role}_token_id") for role in ("pad", "bos", "eos", "sep")}
        if said.get("is_encoder_decoder") is True and said.get("decoder_start_token_id") is not None:
            roles["bos"] = said["decoder_start_token_id"]
        return roles


def load(
    source: str | Path,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype | None = None,
    download: bool = False,
) -> Loaded:
    """Return the model and tokenizer of a folder, or of `preset:NAME`.

    A folder is a run, a checkpoint of this project, or one of the Hugging Face kind. A preset is freshly initialised
    with seed 0 and reads bytes: it has learned nothing, but shows the architecture.

    Args:
        source: A folder, or "preset:tiny"; with `download`, also a name on the Hugging Face hub.
        device: Where to put the parameters.
        dtype: What to turn the parameters into; None = as they are stored.
        download: Whether the network may be used for what is no folder.

    Raises:
        CheckpointError: There is no model, it is damaged, or its tokenizer has more entries than its embedding.
        UnsupportedError: The family of a foreign checkpoint, or its tokenizer, is not known here.
        ConfigError: There is no preset of that name.
    """
    name = str(source)
    if name.startswith(PRESET_PREFIX):
        tokenizer = byte_tokenizer(("<pad>", "<bos>", "<eos>"))
        config = preset(name.removeprefix(PRESET_PREFIX)).resolve(tokenizer.vocab_size)
        model = Transformer(config, generator=torch.Generator().manual_seed(0))
        return Loaded(model.to(device=device, dtype=dtype).eval(), tokenizer, name)
    folder = _folder(name, download=download)
    if is_foreign(folder):
        foreign = ForeignFolder.open(folder)
        tokenizer, model = foreign.tokenizer(), foreign.load(device=device, dtype=dtype)
    else:
        model = load_model(folder, device=device).to(dtype=dtype)
        tokenizer = TextTokenizer.load(folder / TOKENIZER_FILE)
    check_belongs(tokenizer, model, folder)
    return Loaded(model, tokenizer, name)


def check_belongs(tokenizer: TextTokenizer, model: Transformer, folder: Path) -> None:
    """Make sure that a tokenizer has no token that its model knows nothing of.

    Raises:
        CheckpointError: It has.
    """
    size = model.config.output_stack.input.vocab_size
    if tokenizer.vocab_size > size:
        raise CheckpointError(
            f"the tokenizer of {folder} has {tokenizer.vocab_size} entries, the model's embedding {size}: "
            "they do not belong together; copy both from the same place"
        )


def load_transformer(
    source: str | Path, *, device: torch.device | str = "cpu", dtype: torch.dtype | None = None, download: bool = False
) -> Transformer:
    """Return the model alone: as `load`, for those who have no text for it, or a folder without a tokenizer."""
    name = str(source)
    if name.startswith(PRESET_PREFIX):
        return load(name, device=device, dtype=dtype).model
    folder = _folder(name, download=download)
    if is_foreign(folder):
        return ForeignFolder.open(folder).load(device=device, dtype=dtype)
    model = load_model(folder, device=device).to(dtype=dtype)
    refuse_own(model, str(folder))
    return model


def refuse_own(model: Transformer, source: str) -> None:
    """Make sure that a model's architecture is known.

    Raises:
        UnsupportedError: It is a user's own.
    """
    if isinstance(model, OwnTransformer):
        raise UnsupportedError(
            f"{source} holds a model of your own, {model.code.name} of {model.code.file.name}: what it is made of is "
            "not known here; inspect, generate, translate, score and eval work with it"
        )


def is_foreign(folder: Path) -> bool:
    """Return whether a folder holds a checkpoint of the Hugging Face kind.

    Raises:
        CheckpointError: It holds no checkpoint at all, or a damaged one.
    """
    file = folder / MODEL_FILE
    if file.is_file() and read_metadata(file).get("format") == FORMAT:
        return False
    if (folder / CONFIG_FILE).is_file():
        return True
    if any((folder / name).is_file() for name in SOURCES):
        raise CheckpointError(
            f"{folder} holds weights that were not written by glassformer, and no {CONFIG_FILE}, which says what model "
            f"they are of; copy that from where they came{former(folder)}"
        )
    if (folder / RECIPE_FILE).is_file():
        hint = f"finish the run first: glassformer train --resume {shlex.quote(str(folder))}"
    else:
        hint = "give the folder of a run that is finished, or of a checkpoint"
    raise CheckpointError(f"{folder} holds no {MODEL_FILE}; {hint}{former(folder)}")


def _folder(name: str, *, download: bool) -> Path:
    if not Path(name).is_dir() and not download:
        raise CheckpointError(f"there is no folder {name}; give a run folder, a checkpoint folder or preset:NAME")
    return resolve_folder(name, download=download)
