"""What the settings of another library's config.json mean here, and back: entries of a family's table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from glassformer.core.errors import CheckpointError, UnsupportedError

Values = dict[str, Any]
"""Our settings by name: fields of `ModelArguments` ("attention.bias" is one inside), `vocab_size` and others of
`Brief`."""


@dataclass(frozen=True)
class Foreign:
    """A checkpoint of another library, as far as its settings go.

    Attributes:
        settings: Its config.json.
        tensors: The names of its tensors, for what a config leaves open; empty = not known.
    """

    settings: Mapping[str, Any]
    tensors: frozenset[str] = frozenset()

    def __getitem__(self, name: str) -> Any:
        return self.settings[name]

    def __contains__(self, name: str) -> bool:
        return name in self.settings

    def get(self, name: str, default: Any = None) -> Any:
        """Return a setting, or the default where it is missing."""
        return self.settings.get(name, default)


@runtime_checkable
class Entry(Protocol):
    """Some settings of theirs, some of ours, and both ways between them."""

    @property
    def names(self) -> tuple[str, ...]:
        """Their settings that this accounts for."""
        ...

    def read(self, foreign: Foreign) -> Values:
        """Return ours.

        Raises:
            CheckpointError: A setting is missing, or is not what it can be.
            UnsupportedError: It asks for what cannot be done here.
        """
        ...

    def write(self, values: Values) -> dict[str, Any]:
        """Return theirs; it is read again afterwards and must then say the same."""
        ...


class _Required:
    """The default of a setting that has none."""


REQUIRED = _Required()

SAME: Any = None
"""The words of a setting that says the same on both sides."""


@dataclass(frozen=True)
class Key:
    """One setting that goes by another name.

    Attributes:
        theirs: Its name there.
        ours: Its names here; several get the same value.
        default: What it is where config.json leaves it out; `REQUIRED` = it may not.
        words: Ours for each of their values; None = the same. Where two say the same, the first is written.
    """

    theirs: str
    ours: str | tuple[str, ...]
    default: Any = REQUIRED
    words: Mapping[Any, Any] | None = SAME

    @property
    def names(self) -> tuple[str, ...]:
        """Their name."""
        return (self.theirs,)

    def read(self, foreign: Foreign) -> Values:
        """Return the value under our names."""
        if self.theirs not in foreign and isinstance(self.default, _Required):
            raise CheckpointError(f"{self.theirs} is missing")
        value = foreign.get(self.theirs, self.default)
        if self.words is not None:
            if value not in tuple(self.words):  # a list, which is no word, could not be looked up
                raise UnsupportedError(f"{self.theirs} is {value!r}; known here are {', '.join(map(repr, self.words))}")
            value = self.words[value]
        return dict.fromkeys((self.ours,) if isinstance(self.ours, str) else self.ours, value)

    def write(self, values: Values) -> dict[str, Any]:
        """Return the value under their name."""
        value = values[self.ours if isinstance(self.ours, str) else self.ours[0]]
        if self.words is not None:
            said = [word for word, meaning in self.words.items() if meaning == value]
            if not said:
                raise UnsupportedError(f"{self.theirs} cannot be {value!r}")
            value = said[0]
        return {self.theirs: value}


@dataclass(frozen=True)
class Fixed:
    """A setting that can only be one thing here.

    Attributes:
        theirs: Its name.
        value: What it must be, or be left out.
        written: Whether it is written.
    """

    theirs: str
    value: Any
    written: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """Their name."""
        return (self.theirs,)

    def read(self, foreign: Foreign) -> Values:
        """Return nothing, if all is well."""
        if foreign.get(self.theirs, self.value) != self.value:
            raise UnsupportedError(f"{self.theirs} is {foreign[self.theirs]!r}; only {self.value!r} can be done here")
        return {}

    def write(self, values: Values) -> dict[str, Any]:
        """Return the value."""
        return {self.theirs: self.value} if self.written else {}


@dataclass(frozen=True)
class Alike:
    """Several settings of theirs that are one here, and must therefore be equal.

    Attributes:
        theirs: Their names; each must be there.
        ours: Its name here.
        aliases: Further names, which may be there and are not written.
    """

    theirs: tuple[str, ...]
    ours: str
    aliases: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All their names."""
        return (*self.theirs, *self.aliases)

    def read(self, foreign: Foreign) -> Values:
        """Return the value under our name."""
        missing = [f"{name} is missing" for name in self.theirs if name not in foreign]
        if missing:
            raise CheckpointError(", ".join(missing))
        said = {name: foreign[name] for name in self.names if name in foreign}
        if any(value != said[self.theirs[0]] for value in said.values()):
            told = ", ".join(f"{name} is {value!r}" for name, value in said.items())
            raise UnsupportedError(f"{told}; only equal ones can be done here")
        return {self.ours: said[self.theirs[0]]}

    def write(self, values: Values) -> dict[str, Any]:
        """Return the value under their names."""
        return dict.fromkeys(self.theirs, values[self.ours])


