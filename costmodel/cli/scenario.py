"""Options of a deployment and of a workload, shared by the commands that compare strategies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click

from ..errors import InputError
from .engine import ENGINE_OPTIONS, engine_options, take_engine, together
from .options import (
    GPU,
    MOST_REQUESTS,
    Known,
    Quantity,
    Whole,
    connector_option,
    dtype_option,
    efficiency_option,
    hardware_option,
    kv_dtype_option,
    nics_option,
    option,
    overlap_option,
    skew_option,
    stack_option,
    tokens_option,
    tp_option,
)

F = TypeVar("F", bound=Callable[..., Any])
NUMBER, RATE = Quantity("1"), Quantity("1/second")
NOT_NEGATIVE, NOT_NEGATIVE_S = Quantity("1", positive=False), Quantity("second", positive=False)
VARIATION = Quantity("1", positive=False, most=100)
DEFAULT_LINK = "ib-hdr"

#: Options of later capabilities: value that changes nothing (None: there is none), and why others are refused.
LATER: dict[str, tuple[str | None, str]] = {
    "--pp": ("1", "step times of pipeline stages are not modelled yet (costmodel kv sizes them): pass --tp"),
    "--ep": (
        "1",
        "expert parallelism is not compared yet (costmodel step times it): experts are split by --tp",
    ),
    "--dp-attention": (
        "1",
        "step times of data-parallel attention are not modelled yet: attention is split by --tp",
    ),
    "--concurrency": (None, "closed loops are not modelled yet: pass an arrival rate with --rate"),
    "--offload": (None, "KV tiers are compared by recommend, replay, plan and reuse alone"),
    "--reuse": (
        None,
        "KV tiers are compared by recommend, replay, plan and reuse alone: pass --cached for a known prefix",
    ),
}


def _links() -> Iterable[str]:
    from ..inputs.link import link_names

    return link_names()


def _workloads() -> Iterable[str]:
    from ..workloads import workload_names

    return workload_names()


def later_options(*known: str) -> Callable[[F], F]:
    """Accept the options of later capabilities by name, but for ``known`` ones, and refuse them with one sentence."""

    def refuse(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
        harmless, why = LATER[param.opts[0]]
        if value is not None and value != harmless:
            raise InputError(f"{param.opts[0]} {value}: {why}")

    def accept(name: str) -> Callable[[F], F]:
        return click.option(name, hidden=True, expose_value=False, callback=refuse)

    return together(*(accept(name) for name in LATER if name not in known))


def tier_options() -> Callable[[F], F]:
    """KV tiers below GPU memory, and where a stated prefix lies."""
    form = "NAME[,capacity=500GiB][,bandwidth=50GB/s]... (costmodel show tiers); repeat it for several."
    return together(
        option("--offload", multiple=True, help=f"KV tier of each instance's own: {form}"),
        option("--reuse", multiple=True, help=f"KV store that all instances share: {form}"),
        option("--hit-rate", type=NOT_NEGATIVE, help="Share of the requests that find their cached tokens; default 1."),
        option(
            "--prefix-held", type=click.Choice(("both", "prefill", "decode", "store")),
            help="Where cached tokens lie; default: in the first tier, without one on both sides.",
        ),
        option(
            "--load", type=click.Choice(("always", "cheaper")), default="always",
            help="Read what a tier has always, or where that is cheaper than to compute it.",
        ),
    )  # fmt: skip


def deployment_options() -> Callable[[F], F]:
    """GPUs, wires and engine settings: the fields of a Scenario."""
    seqs = "Sequences of an instance, running or reserved; default 256."
    policy = (
        "grow: preempt and recompute where decodes outgrow the pool; reserve: admit with the whole output."
    )
    routing = (
        "Which instance a prompt goes to: fewest tokens to compute, in turns, or the same with prefix caches."
    )
    first = "Side that emits token 1; recompute: decode, which runs the last prompt token again."
    return together(
        hardware_option(),
        option("--prefill-hardware", type=GPU, help="GPU of the prefill instances, where it differs."),
        option("--decode-hardware", type=GPU, help="GPU of the decode instances, where it differs."),
        option("--topology", default="2P2D", help="Instances as xPyD; replay: also a number of pooled ones."),
        option(
            "--link", type=Known("NAME|FILE", _links), default=DEFAULT_LINK,
            help="Link that copies the KV: a packaged name (costmodel show links) or a TOML file.",
        ),
        nics_option(),
        connector_option(),
        tp_option(text="Tensor-parallel GPUs of an instance."),
        tp_option("--prefill-tp", None, "Of a prefill instance."),
        tp_option("--decode-tp", None, "Of a decode instance."),
        dtype_option(),
        kv_dtype_option(),
        overlap_option(),
        option("--control", type=NOT_NEGATIVE_S, help="Control time of a hand-over, such as 100ms."),
        option("--max-seqs", type=Whole(MOST_REQUESTS), help=seqs),
        option("--kv-policy", type=click.Choice(("grow", "reserve")), default="grow", help=policy),
        click.option("--lag", is_flag=True, help="Plan a step while the one before it runs, as vLLM v1 does."),
        option("--routing", type=click.Choice(("shortest", "round-robin", "prefix")), default="shortest", help=routing),
        option("--first-token", type=click.Choice(("decode", "prefill", "recompute")), default="decode", help=first),
        *engine_options(),
        efficiency_option(),
        stack_option(),
        skew_option(),
    )  # fmt: skip


def workload_options() -> Callable[[F], F]:
    """A workload by name, file, trace or fixed lengths, each value replaceable."""
    name = "Arrivals, lengths and SLOs: a packaged name (costmodel show workloads) or a TOML file."
    return together(
        option("--workload", type=Known("NAME|FILE", _workloads), help=name),
        option("--trace", type=click.Path(), help="CSV of arrival_s, prompt_tokens, output_tokens[, cached_tokens]."),
        tokens_option("--isl", "Prompt tokens, cached ones included: a fixed length."),
        tokens_option("--osl", "Output tokens: a fixed length."),
        tokens_option("--cached", "Prompt tokens in the cache already.", zero=True),
        option("--rate", type=RATE, help="Arrival rate, requests/s."),
        option("--cv", type=VARIATION, help="Coefficient of variation of gaps; 1 is Poisson."),
        option("--slo-ttft", type=Quantity("second", bare_below=300), help="TTFT objective, such as 2s."),
        option("--slo-tpot", type=Quantity("second", bare_below=5), help="TPOT objective, such as 50ms."),
        option("--attainment", type=NUMBER, help="Share of requests to meet both; default 0.9."),
        click.option("--no-slo", is_flag=True, help="Drop the workload's SLOs: compare mean delays."),
    )  # fmt: skip


def stated(ctx: click.Context) -> dict[str, str]:
    """Return what the command line itself says: the option's flag by its name."""
    default = click.core.ParameterSource.DEFAULT
    return {
        param.name: param.opts[0]
        for param in ctx.command.params
        if param.name and ctx.get_parameter_source(param.name) is not default
    }


