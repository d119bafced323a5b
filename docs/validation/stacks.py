"""Renew hardware/stacks from the published tables: python docs/validation/stacks.py FOLDER, which holds them.

Only the sources, the names of files and what is held out stand here; the rest is the package's.
"""

from __future__ import annotations

import sys
from pathlib import Path

from costmodel.measured.points import NOT_STATED, Given
from costmodel.measured.table import read_table
from costmodel.whole.calibrate import ALTERNATE, MIDDLE, calibrate_stacks, once, possible
from costmodel.whole.predict import Instances
from costmodel.whole.read import read_whole
from costmodel.whole.runs import Whole
from costmodel.whole.write import stack_toml

OUT = Path(__file__).resolve().parents[2] / "hardware" / "stacks"
LOOPS = (
    "aiconfigurator-core 0.12.0 (PyPI, 2026-09; Apache-2.0), table silicon_e2e_ttft_tpot: public dashboards and runs "
    "of NVIDIA, 2026-03 and 04; mean or median, speculative decoding, power limits and the cache's dtype not stated"
)
STEPS = (
    "github.com/Mutinifni/splitwise-sim@8f99e7dc (2024-04-25, MIT), medians of data/perf_model.csv: a stack of 2023; "
    "engine (the paper says vLLM), precision and CUDA graphs not stated"
)
#: Tables, source, what is held out, and names of files that are not those of the software.
GROUPS = (
    (("aiconfigurator/silicon_e2e_ttft_tpot.csv",), LOOPS, ALTERNATE,
     {"vllm": "vllm-2026", "trtllm": "trtllm-2026", "sglang": "sglang-2026"}),
    (("splitwise/prefill.csv", "splitwise/decode.csv"), STEPS, MIDDLE, {NOT_STATED: "splitwise-2023"}),
)  # fmt: skip


def main() -> None:
    """Fit and write every stack; say what was left out."""
    folder, date = Path(sys.argv[1]), sys.argv[2]
    OUT.mkdir(exist_ok=True)
    for files, source, choice, names in GROUPS:
        runs: list[Whole] = []
        for file in files:
            found, read = read_whole(read_table(folder / file), Given())
            runs += found
            for left in read.skipped:
                print(f"{file}: {left.rows} rows: {left.why}", file=sys.stderr)
        instances = Instances()
        kept, why = possible(runs, instances)
        kept, again = once(kept)
        for reason, rows in why.items():
            print(f"{rows} rows: {reason}", file=sys.stderr)
        print(f"{again} rows: the same measurement again", file=sys.stderr)
        for stack in calibrate_stacks(kept, instances, names, source, date, choice):
            (OUT / f"{stack.name}.toml").write_text(stack_toml(stack))


if __name__ == "__main__":
    main()
