"""Five workloads and two recorded traces under every strategy, in one table.

    python examples/traces.py AzureLLMInferenceTrace_conv.csv AzureLLMInferenceTrace_code.csv > examples/traces.md

The traces are those of 2023 in https://github.com/Azure/AzurePublicDataset (CC-BY 4.0; Patel et al., Splitwise,
ISCA 2024). Takes about a minute where replay is compiled, a few otherwise.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tabulate import tabulate

from costmodel.decision.comparison import Comparison, Options
from costmodel.decision.constant import system_threshold
from costmodel.decision.replayed import Player, Replayed, Source
from costmodel.inputs.traces import trace_workload
from costmodel.inputs.workload import Slo, Workload
from costmodel.serving.scenario import Scenario
from costmodel.serving.strategies import STRATEGIES, Rule, RuleKind, Strategy, deflected
from costmodel.workloads import load_workload, workload_names

REQUESTS = 10_000
#: As recorded; the whole number that brings disaggregation nearest to 0.7 of its capacity; more than it can take.
SPEEDUPS = {"conv": (1, 4, 6), "code": (1, 6)}
BUSY = Rule(RuleKind.BUSY, threshold=512, queue=2)
HEADER = (
    "load", "strategy", "requests", "a second", "load / capacity", "TTFT P50, s", "P95", "P99", "TPOT P50, ms", "P99",
    "mean delay, s", "copy", "interference", "stranding", "sharing", "kept local", "preemptions", "attainment",
)  # fmt: skip
INTRO = f"""\
# Workloads and traces under every strategy

