"""How long loading a LLaMA folder of half a gigabyte and one forward pass take, and how much memory, against the
reference library.

Each is a fresh process with one thread, by turns; imports are not counted. Memory is the growth of private, anonymous
pages (`Anonymous` of /proc/self/smaps_rollup): what a process needs for itself, not the pages of the file that the
system can drop.

    python bench/load_folder.py [--turns N] [--folder DIR]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from glassformer.checkpoint.foreign import to_foreign
from glassformer.checkpoint.foreign_folder import write_folder
from glassformer.families.registry import family_named, preset
from glassformer.models.transformer import Transformer

MEASURE = """
import json, sys, time
from pathlib import Path
import torch
torch.set_num_threads(1)

def anonymous():
    rows = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return int(next(row for row in rows if row.startswith("Anonymous:")).split()[1]) * 1024

tokens = torch.arange(10, 42).unsqueeze(0)
who, folder = sys.argv[1:]
if who == "ours":
    from glassformer.checkpoint.loading import load_transformer
    torch.zeros(8, 8) @ torch.zeros(8, 8)
    before, began = anonymous(), time.perf_counter()
    model = load_transformer(folder)
    loaded = time.perf_counter()
    with torch.no_grad():
        found = model(tokens)
else:
    from transformers import LlamaForCausalLM
    torch.zeros(8, 8) @ torch.zeros(8, 8)
    before, began = anonymous(), time.perf_counter()
    model = LlamaForCausalLM.from_pretrained(folder, local_files_only=True)
    loaded = time.perf_counter()
    with torch.no_grad():
        found = model(tokens).logits
ended = time.perf_counter()
print(json.dumps([ended - began, loaded - began, anonymous() - before, float(found.double().abs().sum())]))
"""
"""What runs in each process; it prints seconds in all, seconds of loading, bytes and a sum of the scores."""


def made(folder: Path) -> int:
    """Write a random LLaMA of about 500 MB; return the bytes of its weights."""
    arguments = preset("llama-tiny").model_copy(
        update={"d_model": 1024, "n_layers": 8, "n_heads": 16, "n_kv_heads": 8, "d_head": 64, "d_ff": 2816}
    )
    model = Transformer(arguments.resolve(24_000), generator=torch.Generator().manual_seed(0))
    settings, tensors = to_foreign(model, family_named("llama"))
    write_folder(folder, tensors, settings)
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


def measured(who: str, folder: Path) -> list[float]:
    command = [sys.executable, "-c", MEASURE, who, str(folder)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary folder when not given")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary) / "llama"
        size = made(folder)
        print(f"{size / 1e6:.0f} MB of weights, {options.turns} turns")
        rows: dict[str, list[list[float]]] = {"ours": [], "theirs": []}
        for _ in range(options.turns):
            for who, found in rows.items():
                found.append(measured(who, folder))
        sums = {round(row[3]) for found in rows.values() for row in found}
        print(f"sum of the scores: {sums}")
        for who, found in rows.items():
            seconds, loading, memory = (statistics.median(column) for column in list(zip(*found, strict=True))[:3])
            growth = max(row[2] for row in found) / size
            print(
                f"{who:7} {seconds:.2f} s, of it loading {loading:.2f} s; "
                f"memory {memory / size:.2f} x, most {growth:.2f} x"
            )
        ratios = [theirs[0] / ours[0] for ours, theirs in zip(rows["ours"], rows["theirs"], strict=True)]
        print(f"ours is {statistics.median(ratios):.2f} times as fast ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
