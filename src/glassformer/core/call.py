"""All that one stack's forward pass needs to know besides its tensors, as one argument."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar, runtime_checkable

from jaxtyping import Bool, Float
from torch import Tensor

from glassformer.core.cache import CachePlan, KVCache
from glassformer.core.mask import Mask, Structure
from glassformer.core.places import Places
from glassformer.core.slots import LayerCache, SlotPlan
from glassformer.core.tape import Tape

T = TypeVar("T")


@runtime_checkable
class HasSite(Protocol):
    """A part that knows where in the model it stands."""

    @property
    def site(self) -> str: ...


@dataclass(frozen=True, eq=False)
class Memory:
    """What an encoder hands a decoder.

    Attributes:
        states: The encoder's output. *Shape:* (B, S, D).
        places: Where its tokens stand. *Shape:* (B, S).
        beams: How many adjacent rows of the decoder look at each row, K: the decoder has B K rows, and a memory's
            keys and values are there once for all K.
    """

    states: Float[Tensor, "batch source d_model"]
    places: Places
    beams: int = 1


@dataclass(frozen=True, eq=False)
class Sight:
    """What the queries of one attention may see.

    Attributes:
        mask: The rule.
        queries: Where the queries stand.
        keys: Where the keys stand.
        structure: What is known of the mask without reading a tensor.
    """

    mask: Mask
    queries: Places
    keys: Places
    structure: Structure
    _made: dict[str, Tensor] = field(default_factory=dict)

    @staticmethod
    def of(mask: Mask, queries: Places, keys: Places) -> Sight:
        """Return the sight of `queries` on `keys` under `mask`."""
        return Sight(mask, queries, keys, mask.structure(queries, keys))

    @property
    def by_rows(self) -> bool:
        """True if known, without reading a tensor, that a token sees all tokens of its row, or all up to itself.

        Then each row has one segment, and where order matters it is that of the slots: padding is all that has to be
        left out, on either side.
        """
        mask = self.mask
        if mask.allow is not None or mask.window is not None or mask.patterns:
            return False
        return self.queries.single and self.keys.single and (not mask.causal or self.queries is self.keys)

    def dense(self) -> Bool[Tensor, "#batch #head query key"]:
        """Return the mask as a tensor, True = may attend; it is made once."""
        if "dense" not in self._made:
            self._made["dense"] = self.mask.dense(self.queries, self.keys)
        return self._made["dense"]

    def showing(self, dense: Bool[Tensor, "#batch #head query key"]) -> Sight:
        """Return this sight with another mask as a tensor."""
        return replace(self, _made={"dense": dense})

    def blind(self) -> Bool[Tensor, "#batch #head query 1"]:
        """Return which queries have nothing to attend to; it is made once."""
        if "blind" not in self._made:
            self._made["blind"] = ~self.dense().any(-1, keepdim=True)
        return self._made["blind"]


@dataclass(frozen=True, eq=False)
class Call:
    """Places, mask, cache and tape of ONE stack's forward pass, handed to every part.

    It is made once per stack; `at(i)` is what block i sees: an immutable view, so that a block that is
    recomputed, or shared between layers, still knows which layer it is.

    Attributes:
        places: Where this stack's tokens stand.
        mask: The stack's own rule; a layer intersects it with its window or pattern.
        memory: Where the encoder's tokens stand, in a decoder.
        cache: Keys and values of earlier tokens.
        plan: Where this pass writes in the cache.
        tape: What is recorded and changed.
        biases: What the stack adds to the scores of self-attention, by distance: one for each of `key_places`, or
            none. *Shape:* (B or 1, H, T, S).
        layer: Index of the block, -1 outside of one.
    """

    places: Places
    mask: Mask = field(default_factory=Mask)
    memory: Places | None = None
    cache: KVCache | None = None
    plan: CachePlan | None = None
    tape: Tape | None = None
    biases: tuple[Float[Tensor, "#batch head query key"], ...] = ()
    layer: int = -1
    _sights: list[tuple[int, Sight]] = field(default_factory=list)
    _made: dict[Hashable, Any] = field(default_factory=dict)

    def at(self, layer: int) -> Call:
        """Return what block `layer` sees; sights and tables stay shared."""
        return replace(self, layer=layer)

    @property
    def key_places(self) -> tuple[Places, ...]:
        """Where the keys of self-attention stand in this stack: once for all layers that keep equally many tokens."""
        return (self.places,) if self.plan is None else tuple(slots.keys for slots in self.plan.slots)

    @property
    def slots(self) -> SlotPlan | None:
        """Where this block writes in its cache and what it reads; None without a cache, or where it keeps no keys."""
        return None if self.plan is None else self.plan.at(self.layer)

    @property
    def keys(self) -> Places:
        """Where the keys of this block's self-attention stand: the new tokens, and the cache's."""
        return self.places if self.slots is None else self.slots.keys

    @property
    def bias(self) -> Float[Tensor, "#batch head query key"] | None:
        """What is added to the scores of this block's self-attention, by distance. *Shape:* (B or 1, H, T, S)."""
        if not self.biases:
            return None
        which = 0 if self.plan is None else self.plan.of_layer[self.layer]
        assert which is not None, "a layer that keeps no keys has no scores to add a bias to"
        return self.biases[which]

    @property
    def layer_cache(self) -> LayerCache | None:
        """The cache of this block."""
        return None if self.cache is None else self.cache.layers[self.layer]

    @property
    def has_begun(self) -> bool:
        """True once a token of the cached sentence is final; until then the next pass may be about another one."""
        return self.cache is not None and self.cache.extent > 0

    def sight(self, mask: Mask) -> Sight:
        """Return what self-attention sees under `mask`; made once per rule and place of the keys."""
        return self._once_per_mask(0, mask, self.keys)

    def memory_sight(self, mask: Mask, beams: int = 1) -> Sight:
        """Return what cross-attention sees under `mask`; made once per rule.

        Args:
            mask: The rule.
            beams: How many rows look at each row of the memory; their queries stand side by side.
        """
        assert self.memory is not None, "a decoder with cross-attention gets the memory's places"
        return self._once_per_mask(beams, mask, self.memory)

    def _once_per_mask(self, beams: int, mask: Mask, keys: Places) -> Sight:
        """The sight of `beams` rows side by side on a memory; of 0: of each row on itself."""
        for which, sight in self._sights:
            if which == beams and sight.keys is keys and sight.mask.same_as(mask):
                return sight
        sight = Sight.of(mask, self.places.side_by_side(beams or 1), keys)
        self._sights.append((beams, sight))
        return sight

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what `make` returned the first time it was asked for under `key` in this pass."""
        if key not in self._made:
            self._made[key] = make()
        made: T = self._made[key]
        return made

    def note(self, part: HasSite, name: str, value: Tensor) -> Tensor:
        """Show a value to the tape; without a tape this is the identity."""
        if self.tape is None:
            return value
        return self.tape.note(f"{part.site}.{name}", value)

    def wants(self, part: HasSite, name: str) -> bool:
        """True if someone looks at, or changes, that value of the part."""
        return self.tape is not None and self.tape.wants(f"{part.site}.{name}")

    def changes(self, part: HasSite, name: str) -> bool:
        """True if someone replaces that value of the part."""
        return self.tape is not None and self.tape.changes(f"{part.site}.{name}")
