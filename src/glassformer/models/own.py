"""A model that a user wrote, behind the two methods that training and generation call."""

from __future__ import annotations

import hashlib
import inspect
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.core.call import Memory
from glassformer.core.errors import CheckpointError, ConfigError, DataError, GlassformerError, UnsupportedError
from glassformer.core.places import Places
from glassformer.core.tape import Tape
from glassformer.core.trust import ensure_trusted, remember_code
from glassformer.core.user_code import UserCode, load_user_code, said_with_line
from glassformer.models.arguments import ModelArguments
from glassformer.models.loss import cross_entropy
from glassformer.models.output import Loss
from glassformer.models.transformer import Transformer
from glassformer.parts.pooling import last_token

CODE_FOLDER = "code"
"""Where a run folder keeps the user's file, and what that imports from its own folder."""

VOCABULARY = "vocab_size"

GIVEN = ("d_model", "n_heads", "n_layers", "d_ff", "dropout", "max_positions")
"""What the constructor may take besides the size of the vocabulary, set as model.d_model=128 and the like."""


@dataclass(frozen=True)
class OwnCode:
    """Whose model it is.

    Attributes:
        file: The Python file.
        name: The class in it.
        arguments: What it is made with besides the size of the vocabulary.
    """

    file: Path
    name: str
    arguments: Mapping[str, Any]

    def make(self, vocab_size: int) -> OwnTransformer:
        """Return a new model.

        Args:
            vocab_size: Number of token ids that are read and written.

        Raises:
            ConfigError: The file cannot be imported, or the class cannot be made or does not take what it is given.
        """
        code = load_user_code(f"{self.file}:{self.name}")
        given = {VOCABULARY: vocab_size, **self.arguments}
        try:
            inner = code.value(**given)
        except Exception as error:
            told = ", ".join(f"{name}={value}" for name, value in given.items())
            raise ConfigError(f"{self.name}({told}) of {self.file} failed: {type(error).__name__}: {error}") from error
        if not isinstance(inner, nn.Module):
            raise ConfigError(f"{self.name} of {self.file} made {type(inner).__name__}; a model is an nn.Module")
        if not any(True for _ in inner.parameters()):
            raise ConfigError(f"{self.name} of {self.file} has no parameters; there is nothing to train")
        return OwnTransformer(inner, self, vocab_size)

    def copied(self, folder: Path) -> OwnCode:
        """Copy the file, and what it imports from its own folder, into a run folder; return where it is there."""
        code = load_user_code(f"{self.file}:{self.name}")
        kept = folder / CODE_FOLDER
        kept.mkdir(parents=True, exist_ok=True)
        for file in (code.file, *code.neighbours):
            shutil.copyfile(file, kept / file.name)
        remember_code(kept)
        return OwnCode(kept / self.file.name, self.name, self.arguments)

    def checksum(self) -> str:
        """Return what tells this file, and all that lies beside it, from another version."""
        code = load_user_code(f"{self.file}:{self.name}")
        found = hashlib.sha256()
        for file in (code.file, *code.neighbours):
            found.update(file.name.encode() + b"\0" + file.read_bytes())
        return found.hexdigest()


def own_code(text: str, settings: Mapping[str, Any]) -> OwnCode:
    """Return a user's class, with the settings that it takes.

    Args:
        text: FILE.py:CLASS.
        settings: Of the model, by the names of `GIVEN`.

    Raises:
        ConfigError: There is no such class, or it does not take a setting.
    """
    code = load_user_code(text)
    names = _arguments(code)
    if VOCABULARY not in names:
        raise ConfigError(f"{code.name} of {code.file} takes no {VOCABULARY}; its constructor has {', '.join(names)}")
    for name in settings:
        if name not in GIVEN or name not in names:
            known = [each for each in GIVEN if each in names]
            raise ConfigError(
                f"model.{name} has no effect on {code.name} of {code.file}: it takes {', '.join(known) or 'no setting'}"
            )
    return OwnCode(code.file, code.name, dict(settings))


def _arguments(code: UserCode) -> list[str]:
    if not callable(code.value):
        raise ConfigError(f"{code.name} of {code.file} is no class; name one that makes a model")
    return list(inspect.signature(code.value).parameters)


