"""From what a user named to something that can be called: classes and factories are given sizes by their names."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from glassformer.core.errors import ConfigError

D_MODEL, N_HEADS, D_FF, MAX_LEN, VOCAB = 24, 4, 40, 64, 11
D_HEAD = D_MODEL // N_HEADS

SIZES: Mapping[str, tuple[Any, tuple[str, ...]]] = {
    "d_model": (
        D_MODEL,
        (
            "d_model",
            "embed_dim",
            "dim",
            "hidden_size",
            "n_embd",
            "emb_size",
            "embedding_dim",
            "model_dim",
            "d",
            "width",
            "num_hiddens",
            "features",
            "emb_dim",
            "embed_size",
            "embedding_size",
            "input_dim",
        ),
    ),
    "n_heads": (
        N_HEADS,
        ("n_heads", "num_heads", "nhead", "n_head", "heads", "head", "h", "num_attention_heads", "num_head", "nheads"),
    ),
    "d_ff": (
        D_FF,
        (
            "d_ff",
            "dim_feedforward",
            "ff_dim",
            "d_hidden",
            "d_inner",
            "hidden_dim",
            "hidden",
            "ffn_dim",
            "d_hid",
            "inner",
            "ffn_hidden",
            "ffn_num_hiddens",
            "pf_dim",
            "mlp_dim",
            "intermediate_size",
        ),
    ),
    "max_len": (
        MAX_LEN,
        (
            "max_len",
            "max_positions",
            "max_length",
            "max_seq_len",
            "n_positions",
            "block_size",
            "length",
            "seq_len",
            "n_position",
            "n",
            "context",
            "maxlen",
            "context_length",
            "max_seq_length",
            "max_position_embeddings",
        ),
    ),
    "d_head": (D_HEAD, ("d_k", "d_head", "head_dim", "head_size", "d_v", "d_key", "size")),
    "temperature": (math.sqrt(D_HEAD), ("temperature", "scale")),
    # Large, so that a dropout that is left on shows.
    "dropout": (
        0.5,
        (
            "dropout",
            "p_drop",
            "drop",
            "p",
            "dropout_rate",
            "dropout_p",
            "drop_prob",
            "attn_dropout",
            "attention_dropout",
            "rate",
            "resid_pdrop",
            "attn_pdrop",
        ),
    ),
    "vocab_size": (VOCAB, ("vocab_size", "n_vocab", "vocab", "n_tokens", "ntoken")),
    "warmup": (40, ("warmup", "warmup_steps", "n_warmup", "warm_up", "warmup_iters", "n_warmup_steps")),
    "max_steps": (400, ("max_steps", "total_steps", "total", "steps", "n_steps", "training_steps", "lr_decay_iters")),
    "peak": (0.5, ("peak", "lr", "peak_lr", "max_lr", "base_lr", "learning_rate")),
    "factor": (1.0, ("factor", "lr_mul", "init_lr")),
    "batch_first": (True, ("batch_first",)),
}
"""What an argument of each name is given, by the role that the name tells."""

ROLES = {name: role for role, (_, names) in SIZES.items() for name in names}


@dataclass(frozen=True)
class Thing:
    """What a user named, as it is.

    Attributes:
        value: A function, a class, an instance or a factory.
        name: What it is called.
        instance: The same object, made if it is a class or a factory.
        sizes: What it was made with, by role; empty if it was made already.
        refused: Why it could not be made; None = it was.
    """

    value: Any
    name: str
    instance: Any
    sizes: Mapping[str, Any] = field(default_factory=dict)
    refused: str | None = None

    @property
    def module(self) -> nn.Module | None:
        """The instance, if it is a module."""
        return self.instance if isinstance(self.instance, nn.Module) else None

    @property
    def parameters(self) -> list[nn.Parameter]:
        """What it learns."""
        return [] if self.module is None else list(self.module.parameters())

    def again(self, **sizes: Any) -> Any:
        """Return another instance, made with other sizes by role.

        Raises:
            ConfigError: It is not made here.
        """
        if not self.sizes:
            raise ConfigError(f"{self.name} was handed over ready-made")
        torch.manual_seed(0)
        made = self.value(**_arguments(self.value, sizes)[0])
        return ready(made) if isinstance(made, nn.Module) else made


def thing_of(value: Any, name: str) -> Thing:
    """Return what a user named, made if it has to be: a class always, a function if it returns a module.

    Args:
        value: What was imported.
        name: What to call it.
    """
    is_class = inspect.isclass(value)
    if not is_class and not inspect.isroutine(value):
        return Thing(value, name, ready(value) if isinstance(value, nn.Module) else value)
    given, unknown = _arguments(value, {})
    if unknown:
        why = f"its arguments {', '.join(unknown)} are not known here" if is_class else None
        return Thing(value, name, None if is_class else value, refused=why)
    if not is_class and not given and _takes(value):
        return Thing(value, name, value)
    torch.manual_seed(0)
    try:
        made = value(**given)
    except Exception as error:
        if is_class:
            return Thing(value, name, None, given, f"{type(error).__name__}: {error}")
        return Thing(value, name, value)
    if isinstance(made, nn.Module):
        made = ready(made)
    if is_class or isinstance(made, nn.Module):
        sizes = {ROLES[argument]: size for argument, size in given.items()} or {"none": None}
        return Thing(value, name, made, sizes)
    return Thing(value, name, made if callable(made) and not _takes(value) else value)


def ready(module: nn.Module) -> nn.Module:
    """Return a module in eval mode, with matrices that can be told apart.

    Layers that are deep copies of one begin with the same numbers, and then a value is what a key is. Where matrices
    are equal, those of a copy of the module are drawn anew.
    """
    module.eval()
    matrices = [parameter for parameter in module.parameters() if parameter.ndim >= 2 and parameter.is_floating_point()]
    alike = [
        number
        for number, one in enumerate(matrices)
        if any(one.shape == other.shape and torch.equal(one, other) for other in matrices[:number])
    ]
    if not alike:
        return module
    copied = copy.deepcopy(module)
    drawn = [parameter for parameter in copied.parameters() if parameter.ndim >= 2 and parameter.is_floating_point()]
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for number in alike:
            noise = torch.randn(drawn[number].shape, generator=generator)
            drawn[number].copy_(noise * drawn[number].shape[-1] ** -0.5)
    return copied


def parameters_of(value: Any) -> dict[str, inspect.Parameter]:
    """Return the arguments of a callable, or of a module's forward, by name; nothing if nobody knows them."""
    target = value.forward if isinstance(value, nn.Module) else value
    try:
        return dict(inspect.signature(target).parameters)
    except (TypeError, ValueError):
        return {}


