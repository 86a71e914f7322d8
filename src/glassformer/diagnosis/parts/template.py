"""A file that asks how a part is called: a function or class of the usual form around the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from glassformer.core.errors import ConfigError
from glassformer.core.files import write_text
from glassformer.core.user_code import load_user_code
from glassformer.diagnosis.parts.recognise import kind_named

MODULE = '''class Part(nn.Module):
    """{what}"""

    def __init__(self, d_model: int, n_heads: int, d_ff: int = 40) -> None:
        super().__init__()
        self.yours = {name}(...)  # made for these sizes

    def forward(self, {arguments}):
        return self.yours(...)  # {returns}
'''

FUNCTION = '''def part({arguments}):
    """{what}"""
    return {name}(...)  # {returns}
'''

FORMS: Mapping[str, tuple[str, str, str]] = {
    "attention": (FUNCTION, "q, k, v, mask=None", "(B, H, T, E), or that and the weights; mask: True = may be seen"),
    "multi_head": (MODULE, "q, k, v, mask=None", "(B, T, D), or that and the weights; mask: (B or 1, 1, T, S)"),
    "mask": (FUNCTION, "n", "(n, n) for a causal mask; for one of padding take (tokens, pad) instead"),
    "position": (FUNCTION, "n, d_model", "(n, D)"),
    "encoder_layer": (MODULE, "x, mask=None", "(B, T, D); mask: (B, 1, 1, T), True = no padding"),
    "decoder_layer": (MODULE, "x, memory, tgt_mask=None, src_mask=None", "(B, T, D)"),
    "feed_forward": (MODULE, "x", "(B, T, D)"),
    "schedule": (FUNCTION, "step", "the learning rate of an update, counted from 1"),
    "cache": (MODULE, "x, cache=None", "the output (B, T, D) and the cache"),
    "beam": (
        FUNCTION,
        "next_log_probs, begin, end, width, max_new, length_penalty=0.0",
        "[(tokens, score), ...], the best first",
    ),
}
"""Of each kind: the form, its arguments, and what comes back."""


def write_part_template(path: Path, source: str, kind: str) -> str:
    """Write a file in which a part can be called as one of its kind is; return the name of what is in it.

    Args:
        path: The file.
        source: FILE.py:NAME of the part.
        kind: What it is.

    Raises:
        ConfigError: There is no such kind, or the file is there already.
        CheckpointError: It cannot be written.
    """
    kind_named(kind)
    if path.exists():
        raise ConfigError(f"{path} is there already; choose another file for the template")
    load_user_code(source)  # it must be there
    form, arguments, returns = FORMS[kind]
    file, _, name = source.rpartition(":")
    head = f'"""How {name} of {file} is called; fill in what stands for ... and keep the arguments."""\n\n'
    module = Path(file).stem
    imports = "from torch import nn\n" if form is MODULE else ""
    body = form.format(what=f"As a part of kind {kind}.", arguments=arguments, returns=returns, name=name)
    write_text(path, f"{head}{imports}from {module} import {name}\n\n\n{body}")
    return "Part" if form is MODULE else "part"
