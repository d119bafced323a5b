"""``costmodel transfer``."""

from __future__ import annotations

from typing import Any

import click

from .options import (
    SECONDS,
    Quantity,
    answers,
    connector_option,
    kv_dtype_option,
    link_option,
    model_argument,
    nics_option,
    option,
    overlap_option,
    tokens_option,
    tp_option,
)


@click.command("transfer")
@model_argument()
@tokens_option("--tokens", "Tokens whose KV is copied.", required=True)
@link_option(required=True)
@nics_option()
@connector_option()
@tp_option(text="Tensor-parallel GPUs of both ends.")
@tp_option("--prefill-tp", None, "Of the prefill end alone.")
@tp_option("--decode-tp", None, "Of the decode end alone.")
@kv_dtype_option()
@overlap_option()
@option("--prefill-time", type=SECONDS, help="Prefill that a layer-wise copy hides behind, such as 350ms.")
@option(
    "--control", type=Quantity("second", positive=False), help="Control time of the hand-over, such as 100ms."
)
@answers("transfer")
def command(
    tp: int,
    prefill_tp: int | None,
    decode_tp: int | None,
    prefill_time: float | None,
    control: float | None,
    **options: Any,
) -> object:
    """The copy of MODEL's KV from a prefill to a decode instance. No GPU is needed: a copy computes nothing.

    Example: costmodel transfer Qwen3-8B --tokens 4096 --link eth-200 --nics 8 --tp 8
    """
    from ..questions.transfer import ask_transfer

    return ask_transfer(
        prefill_tp=tp if prefill_tp is None else prefill_tp,
        decode_tp=tp if decode_tp is None else decode_tp,
        prefill_s=prefill_time,
        control_s=control,
        **options,
    )
