import pytest
import tokenizers
from tokenizers import models, processors

from glassformer.core.errors import UnsupportedError
from glassformer.text.framing import Framed, Part, Template, template_of, write_template


def backend(post_processor: processors.PostProcessor | None = None) -> tokenizers.Tokenizer:
    made = tokenizers.Tokenizer(models.WordLevel({"<s>": 0, "</s>": 1, "a": 2}, unk_token="a"))
    if post_processor is not None:
        made.post_processor = post_processor
    return made


def test_template_is_none_where_nothing_is_put_around() -> None:
    assert template_of(backend()) is None
    assert template_of(backend(processors.ByteLevel())) is None


@pytest.mark.parametrize(
    ("post_processor", "ids", "types"),
    [
        (processors.RobertaProcessing(("</s>", 1), ("<s>", 0)), [0, 2, 1, 1, 3, 1], [0] * 6),
        (processors.BertProcessing(("</s>", 1), ("<s>", 0)), [0, 2, 1, 3, 1], [0, 0, 0, 1, 1]),
        (
            processors.Sequence([
                processors.ByteLevel(),
                processors.TemplateProcessing("<s> $A", "$A:1 <s>:1 $B:0", [("<s>", 0)]),
            ]),
            [2, 0, 3], [1, 1, 0],
        ),
    ],
)  # fmt: skip
def test_template_frames_as_the_library_does(
    post_processor: processors.PostProcessor, ids: list[int], types: list[int]
) -> None:
    template = template_of(backend(post_processor))
    assert template is not None
    assert template.frame([2], [3]) == Framed(ids, types)
    assert template.prefix == (0,)
    single = backend(post_processor).encode("a")
    assert template.frame([2]) == Framed(single.ids, single.type_ids)


def test_prefix_is_what_stands_before_the_text() -> None:
    assert Template((Part((7,)), Part((8, 9)), Part("A"), Part((3,)))).prefix == (7, 8, 9)
    assert Template().prefix == ()


def test_write_template_is_read_again() -> None:
    made = backend()
    write_template(made, "<s> $A </s>", "<s> $A </s> $B </s>", second_type=1)
    assert template_of(made) == Template(
        (Part((0,)), Part("A"), Part((1,))),
        (Part((0,)), Part("A"), Part((1,)), Part("B", 1), Part((1,), 1)),
    )


def test_template_refuses_two_of_them() -> None:
    one = processors.BertProcessing(("</s>", 1), ("<s>", 0))
    with pytest.raises(UnsupportedError, match=r"BertProcessing \+ BertProcessing .* one template"):
        template_of(backend(processors.Sequence([one, one])))
