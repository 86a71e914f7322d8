"""Tasks whose data is made up: an answer to each input, known for certain."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from pydantic import Field

from glassformer.core.settings import Config
from glassformer.data.pairs import PairSource
from glassformer.tasks.task import Judging, Kind, Split, TaskData
from glassformer.text.tokenizer import TextTokenizer

SPECIALS = ("<pad>", "<bos>", "<eos>")
"""Of the vocabularies of such tasks."""


class MadeTask(Config):
    """What such tasks share: fresh inputs to learn from, and two fixed sets that training never sees.

    Attributes:
        epoch_size: Fresh items an epoch.
        valid_size: Items that training is watched with.
        test_size: Items that the result is measured with, once.
        seed: Of all items; the training's own seed does not change them.
    """

    epoch_size: int = Field(20_000, ge=1)
    valid_size: int = Field(200, ge=1)
    test_size: int = Field(1000, ge=1)
    seed: int = Field(0, ge=0)

    @property
    def files(self) -> tuple[str, ...]:
        """None: the data is made up."""
        return ()

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """An encoder-decoder."""
        return ("encoder_decoder",)

    @property
    def judging(self) -> Judging:
        """Whether the whole answer is right."""
        return Judging(("loss", "exact_match"))

    @abstractmethod
    def build(self, kind: Kind = "encoder_decoder", tokenizer: TextTokenizer | None = None) -> TaskData:
        """Return fresh items to learn from and two fixed sets that are kept out of them."""

    def whole(self, kind: Kind, tokenizer: TextTokenizer, classes: Sequence[str] = ()) -> Split:
        """Return the test items."""
        test = self.build(kind, tokenizer).test
        assert test is not None, "build makes one"
        return test


def made_split(pairs: Sequence[tuple[str, str]], tokenizer: TextTokenizer) -> Split:
    """Return inputs and their answers as a fixed set."""
    ids = [(tokenizer.encode(source), tokenizer.encode(target)) for source, target in pairs]
    bos, eos = tokenizer.bos_id, tokenizer.eos_id
    assert bos is not None, "made with <bos>"
    assert eos is not None, "made with <eos>"
    return Split(PairSource(ids, bos=bos, eos=eos, pad=tokenizer.pad_id), tuple(pairs))
