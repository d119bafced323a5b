"""Replays that the closed form is held against: measured percentiles of TTFT, a row a case, in queueing.csv.

    python docs/validation/queueing_replays.py deployments 0 300   # 60,000 to 300,000 requests a case
    python docs/validation/queueing_replays.py pools 0 96          # a million requests a case

Appends the cases FROM .. TO of a set that the file does not hold yet; about ten CPU seconds a case and 300,000
requests where replay is compiled. queueing.py compares.
"""

from __future__ import annotations

import csv
import math
import sys
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, get_type_hints

from costmodel import Scenario, Settings
from costmodel.evaluate.closed import ClosedForm
from costmodel.evaluate.ideal import Ideal
from costmodel.evaluate.replay import Replay
from costmodel.evaluate.timeline import Record
from costmodel.inputs.workload import Arrivals, Lengths, Slo, Workload
from costmodel.serving.deployment import Deployment
from costmodel.serving.step import step_times
from costmodel.serving.strategies import (
    CHUNKED,
    COLOCATED,
    DISAGGREGATED,
    Rule,
    RuleKind,
    Strategy,
    deflected,
)
from costmodel.serving.table import step_tables

FILE = Path(__file__).with_name("queueing.csv")
SETUPS = (
    ("meta-llama/Llama-3.1-8B", "a100-sxm-80gb", 1),
    ("deepseek-ai/DeepSeek-V2-Lite", "a100-sxm-80gb", 1),
    ("meta-llama/Llama-3.1-70B", "h100-sxm", 4),
    ("Qwen/Qwen3-32B", "h100-sxm", 2),
)
LONGEST = 32768
#: Batches of a run whose quantiles give the confidence interval, and Student's t for it.
BATCHES, STUDENT = 20, 2.093


@dataclass(frozen=True)
class Exponential(Lengths):
    """Exponential lengths of mean ``median``."""

    def quantile(self, share: float) -> int:
        """Length below which ``share`` of the lengths lie."""
        return min(self.high, max(1, round(-self.median * math.log(1 - min(share, 1 - 1e-12)))))


@dataclass(frozen=True)
class TwoPoint(Lengths):
    """``median`` tokens in nine cases of ten, eight times as many in the tenth."""

    def quantile(self, share: float) -> int:
        """Length below which ``share`` of the lengths lie."""
        return round(self.median) if share < 0.9 else min(self.high, round(8 * self.median))


class Case(NamedTuple):
    """A deployment, a strategy and a load. ``law``: exponential, bimodal, or the sigma of log-normal lengths."""

    set: str
    number: int
    model: str
    gpu: str
    tp: int
    topology: str
    strategy: str
    threshold: int
    isl: int
    law: str
    osl: int
    output_sigma: float
    cv: float
    budget: int
    first_token: str
    utilisation: float

    @property
    def key(self) -> tuple[str, int]:
        """What names the case."""
        return self.set, self.number


class Row(NamedTuple):
    """What a replay of a case measured: seconds; ``p95_ci`` is half of a 95 % confidence interval."""

    case: Case
    rate: float
    requests: int
    p50: float
    p95: float
    p99: float
    mean: float
    p95_ci: float


def _variation(random: Random) -> float:
    """Poisson gaps in three cases of ten, otherwise gamma of a variation between 0.5 and 4, even in its logarithm."""
    return round(math.exp(random.uniform(math.log(0.5), math.log(4))), 3) if random.random() < 0.7 else 1.0


def deployments(count: int) -> Iterator[Case]:
    """Yield random deployments of every strategy but those whose router looks at the state."""
    random = Random(20261130)
    for number in range(count):
        model, gpu, tp = random.choice(SETUPS)
        strategy = random.choice(["disaggregated", "disaggregated", "colocated", "chunked", "threshold"])
        prefill, decode = random.choice([1, 2, 3, 4, 6, 8]), random.choice([1, 2, 3, 4, 6, 8])
        if strategy in ("colocated", "chunked"):
            both = random.choice([2, 2, 3, 4, 6, 8])
            prefill, decode = both // 2, both - both // 2
        osl = random.choice([1, 8, 32, 64, 128, 256])
        isl = round(math.exp(random.uniform(math.log(250), math.log(8000))))
        law = random.choice(["0", "0.4", "0.8", "1.2", "exponential", "bimodal"])
        sigma = random.choice([0.0, 0.6]) if osl > 1 else 0.0
        cv = _variation(random)
        level, budget = round(random.uniform(0.2, 0.9), 3), random.choice([512, 2048, 2048, 8192])
        threshold = round(isl * random.choice([0.5, 1.01, 1.5])) if strategy == "threshold" else 0
        yield Case(
            "deployments", number, model, gpu, tp, f"{prefill}P{decode}D", strategy, threshold, isl, law, osl, sigma,
            cv, budget, "decode", level,
        )  # fmt: skip


