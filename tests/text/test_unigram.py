import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import models

from glassformer.text.unigram import settle_scores, unigram


@given(st.lists(st.floats(-30, -1e-6), min_size=1, max_size=9))
def test_settled_scores_are_read_back_as_they_were_written(scores: list[float]) -> None:
    vocabulary = [(f"token {index}", score) for index, score in enumerate(scores)]
    backend = tokenizers.Tokenizer(models.Unigram(vocabulary, 0, True))
    settle_scores(backend)
    once = unigram(backend.model)
    assert (once.unknown, once.byte_fallback) == (0, True)
    assert all(abs(score - old) <= 1e-14 * abs(old) for (_, score), old in zip(once.vocabulary, scores, strict=True))
    again = tokenizers.Tokenizer.from_str(backend.to_str())
    assert unigram(again.model) == once
    assert again.to_str() == backend.to_str()
