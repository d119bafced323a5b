"""``costmodel calibrate``."""

from __future__ import annotations

from typing import Any

import click

from ..errors import InputError
from .options import Whole, answers, hardware_option, option, tokens_option, tp_option

#: Options that say how an engine ran, or which of its runs are meant.
_OF_LOGS = ("model", "tp", "select", "token_budget", "max_seqs", "kv_tokens", "lag")


def _selection(ctx: click.Context, param: click.Parameter, text: str | None) -> dict[str, str] | None:
    """Read column=text, column=text. Raises InputError for anything else."""
    if text is None:
        return None
    pairs = [part.partition("=") for part in text.split(",")]
    for name, equals, value in pairs:
        if not (name.strip() and equals and value.strip()):
            raise InputError(f"--select {text!r}: write COLUMN=TEXT, as in model=Qwen/Qwen3-32B,tp=2")
    found = {name.strip(): value.strip() for name, _, value in pairs}
    if len(found) < len(pairs):
        raise InputError(f"--select {text!r}: a column stands there twice")
    return found


@click.command("calibrate")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@hardware_option(text="GPU of tables that do not name one; of a log, in place of the one it names")
@click.option("--stack", help="Software and version of tables that do not name it, such as vllm-0.24.0.")
@click.option("--source", help="Where the measurements are from; default: the files' names.")
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    help="File to write (.toml), or a folder where there are several GPUs, stacks or runs.",
)
@click.option(
    "--select",
    metavar="COLUMN=TEXT,...",
    callback=_selection,
    help="Runs of a log, such as model=Qwen/Qwen3-32B,tp=2; default: all.",
)
@click.option("--model", help="Model that a log is of, where it does not name it: a name or a config.json.")
@tp_option(default=None, text="Tensor-parallel GPUs of a log's engine; default: as logged, or 1.")
@tokens_option("--token-budget", "Most tokens of a step of a log's engine; default: as logged, or 2048.")
@option("--max-seqs", type=Whole(10**6), help="Most sequences of its step; default: as logged, or 256.")
@tokens_option("--kv-tokens", "Tokens that its KV pool holds, as it logs them; default: the memory model's.")
@option(
    "--link",
    help="Link that a table of copies went over, where it states no theoretical_GBps: a name or a file.",
)
@click.option(
    "--lag/--no-lag",
    default=None,
    help="Whether it plans a step while the one before runs (vLLM's async scheduling); default: it does.",
)
@answers("calibrate")
def command(files: tuple[str, ...], **options: Any) -> object:
    """Fit operators to tables (.csv, .csv.gz, or folders of them), a stack to tables of whole steps or closed loops,
    step times to a LOG of requests, or a connector to a table of KV copies; -o writes them.

    Tables: half of the shapes or models is fitted, the other half only predicted; both errors are stated. The
    tables have the columns that validate reads.

    A log has arrival, prompt and output tokens, TTFT and E2E or TPOT of each request: a CSV, what vllm bench serve
    --save-result --save-detailed writes, GuideLLM's benchmarks.json, AIPerf's profile_export.jsonl, or the times of
    vLLM's request metrics, an object a line. Step times are fitted to the first half of each run by replaying it, and
    the second half is predicted. The engine's start-up log beside it says what the options below do not.

    Closed loops may be results without single requests too: InferenceX rows, or several results of one client.

    Fitting needs scipy: pip install 'llm-costmodel[calibrate]'.

    \b
    Examples:
      costmodel calibrate my_gemms.csv --hardware h200-sxm --stack vllm-0.24.0 -o mine.toml
      costmodel calibrate my_loops.csv -o stack.toml
      costmodel calibrate requests.csv --select model=Qwen/Qwen3-32B,tp=2 -o steps.toml
      costmodel calibrate result.json --model Qwen3-8B --hardware h100-sxm --max-seqs 256
      costmodel calibrate result.json startup.log --hardware h100-sxm -o steps.toml
      costmodel calibrate copies.csv --link ib-ndr -o connector.toml
    """
    of_logs = {name: options.pop(name) for name in _OF_LOGS}
    link = options.pop("link")
    kind, rest, start = _sorted(files)
    if kind != "log":
        given = [f"--{name.replace('_', '-')}" for name, value in of_logs.items() if value is not None]
        if given:
            raise InputError(f"{', '.join(given)}: only for a log of requests; {rest[0]} is none")
    if kind != "copies" and link is not None:
        raise InputError(f"--link: only for a table of copies (bytes, time_ms); {rest[0]} is none")
    if kind == "copies":
        return _copies(rest, link, **options)
    if kind == "whole":
        from ..questions.calibrate_stack import ask_calibrate_stack

        return ask_calibrate_stack(rest, **options)
    if kind == "operators":
        from ..questions.calibrate import ask_calibrate

        return ask_calibrate(rest, **options)
    from ..questions.calibrate_requests import ask_calibrate_requests
    from ..whole.logs import Asked

    lag, select = of_logs.pop("lag"), of_logs.pop("select")
    asked = Asked(
        **of_logs, hardware=options.pop("hardware"), stack=options.pop("stack"), lag=lag is not False
    )
    return ask_calibrate_requests(rest[0], asked, select=select, start=start, **options)


def _sorted(files: tuple[str, ...]) -> tuple[str, tuple[str, ...], str | None]:
    """Return what files hold (log, whole, copies, operators), those that hold it, and the start-up log beside them.

    Raises InputError where they are of several kinds, or a start-up log has no log of requests beside it.
    """
    from ..inputs.traces import is_log
    from ..questions.calibrate_copies import copy_tables
    from ..questions.calibrate_stack import whole_tables
    from ..results import is_start

    starts = [file for file in files if is_start(file)]
    rest = tuple(file for file in files if file not in starts)
    if len(starts) > 1 or not rest:
        raise InputError(f"{starts[0]} is the start-up log of an engine: pass one, beside a log of requests")
    whole = whole_tables(rest)
    logs = [] if whole else [file for file in rest if is_log(file)]
    if starts and not logs:
        raise InputError(f"{starts[0]} is the start-up log of an engine, but {rest[0]} is no log of requests")
    if logs and len(rest) > 1:
        raise InputError(f"{logs[0]} is a log of requests: calibrate one at a time, without other files")
    if logs:
        return "log", rest, starts[0] if starts else None
    return "whole" if whole else "copies" if copy_tables(rest) else "operators", rest, None


def _copies(files: tuple[str, ...], link: str | None, **options: Any) -> object:
    """Fit tables of copies, which are of a link and not of a GPU or an engine."""
    from ..questions.calibrate_copies import ask_calibrate_copies

    given = [f"--{name}" for name in ("hardware", "stack") if options.pop(name) is not None]
    if given:
        raise InputError(
            f"{', '.join(given)}: not for a table of copies, whose columns say what was measured"
        )
    return ask_calibrate_copies(files, link=link, **options)
