"""What was found out about a model on one text, besides its attention: what the further sections of the page show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from glassformer.inspection.ablation import Ablation
from glassformer.inspection.contrast import Contrast
from glassformer.inspection.inspect import LayerAttention
from glassformer.inspection.lens import Lens
from glassformer.inspection.patching import Outcome


@dataclass(frozen=True, eq=False)
class Written:
    """The attention of a text while it was written.

    Attributes:
        attention: Every layer over all tokens that were read; row t was made when token t was read.
        prompt: Tokens that were read in the first step.
        read: What each row's token is called.
        written: What was written when it was read.
    """

    attention: tuple[LayerAttention, ...]
    prompt: int
    read: tuple[str, ...]
    written: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Pair:
    """Two texts side by side.

    Attributes:
        contrast: The heads that notice.
        attention: The layers of both texts, with tokens apart, in the order of the forward pass.
        texts: The texts.
    """

    contrast: Contrast
    attention: tuple[tuple[LayerAttention, ...], tuple[LayerAttention, ...]]
    texts: tuple[str, str]


@dataclass(frozen=True, eq=False)
class Findings:
    """All that a page shows besides attention and sizes; what was not asked for is not there.

    Attributes:
        names: What the ids in it are called, of tokens and of labels.
        tokens: What each position is called, with tokens apart.
        lens: The guesses of every layer.
        no_lens: Why there are none, by a key of `inspect_wording.TEXTS`; empty = they were not asked for.
        ablation: What every head is worth.
        repeats: By site of the attention, of each head the share of its attention that goes to what followed the last
            time, in a random sequence that is read twice; empty where the text itself repeats a token.
        written: A text that was written.
        pair: Two texts.
        outcome: What an intervention did.
    """

    names: Mapping[int, str] = field(default_factory=dict)
    tokens: tuple[str, ...] = ()
    lens: Lens | None = None
    no_lens: str = ""
    ablation: Ablation | None = None
    repeats: Mapping[str, list[float]] = field(default_factory=dict)
    written: Written | None = None
    pair: Pair | None = None
    outcome: Outcome | None = None
