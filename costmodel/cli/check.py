"""``costmodel check``."""

from __future__ import annotations

from typing import Any

import click

from ..errors import InputError
from ..serving.strategies import STRATEGIES
from .options import Known, Whole, answers, option, tokens_option
from .recommend import BUDGET
from .replay import models, read_pairs, step_times
from .scenario import RATE, deployment_options, stated, take_scenario

#: Options that state conditions of a run, by the names of those.
_CONDITIONS = {"rate": "arrival_rate", "concurrency": "concurrency", "isl": "input_tokens", "osl": "output_tokens",
               "cached": "cached_tokens"}  # fmt: skip

_ENGINE = ("engine", "engine_version")


@click.command("check")
@click.argument("files", metavar="RECORD|RESULT...", nargs=-1, required=True)
@option(
    "--model", type=Known("MODEL", models), help="Where a result does not name it: a name or a config.json."
)
@option("--strategy", type=click.Choice([s.name for s in STRATEGIES]), help="That ran; default: as stated.")
@deployment_options()
@tokens_option("--token-budget", BUDGET)
@option("--concurrency", type=Whole(10**6), help="Clients of a closed loop, where a result does not say.")
@option("--rate", type=RATE, help="Requests offered a second, where a result does not say.")
@tokens_option("--isl", "Prompt tokens, where a result does not say.")
@tokens_option("--osl", "Output tokens, where a result does not say.")
@tokens_option("--cached", "Prompt tokens in the cache already, where a result does not say.", zero=True)
@click.option("--predict", is_flag=True, help="Predict the runs of records, too, not only those of results.")
@click.option(
    "--reconcile",
    is_flag=True,
    help="Where a prediction misses, try which assumption would make it fit (slow).",
)
@option("--varying", multiple=True, help="Condition in which two results differ by intent; may be repeated.")
@option("--select", help="Rows of one run of a log: column=value[,column=value].")
@option("--step-times", type=click.Path(), help="Step times that calibrate fitted to an engine's log.")
@answers("check")
def command(files: tuple[str, ...], **options: Any) -> object:
    """Examine published figures or a benchmark's result: what is absent, what physics says, what it compares with.

    A RECORD is a TOML file of [[measurement]] tables (docs/records.md), or a packaged one (costmodel show records). A
    RESULT is what vllm bench serve, SGLang's bench_serving, AIPerf, GuideLLM or InferenceX write, a table of transfers,
    a start-up log, /metrics, or a log of requests; it is set beside its prediction, with what hurts it.

    \b
    Examples:
      costmodel check kairos
      costmodel check report.toml --detail
      costmodel check result.json --model Qwen3-8B --hardware h100-sxm --topology 1
      costmodel check before.json after.json --varying max_num_batched_tokens
    """
    from ..questions.check import ask_check
    from ..questions.check_options import CheckOptions

    passed = set(stated(click.get_current_context()))
    given = {_CONDITIONS[key]: options.pop(key) for key in _CONDITIONS}
    varying, select = options.pop("varying"), read_pairs(options.pop("select"))
    tables, strategy, wanted = (
        step_times(options.pop("step_times")),
        options.pop("strategy"),
        options.pop("predict"),
    )
    model = options.pop("model") or ""
    options["hardware"] = hardware = options["hardware"] or ""
    named = {"model": model, "hardware": hardware, "tp": options["tp"] if "tp" in passed else None}
    engine: dict[str, str] = {name: options[name] for name in _ENGINE if name in passed}
    budget = _limits(options, passed)
    asked = CheckOptions(
        scenario=take_scenario(model, options, token_budget=budget),
        passed=frozenset(passed),
        given={key: value for key, value in (given | named).items() if value},
        engine=engine,
        strategy=strategy,
        reconcile=options.pop("reconcile"),
        wanted=wanted or bool(model or hardware),
        select=select or None,
        tables=tables,
    )
    return ask_check(files, asked, varying=varying)


def _limits(options: dict[str, Any], passed: set[str]) -> int | None:
    """Take an engine's own names for its limits as the replay's; return the token budget. Raises InputError for two."""
    for ours, theirs in (("max_seqs", "max_num_seqs"), ("token_budget", "max_num_batched_tokens")):
        if theirs in passed:
            if ours in passed and options[ours] != options[theirs]:
                flags = f"--{ours.replace('_', '-')} {options[ours]} and --{theirs.replace('_', '-')} {options[theirs]}"
                raise InputError(f"{flags}: the same limit twice")
            options[ours] = options[theirs]
            passed.add(ours)
    budget: int | None = options.pop("token_budget")
    return budget