@dataclass(frozen=True)
class Classes:
    """The names of classes: `id2label`, `label2id`, `num_labels`; only where the architecture labels texts."""

    names: tuple[str, ...] = field(default=("id2label", "label2id", "num_labels"), init=False)

    def read(self, foreign: Foreign) -> Values:
        """Return the names in the order of their numbers."""
        labels, count = foreign.get("id2label"), foreign.get("num_labels", 2)
        try:
            if labels is None:
                return {"classes": tuple(f"LABEL_{i}" for i in range(count))}
            return {"classes": tuple(str(labels[number]) for number in sorted(labels, key=int))}
        except (TypeError, ValueError) as error:
            raise CheckpointError(
                f"id2label is {labels!r} and num_labels {count!r}: the first must name each class by its number, the "
                "second be a number"
            ) from error

    def write(self, values: Values) -> dict[str, Any]:
        """Return both maps."""
        classes = values["classes"]
        if classes is None:
            return {}
        return {
            "id2label": {str(i): name for i, name in enumerate(classes)},
            "label2id": {name: i for i, name in enumerate(classes)},
        }


ACTIVATION_WORDS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}
"""What the other library calls the activations."""

NO_EFFECT = frozenset(
    (
        # what the file is, how it was stored, and what a caller may ask for
        *("architectures", "model_type", "_name_or_path", "name_or_path", "transformers_version", "dtype"),
        *("torch_dtype", "transformers.js_config"),
        *("use_cache", "output_attentions", "output_hidden_states", "return_dict", "torchscript", "use_bfloat16"),
        *("attn_implementation", "_attn_implementation", "_attn_implementation_autoset", "_commit_hash"),
        *("gradient_checkpointing", "chunk_size_feed_forward", "pruned_heads", "task_specific_params"),
        *("finetuning_task", "problem_type", "tf_legacy_loss", "tokenizer_class", "auto_map", "_num_labels"),
        # what the other library writes of every model, and few have; those that do say what it can be
        *("is_decoder", "is_encoder_decoder", "add_cross_attention", "cross_attention_hidden_size"),
        *("tie_encoder_decoder", "output_past", "xla_device"),
        # which ids mean what: the tokenizer's matter
        *("bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "decoder_start_token_id"),
        *("forced_bos_token_id", "forced_eos_token_id", "bad_words_ids", "suppress_tokens", "begin_suppress_tokens"),
        # how text was written when nobody said otherwise
        *("max_length", "min_length", "do_sample", "num_beams", "num_beam_groups", "early_stopping", "temperature"),
        *("top_k", "top_p", "typical_p", "repetition_penalty", "length_penalty", "no_repeat_ngram_size"),
        *("encoder_no_repeat_ngram_size", "num_return_sequences", "diversity_penalty", "remove_invalid_values"),
        *("exponential_decay_length_penalty", "output_scores", "return_dict_in_generate", "prefix"),
        # how a new model is drawn
        *("initializer_range", "init_std", "initializer_factor", "initializer_cutoff_factor"),
    )
)
"""Settings of theirs that change no number of a model that is loaded."""