SCENARIO_KEYS = (
    "topology", "link", "connector", "nics", "tp", "prefill_tp", "decode_tp", "dtype", "kv_dtype", "overlap",
    "efficiency", "stack", "expert_skew",
)  # fmt: skip
WORKLOAD_KEYS = (
    "isl", "osl", "cached", "rate", "cv", "slo_ttft", "slo_tpot", "attainment", "no_slo",
)  # fmt: skip
TIER_OPTIONS = ("--offload", "--reuse")


#: What only GPUs give a meaning to.
ENGINE_KEYS = (
    "topology", "prefill_tp", "dtype", "overlap", "efficiency", "stack", "expert_skew", "max_seqs", "kv_policy", "lag",
    "routing", "first_token", *ENGINE_OPTIONS,
)  # fmt: skip


def take_workload(options: dict[str, Any]) -> Any:
    """Remove the workload's options and return the workload."""
    from ..questions.workload import Changes, choose_workload

    changes = Changes(
        **{key: options.pop(key) for key in WORKLOAD_KEYS}, hit_rate=options.pop("hit_rate", None)
    )
    return choose_workload(options.pop("workload"), options.pop("trace"), changes)


def take_scenario(model: str, options: dict[str, Any], *, token_budget: int | None) -> Any:
    """Remove the deployment's options and return the scenario."""
    from ..serving.deployment import Settings
    from ..serving.scenario import Scenario

    pools = options.pop("prefill_hardware"), options.pop("decode_hardware")
    hardware = options.pop("hardware")
    if hardware is None and None in pools:
        raise InputError("no GPU: pass --hardware (costmodel show hardware lists the packaged ones)")
    own = {"token_budget": token_budget, "max_seqs": options.pop("max_seqs")}
    settings: dict[str, Any] = {key: value for key, value in own.items() if value is not None}
    settings |= {key: options.pop(key) for key in ("kv_policy", "lag", "routing")}
    settings |= {key: options.pop(key) for key in ("prefix_held", "load") if key in options}
    return Scenario(
        model=model,
        hardware=hardware or pools[0],
        prefill_hardware=pools[0],
        decode_hardware=pools[1],
        control_s=options.pop("control"),
        settings=Settings(first_token=options.pop("first_token"), **settings),
        engine=take_engine(options),
        **{name: asked_tiers(options.pop(name, ()), f"--{name}") for name in ("offload", "reuse")},
        **{key: options.pop(key) for key in SCENARIO_KEYS},
    )


def asked_tiers(texts: Sequence[str], option_name: str) -> Any:
    """Return the tiers of an option that says which of them all instances share."""
    from ..questions.tiers import parse_tiers

    found = parse_tiers(texts, option_name) if texts else ()
    for one in found:
        if "shared" in one.given:
            raise InputError(
                f"{option_name} {one.tier.name}: drop shared=...; --offload is of one instance, --reuse of all"
            )
    return found