class OwnTransformer(Transformer):
    """A user's encoder-decoder: forward(source, target[, source_keep]) -> logits.

    It is trained, judged, asked and looked at like any other. Source and target are token ids (B, S) and (B, T),
    `source_keep` is True where the source is no padding, the logits are (B, T, V), and row t is about token t + 1 of
    the target. Padding of the target stands at its end, where a causal model does not see it. There is no cache: each
    new token reads everything again. There are no sites to look at: `inspection.own` says what can be seen.

    Args:
        inner: The user's model.
        code: Where it comes from.
        vocab_size: V.
    """

    def __init__(self, inner: nn.Module, code: OwnCode, vocab_size: int) -> None:
        nn.Module.__init__(self)
        self.inner, self.code = inner, code
        self.takes_keep = len(inspect.signature(inner.forward).parameters) > 2
        d_model = code.arguments.get("d_model") or _default(code, "d_model") or 64
        # What the rest of the library has to know of an encoder-decoder; its one layer is never made.
        brief = ModelArguments(d_model=d_model, n_heads=1, n_layers=1, positions="none")
        self.config = brief.resolve(vocab_size)
        self.encoder = self.decoder = nn.Identity()  # type: ignore[assignment]
        self.head = None

    @property
    def can_cache(self) -> bool:
        """It cannot: the user's forward takes no cache."""
        return False

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return next((parameter.device for parameter in self.inner.parameters()), torch.device("cpu"))

    def encode(
        self, inputs: Tensor, *, places: Places | None = None, types: Tensor | None = None, tape: Tape | None = None
    ) -> Memory:
        """Return the source itself: what the user's encoder makes of it, it makes together with the target."""
        _refuse(types, tape)
        return Memory(inputs[..., None], places or Places.full(inputs.shape[1], inputs.device))

    def forward(  # type: ignore[override]
        self,
        inputs: Tensor,
        *,
        places: Places | None = None,
        types: Tensor | None = None,
        memory: Memory | None = None,
        cache: object | None = None,
        labels: Tensor | None = None,
        label_smoothing: float = 0.0,
        outputs: str = "logits",
        tape: Tape | None = None,
    ) -> Tensor | Loss:
        """Return scores, those of each row's last token, or a loss; see `Transformer.forward`.

        Raises:
            UnsupportedError: What a user's model does not offer: states, a tape, a cache.
            ConfigError: Its code raised an error.
            DataError: What it returned is not (B, T, V).
        """
        _refuse(types, tape, cache)
        if memory is None or outputs == "hidden":
            raise UnsupportedError("a model of your own is asked for the scores of a target, given memory=model.encode")
        source = memory.states[..., 0]
        if memory.beams > 1:
            source = source.repeat_interleave(memory.beams, dim=0)
        given = [source, inputs, *([self._keep(memory, source)] if self.takes_keep else [])]
        try:
            logits = self.inner(*given)
        except (GlassformerError, MemoryError, torch.OutOfMemoryError):
            raise
        except Exception as error:
            said = said_with_line(error, self.code.file)
            shapes = ", ".join(str(tuple(each.shape)) for each in given)
            raise ConfigError(f"{self.code.name} of {self.code.file} failed, called with {shapes}: {said}") from error
        logits = logits[0] if isinstance(logits, tuple) else logits
        wanted = (*inputs.shape, self.config.output_stack.input.vocab_size)
        if not isinstance(logits, Tensor) or tuple(logits.shape) != wanted:
            got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise DataError(f"{self.code.name} returned {got} for a target {tuple(inputs.shape)}; expected {wanted}")
        if labels is not None:
            return cross_entropy(logits, labels, label_smoothing)
        if outputs == "last":
            return last_token(logits, places or Places.full(inputs.shape[1], inputs.device))
        return logits

    def _keep(self, memory: Memory, source: Tensor) -> Tensor:
        """Where the source is no padding. *Shape:* (B, S)."""
        keep = memory.places.is_token
        if memory.beams > 1 and keep.shape[0] > 1:
            keep = keep.repeat_interleave(memory.beams, dim=0)
        return keep.expand(source.shape)


def _default(code: OwnCode, name: str) -> int | None:
    found = inspect.signature(load_user_code(f"{code.file}:{code.name}").value).parameters.get(name)
    return found.default if found is not None and isinstance(found.default, int) else None


def _refuse(types: object | None, tape: object | None, cache: object | None = None) -> None:
    if types is not None or cache is not None:
        raise UnsupportedError("a model of your own has neither token types nor a cache")
    if tape is not None:
        raise UnsupportedError("a model of your own has no sites for a tape; inspect shows the attention it returns")


def own_from(folder: Path, told: Mapping[str, Any]) -> OwnTransformer:
    """Return the model that a run folder's weights are of.

    Args:
        folder: The run folder, with the user's code in it.
        told: What was saved with the weights: class, file, checksum, arguments and the size of the vocabulary.

    Raises:
        CheckpointError: The code is gone, it is not what was trained, or it was trained elsewhere and is not trusted.
    """
    kept = folder / CODE_FOLDER
    code = OwnCode(kept / Path(str(told["file"])).name, str(told["name"]), dict(told["arguments"]))
    if not code.file.is_file():
        raise CheckpointError(f"{folder} lacks {code.file}, the code of its model; copy it from where it was trained")
    ensure_trusted(kept)
    if code.checksum() != told["checksum"]:
        raise CheckpointError(f"{code.file.parent} is not the code that {folder} was trained with; put that back")
    return code.make(int(told["vocab_size"]))
