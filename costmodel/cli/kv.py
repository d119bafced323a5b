"""``costmodel kv``."""

from __future__ import annotations

from typing import Any

import click

from .options import (
    answers,
    dtype_option,
    hardware_option,
    kv_dtype_option,
    model_argument,
    tokens_option,
    tp_option,
)


@click.command("kv")
@model_argument()
@tokens_option("--tokens", "Tokens of the sequence.", required=True)
@tp_option()
@dtype_option()
@kv_dtype_option()
@hardware_option()
@answers("kv", fit_asked=True)
def command(**options: Any) -> object:
    """KV cache bytes of a sequence of MODEL; with --hardware, how many such sequences fit on a GPU.

    MODEL is a packaged name (costmodel show models) or the path of a config.json.

    Example: costmodel kv deepseek-ai/DeepSeek-V2-Lite --tokens 8192 --hardware a100-sxm-80gb
    """
    from ..questions.kv import ask_kv

    return ask_kv(**options)
