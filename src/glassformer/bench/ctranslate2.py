"""CTranslate2 as a contestant, with our weights."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

from glassformer.bench.apart import Apart
from glassformer.bench.contest import Answer, Contestant
from glassformer.bench.plain_training import missing
from glassformer.bench.workloads import Translation, Work
from glassformer.models.transformer import Transformer
from glassformer.parts.attention import Attention
from glassformer.parts.block import Block
from glassformer.parts.position import sinusoid

NAME, PACKAGE = "CTranslate2", "ctranslate2"

BEGIN, END, UNKNOWN = "<s>", "</s>", "<unk>"


def contestants(work: Work, numbers: str) -> list[Contestant]:
    """Return how it does a piece of work: it translates; in int8 beside float32, and in bf16 where it can."""
    if not isinstance(work, Translation):
        return []
    return [Apart(CTranslation(work, each)) for each in (("float32", "int8") if numbers == "float32" else (numbers,))]


class CTranslation:
    """Beam search over all sentences.

    Args:
        work: The sentences.
        numbers: "float32", "bf16" or "int8"; of int8 the rest is float32.
    """

    name = NAME
    setting = ""

    def __init__(self, work: Translation, numbers: str) -> None:
        self.work, self.numbers = work, numbers
        self._type = {"bf16": "bfloat16", "int8": "int8_float32"}.get(numbers, numbers)

    def unavailable(self) -> str | None:
        """Say what is not installed, or what this processor lacks."""
        reason = missing(PACKAGE)
        if reason is None and self._type not in import_module(PACKAGE).get_supported_compute_types("cpu"):
            return f"on this processor it has no {self.numbers}"
        return reason

    def prepare(self) -> None:
        """Write the model and load it."""
        with TemporaryDirectory() as folder:
            write(self.work.build(), Path(folder), list(map(word, range(self.work.vocab_size))))
            self._translator = import_module(PACKAGE).Translator(
                folder, device="cpu", compute_type=self._type, inter_threads=1, intra_threads=torch.get_num_threads()
            )
        self._sources = [[*map(word, source), END] for source in self.work.sources()]

    def turn(self) -> int:
        """Translate all sentences."""
        length = self.work.length
        found = self._translator.translate_batch(
            self._sources, beam_size=self.work.beam, length_penalty=1.0, batch_type="tokens", max_batch_size=2048,
            min_decoding_length=length, max_decoding_length=length,
        )  # fmt: skip
        self._words = [each.hypotheses[0] for each in found]
        return self.work.tokens

    def answer(self) -> Answer | None:
        """Return the target ids."""
        ids = {word(id): id for id in range(self.work.vocab_size)}
        return [[ids[each] for each in words] for words in self._words]


def word(id: int) -> str:
    """Return what a token is called there."""
    return (BEGIN, END, UNKNOWN)[id] if id < 3 else f"t{id}"


def write(model: Transformer, folder: Path, words: Sequence[str]) -> None:
    """Write an encoder-decoder as CTranslate2 reads it: sinusoidal positions, ReLU, one scaled table of tokens.

    Args:
        model: The model.
        folder: Where to.
        words: What each id is called there; the begin and end tokens `BEGIN` and `END`, the unknown one `UNKNOWN`.
    """
    specs: Any = import_module("ctranslate2.specs")
    encoder, decoder, head = model.encoder, model.decoder, model.head
    assert encoder is not None, "it translates"
    assert decoder is not None, "it translates"
    assert head is not None, "it scores"
    n_layers, config = (len(encoder.blocks), len(decoder.blocks)), model.config.output_stack
    block = config.blocks[0]
    spec = specs.TransformerSpec.from_config(
        n_layers, block.attention.n_heads, pre_norm=block.norm_place == "pre", activation=specs.Activation.RELU
    )
    table = _array(decoder.input.embedding.weight)
    for embeddings, position in (
        (spec.encoder.embeddings[0], spec.encoder.position_encodings),
        (spec.decoder.embeddings, spec.decoder.position_encodings),
    ):
        embeddings.weight = table
        positions = torch.arange(model.max_positions or 512).unsqueeze(0)
        layout = config.input.positions.layout
        position.encodings = _array(sinusoid(positions, table.shape[1], layout=layout, dtype=torch.float32)[0])
    spec.decoder.projection.weight = table
    if head.bias is not None:
        spec.decoder.projection.bias = _array(head.bias)
    for theirs, ours in zip(spec.encoder.layer, encoder.blocks, strict=True):
        _block(theirs, ours)
    for theirs, ours in zip(spec.decoder.layer, decoder.blocks, strict=True):
        _block(theirs, ours)
    for theirs, stack in ((spec.encoder, encoder), (spec.decoder, decoder)):
        if stack.final_norm is not None:
            _norm(theirs.layer_norm, stack.final_norm)
    words = list(words)
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = BEGIN, END, UNKNOWN
    spec.config.decoder_start_token = BEGIN
    spec.config.layer_norm_epsilon = block.norm.eps
    spec.validate()
    spec.optimize()
    spec.save(str(folder))


def _block(theirs: Any, ours: nn.Module) -> None:
    assert isinstance(ours, Block), "a stack is made of them"
    _attention(theirs.self_attention, ours.attention, ours.attention_norm)
    if ours.cross_attention is not None:
        _attention(theirs.attention, ours.cross_attention, ours.cross_attention_norm)
    _linear(theirs.ffn.linear_0, ours.feed_forward.inner)
    _linear(theirs.ffn.linear_1, ours.feed_forward.output)
    _norm(theirs.ffn.layer_norm, ours.feed_forward_norm)


def _attention(theirs: Any, ours: Attention, norm: Any) -> None:
    projections = [ours.q, ours.kv] if ours.cross else [ours.qkv]
    for mine, other in zip([*projections, ours.output], theirs.linear, strict=True):
        _linear(other, mine)
    _norm(theirs.layer_norm, norm)


def _linear(theirs: Any, ours: Any) -> None:
    theirs.weight, theirs.bias = _array(ours.weight), _array(ours.bias)


def _norm(theirs: Any, ours: Any) -> None:
    theirs.gamma, theirs.beta = _array(ours.weight), _array(ours.bias)


def _array(tensor: torch.Tensor) -> Any:
    return tensor.detach().numpy()
