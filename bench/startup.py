"""How long the program takes to start: `import glassformer` and `glassformer --help` over bare Python.

python bench/startup.py [--rounds 15]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

COMMANDS = {
    "bare Python": "pass",
    "import glassformer": "import glassformer",
    "glassformer --help": "import sys; sys.argv = ['glassformer', '--help']; "
    "from glassformer.cli.main import main; main()",
}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rounds", type=int, default=15)
    rounds = arguments.parse_args().rounds
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(rounds):
        for name, program in COMMANDS.items():
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)
            seconds[name].append(time.perf_counter() - began)
    bare = statistics.median(seconds["bare Python"])
    for name, times in seconds.items():
        median = statistics.median(times)
        print(f"{name:20} {median:.3f} s, {median - bare:+.3f} s over bare Python (median of {rounds}, interleaved)")


if __name__ == "__main__":
    main()
