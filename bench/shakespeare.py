"""Wall-clock of the `shakespeare` recipe against the reference library's GPT-2 class, in one loop and one run.

Both models are trained by the same `Trainer.update` on the same batches, in turn, a few updates at a time, so that
whatever else the machine does falls on both. The reference model is in float32; ours as the recipe chooses.

    python bench/shakespeare.py FILE [--updates 400] [--set KEY=VALUE]... [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from glassformer.models.loss import cross_entropy
from glassformer.models.output import Loss
from glassformer.models.transformer import Transformer
from glassformer.training.precision import Precision, choose_device, choose_precision
from glassformer.training.recipe import load_recipe
from glassformer.training.run import resolve
from glassformer.training.trainer import Trainer

TURN = 20
"""Updates that a model makes before it is the other's turn."""


class ReferenceGPT2(nn.Module):
    """The reference library's GPT-2 of the recipe's size, called the way this project's loop calls a model."""

    def __init__(self, vocab_size: int, context: int, d_model: int, n_layers: int, n_heads: int) -> None:
        super().__init__()
        from transformers import GPT2Config, GPT2LMHeadModel

        config = GPT2Config(
            vocab_size=vocab_size, n_positions=context, n_embd=d_model, n_layer=n_layers, n_head=n_heads,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False, bos_token_id=0, eos_token_id=0,
        )  # fmt: skip
        self.gpt2 = GPT2LMHeadModel(config)
        self.device = torch.device("cpu")
        self.config = SimpleNamespace(output_stack=SimpleNamespace(input=SimpleNamespace(d_model=d_model)))

    def forward(
        self,
        inputs: Tensor,
        *,
        labels: Tensor,
        label_smoothing: float,
        places: object,
        memory: object,
        tape: object,
    ) -> Loss:
        return cross_entropy(self.gpt2(inputs).logits, labels, label_smoothing)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("file")
    arguments.add_argument("--updates", type=int, default=400, help="updates of each model that are timed")
    arguments.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="edit the recipe")
    arguments.add_argument("--json", action="store_true")
    options = arguments.parse_args()

    recipe = load_recipe("shakespeare", [f"task.text={options.file}", *options.set])
    data, device = recipe.task.build(), choose_device("cpu")
    torch.manual_seed(recipe.training.seed)
    model = recipe.model
    ours = Transformer(resolve(model, data))
    theirs = ReferenceGPT2(data.tokenizer.vocab_size, data.context or 0, model.d_model, model.n_layers, model.n_heads)
    trainers = {
        "glassformer": Trainer(ours, data, recipe.training, choose_precision(recipe.training.precision, device)),
        "reference GPT-2": Trainer(theirs, data, recipe.training, Precision("float32", "as measured", "cpu")),  # type: ignore[arg-type]
    }
    seconds = alternate(trainers, warm_up=TURN, updates=options.updates)
    report = {
        name: {
            "parameters": sum(p.numel() for p in trainer.model.parameters()),
            "precision": trainer.precision.name,
            "ms_per_update": 1000 * statistics.median(seconds[name]) / TURN,
        }
        for name, trainer in trainers.items()
    }
    ratios = [b / a for a, b in zip(seconds["glassformer"], seconds["reference GPT-2"], strict=True)]
    report["speed_ratio"] = statistics.median(ratios)
    if options.json:
        print(json.dumps(report))
        return
    for name in trainers:
        row = report[name]
        print(
            f"{name:16} {row['parameters']:>9,} parameters  {row['precision']:8} {row['ms_per_update']:7.2f} ms/update"
        )
    print(
        f"glassformer is {report['speed_ratio']:.2f} times as fast (median of {len(ratios)} turns of {TURN} updates; "
        f"{min(ratios):.2f} to {max(ratios):.2f})"
    )


def alternate(trainers: dict[str, Trainer], warm_up: int, updates: int) -> dict[str, list[float]]:
    """Return the seconds of every turn of each trainer, the turns interleaved."""
    windows = {name: trainer.windows() for name, trainer in trainers.items()}
    seconds: dict[str, list[float]] = {name: [] for name in trainers}
    for turn in range(-(-warm_up // TURN) + updates // TURN):
        for name, trainer in trainers.items():
            began = time.perf_counter()
            for _ in range(TURN):
                trainer.update(next(windows[name]))
            if turn >= warm_up // TURN:
                seconds[name].append(time.perf_counter() - began)
    return seconds


if __name__ == "__main__":
    main()
