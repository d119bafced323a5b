"""How fast replay is: requests a second of CPU, and against the token-by-token reference in the same run.

    python examples/replay_speed.py [TRACE.csv]

Without a trace (AzureLLMInferenceTrace_conv.csv of https://github.com/Azure/AzurePublicDataset, say; CC-BY 4.0,
Patel et al., Splitwise, ISCA 2024) as many requests of a packaged workload are drawn. Takes a few minutes.
examples/replay_speed.md has what one machine measured.
"""

from __future__ import annotations

import importlib.util
import platform
import sys
import time
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

from tabulate import tabulate

from costmodel.decision.replayed import Player, Source
from costmodel.evaluate.ideal import Ideal
from costmodel.evaluate.reference import Reference
from costmodel.evaluate.replay import Replay
from costmodel.evaluate.timeline import Record
from costmodel.inputs.traces import trace_workload
from costmodel.inputs.workload import Request, Slo, Workload
from costmodel.serving.deployment import Settings
from costmodel.serving.scenario import Scenario
from costmodel.serving.strategies import CHUNKED, COLOCATED, DEFLECTED, DISAGGREGATED, Strategy
from costmodel.serving.table import step_tables
from costmodel.workloads import load_workload

MODELS = ("meta-llama/Llama-3.1-8B", "deepseek-ai/DeepSeek-V2-Lite")
#: Drawn where there is no trace: about as many, and as often, as in the trace.
DRAWN, RATE = 20_000, 5.5
#: Requests that the reference follows, and how often each run is repeated.
FIRST, TIMES = 5000, 3


class Case(NamedTuple):
    """A strategy on GPUs of a topology; arrivals come at the load's rate for each four GPUs."""

    strategy: Strategy
    topology: str
    settings: Settings = Settings()


CASES = (
    Case(COLOCATED, "2P2D"),
    Case(CHUNKED, "2P2D", Settings(token_budget=512)),
    Case(DISAGGREGATED, "2P2D"),
    Case(DEFLECTED, "2P2D"),
    Case(COLOCATED, "32P32D"),
)
HEADER = (
    "model", "strategy", "GPUs", "reference, first requests", "replay, the same", "ratio", "replay, all",
    "with statistics", "first run",
)  # fmt: skip


def cpu_s(run: Callable[[], object]) -> float:
    """CPU seconds of a call, the least of ``TIMES``."""
    spent = []
    for _ in range(TIMES):
        start = time.process_time()
        run()
        spent.append(time.process_time() - start)
    return min(spent)


def measure(model: str, case: Case, workload: Workload) -> list[str]:
    """The row of a model and a case: requests a second of CPU, and the ratio."""
    strategy, slo = case.strategy, Slo()
    deployment = Scenario(model, "a100-sxm-80gb", case.topology, settings=case.settings).deployment()
    tables = step_tables(deployment.kinds)
    ideal = Ideal(list(tables.values()))
    faster = workload.at_rate(workload.rate * deployment.gpus / 4)
    every = faster.sample(len(workload.requests) or DRAWN, 1)
    few = every[:FIRST]

    def replayed(requests: Sequence[Request]) -> None:
        kept: list[Record] = []
        Replay(strategy, deployment, slo, tables, ideal).run(requests, kept.append)

    player = Player(deployment, Source(workload.name, lambda: every, slo), tables)
    first_run = player.play(strategy).requests_per_cpu_s or 0.0
    again = cpu_s(lambda: player.play(strategy))
    whole = cpu_s(lambda: replayed(every))
    part = cpu_s(lambda: replayed(few))
    slow = cpu_s(lambda: Reference(strategy, deployment, slo, tables, ideal).run(few))
    rates = len(few) / slow, len(few) / part
    rest = len(every) / whole, len(every) / again, first_run
    told = [f"{rate:,.0f}" for rate in (*rates, slow / part, *rest)]
    return [model.split("/")[1], strategy.name, f"{deployment.gpus}", *told]


def machine() -> str:
    """The interpreter, the processor and whether the inner loop of replay is compiled."""
    found = importlib.util.find_spec("costmodel.evaluate.server")
    compiled = bool(found and found.origin and not found.origin.endswith(".py"))
    info = Path("/proc/cpuinfo")
    names = [line.split(":")[1].strip() for line in _lines(info) if line.startswith("model name")]
    processor = names[0] if names else platform.processor() or platform.machine()
    loop = "compiled" if compiled else "interpreted"
    return f"inner loop {loop}; {processor}; {platform.python_implementation()} {platform.python_version()}"


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def main() -> None:
    """Print the table."""
    if len(sys.argv) > 1:
        workload = trace_workload(sys.argv[1], Slo(), count=sys.maxsize)
    else:
        workload = load_workload("lpld").at_rate(RATE)
    count = len(workload.requests) or DRAWN
    print(f"{date.today()}: {machine()}; {count:,} requests of {workload.name}, the first {FIRST:,}\n")
    rows = []
    for model in MODELS:
        for case in CASES:
            print(f"replay_speed: {model}, {case.strategy.name}, {case.topology}", file=sys.stderr)
            rows.append(measure(model, case, workload))
    print(tabulate(rows, HEADER, tablefmt="github", disable_numparse=True))


if __name__ == "__main__":
    main()
