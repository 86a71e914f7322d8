"""Folders that are named by where they can be fetched from."""

from __future__ import annotations

import re
from pathlib import Path

from glassformer.core.errors import CheckpointError, ConfigError

HUB_NAME = re.compile(r"([A-Za-z0-9][\w.-]*/)?[A-Za-z0-9][\w.-]*", re.ASCII)
"""`owner/name`, or the one word of the oldest models."""

WANTED = (
    "*.json",
    "model.safetensors",
    "model-*.safetensors",
    "vocab.txt",
    "merges.txt",
    "tokenizer.model",
    "spiece.model",
)
"""What is fetched: settings, weights and vocabularies; no pickled weights, no second copy in another format."""


def resolve_folder(source: str, *, download: bool) -> Path:
    """Return the folder that a user named: one of this machine, or one of the Hugging Face hub that is fetched.

    Args:
        source: A folder, or "owner/name"; a folder that exists wins.
        download: Whether the network may be used. Without it nothing is ever asked for.

    Raises:
        CheckpointError: There is no such folder and none may or can be fetched.
        ConfigError: `huggingface_hub` is needed and not installed.
    """
    folder = Path(source)
    if folder.is_dir():
        return folder
    if folder.exists():
        raise CheckpointError(f"{source} is a file; give the folder that it is in")
    if not HUB_NAME.fullmatch(source):
        raise CheckpointError(f"there is no folder {source}, and it is no name on the Hugging Face hub (owner/name)")
    if not download:
        raise CheckpointError(
            f"there is no folder {source}; if that is a name on the Hugging Face hub, allow the download, "
            "or fetch it yourself and give the folder"
        )
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise ConfigError(
            f"there is no folder {source}; fetching it from the Hugging Face hub needs: pip install 'glassformer[hf]'"
        ) from error
    try:
        return Path(snapshot_download(source, allow_patterns=list(WANTED), ignore_patterns=["*/*"]))
    except Exception as error:  # a network and a server fail in more ways than the library has kinds of error
        raise CheckpointError(f"could not fetch {source} from the Hugging Face hub: {error}") from error
