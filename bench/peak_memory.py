"""Peak memory of a command: the largest resident set of any of its processes.

python bench/peak_memory.py glassformer translate RUN --input FILE --output OUT
"""

from __future__ import annotations

import resource
import subprocess
import sys


def main() -> None:
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    code = subprocess.call(sys.argv[1:])
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss  # KiB on Linux, bytes on macOS
    print(f"peak memory {peak / (2**30 if sys.platform == 'darwin' else 2**20):.2f} GiB", file=sys.stderr)
    raise SystemExit(code)


if __name__ == "__main__":
    main()
