"""Training against evaluation: with every dropout at zero, a model computes the same in both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.overrides import TorchFunctionMode

from glassformer.diagnosis.subject import ModelSubject

SHARES = ("p", "share", "dropout", "dropout_p")
"""What torch's modules, and most others, call the share that is dropped."""


class _NoDropout(TorchFunctionMode):
    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        if "dropout" in func.__name__ and args:
            return args[0]
        if func.__name__ == "scaled_dot_product_attention":
            if len(args) > 4:
                args = (*args[:4], 0.0, *args[5:])
            else:
                named["dropout_p"] = 0.0
        return func(*args, **named)


def is_share(name: str, value: object) -> bool:
    """Return whether an attribute is a share that is dropped: an exponent of the same name is none.

    Args:
        name: Of the attribute.
        value: Its value.
    """
    return name in SHARES and isinstance(value, float) and 0 < value < 1


@contextmanager
def in_training(model: nn.Module) -> Iterator[None]:
    """Train without dropout for a while."""
    parts = list(model.modules())
    modes = [part.training for part in parts]
    shares = [(part, name) for part in parts for name, value in vars(part).items() if is_share(name, value)]
    values = [vars(part)[name] for part, name in shares]
    try:
        for part, name in shares:
            setattr(part, name, 0.0)
        model.train()
        with _NoDropout():
            yield
    finally:
        for part, training in zip(parts, modes, strict=True):
            part.training = training
        for (part, name), value in zip(shares, values, strict=True):
            setattr(part, name, value)


def same_in_training(subject: ModelSubject) -> bool:
    """Return whether training computes what evaluation does; also true where training stays random, or cannot be run.

    A norm over the batch is another thing in training by its nature.
    """
    if any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in subject.model.modules()):
        return True
    given = subject.draw()
    base = subject.run(given)
    try:
        with in_training(subject.model):
            one, other = subject.run(given, seed=1), subject.run(given, seed=2)
    except Exception:  # of the subject's own code, which wants something else while it trains
        return True
    if one.shape != base.shape or subject.differs(one, other) > 0:
        return True
    return subject.differs(base, one) <= subject.tolerance
