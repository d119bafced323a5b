"""Tensor or pipeline parallel prefill: DistServe's equations 1 to 3, and replay."""

from __future__ import annotations

from common import table
from distserve_runs import Engine, System, drawn, means, served

from costmodel.formulas.waiting import distserve_ttft, distserve_ttft_inter_op, distserve_ttft_intra_op
from costmodel.serving.strategies import COLOCATED


def service(engine: str) -> tuple[float, float]:
    """Time of a prompt of 512 tokens on one GPU, and how many times as fast it is at TP2."""
    times = [a + b * 512 + c * 512**2 for a, b, c in (Engine(engine).fit(tp)[0] for tp in (1, 2))]
    return 1e-3 * times[0], times[0] / times[1]


def crossover(speedup: float) -> float:
    """Load of one GPU, rate x service, from which stages have a lower mean TTFT than tensor parallelism."""
    low, high = 0.0, speedup
    while high - low > 1e-9:
        load = (low + high) / 2
        ahead = distserve_ttft_intra_op(load, 1.0, speedup) < distserve_ttft_inter_op(load, 1.0)
        low, high = (load, high) if ahead else (low, load)
    return low


def replayed_ttft(tp: int, rate: float, count: int = 10_000) -> float:
    """Mean TTFT of prompts of 512 tokens, one a step, by replay."""
    system = System(COLOCATED, "1", (), ((512, 1),), tp, (tp, tp), budget=512)
    return means(served(system, Engine("distserve"), drawn(system.lengths, rate, count, 1)))[0] / 1e3


def equations() -> str:
    """Mean TTFT on two GPUs by equations 1 to 3, and by replay where an instance can be replayed."""
    alone, speedup = service("distserve")
    rows = []
    for load in (0.1, 0.4, 0.8, 1.0, 1.2):
        rate = load / alone
        pooled = distserve_ttft(rate / 2, alone), replayed_ttft(1, rate / 2)
        tensor = distserve_ttft_intra_op(rate, alone, speedup), replayed_ttft(2, rate)
        found = (*pooled, distserve_ttft_inter_op(rate, alone), *tensor)
        rows.append([f"{load:g}", f"{rate:.1f}", *(f"{1e3 * seconds:.0f}" for seconds in found)])
    head = (
        "load of one GPU",
        "requests/s",
        "two replicas (1)",
        "replayed",
        "two stages (2)",
        "TP2 (3)",
        "replayed",
    )
    return table(rows, head)


def parallel_section() -> str:
    """The equations, and where each wins."""
    alone, speedup = service("distserve")
    other = service("vllm")[1]
    cross = ", ".join(f"{crossover(k):.2f} at K = {k:g}" for k in (1.2, 1.5, 1.8, 1.95))
    return f"""## Tensor or pipeline parallel prefill

Equations 1 to 3 (`costmodel explain distserve_ttft_intra_op`): mean TTFT on two GPUs, prompts of one length, one a \
step. By DistServe's fits 512 tokens take {1e3 * alone:.0f} ms, and TP2 is K = {speedup:.2f} times as fast. In ms:

{equations()}

As the paper says, tensor parallelism (intra-op) wins at low rates, where execution counts, and stages (inter-op) at \
high ones, where queueing does. They meet at a load of {crossover(speedup):.2f}; by the vLLM fits (K = {other:.2f}) at \
{crossover(other):.2f}; in general at {cross}. All are means; no attainment follows from them.
"""