def pools(count: int) -> Iterator[Case]:
    """Yield prefill pools of one to eight instances that emit token 1: queues and nothing else, spread evenly."""
    random = Random(7)
    orders = [random.sample(range(count), count) for _ in range(3)]
    laws = ("0", "0.4", "0.8", "bimodal")
    for number in range(count):
        load, variation, length = ((order[number] + 0.5) / count for order in orders)
        model, gpu, tp = SETUPS[number % 2]
        yield Case(
            "pools", number, model, gpu, tp, f"{number % 8 + 1}P1D", "disaggregated", 0,
            round(500 * 16**length), laws[number // 8 % 4], 1, 0.0, round(0.5 * 8**variation, 3), 2048, "prefill",
            round(0.2 + 0.7 * load, 3),
        )  # fmt: skip


SETS = {"deployments": deployments, "pools": pools}


def count_of(case: Case) -> int:
    """Requests of a case: more where waits vary more."""
    if case.set == "pools":
        return 1_000_000
    return (
        60_000
        if case.utilisation < 0.5 and case.cv < 1.5
        else 150_000
        if case.utilisation < 0.75
        else 300_000
    )


def deployment(case: Case) -> Deployment:
    """The GPUs of a case."""
    settings = Settings(token_budget=case.budget, first_token=case.first_token)
    return Scenario(case.model, case.gpu, case.topology, tp=case.tp, settings=settings).deployment()


def strategy(case: Case) -> Strategy:
    """The strategy of a case."""
    if case.strategy == "threshold":
        return deflected(Rule(RuleKind.THRESHOLD, threshold=case.threshold))
    return {s.name: s for s in (COLOCATED, CHUNKED, DISAGGREGATED)}[case.strategy]


def workload(case: Case, rate: float = 1.0) -> Workload:
    """The load of a case."""
    laws = {
        "exponential": Exponential(case.isl, 0.7, 1, LONGEST),
        "bimodal": TwoPoint(case.isl, 0.7, 1, LONGEST),
    }
    prompts = laws.get(case.law) or Lengths(case.isl, float(case.law), 1, LONGEST)
    outputs = Lengths(case.osl, case.output_sigma, 1, 8192)
    return Workload("drawn", Arrivals(rate, case.cv), prompts, 0, outputs, Slo(), "drawn")


def rate_at(gpus: Deployment, load: Workload, way: Strategy, level: float) -> float:
    """Rate at which the closed form puts the busiest pool at a utilisation."""
    times, low, high = step_times(gpus.kinds), 1e-3, 5000.0
    for _ in range(40):
        middle = math.sqrt(low * high)
        used = ClosedForm(gpus, load.at_rate(middle), times).means(way).utilisation
        low, high = (middle, high) if used < level else (low, middle)
    return low


def quantile(ordered: list[float], share: float) -> float:
    """Quantile between order statistics."""
    place = share * (len(ordered) - 1)
    low = int(place)
    return ordered[low] + (place - low) * (ordered[min(low + 1, len(ordered) - 1)] - ordered[low])


def play(case: Case, rate: float | None = None) -> Row | None:
    """Replay a case; None where the strategy does not keep up with it."""
    gpus, way, load = deployment(case), strategy(case), workload(case)
    rate = rate_at(gpus, load, way, case.utilisation) if rate is None else rate
    tables, count = step_tables(gpus.kinds), count_of(case)
    made = Replay(way, gpus, Slo(), tables, Ideal(list(tables.values())))
    order, times = array("q"), array("d")

    def finished(record: Record) -> None:
        order.append(record.index)
        times.append(record.ttft)
        made.stopped = record.index > 2000 and len(order) < record.index / 2

    made.run(load.at_rate(rate).stream(count, 1), finished)
    if len(order) < 0.9 * count:
        return None
    by_arrival = [times[i] for i in sorted(range(len(order)), key=order.__getitem__)][count // 50 :]
    return measured(case, rate, by_arrival)


def measured(case: Case, rate: float, times: list[float]) -> Row:
    """The row of TTFTs in order of arrival."""
    size = len(times) // BATCHES
    parts = [quantile(sorted(times[i * size : (i + 1) * size]), 0.95) for i in range(BATCHES)]
    middle = sum(parts) / BATCHES
    error = math.sqrt(sum((part - middle) ** 2 for part in parts) / (BATCHES - 1) / BATCHES)
    ordered = sorted(times)
    p50, p95, p99 = (quantile(ordered, share) for share in (0.5, 0.95, 0.99))
    return Row(case, rate, len(times), p50, p95, p99, sum(times) / len(times), STUDENT * error)


HEADER = (*Case._fields, *Row._fields[1:])


def read(path: Path = FILE) -> list[Row]:
    """The rows of the file."""
    if not path.exists():
        return []
    kinds = get_type_hints(Case) | get_type_hints(Row)
    with path.open(newline="") as lines:
        rows = []
        for found in csv.DictReader(lines):
            values: dict[str, Any] = {name: kinds[name](text) for name, text in found.items()}
            case = Case(**{name: values.pop(name) for name in Case._fields})
            rows.append(Row(case, **values))
    return rows


def write(row: Row, path: Path = FILE) -> None:
    """Append a row."""
    new = not path.exists()
    with path.open("a", newline="") as lines:
        out = csv.writer(lines, lineterminator="\n")
        if new:
            out.writerow(HEADER)
        out.writerow([f"{v:.6g}" if isinstance(v, float) else v for v in (*row.case, *row[1:])])


def main() -> None:
    """Replay what is missing."""
    name, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    known = {row.case.key for row in read()}
    for case in list(SETS[name](last))[first:]:
        if case.key not in known:
            row = play(case)
            print(case.key, "does not keep up" if row is None else f"P95 {row.p95:.4g} s", file=sys.stderr)
            if row is not None:
                write(row)


if __name__ == "__main__":
    main()
