"""The verdicts of the five packaged workloads with their bands: python examples/verdicts.py

Which are clear, which are too close to call, and what to measure to settle them. A minute or two.
"""

from __future__ import annotations

import re

from tabulate import tabulate

from costmodel import Options, Scenario, load_workload, recommend
from costmodel.decision.results import Recommendation
from costmodel.workloads import workload_names

STACKS = (None, "vllm-2026")
INTRO = """\
# Verdicts of the five workloads

DeepSeek-V2-Lite, 2P2D on four A100-SXM-80GB, one HDR port each, by goodput per GPU at the workload's SLOs. The margin \
is the best's over the second's; its band moves each kind of operator, the whole step and the copy to the edge of what \
four truths in five stay within, for both strategies alike, and counts the sample's own error. Where the band holds 1 \
the verdict is too close to call. Made by `python examples/verdicts.py`.
"""


def compare(workload: str, stack: str | None) -> Recommendation:
    """The comparison of a workload, as `costmodel recommend` makes it."""
    scenario = Scenario(
        "deepseek-ai/DeepSeek-V2-Lite", "a100-sxm-80gb", topology="2P2D", link="ib-hdr", stack=stack
    )
    return recommend(scenario.deployment(), load_workload(workload), Options())


def row(workload: str, stack: str | None, found: Recommendation) -> tuple[str, ...]:
    """A line of the table."""
    margin = "-" if found.margin is None else f"{found.margin:.2f}"
    known = found.margin_low is not None and found.margin_high is not None
    band = f"{found.margin_low:.2f}-{found.margin_high:.2f}" if known else "none"
    best = max(found.strategies, key=lambda s: s.goodput_per_gpu_per_s or 0.0)
    pair = f"{best.name} over {found.runner_up}"
    verdict = "too close to call" if found.verdict == "too_close_to_call" else found.verdict
    measure = re.search(r"to settle it measure (.*?); until then ", found.action)
    until = found.action if measure is None else found.action[measure.end() :]
    return (
        workload,
        stack or "operators alone",
        verdict,
        pair,
        margin,
        band,
        measure[1] if measure else "-",
        until,
    )


def page() -> str:
    """The page as markdown."""
    rows = [row(name, stack, compare(name, stack)) for name in workload_names() for stack in STACKS]
    header = (
        "workload",
        "steps",
        "verdict",
        "best over second",
        "margin",
        "band",
        "to settle it, measure",
        "what to do",
    )
    return f"{INTRO}\n{tabulate(rows, header, tablefmt='github', disable_numparse=True)}\n{READING}"


READING = """
Bands of the first four are recomputed from closed-form means; bursty varies over time, has no such means, and is \
replayed at each moved step time.
"""

if __name__ == "__main__":
    print(page())
