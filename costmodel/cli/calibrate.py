"""``costmodel calibrate``."""

from __future__ import annotations

from typing import Any

import click

from .options import answers, hardware_option


@click.command("calibrate")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@hardware_option(text="GPU of tables that do not name one")
@click.option("--stack", help="Software and version of tables that do not name it, such as vllm-0.24.0.")
@click.option("--source", help="Where the measurements are from; default: the files' names.")
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    help="Efficiency file to write (.toml), or a folder where there are several GPUs or stacks.",
)
@answers("calibrate")
def command(**options: Any) -> object:
    """Fit the operators that tables (.csv, .csv.gz, or folders of them) measured; -o writes an efficiency file.

    Half of the shapes or models is fitted, the other half only predicted; both errors are stated. The tables have
    the columns that validate reads. Fitting needs scipy: pip install 'llm-costmodel[calibrate]'.

    Example: costmodel calibrate my_gemms.csv --hardware h200-sxm --stack vllm-0.24.0 -o mine.toml
    """
    from ..questions.calibrate import ask_calibrate

    return ask_calibrate(**options)
