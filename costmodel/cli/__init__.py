"""The command line: ``main`` is a click group whose commands are imported when they are called.

To add a command, write ``costmodel/cli/<name>.py`` with a click command called ``command`` and give it a
line in :data:`COMMANDS`.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from ..errors import CostmodelError, InputError, unknown

COMMANDS: dict[str, str] = {
    # command: its line in --help; its module is costmodel.cli.<command>
    "recommend": "The verdict: which strategy on these GPUs, by what margin, and what flips it.",
    "plan": "The smallest and the cheapest deployment that meets the SLOs.",
    "replay": "A trace, request by request, under each strategy.",
    "sweep": "Any inputs of a question as a grid: steps, verdicts, KV, copies, to a file.",
    "break-even": "The router threshold, or the bandwidth, batch, chunk or wait at which the copy pays.",
    "kv": "KV cache bytes of a sequence; what fits on GPUs, and what the engine will log.",
    "step": "Time of a prefill, decode or mixed step, operator by operator.",
    "transfer": "The KV copy: bytes, time on the wire, what stays exposed.",
    "reuse": "Cached prefixes: loading them from a tier against computing them again, and what is found.",
    "show": "What is known: models, hardware, links, workloads, formulas.",
    "explain": "A formula with its LaTeX, source and assumptions; a term; the glossary.",
    "check": "Examine published figures or a benchmark's result: what is absent, what physics says.",
    "calibrate": "Fit operators to your own measurements, or step times to an engine's request log.",
    "validate": "How far predictions stand from measurements.",
    "completion": "The shell completion script for bash, zsh or fish.",
}
INTERRUPTED = 130


class Cli(click.Group):
    """A group of lazily imported commands with this project's exit codes.

    0: answered; 1: no answer exists; 2: usage or bad data; 130: interrupted. Errors are one block on stderr.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of :data:`COMMANDS`."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        found: click.Command = import_module(f"{__name__}.{cmd_name.replace('-', '_')}").command
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; name the nearest one where there is none."""
        if args[0] not in COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise InputError(unknown("command", args[0], COMMANDS, remedy="(costmodel --help lists all)"))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Show the help where nothing is asked."""
        return super().parse_args(ctx, args or ["--help"])

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command line and exit; ``standalone_mode=False`` raises and returns instead."""
        try:
            found = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
            if not standalone_mode:
                return found
            code = _flushed(found if isinstance(found, int) else 0)
        except (CostmodelError, click.ClickException, click.Abort, KeyboardInterrupt, OSError) as error:
            if not standalone_mode:
                raise
            code = _exit_code(error)
        sys.exit(code)


def _exit_code(error: BaseException) -> int:
    """Say what went wrong, unless there is nothing to say, and return the exit code."""
    if isinstance(error, CostmodelError):
        return _fail(str(error), 2 if isinstance(error, InputError) else 1)
    if isinstance(error, click.ClickException):
        return _fail(_with_help(error), 2)
    if isinstance(error, OSError):
        return _broken(error)
    return INTERRUPTED


def _broken(error: OSError) -> int:
    """Say what could not be read (2) or written (1); nothing where the reader of our output left."""
    if error.filename is not None:
        return _fail(f"{error.filename}: {error.strerror}", 2)
    _pacify()
    if error.errno == errno.EPIPE:
        return 0
    return _fail(f"the answer cannot be written: {error.strerror}", 1)


def _flushed(code: int) -> int:
    if sys.stdout is None:
        return _fail("the answer cannot be written: standard output is closed", 1)
    sys.stdout.flush()
    return code


def _fail(message: str, code: int) -> int:
    click.echo(f"error: {message}", err=True)
    return code


def _with_help(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    hint = f"\n(see {context.command_path} --help)" if context else ""
    return error.format_message() + hint


def _pacify() -> None:
    """Let what is left of our output go nowhere: the interpreter flushes at exit, and would complain again."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(cls=Cli, name="costmodel", context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="llm-costmodel", prog_name="costmodel")
def main() -> None:
    """Is the KV copy of disaggregated serving cheaper than the interference it replaces?

    Bytes, FLOPs and seconds of serving a large language model, each with its formula and source. Shell
    completion: eval "$(costmodel completion bash)", or zsh, fish; the variable behind it is
    _COSTMODEL_COMPLETE (_COSTMODEL_COMPLETE=bash_source costmodel prints the same script).
    """
