"""Writing far into a text: a token's time and the cache's memory, by what the layers keep.

A decoder reads a text in chunks, and then writes one token after another at its end. The same is done near the
beginning of another text, in turn, so that whatever else the machine does falls on both. Linear attention keeps two
sums a head, a window the newest keys and values, full attention all of them.

    python bench/linear_decoding.py [--length 100000] [--full-length 20000]
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch

from glassformer.core.attention_config import AttentionConfig
from glassformer.core.cache import KVCache
from glassformer.models.arguments import AttentionArguments, ModelArguments
from glassformer.models.transformer import Transformer

NEAR, CHUNK, TURN, TURNS = 10, 500, 20, 15
"""Where the near text is, tokens read at once, tokens written in a turn, and turns."""

KINDS = {
    "linear": AttentionArguments(type="linear"),
    "window 128": AttentionArguments(window=128),
    "full": AttentionArguments(),
}


def filled(model: Transformer, length: int) -> KVCache:
    """Return a cache that has read so many tokens of one text, with room for those that are written."""
    keeps_all = any(shape.window is None and shape.type == "softmax" for shape in attentions(model))
    cache = model.new_cache(1, length + TURN * (TURNS + 1) if keeps_all else None)
    for begin in range(0, length, CHUNK):
        tokens = torch.randint(256, (1, min(CHUNK, length - begin)))
        model(tokens, cache=cache, outputs="last")
        cache.advance([tokens.shape[1]])
    return cache


def attentions(model: Transformer) -> list[AttentionConfig]:
    """Return the settings of each layer's attention."""
    return [block.attention for block in model.config.output_stack.blocks]


def written(model: Transformer, cache: KVCache) -> float:
    """Return the median seconds of a token of one turn."""
    token, seconds = torch.tensor([[5]]), []
    for _ in range(TURN):
        began = time.perf_counter()
        token = model(token, cache=cache, outputs="last").argmax(-1, keepdim=True)
        cache.advance([1])
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, default=100_000)
    parser.add_argument("--full-length", type=int, default=20_000)
    options = parser.parse_args()
    torch.manual_seed(0)
    for name, attention in KINDS.items():
        settings = {
            "kind": "decoder",
            "d_model": 256,
            "n_layers": 4,
            "n_heads": 4,
            "positions": "rotary",
            "dropout": 0.0,
        }
        model = Transformer(ModelArguments(**settings, attention=attention).resolve(256)).eval()
        far = options.full_length if name == "full" else options.length
        with torch.inference_mode():
            sizes = [(length, filled(model, length).n_bytes) for length in (NEAR, 20_000)]
            caches = [filled(model, length) for length in (NEAR, far)]
            for cache in caches:
                written(model, cache)
            seconds = [[written(model, cache) for cache in caches] for _ in range(TURNS)]
        ratios = sorted(late / early for early, late in seconds)
        times = [statistics.median(column) * 1e3 for column in zip(*seconds, strict=True)]
        memory = ", ".join(f"{size / 2**20:.2f} MiB after {length:,} tokens" for length, size in sizes)
        print(
            f"{name}: a token costs {times[1]:.2f} ms at token {far:,} and {times[0]:.2f} ms at token {NEAR}: "
            f"{statistics.median(ratios):.2f} times ({TURNS} turns: {ratios[0]:.2f} to {ratios[-1]:.2f}); "
            f"the cache takes {memory}"
        )


if __name__ == "__main__":
    main()
