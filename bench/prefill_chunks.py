"""A long prompt read at once and in chunks: memory and time, each reading in a process of its own.

python bench/prefill_chunks.py [--tokens 8192,8000] [--positions alibi] [--layers 12] [--chunks 0,1024] [--turns 3]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from statistics import median

import torch

from glassformer.bench.numbers import Numbers
from glassformer.bench.workloads import LLAMA_110M
from glassformer.generation.config import GenerationConfig
from glassformer.generation.stream import generate
from glassformer.models.transformer import Transformer

VOCABULARY = 32_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", default="8192", help="of each row")
    parser.add_argument("--positions", default="rotary")
    parser.add_argument("--layers", type=int, default=LLAMA_110M.n_layers)
    parser.add_argument("--chunks", default="0,1024", help="0 = at once; the others are compared with the first")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        read(options)
        return
    chunks = [int(chunk) for chunk in options.chunks.split(",")]
    found: dict[int, list[dict[str, float]]] = {chunk: [] for chunk in chunks}
    for turn in range(options.turns):
        for chunk in chunks[:: 1 if turn % 2 == 0 else -1]:
            said = subprocess.run([sys.executable, *sys.argv, "--one", str(chunk)], check=True, capture_output=True)
            found[chunk].append(json.loads(said.stdout))
    for chunk, each in found.items():
        ratios = sorted(one["seconds"] / other["seconds"] for one, other in zip(each, found[chunks[0]], strict=True))
        print(
            f"{f'{chunk:,} at a time' if chunk else 'at once':<18}{max(one['MiB'] for one in each):>7,.0f} MiB"
            f"{median(one['seconds'] for one in each):>8.1f} s"
            f"   time {median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        )


def read(options: argparse.Namespace) -> None:
    """Print by how much the largest resident set grew, and the seconds of processor time."""
    arguments = LLAMA_110M.model_copy(
        update={"n_layers": options.layers, "positions": options.positions, "max_positions": None}
    )
    model = Transformer(arguments.resolve(VOCABULARY), generator=torch.Generator().manual_seed(0)).eval()
    generator = torch.Generator().manual_seed(1)
    lengths = [int(length) for length in options.tokens.split(",")]
    prompts = [torch.randint(4, VOCABULARY, (length,), generator=generator).tolist() for length in lengths]
    config = GenerationConfig(max_new_tokens=1, prefill_chunk=options.one)
    generate(model, [prompt[:64] for prompt in prompts], config, tokenizer=Numbers(VOCABULARY))
    before, begun = peak(), time.process_time()
    generate(model, prompts, config, tokenizer=Numbers(VOCABULARY))
    print(json.dumps({"seconds": time.process_time() - begun, "MiB": (peak() - before) / 2**20}))


def peak() -> int:
    """Return the largest resident set so far, in bytes."""
    unit = 1 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


if __name__ == "__main__":
    main()
