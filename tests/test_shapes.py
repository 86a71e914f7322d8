"""The shapes that signatures promise are the shapes that flow."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
from jaxtyping import install_import_hook

CHECKED = [
    "core.cache", "core.mask", "core.places", "kernels", "parts", "models.loss", "models.output",
    "generation.inputs", "generation.sampling", "generation.score", "generation.stream", "data",
]
with install_import_hook([f"glassformer.{name}" for name in CHECKED], "beartype.beartype"):
    import torch
    from glassformer.core.places import Places
    from glassformer.core.tape import Tape
    from glassformer.generation.config import GenerationConfig
    from glassformer.generation.text import generate_text
    from glassformer.models.arguments import ModelArguments
    from glassformer.models.transformer import Transformer

from types import SimpleNamespace
from glassformer.text.build import byte_tokenizer

tokenizer = byte_tokenizer(("<bos>", "<eos>"))
for kind in ("encoder_decoder", "encoder", "decoder"):
    for positions in ("sinusoidal", "learned", "rotary", "none"):
        arguments = ModelArguments(
            kind=kind, positions=positions, max_positions=32, d_model=16, n_layers=1, n_heads=4, n_kv_heads=2,
            gated=positions == "rotary", norm="rms" if positions == "none" else "layer",
        )
        model = Transformer(arguments.resolve(tokenizer.vocab_size))
        tokens, places = torch.randint(0, 32, (2, 5)), Places.from_lengths([5, 3], side="left")
        memory = model.encode(tokens, places=places) if kind == "encoder_decoder" else None
        model(tokens, places=places, memory=memory, labels=tokens).mean.backward()
        model(tokens, places=places, memory=memory, tape=Tape(model, "*"))
        if kind != "encoder":
            generate_text(SimpleNamespace(model=model, tokenizer=tokenizer), "ab", GenerationConfig(max_new_tokens=3))
try:
    model.head(torch.zeros(2, 3, dtype=torch.long))
except Exception as error:
    print("refused:", type(error).__name__)
"""


def test_signatures_hold_for_every_kind_of_model() -> None:
    """A wrong annotation of a shape would raise; a wrong tensor is refused, so the hook is really there."""
    found = subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr[-3000:]
    assert "refused: TypeCheckError" in found.stdout
