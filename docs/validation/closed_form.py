"""Closed form against the reference evaluator on moderate Poisson loads; prints the table of closed_form.md.

The rates are those at which the closed form puts the busiest pool at the given utilisation. Reference means are
over the middle half of each run: a run starts and ends with an empty deployment.

    python docs/validation/closed_form.py [WORKLOAD ...]
"""

from __future__ import annotations

import sys

from costmodel.evaluate.closed import ClosedForm
from costmodel.evaluate.replay import replay
from costmodel.evaluate.summary import mean, mean_ledger
from costmodel.inputs.workload import Workload
from costmodel.serving.scenario import Scenario
from costmodel.serving.step import step_times
from costmodel.serving.strategies import STRATEGIES, Rule, RuleKind, Strategy, deflected
from costmodel.workloads import load_workload

REQUESTS, SEEDS, LEVELS = 2000, (1, 2, 3), (0.3, 0.5, 0.7)
COLUMNS = ("TTFT", "TPOT", "delay", "queue", "stretch", "stalls", "gathering")


def rate_at(level: float, form: ClosedForm, strategy: Strategy, workload: Workload) -> float:
    """Return the rate at which the busiest pool has this utilisation."""
    low, high = 0.01, 500.0
    for _ in range(40):
        middle = (low * high) ** 0.5
        moved = ClosedForm(form.deployment, workload.at_rate(middle), form.times).means(strategy)
        low, high = (middle, high) if moved.utilisation < level else (low, middle)
    return low


def main() -> None:
    """Print one row a workload, strategy and utilisation: reference seconds and the closed form's error."""
    deployment = Scenario("deepseek-ai/DeepSeek-V2-Lite", "a100-sxm-80gb").deployment()
    times = step_times(deployment.kinds)
    rules = (Rule(RuleKind.KAIROS), Rule(RuleKind.THRESHOLD, threshold=2048))
    strategies = (*STRATEGIES[:3], *(deflected(rule) for rule in rules))
    print("| workload | strategy | utilisation | requests/s |", " | ".join(COLUMNS), "|")
    print("|" + " --- |" * (len(COLUMNS) + 4))
    for name in sys.argv[1:] or ("lpld", "lphd", "hpld", "hphd"):
        workload = load_workload(name)
        for strategy in strategies:
            for level in LEVELS:
                rate = rate_at(level, ClosedForm(deployment, workload, times), strategy, workload)
                moved = workload.at_rate(rate)
                means = ClosedForm(deployment, moved, times).means(strategy)
                assert means.accounts is not None and means.ttft_s is not None and means.tpot_s is not None
                records = []
                for seed in SEEDS:
                    run = replay(strategy, deployment, moved.sample(REQUESTS, seed), moved.slo)
                    records += run.records[REQUESTS // 4 : 3 * REQUESTS // 4]
                ledger = mean_ledger(records)
                found = [
                    (means.ttft_s, mean([r.ttft for r in records])),
                    (means.tpot_s, mean([r.tpot for r in records if r.tpot is not None])),
                    (means.delay_s, ledger["e2e_s"] - ledger["ideal_s"]),
                    *((means.accounts[k], ledger[f"{k}_s"]) for k in COLUMNS[3:]),
                ]
                label = strategy.rule.label if strategy.rule else strategy.name
                cells = [f"{own:.3g} {form / own - 1:+.0%}" if own > 5e-4 else "-" for form, own in found]
                print(f"| {name} | {label} | {level} | {rate:.2f} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
