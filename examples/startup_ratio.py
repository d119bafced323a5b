"""What the instant answer costs: whole processes, as a ratio to one that imports numpy and click.

    python examples/startup_ratio.py [RUNS]

Prints the median of paired runs (7 by default), so that a busy machine slows both sides.
"""

from __future__ import annotations

import subprocess
import sys
from statistics import median
from time import perf_counter

BASE = [sys.executable, "-P", "-c", "import numpy, click"]
ANSWER = [
    *(sys.executable, "-P", "-m", "costmodel", "recommend", "deepseek-ai/DeepSeek-V2-Lite"),
    *("--hardware", "a100-sxm-80gb", "--topology", "2P2D", "--link", "ib-hdr", "--workload", "hphd"),
    *("--method", "closed"),
]


def seconds(command: list[str]) -> float:
    """Time of a whole process that succeeds."""
    start = perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return perf_counter() - start


def main() -> None:
    """Print both medians and the median ratio."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    seconds(BASE), seconds(ANSWER)  # compiles what is imported
    pairs = [(seconds(BASE), seconds(ANSWER)) for _ in range(runs)]
    base, answer = (median(side) for side in zip(*pairs))
    ratio = median(own / other for other, own in pairs)
    print(f"recommend --method closed: {answer:.2f} s; import numpy, click: {base:.2f} s; ratio {ratio:.1f}")


if __name__ == "__main__":
    main()
