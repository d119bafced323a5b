"""``costmodel plan``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from ..errors import InputError
from ..planning.options import METHODS, NAMES, OBJECTIVES
from .engine import engine_options, together
from .options import (
    LINK,
    MOST_GPUS,
    MOST_REQUESTS,
    MOST_SEED,
    ParamType,
    Whole,
    answers,
    connector_option,
    dtype_option,
    efficiency_option,
    kv_dtype_option,
    model_argument,
    nics_option,
    option,
    overlap_option,
    skew_option,
    stack_option,
)
from .progress import Progress
from .scenario import (
    DEFAULT_LINK,
    NOT_NEGATIVE_S,
    TIER_OPTIONS,
    F,
    later_options,
    take_scenario,
    take_workload,
    tier_options,
    workload_options,
)


class Listed(ParamType):
    """Whole numbers or names, separated by commas."""

    name = "list"

    def __init__(self, each: click.ParamType[Any] | None = None) -> None:
        self.each = each

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a tuple."""
        if not isinstance(value, str):
            return value
        parts = [part.strip() for part in value.split(",")]
        if not all(parts):
            option = param.opts[0] if param else self.name
            raise InputError(f"{option}: {value!r}: write values separated by commas, none of them empty")
        found = [self.each.convert(part, param, ctx) if self.each else part for part in parts]
        return tuple(dict.fromkeys(found))


def plan_options() -> Callable[[F], F]:
    """GPUs to try, wires and engine settings: what a Scenario has, without a topology."""
    policy = "grow: preempt where decodes outgrow the pool; reserve: admit with the whole output."
    first = "Side that emits token 1; recompute: decode, which runs the last prompt token again."
    gpus = "GPUs to try, separated by commas: packaged names or TOML files."
    degrees = Listed(Whole(MOST_GPUS))
    routings, sides = ("shortest", "round-robin", "prefix"), ("decode", "prefill", "recompute")
    return together(
        option("--hardware", type=Listed(), required=True, help=gpus),
        option("--tp", type=degrees, default="1,2,4,8", help="Tensor-parallel degrees to try."),
        option("--prefill-tp", type=degrees, help="The same of prefill instances."),
        option("--decode-tp", type=degrees, help="The same of decode instances."),
        option("--link", type=LINK, default=DEFAULT_LINK, help="Link that copies the KV: a name or a TOML file."),
        nics_option(),
        connector_option(),
        dtype_option(),
        kv_dtype_option(),
        overlap_option(),
        option("--control", type=NOT_NEGATIVE_S, help="Control time of a hand-over, such as 100ms."),
        option("--max-seqs", type=Whole(MOST_REQUESTS), help="Sequences of an instance; default 256."),
        option("--kv-policy", type=click.Choice(("grow", "reserve")), default="grow", help=policy),
        click.option("--lag", is_flag=True, help="Plan a step while the one before it runs, as vLLM v1 does."),
        option("--routing", type=click.Choice(routings), default="shortest", help="Which instance a prompt goes to."),
        option("--first-token", type=click.Choice(sides), default="decode", help=first),
        *engine_options(),
        efficiency_option(),
        stack_option(),
        skew_option(),
    )  # fmt: skip


@click.command("plan")
@model_argument()
@plan_options()
@workload_options()
@option("--strategy", type=click.Choice(NAMES), multiple=True, help="Try this alone; repeat it for several.")
@option(
    "--token-budget", type=Listed(Whole(10**6)), help="Token budgets to try where prompts and decodes mix."
)
@option(
    "--threshold",
    type=Listed(Whole(10**8)),
    help="Uncached tokens from which prompts go to prefill GPUs, to try.",
)
@option("--max-gpus", type=Whole(MOST_GPUS), default=64, help="GPUs of a plan, at most.")
@option("--spare", type=Whole(64, least=0), default=0, help="Instances of any one role that may be down.")
@option("--price", multiple=True, metavar="GPU=USD", help="Dollars an hour of a GPU; repeat it for others.")
@option("--provider", help="Whose packaged prices to take; default: the first that has all GPUs.")
@option("--objective", type=click.Choice(OBJECTIVES), default="cost", help="What plans are ordered by.")
@option("--top", type=Whole(100), default=5, help="Kinds of plans (strategy and GPUs) to find.")
@option("--method", type=click.Choice(METHODS), default="search", help="Or DistServe's placement alone.")
@option(
    "--requests", type=Whole(MOST_REQUESTS), help="Of a replay; default: for a steady state, or a trace's."
)
@option(
    "--replays",
    type=Whole(10_000),
    default=40,
    help="Replays of the search, at most; what binds and bands take more.",
)
@option("--seed", type=Whole(MOST_SEED, least=0), default=1, help="Fixes lengths and gaps.")
@click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")
@tier_options()
@later_options(*TIER_OPTIONS)
@answers("plan")
def command(model: str, **options: Any) -> object:
    """The smallest and the cheapest deployment of MODEL that meets the SLOs.

    Tries strategies, GPUs, degrees of tensor parallelism, numbers and splits of instances, token budgets and
    thresholds by closed form, and confirms the best by replay. Exit code 1: none meets the SLOs, and why.

    \b
    Examples:
      costmodel plan Llama-3.1-8B --hardware a100-sxm-80gb,h100-sxm --isl 2000 --osl 200 --rate 20 \\
        --slo-ttft 1s --slo-tpot 40ms
      costmodel plan Llama-3.1-70B --hardware h100-sxm --trace conv.csv --tp 4,8 --slo-ttft 2s --slo-tpot 60ms \\
        --spare 1 --objective gpus
      costmodel plan Llama-3.1-8B --hardware h100-sxm --isl 10000 --cached 8000 --hit-rate 0.7 --osl 200 --rate 20 \\
        --slo-ttft 1s --slo-tpot 40ms --offload dram-pcie5,capacity=500GiB
    """
    from ..inputs.hardware import gpu_names, load_gpu
    from ..inputs.prices import parse_prices
    from ..planning.options import PlanOptions
    from ..questions.plan import ask_plan

    progress = Progress(silent=options.pop("quiet"))
    hardware = options.pop("hardware")
    given: dict[str, Any] = {
        "hardware": hardware,
        "tp": options.pop("tp"),
        "prefill_tp": options.pop("prefill_tp"),
        "decode_tp": options.pop("decode_tp"),
        "prices": parse_prices(
            options.pop("price"), (*gpu_names(), *(load_gpu(name).name for name in hardware))
        ),
        "progress": progress,
    }
    lists = {"strategy": "strategies", "token_budget": "token_budgets", "threshold": "thresholds"}
    given |= {key: found for name, key in lists.items() if (found := options.pop(name))}
    names = ("max_gpus", "spare", "provider", "objective", "top", "method", "requests", "replays", "seed")
    given |= {name: options.pop(name) for name in names}
    own = PlanOptions(**given)
    workload = take_workload(options)
    fixed = {"prefill_hardware": None, "decode_hardware": None, "topology": "1P1D", "tp": 1}
    alone = {"hardware": own.hardware[0], "prefill_tp": None, "decode_tp": None}
    scenario = take_scenario(model, options | fixed | alone, token_budget=None)
    try:
        return ask_plan(scenario, workload, own)
    finally:
        progress.done()
