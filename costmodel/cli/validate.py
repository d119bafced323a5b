"""``costmodel validate``."""

from __future__ import annotations

from typing import Any

import click

from .options import answers, efficiency_option, hardware_option


@click.command("validate")
@click.argument("kind", metavar="[KIND]", required=False)
@click.option(
    "--measurements",
    multiple=True,
    type=click.Path(),
    help="Table (.csv, .csv.gz) or folder of tables; may be repeated. Default: the packaged ones.",
)
@hardware_option(text="GPU of tables that do not name one")
@click.option(
    "--stack",
    help="Software and version of tables that do not name it, such as vllm-0.24.0; a stack's name or file predicts "
    "whole steps and requests.",
)
@efficiency_option()
@click.option("--plot", type=click.Path(dir_okay=False), help="Write a picture: predicted against measured.")
@answers("validate")
def command(**options: Any) -> object:
    """How far predictions stand from measurements: errors by kind, GPU, stack and split; --detail by regime.

    KIND is one of gemm, layer_ops, elementwise, context_attention, generation_attention, chunked_attention,
    mixed_attention, mla, moe, collective, kv_transfer, memory, step and end_to_end; without it, all that the
    files hold.

    Example: costmodel validate gemm
    """
    from ..questions.validate import ask_validate

    options["measurements"] = options["measurements"] or None
    return ask_validate(**options)
