"""Plans for a recorded service: two models on A100s and H100s, sized and confirmed by replay of the whole trace.

    python examples/plan_azure.py AzureLLMInferenceTrace_conv.csv > examples/plan_azure.md

The trace is the conversation service of 2023 in https://github.com/Azure/AzurePublicDataset (CC-BY 4.0; Patel et al.,
Splitwise, ISCA 2024). Takes some minutes where replay is not compiled.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from tabulate import tabulate

from costmodel import PlanOptions, Scenario, Slo, ask_plan, trace_workload
from costmodel.planning.results import Binding, Plan, PlanAnswer
from costmodel.report.plan import band_told, margin_told, told

GPUS = ("a100-sxm-80gb", "h100-sxm")


@dataclass(frozen=True)
class Question:
    """A model with its SLOs, how many times as fast the trace is played, and what may be tried."""

    model: str
    slo: Slo
    speedup: float
    tp: tuple[int, ...]
    spare: int = 0


QUESTIONS = (
    Question("deepseek-ai/DeepSeek-V2-Lite", Slo(0.5, 0.04), 8, (1, 2)),
    Question("Llama-3.1-70B", Slo(2.0, 0.06), 2, (2, 4, 8)),
    Question("Llama-3.1-70B", Slo(2.0, 0.06), 2, (2, 4, 8), spare=1),
)
HEADER = ("plan", "GPUs", "USD/h", "USD/M output tokens", "closed form", "replayed", "holds")
INTRO = """\
# Plans for a recorded service

The conversation service of [Azure](https://github.com/Azure/AzurePublicDataset) (2023, CC-BY 4.0; Patel et al., \
Splitwise, ISCA 2024): 19,366 requests of an hour, 1,155 prompt and 211 output tokens on average, whose rate varies. \
Played faster, it stands for a larger service. A plan holds where 90 % of all requests of the trace meet both SLOs in \
a replay; the closed form takes the load as steady and only says what to try. One HDR port an instance carries the KV. \
Prices are the packaged ones (`hardware/prices.toml`). Made by `python examples/plan_azure.py CONV.csv > \
examples/plan_azure.md`.
"""


def answer(question: Question, trace: str) -> PlanAnswer:
    """The plans of one question."""
    recorded = trace_workload(trace, question.slo)
    load = recorded.at_rate(recorded.rate * question.speedup)
    options = PlanOptions(hardware=GPUS, tp=question.tp, spare=question.spare, top=3)
    return ask_plan(Scenario(question.model, GPUS[0]), load, options)


def row(plan: Plan) -> tuple[str, ...]:
    """A plan in a table."""
    cost, share = plan.usd_per_hour, plan.attainment_replayed
    output = plan.usd_per_million_output_tokens
    return (
        told(plan),
        str(plan.gpus),
        "-" if cost is None else f"{cost:,.2f}",
        "-" if output is None else f"{output:.2f}",
        "-" if plan.attainment_closed is None else f"{100 * plan.attainment_closed:.1f} %",
        "cut short" if share is None else f"{100 * share:.1f} %",
        "yes" if plan.feasible else plan.misses or "no",
    )


def bound(one: Binding) -> str:
    """What breaks, as an item of a list."""
    if one.role == "rate":
        return f"- at a higher rate: missed {one.reason}, for want of {one.cause}"
    if one.cause == "none":
        return f"- one {one.role} instance fewer: {one.reason}"
    at = one.reason or f"{100 * (one.attainment_replayed or 0):.1f} % attained"
    return f"- one {one.role} instance fewer ({one.topology}): {at}; for want of {one.cause}"


def section(question: Question, trace: str) -> str:
    """A question and its answer."""
    found, slo = answer(question, trace), question.slo
    spare = ", with one instance of any role down" if question.spare else ""
    parts = [
        f"## {question.model.split('/')[-1]}, x{question.speedup:g}{spare}\n",
        f"{found.rate_per_s:.1f} requests/s, TTFT <= {slo.ttft_s} s, TPOT <= {1000 * (slo.tpot_s or 0):.0f} ms at "
        f"{found.attainment_target:.0%}. {found.layouts:,} layouts by closed form, {found.replays} replays.\n",
        tabulate([row(plan) for plan in found.plans], HEADER, tablefmt="github", disable_numparse=True)
        + "\n",
    ]
    if found.infeasible_reason:
        parts.append(found.infeasible_reason + "\n")
    parts += [f"{text}\n" for text in (band_told(found), margin_told(found)) if text]
    parts += [bound(one) for one in found.binding]
    gains = [c for c in found.changes if (c.usd_per_hour_saved or 0) > 0 and "prices" not in c.name]
    parts += [
        f"- {c.name}: {c.usd_per_hour_saved:.2f} USD/h less, {c.gpus} GPUs (by closed form)" for c in gains
    ]
    best = next((plan for plan in found.plans if plan.feasible), None)
    if best:
        lines = [f"{one.engine:8} {line}" for one in best.settings for line in one.lines]
        parts += ["\n```", *lines, "```"]
    return "\n".join(parts) + "\n"


def main(trace: str) -> None:
    """Print the page."""
    print(INTRO)
    print("\n".join(section(question, trace) for question in QUESTIONS), end="")


if __name__ == "__main__":
    main(*sys.argv[1:])
