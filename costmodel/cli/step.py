"""``costmodel step``."""

from __future__ import annotations

from typing import Any

import click

from .options import (
    MOST_REQUESTS,
    Whole,
    answers,
    dtype_option,
    efficiency_option,
    ep_option,
    hardware_option,
    kv_dtype_option,
    model_argument,
    option,
    skew_option,
    stack_option,
    tokens_option,
    tp_option,
)


@click.command("step")
@model_argument()
@hardware_option(required=True)
@option(
    "--phase", type=click.Choice(("prefill", "decode", "mixed")), required=True, help="What the step holds."
)
@tokens_option("--isl", "Prompt tokens, cached ones included.")
@tokens_option("--cached", "Prompt tokens in the cache already.", zero=True)
@option("--batch", type=Whole(MOST_REQUESTS), help="Running decodes; default 1.")
@tokens_option("--context", "Tokens of each running sequence.")
@tokens_option(
    "--chunk", "Prefill tokens of a step; for a prefill, repeat it to price several.", multiple=True
)
@tp_option()
@ep_option()
@dtype_option()
@kv_dtype_option()
@efficiency_option()
@stack_option()
@skew_option()
@answers("step")
def command(**options: Any) -> object:
    """Time of one step of MODEL, operator by operator, with its band and its physical bound.

    \b
    Examples:
      costmodel step Llama-3.1-8B --hardware h100-sxm --phase prefill --isl 8192 --chunk 512 --chunk 2048
      costmodel step Llama-3.1-8B --hardware h100-sxm --phase decode --batch 32 --context 2048
      costmodel step Llama-3.1-8B --hardware h100-sxm --phase mixed --batch 32 --context 2048 --chunk 512
      costmodel step DeepSeek-V3 --hardware h200-sxm --phase decode --batch 64 --context 4096 --tp 8 --ep 8
    """
    from ..questions.step import ask_step

    return ask_step(**options)
