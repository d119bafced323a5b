"""``costmodel sweep``: options that take a value elsewhere take a list or a range here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ..errors import InputError
from .options import Whole, answers, option
from .progress import Progress
from .stopping import stoppable, workers

#: Sizes that a run may have: processes, points of a block.
MOST_WORKERS, MOST_CHUNK = 1024, 10**7
_WRITTEN = {
    "step": (
        "Times and bounds of steps of MODEL over a grid.",
        "step Llama-3.1-8B --hardware h100-sxm,a100-sxm-80gb --tp 1,2,4 --phase decode --batch 1:256\n"
        "      --context 1024:32768:1024 -o decode.csv",
        "step deepseek-ai/DeepSeek-V2-Lite --hardware a100-sxm-80gb --phase mixed --batch 1:256*2\n"
        "      --context 1024:32768*2 --chunk 512,2048 -o mixed.parquet --workers 2",
    ),
    "recommend": (
        "Verdicts of the closed form over a grid: which strategy has the least mean delay, by what margin.",
        "recommend Llama-3.1-8B --hardware h100-sxm --link nvlink4,ib-hdr --rate 1:10:0.5 --cv 1,2\n"
        "      --isl 512,4096 --osl 64,256 --topology 1P1D,2P2D --token-budget 512,2048 --nics 1,2 -o verdicts.csv",
    ),
    "kv": (
        "KV cache bytes of sequences over a grid; with --hardware, what fits.",
        "kv Llama-3.1-8B,Llama-3.1-70B --tokens 1024:131072*2 --hardware h100-sxm,h200-sxm --tp 1,2,4,8 -o kv.csv",
    ),
    "transfer": (
        "Copies of KV over a grid.",
        "transfer DeepSeek-V3,Llama-3.1-70B --link ib-hdr,ib-ndr,nvlink4 --nics 1,4,8 --tokens 512:131072*2 -o kv.csv",
    ),
}
_HOW = "Lists are a,b,c; ranges lo:hi:step (both ends count) or lo:hi*factor; units as elsewhere."
#: Options of ``recommend`` that the closed form has no answer to.
_NO_GOODPUT = ("--slo-ttft", "--slo-tpot", "--attainment")


class Sweeps(click.Group):
    """The questions, each made when it is called: its options are the axes that it has."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Show the help where nothing is asked."""
        return super().parse_args(ctx, args or ["--help"])

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the questions."""
        return list(_WRITTEN)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Make the command of a question."""
        return _command(cmd_name) if cmd_name in _WRITTEN else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the question; name the nearest one where there is none."""
        from ..errors import unknown

        if args[0] not in _WRITTEN and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise InputError(unknown("question", args[0], _WRITTEN, remedy=f"(one of {', '.join(_WRITTEN)})"))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the questions without importing what answers them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, texts[0]) for name, texts in _WRITTEN.items()])


@click.group("sweep", cls=Sweeps)
def command() -> None:
    """Any inputs of a question as a grid: each option (but --phase) takes a list or a range.

    Points without an answer are flagged with the reason, not dropped. Lists are a,b,c; ranges lo:hi:step (both ends
    count) or lo:hi*factor, as in --batch 1:256*2; units as elsewhere. -o writes every point to a .csv, .csv.gz or
    .parquet; what is printed is the summary.
    """


def _command(name: str) -> click.Command:
    """Make the command of a question from the axes that it has."""
    from ..questions.sweep import ALONE
    from ..sweep.asked import question

    asked = question(name)
    said, *examples = _WRITTEN[name]

    def run(**options: Any) -> object:
        return _run(name, options)

    run.__doc__ = f"{said}\n\n{_HOW}\n\n\b\nExamples:\n" + "\n".join(
        f"  costmodel sweep {text}" for text in examples
    )
    made: Callable[..., Any] = answers("sweep")(run)
    made = _running(made)
    if name == "recommend":
        made = _refusing(made)
    for kind in reversed((*asked.outer, *asked.inner)):
        if kind.option.startswith("-"):
            made = click.option(
                kind.option, kind.key, metavar="NAME" if kind.key in ALONE else "LIST", help=_help(kind)
            )(made)
    made = click.argument("model", metavar="MODEL,..")(made)
    return click.command(name)(made)


def _help(kind: Any) -> str:
    default = "" if kind.default is None or "default" in kind.help else f" Default: {kind.default}."
    return f"{kind.help}{default}"


def _running(function: Callable[..., Any]) -> Callable[..., Any]:
    """Where the points go, and who answers them."""
    for wrap in (
        click.option("-q", "--quiet", is_flag=True, help="No progress on stderr."),
        option(
            "--chunk-points", type=Whole(MOST_CHUNK), help="Points of a block, answered and written together."
        ),
        option("--workers", type=Whole(MOST_WORKERS), default=1, help="Processes that answer blocks."),
        click.option(
            "-o",
            "--output",
            type=click.Path(dir_okay=False),
            help="Write every point: .csv, .csv.gz or .parquet.",
        ),
    ):
        function = wrap(function)
    return function


def _refusing(function: Callable[..., Any]) -> Callable[..., Any]:
    """Refuse by name what the closed form does not answer."""

    def refuse(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
        if value is not None:
            raise InputError(
                f"{param.opts[0]}: the closed form has no goodput; sweep mean delays, and ask costmodel recommend at "
                "the points that matter"
            )

    for name in _NO_GOODPUT:
        function = click.option(name, hidden=True, expose_value=False, callback=refuse)(function)
    return function


def _run(name: str, options: dict[str, Any]) -> object:
    from ..questions.sweep import CHUNK_POINTS, ask_sweep

    output, count = options.pop("output"), options.pop("workers")
    chunk = options.pop("chunk_points") or CHUNK_POINTS
    progress = Progress(silent=options.pop("quiet"))
    with stoppable(), workers(count) as executor:
        sweep = ask_sweep(name, options, executor=executor, chunk_points=chunk, progress=progress)
        try:
            return sweep.summary() if output is None else sweep.to_file(Path(output))
        finally:
            progress.done()
