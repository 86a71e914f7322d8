"""Looking at, and changing, what flows through a model: an argument, never a hook or a global."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, Protocol, runtime_checkable

from torch import Tensor

from glassformer.core.errors import ConfigError, did_you_mean


@dataclass(frozen=True)
class Site:
    """A place in a model that can be looked at.

    Attributes:
        name: The path of the part and the name of the value, as in "decoder.blocks.3.attention.weights".
        shape: The value's dimensions by name, as in "B H T S".
    """

    name: str
    shape: str


@runtime_checkable
class HasSites(Protocol):
    """Anything that can list its places without running."""

    def sites(self) -> list[Site]: ...


@dataclass(frozen=True, eq=False)
class Patch:
    """An intervention: the value at every site that matches is replaced by what `change` returns.

    Attributes:
        pattern: Site name, with shell wildcards ("decoder.blocks.*.attention.output").
        change: Maps the value to its replacement, of equal shape.
    """

    pattern: str
    change: Callable[[Tensor], Tensor]


class Tape:
    """What to record and what to change during a forward pass.

    `model(tokens, tape=Tape(model, "decoder.*.weights"))` runs the same forward as without; looking never
    changes the answer. Patterns are resolved here, once, so one that matches nothing is an error now and
    not an empty result later.

    Args:
        model: The model whose sites the patterns name.
        patterns: Site names with shell wildcards; `*` also spans dots.
        patches: Interventions.
        reduce: Applied to each value before it is kept (a norm, an entropy), so that T^2 need not be stored.
        keep: "last" keeps the newest value of a site, "all" every one (each step of a generation).
        detach: Keep values without their gradient graph.

    Raises:
        ConfigError: A pattern matches no site, or `keep` is neither word.
    """

    def __init__(
        self,
        model: HasSites,
        *patterns: str,
        patches: Sequence[Patch] = (),
        reduce: Callable[[Tensor], Tensor] | None = None,
        keep: Literal["last", "all"] = "last",
        detach: bool = True,
    ) -> None:
        if keep not in ("last", "all"):
            raise ConfigError(f"keep is {keep!r}; a tape keeps the 'last' value of a site or 'all' of them")
        names = [site.name for site in model.sites()]
        self.recorded = frozenset(name for pattern in patterns for name in _matching(pattern, names))
        changes: dict[str, tuple[Callable[[Tensor], Tensor], ...]] = {}
        for patch in patches:
            for name in _matching(patch.pattern, names):
                changes[name] = (*changes.get(name, ()), patch.change)
        self.changed = changes
        self.reduce = reduce
        self.keep = keep
        self.detach = detach
        self._values: dict[str, list[Tensor]] = {}

    def wants(self, site: str) -> bool:
        """True if the value at `site` is recorded or changed."""
        return site in self.recorded or site in self.changed

    def changes(self, site: str) -> bool:
        """True if a patch replaces the value at `site`."""
        return site in self.changed

    def note(self, site: str, value: Tensor) -> Tensor:
        """Take the value at `site`; return it, or its replacement.

        Raises:
            ConfigError: A patch returned another shape.
        """
        if site in self.changed:
            for change in self.changed[site]:
                new = change(value)
                if new.shape != value.shape:
                    raise ConfigError(
                        f"the patch at {site} returned shape {tuple(new.shape)}; it must keep {tuple(value.shape)}"
                    )
                value = new
        if site in self.recorded:
            kept = value.detach() if self.detach else value
            kept = kept if self.reduce is None else self.reduce(kept)
            if self.keep == "all" and site in self._values:
                self._values[site].append(kept)
            else:
                self._values[site] = [kept]
        return value

    def __getitem__(self, site: str) -> Tensor:
        """Return the newest value of a site.

        Raises:
            ConfigError: The site is not recorded, or no forward has passed it yet.
        """
        return self.all(site)[-1]

    def all(self, site: str) -> list[Tensor]:
        """Return every kept value of a site, oldest first."""
        if site not in self._values:
            if site in self.recorded:
                raise ConfigError(f"{site} is recorded, but no forward pass has come by it yet")
            raise ConfigError(f"{site} is not recorded by this tape{did_you_mean(site, self.recorded)}")
        return list(self._values[site])

    def __iter__(self) -> Iterator[str]:
        """Iterate over the sites that hold a value, in the order of the forward pass."""
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def clear(self) -> None:
        """Forget every value; the patterns stay."""
        self._values.clear()


def _matching(pattern: str, names: Sequence[str]) -> list[str]:
    found = [name for name in names if fnmatchcase(name, pattern)]
    if not found:
        raise ConfigError(f"no site matches {pattern!r}{did_you_mean(pattern, names)}")
    return found
