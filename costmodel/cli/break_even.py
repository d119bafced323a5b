"""``costmodel break-even``."""

from __future__ import annotations

from typing import Any

import click

from ..errors import InputError
from .options import MOST_REQUESTS, SECONDS, Quantity, answers, model_argument, option, tokens_option
from .scenario import (
    ENGINE_KEYS,
    NOT_NEGATIVE,
    NOT_NEGATIVE_S,
    WORKLOAD_KEYS,
    deployment_options,
    later_options,
    stated,
    take_scenario,
    take_workload,
    workload_options,
)

#: What gives the bytes of a token and the bandwidth where no GPU is named.
PATH_KEYS = ("link", "connector", "nics", "tp", "decode_tp", "kv_dtype")
SHARE = Quantity("1", positive=False, most=1)
WAIT = "Wait at the prefill pool less that for a local prefill slot; may be negative."
SOLVE = ("tokens", "bandwidth", "batch", "chunk", "wait")


@click.command("break-even")
@model_argument()
@option("--solve", type=click.Choice(SOLVE), default="tokens", help="What to solve for; the rest stays.")
@tokens_option("--uncached", "Uncached tokens of the prompt at hand.")
@option("--prefill-per-token", type=SECONDS, help="Prefill time of one more token, such as 44.7us.")
@option("--prefill-fixed", type=NOT_NEGATIVE_S, help="Fixed part of a prefill alone.")
@option("--decode-step", type=SECONDS, help="Decode step with the running batch, such as 12ms.")
@option("--batch", type=Quantity("1", most=MOST_REQUESTS), help="Running decodes of a decode instance.")
@tokens_option("--chunk", "Prefill tokens of a mixed step.")
@option("--piggyback", type=SHARE, help="Share of the per-token prefill time that a mixed step hides.")
@option("--piggyback-fixed", type=SHARE, help="Share of the fixed prefill time that it hides.")
@option("--decode-weight", type=NOT_NEGATIVE, help="Weight of a second of stall against one of TTFT.")
@option("--wait", type=Quantity("second", positive=False, signed=True), help=WAIT)
@option("--queued-prefill", type=NOT_NEGATIVE, help="Prompts delayed there per second of service added.")
@option("--queued-decode", type=NOT_NEGATIVE, help="Prompts delayed in the decode pool per second added.")
@option("--kv-bytes-per-token", type=Quantity("byte"), help="Wire bytes of a token; default: the model's.")
@option("--bandwidth", type=Quantity("byte/second"), help="Bandwidth of the copy, such as 25GB/s.")
@option("--latency", type=NOT_NEGATIVE_S, help="Fixed latency of a copy.")
@option("--handover", type=NOT_NEGATIVE_S, help="The same as --control.")
@deployment_options()
@tokens_option("--token-budget", "All tokens of a mixed step: the chunk, where --chunk is not given.")
@workload_options()
@later_options()
@answers("break-even", explain=True)
@click.pass_context
def command(ctx: click.Context, /, model: str, solve: str, **options: Any) -> object:
    """The prompt length (or bandwidth, batch, chunk, wait) from which the copy of MODEL's KV pays.

    With --hardware and a workload every value of the inequality follows from them unless given; without, the
    values are those given. costmodel explain remote_advantage prints the inequality.

    \b
    Examples:
      costmodel break-even deepseek-ai/DeepSeek-V2-Lite --hardware a100-sxm-80gb --workload hphd
      costmodel break-even deepseek-ai/DeepSeek-V2-Lite --prefill-per-token 44.7us --batch 14 \\
        --decode-step 12ms --chunk 2048 --bandwidth 25GB/s --control 100ms --wait 0.78s
    """
    from ..questions.break_even import OPTIONS, ask_break_even

    handover = options.pop("handover")
    if None not in (handover, options["control"]) and handover != options["control"]:
        raise InputError("--handover and --control are the same time: pass one")
    options["control"] = handover if options["control"] is None else options["control"]
    given = {name: options.get(flag[2:].replace("-", "_")) for name, flag in OPTIONS.items()}
    budget = options.pop("token_budget")
    gpus = [key for key in ("hardware", "prefill_hardware", "decode_hardware") if options[key]]
    if gpus:
        workload = take_workload(options)
        scenario = take_scenario(model, options, token_budget=budget)
        return ask_break_even(model, given, solve=solve, scenario=scenario, workload=workload)
    said = stated(ctx)
    _refuse_unused(said)
    if given["chunk"] is None:
        given["chunk"] = budget
    path = {key: options[key] for key in PATH_KEYS}
    if "link" not in said:
        path["link"] = None
    return ask_break_even(model, given, solve=solve, path=path)


def _refuse_unused(said: dict[str, str]) -> None:
    """Refuse by name what changes nothing where the values of the inequality are given one by one."""
    beside = {
        "a workload needs --hardware: its times are those of a GPU": ("workload", "trace", *WORKLOAD_KEYS),
        "no effect without --hardware": ENGINE_KEYS,
    }
    if "link" not in said:
        beside["no effect without --link"] = ("nics", "connector")
    elif {"bandwidth", "latency"} <= said.keys():
        beside["no effect beside --bandwidth and --latency"] = ("link", "nics", "connector")
    elif "bandwidth" in said:
        beside["no effect beside --bandwidth"] = ("nics",)
    if "kv_bytes_per_token" in said:
        beside["no effect beside --kv-bytes-per-token"] = ("tp", "decode_tp", "kv_dtype")
    elif "decode_tp" in said:
        beside["no effect beside --decode-tp without --hardware"] = ("tp",)
    if "chunk" in said:
        beside["no effect beside --chunk without --hardware"] = ("token_budget",)
    problems = []
    for why, keys in beside.items():
        unused = [said[key] for key in keys if key in said]
        if unused:
            problems.append(f"{', '.join(unused)}: {why}")
    if problems:
        raise InputError(problems)
