"""One vector for each text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from glassformer.core.errors import DataError
from glassformer.core.places import Places
from glassformer.generation.input_ids import ReadsText, input_ids, room_for_text
from glassformer.generation.inputs import check_ids, padded
from glassformer.models.inference import inference
from glassformer.models.quick import quick_copy
from glassformer.models.transformer import Transformer
from glassformer.parts.pooling import mean_token

BATCH_TOKENS = 8192
"""Tokens at a time, padding included."""


def embed_texts(
    loaded: ReadsText,
    texts: Sequence[str],
    *,
    cut: bool = False,
    normalise: bool = True,
    advanced: Callable[[int, int], None] | None = None,
) -> Float[Tensor, "text d_model"]:
    """Return the mean of the states of each text's tokens, made one long: the cosine of two texts is their product.

    e = mean_t x_t;  y = e / |e|

    The states are those of the last layer, after its norm; of an encoder-decoder the encoder's. Texts are compared by
    it as well as the model was trained for that: a sentence encoder for nothing else, a language model hardly.

    Args:
        loaded: A model and its tokenizer.
        texts: One vector is made of each; in which batches never changes it by more than rounding.
        cut: Read as much of a text as the model can, where it is longer; else that is an error.
        normalise: Make each vector one long.
        advanced: Called with (done, total) texts.

    Returns:
        Vectors, float32, on the CPU. *Shape:* (N, D).

    Raises:
        DataError: A text is empty or longer than the model can read, or holds a character without an id.

    Source: Reimers and Gurevych 2019, arXiv:1908.10084, section 3.
    """
    model, tokenizer = loaded.model, loaded.tokenizer
    room = room_for_text(model, tokenizer)
    rows = []
    for number, text in enumerate(texts, 1):
        ids = tokenizer.encode(text)
        if not ids:
            raise DataError(f"text {number} is empty, and nothing has no vector; leave it out")
        if room is not None and len(ids) > room and not cut:
            raise DataError(
                f"text {number} has {len(ids)} tokens, more than the {room} that the model can read; shorten it, or "
                "have long texts cut (--cut)"
            )
        rows.append(input_ids(model, tokenizer, ids[:room]))
    stack = model.config.encoder or model.config.output_stack
    check_ids(rows, stack.input.vocab_size, "text")
    model = quick_copy(model)
    vectors = torch.zeros(len(rows), stack.input.d_model)
    done = 0
    for batch in _batches(rows):
        tokens, places = padded([rows[item] for item in batch], model.device)
        with inference(model.modules()):
            means = mean_token(_states(model, tokens, places), places).float()
        vectors[batch] = (F.normalize(means, dim=-1) if normalise else means).cpu()
        done += len(batch)
        if advanced is not None:
            advanced(done, len(rows))
    return vectors


def _states(model: Transformer, tokens: Tensor, places: Places) -> Tensor:
    if model.config.kind == "encoder_decoder":
        return model.encode(tokens, places=places).states
    return model.forward(tokens, places=places, outputs="hidden")


def _batches(rows: Sequence[Sequence[int]]) -> list[list[int]]:
    """Texts of like length together."""
    batches: list[list[int]] = []
    for item in sorted(range(len(rows)), key=lambda item: (-len(rows[item]), item)):
        if batches and len(rows[batches[-1][0]]) * (len(batches[-1]) + 1) <= BATCH_TOKENS:
            batches[-1].append(item)
        else:
            batches.append([item])
    return batches
