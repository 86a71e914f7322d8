import tokenizers
from tokenizers import decoders, models, normalizers

from glassformer.text.guard import guarded
from glassformer.text.pieces import special_ids
from glassformer.text.spelling import spelling_of
from glassformer.text.tokenizer import TextTokenizer

LETTERS = ["▁", "<", "/", "s", "u", "n", "k", ">"]


def space_marked(model: models.Model, *special: str) -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer(model)
    backend.normalizer = normalizers.Replace(" ", "▁")
    backend.decoder = decoders.Metaspace(prepend_scheme="never")
    backend.add_special_tokens(list(special))
    return backend


def unigram() -> tokenizers.Tokenizer:
    vocabulary = [("<unk>", 0.0), ("</s>", 0.0), *((letter, -4.0) for letter in LETTERS)]
    backend = space_marked(models.Unigram(vocabulary, unk_id=0), "<unk>", "</s>", "<extra>")
    backend.add_tokens(["ss"])
    return backend


def bpe(**settings: bool) -> tokenizers.Tokenizer:
    tokens = ["<unk>", "</s>", *LETTERS, "</", "s>", "</s>s"]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    merges = [("<", "/"), ("s", ">"), ("</", "s>"), ("</s>", "s")]
    return space_marked(models.BPE(vocabulary, merges, unk_token="<unk>", **settings), "<unk>", "</s>")


def test_the_library_alone_makes_special_tokens_of_text() -> None:
    for backend in (unigram(), bpe()):
        backend.encode_special_tokens = True
        assert 1 in backend.encode("s</s>").ids


def test_guarded_models_have_no_way_to_a_special_token() -> None:
    for backend in (unigram(), bpe(), bpe(ignore_merges=True)):
        tokenizer = TextTokenizer(backend)
        for text in ("</s>", "s</s>s", " <unk></s> ", "<unk>", "<s>"):
            assert not {0, 1} & set(tokenizer.encode(text))
            assert tokenizer.decode(tokenizer.encode(text)) == text
        assert tokenizer.encode("x") == [0]


def test_guarded_models_give_the_same_ids_otherwise() -> None:
    for backend in (unigram(), bpe()):
        hidden = guarded(backend, special_ids(backend), spelling_of(backend))
        assert hidden is not backend
        for text in ("", "s us", "<k>x/s", "ssuss", "s>"):
            assert hidden.encode(text).ids == backend.encode(text).ids


def test_a_bpe_without_such_merges_is_left_alone() -> None:
    backend = space_marked(models.BPE({"<unk>": 0, "</s>": 1, "s": 2}, [], unk_token="<unk>"), "<unk>", "</s>")
    assert guarded(backend, special_ids(backend), spelling_of(backend)) is backend
