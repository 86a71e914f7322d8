"""The tokens that stand behind masks, as a BERT guesses them."""

from __future__ import annotations

from dataclasses import dataclass

from glassformer.core.errors import DataError, UnsupportedError
from glassformer.generation.input_ids import ReadsText, input_ids, room_for_text
from glassformer.generation.inputs import check_ids, padded, refuse_pooling
from glassformer.generation.sampling import log_probabilities
from glassformer.models.inference import inference
from glassformer.models.quick import quick_copy


@dataclass(frozen=True)
class Filled:
    """A text whose masks are filled.

    Attributes:
        text: With the most probable token in the place of each mask; by its name if it stands for no text.
        tokens: Those tokens.
        candidates: For each mask the most probable tokens and their probabilities, the most probable first.
    """

    text: str
    tokens: tuple[int, ...]
    candidates: tuple[tuple[tuple[int, float], ...], ...]


def fills_masks(loaded: ReadsText) -> bool:
    """Return whether a model is one that fills masks: an encoder alone that scores tokens."""
    return loaded.model.config.kind == "encoder" and not loaded.model.config.pools


def fill_masks(loaded: ReadsText, text: str, top: int = 1) -> Filled:
    """Return the text with every mask filled by the token that is most probable there.

    p(token at t) = softmax(logits_t), all masks hidden: each is guessed by itself.

    Args:
        loaded: An encoder with a head for tokens, and its tokenizer.
        text: Every occurrence of the mask token's name in it ("[MASK]" of BERT) is one hidden token.
        top: How many candidates are reported of each mask, from 1.

    Raises:
        UnsupportedError: The model fills no masks.
        DataError: There is no mask in the text, or it is longer than the model can read.

    Source: Devlin et al. 2018, arXiv:1810.04805, section 3.1.
    """
    model, tokenizer = loaded.model, loaded.tokenizer
    refuse_pooling(model)
    name, mask = tokenizer.roles.get("mask"), tokenizer.mask_id
    if not fills_masks(loaded) or model.head is None or name is None or mask is None:
        raise UnsupportedError("this model fills no masks: that is for an encoder with a mask token and a token head")
    ids: list[int] = []
    parts = text.split(name)
    for index, part in enumerate(parts):
        # before a mask a space belongs to what is hidden behind it
        ids += [mask] * (index > 0) + tokenizer.encode(part.rstrip(" ") if part.strip() else "")
    if mask not in ids:
        raise DataError(f"there is nothing to fill: write {name} where a token is hidden")
    room = room_for_text(model, tokenizer)
    if room is not None and len(ids) > room:
        raise DataError(f"the text has {len(ids)} tokens, more than the {room} that the model can read; shorten it")
    row = input_ids(model, tokenizer, ids)
    check_ids([row], model.config.output_stack.input.vocab_size, "text")
    tokens, places = padded([row], model.device)
    model = quick_copy(model)
    with inference(model.modules()):
        logits = model(tokens, places=places)[0, :, : tokenizer.vocab_size]
        probabilities = log_probabilities(logits).exp()
    hidden = [place for place, token in enumerate(row) if token == mask]
    values, best = probabilities[hidden].topk(min(max(top, 1), probabilities.shape[-1]))
    candidates = tuple(
        tuple(zip(tokens_of, values_of, strict=True))
        for tokens_of, values_of in zip(best.tolist(), values.tolist(), strict=True)
    )
    chosen = tuple(each[0][0] for each in candidates)
    words = [tokenizer.decode([token]).strip() or tokenizer.label(token) for token in chosen]
    filled = "".join(part + word for part, word in zip(parts, [*words, ""], strict=True))
    return Filled(filled, chosen, candidates)
