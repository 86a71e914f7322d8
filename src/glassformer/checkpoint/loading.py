"""A model and its tokenizer, from wherever the user says."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

import torch

from glassformer.checkpoint.native import MODEL_FILE, TOKENIZER_FILE, load_model
from glassformer.core.errors import CheckpointError
from glassformer.families.registry import preset
from glassformer.models.transformer import Transformer
from glassformer.text.build import byte_tokenizer
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


def load(source: str | Path, *, device: torch.device | str = "cpu", dtype: torch.dtype | None = None) -> Loaded:
    """Return the model and tokenizer of a run folder, a checkpoint folder, or `preset:NAME`.

    A preset is freshly initialised with seed 0 and reads bytes: it has learned nothing, but shows the architecture.

    Args:
        source: A folder, or "preset:tiny".
        device: Where to put the parameters.
        dtype: What to turn the parameters into; None = as they are stored.

    Raises:
        CheckpointError: There is no model, it is damaged, or its tokenizer has more entries than its embedding.
        ConfigError: There is no preset of that name.
    """
    name = str(source)
    if name.startswith(PRESET_PREFIX):
        tokenizer = byte_tokenizer(("<pad>", "<bos>", "<eos>"))
        config = preset(name.removeprefix(PRESET_PREFIX)).resolve(tokenizer.vocab_size)
        model = Transformer(config, generator=torch.Generator().manual_seed(0))
        return Loaded(model.to(device=device, dtype=dtype).eval(), tokenizer, name)
    folder = Path(source)
    if not folder.is_dir():
        raise CheckpointError(f"there is no folder {folder}; give a run folder, a checkpoint folder or preset:NAME")
    if not (folder / MODEL_FILE).is_file():
        begun = (folder / "config.yaml").is_file()
        hint = f"; finish the run first: glassformer train --resume {shlex.quote(str(folder))}" if begun else ""
        raise CheckpointError(f"{folder} holds no {MODEL_FILE}{hint}")
    model = load_model(folder, device=device)
    tokenizer = TextTokenizer.load(folder / TOKENIZER_FILE)
    size = model.config.output_stack.input.vocab_size
    if tokenizer.vocab_size > size:
        raise CheckpointError(
            f"{folder / TOKENIZER_FILE} has {tokenizer.vocab_size} entries, the model's embedding {size}: "
            "they do not belong together"
        )
    return Loaded(model.to(dtype=dtype), tokenizer, name)
