"""Regret of shipped routing rules on the five workloads, in request-seconds.

    python examples/regret.py > examples/regret.md

Each rule decides, for the same requests on the same GPUs, which prompts stay on a decode instance. Its regret
is the delay it adds over the best of all rules tried, summed over the requests. Takes half a minute.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tabulate import tabulate

from costmodel.decision.comparison import Comparison, Options
from costmodel.decision.operating import measured_load, operating_point, self_consistent, threshold
from costmodel.evaluate import summary
from costmodel.serving.scenario import Scenario
from costmodel.serving.strategies import DISAGGREGATED, Rule, RuleKind, deflected
from costmodel.workloads import load_workload, workload_names

REQUESTS = 2000
SHIPPED = (8, 512, 2048, 4096)
GRID = (0, 128, 256, 1024, 1500, 3000, 6000, 8192, 12000, 16384, 24576, 32768)


def constant(tokens: float) -> Rule:
    """The rule that keeps prompts below ``tokens`` local."""
    return Rule(RuleKind.THRESHOLD, threshold=round(tokens))


def own_thresholds(compare: Comparison) -> Iterator[tuple[str, Rule]]:
    """This project's thresholds: selfish and system at the measured load, and the self-consistent one."""
    deployment, workload, times = compare.deployment, compare.workload, compare.times
    run = compare.run(DISAGGREGATED)
    load = measured_load(run, compare.counted(run), deployment, workload.rate)
    point = operating_point(deployment, workload, times, overrides=load)
    candidates = {
        "selfish": threshold(point.selfish()).value,
        "system, observed load": threshold(point.values).value,
        "system, self-consistent": self_consistent(deployment, workload, times)[0],
    }
    for name, tokens in candidates.items():
        if tokens is not None:
            yield f"{name} ({tokens:,.0f})", constant(tokens)


def rows(name: str, requests: int = REQUESTS) -> list[tuple[str, float, float, float, float]]:
    """Return rule, total regret and mean delay in seconds, P95 TTFT and share kept local for one workload."""
    deployment = Scenario("deepseek-ai/DeepSeek-V2-Lite", "a100-sxm-80gb").deployment()
    compare = Comparison(deployment, load_workload(name), Options(requests=requests))
    rules = [
        ("Kairos, as printed", Rule(RuleKind.KAIROS_PRINTED)),
        ("Kairos, transfer-aware", Rule(RuleKind.KAIROS)),
    ]
    rules += [(f"constant {tokens}", constant(tokens)) for tokens in SHIPPED]
    rules += list(own_thresholds(compare))
    results = {label: _evaluate(compare, rule) for label, rule in rules}
    tried = {
        f"best constant ({tokens:,})": _evaluate(compare, constant(tokens)) for tokens in (*GRID, *SHIPPED)
    }
    best = min(tried, key=lambda label: tried[label][0])
    results[best] = tried[best]
    least = min(total for total, _, _ in results.values())
    return [
        (label, total - least, total / requests, p95, local)
        for label, (total, p95, local) in sorted(results.items(), key=lambda item: item[1][0])
    ]


def _evaluate(compare: Comparison, rule: Rule) -> tuple[float, float, float]:
    run = compare.trial(deflected(rule), compare.requests)
    done = run.finished
    p95 = summary.quantile(sorted(r.ttft for r in done), 0.95)
    return sum(r.delay for r in done), p95, sum(r.route == "local" for r in done) / len(done)


def main() -> None:
    """Print the page."""
    print("# Regret of routing rules\n")
    print(
        f"DeepSeek-V2-Lite, 2P2D on four A100-SXM-80GB, one HDR port each; {REQUESTS:,} requests a workload, seed 1. "
        "Delay is E2E over the request alone. Regret is the delay summed over all requests, less that of the best "
        "rule in the table, in request-seconds. `best constant` is the best of the shipped constants and of a grid: "
        "it knows the answer. Made by `python examples/regret.py > examples/regret.md`.\n"
    )
    for name in workload_names():
        print(f"regret: {name}", file=sys.stderr)
        table = [
            (label, f"{regret:,.0f}", f"{mean:.3f}", f"{p95:.2f}", f"{local:.0%}")
            for label, regret, mean, p95, local in rows(name)
        ]
        print(f"## {name}\n")
        header = ("rule (threshold)", "regret, request-s", "mean delay, s", "P95 TTFT, s", "kept local")
        print(tabulate(table, header, tablefmt="github", disable_numparse=True) + "\n")


if __name__ == "__main__":
    main()