ASKING = frozenset({"q", "query", "queries", "k", "key", "keys", "v", "value", "values"})


def asked_in(value: Any) -> str:
    """Return in which order something takes queries, keys and values, as "qkv" or "vkq"; "" if its first three
    arguments are not these."""
    names = [name.lower() for name in positional_of(value)[:3]]
    letters = "".join(name[0] for name in names if name in ASKING)
    return letters if sorted(letters) == ["k", "q", "v"] else ""


def required_of(value: Any) -> list[str]:
    """Return the names of the positional arguments that have no default."""
    return [name for name, each in parameters_of(value).items() if _positional(each) and each.default is each.empty]


def positional_of(value: Any) -> list[str]:
    """Return the names of all positional arguments."""
    return [name for name, each in parameters_of(value).items() if _positional(each)]


def given_sizes(value: Callable[..., Any], **sizes: Any) -> dict[str, Any]:
    """Return arguments for those of a callable's names that tell a size; those without a default only, and `sizes`."""
    return _arguments(value, sizes)[0]


def _positional(each: inspect.Parameter) -> bool:
    return each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)


def _takes(value: Any) -> bool:
    return bool(required_of(value))


def _arguments(value: Any, sizes: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """What to make it with, and what it needs besides, whose meaning nobody knows."""
    given: dict[str, Any] = {}
    unknown: list[str] = []
    for name, each in parameters_of(value).items():
        role = ROLES.get(name.lower())
        needed = each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        if role is not None and (
            role in sizes or needed or role in ("d_model", "n_heads", "d_ff", "dropout", "max_len", "batch_first")
        ):
            given[name] = sizes.get(role, SIZES[role][0])
        elif needed:
            unknown.append(name)
    return given, unknown