DeepSeek-V2-Lite, 2P2D on four A100-SXM-80GB, one HDR port each. {REQUESTS:,} requests of each packaged workload, seed \
1 (`costmodel show workloads` says how they were chosen), and all requests of two traces of \
[Azure](https://github.com/Azure/AzurePublicDataset) (2023, CC-BY 4.0; Patel et al., Splitwise, ISCA 2024): as \
recorded (x1), and so many times as fast. conv x4 and code x6 are the whole numbers at which the busiest pool of \
disaggregation works nearest to 0.7 of its capacity; conv x6 brings it near its capacity.

A run starts empty and all its requests count. Mean delay is E2E over the request alone; copy, interference, stranding \
and sharing add up to it, and the least of a load is in bold. The threshold is the system threshold of `recommend`; \
it has no row where local prefill is cheaper at every length, or disaggregation cannot keep up. The busy rule is \
`busy:{BUSY.threshold}:{BUSY.queue}`, and its load that of the threshold alone. Traces have no SLOs: nothing to \
attain, and no TPOT by which Kairos would cap a step. A strategy that cannot keep up has the growth of its backlog in \
place of figures. Made by `python examples/traces.py CONV.csv CODE.csv > examples/traces.md`.
"""
#: Every figure is one of the table's.
READING = """
- With long answers (bursty, hphd, lphd), at lpld and at conv x4 disaggregation has the least mean delay, or a \
threshold that keeps at most 8% local: next to no interference, where colocated has 1.144 to 7.209 s, for at most \
0.859 s of stranding.
- The copy decides nothing: it takes at most 0.017 s in any row.
- At low load a split costs sharing: at conv x1 two GPUs decode what four would (2.234 s against 0.970 s), and chunked \
wins.
- At hpld little is shared (at most 0.265 s) and prompts are all that counts: the threshold keeps 53% of them local, \
which takes stranding from 1.002 to 0.206 s and mean delay to the least, 0.676 s.
- The bursts of code overrun two prefill GPUs even at low load: at 0.12 of capacity P95 TTFT of disaggregation is \
2.29 s, at 0.74 it is 24.35 s, and 10.791 s of the 10.925 s of delay are stranding. Chunked prefills on all four and \
has 3.500 s.
- Colocated has the lowest P95 TTFT of every load but conv x6, and P99 TPOT of up to 2878.8 ms.
- Kairos attains the SLOs most often at bursty, hphd, lphd and lpld, and never has the least delay: it spends what the \
TPOT objective leaves on interference (0.365 to 1.315 s there).
- At conv x6 disaggregation is used to 0.88 of its capacity on average and overrun at times; the busy rule turns to \
the decode GPUs once two prompts wait, keeps 48% local and has the least delay, 7.295 s.
"""


def loads(paths: dict[str, str | Path]) -> Iterator[Workload]:
    """The packaged workloads, then each trace at its speeds."""
    yield from (load_workload(name) for name in workload_names())
    for name, path in paths.items():
        found = trace_workload(path, Slo(), count=sys.maxsize)
        for factor in SPEEDUPS[name]:
            yield replace(found.at_rate(factor * found.rate), name=f"{name} x{factor}")


def comparison(workload: Workload) -> Comparison:
    """2P2D of A100s under a load: all requests of a trace, ``REQUESTS`` of a workload."""
    deployment = Scenario("deepseek-ai/DeepSeek-V2-Lite", "a100-sxm-80gb", "2P2D", "ib-hdr").deployment()
    return Comparison(deployment, workload, Options(requests=len(workload.requests) or REQUESTS))


def strategies(compare: Comparison) -> Iterator[Strategy]:
    """All of them; deflected by Kairos, by the system threshold where there is one, and by a busy rule."""
    yield from STRATEGIES
    constant = system_threshold(compare)
    if constant is not None:
        yield deflected(Rule(RuleKind.THRESHOLD, threshold=round(constant)))
    yield deflected(BUSY)


def play(compare: Comparison, strategy: Strategy) -> Replayed:
    """Replay a load under a strategy."""
    workload = compare.workload
    source = Source(workload.name, lambda: compare.requests, workload.slo)
    return Player(compare.deployment, source, compare.tables).play(strategy)


def cells(result: Replayed) -> list[str]:
    """The row of a result, from ``strategy`` on."""
    name = f"deflected: {result.rule}" if result.rule else result.name
    row = [name, f"{result.requests:,}", f"{result.rate_per_s:.1f}", f"{result.utilisation:.2f}"]
    if not result.stable:
        return [*row, f"backlog +{result.backlog_per_s:.2g}/s", *["-"] * (len(HEADER) - len(row) - 2)]
    tpot = [None if value is None else 1e3 * value for value in (result.tpot_p50_s, result.tpot_p99_s)]
    groups = result.mean_delay_s, result.copy_s, result.interference_s, result.stranding_s, result.sharing_s
    return [
        *row,
        *(_told(value, ".2f") for value in (result.ttft_p50_s, result.ttft_p95_s, result.ttft_p99_s)),
        *(_told(value, ".1f") for value in tpot),
        *(_told(value, ".3f") for value in groups),
        _told(result.local_share if result.rule else None, ".0%"),
        f"{result.preemptions:,}",
        _told(result.attainment, ".1%"),
    ]


def _told(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def rows(workload: Workload) -> list[list[str]]:
    """One row a strategy; the least mean delay in bold."""
    compare, place = comparison(workload), HEADER.index("mean delay, s")
    found = [[workload.name, *cells(play(compare, strategy))] for strategy in strategies(compare)]
    least = min((row[place] for row in found if row[place] != "-"), key=float, default="")
    for row in found:
        row[place] = f"**{row[place]}**" if row[place] == least else row[place]
    return found


def main() -> None:
    """Print the page."""
    if len(sys.argv) != 1 + len(SPEEDUPS):
        sys.exit(f"usage: {sys.argv[0]} CONV.csv CODE.csv")
    table = []
    for workload in loads(dict(zip(SPEEDUPS, sys.argv[1:]))):
        print(f"traces: {workload.name}", file=sys.stderr)
        table += rows(workload)
    print(INTRO)
    print(tabulate(table, HEADER, tablefmt="github", disable_numparse=True))
    print(READING, end="")


if __name__ == "__main__":
    main()
