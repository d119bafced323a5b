"""``costmodel kv``."""

from __future__ import annotations

from typing import Any

import click

from ..errors import InputError
from .engine import MAX_MODEL_LEN, engine_options, layers_of_stages, layout_options, take_engine, together
from .options import (
    GPU,
    MOST_REQUESTS,
    Quantity,
    Whole,
    answers,
    dtype_option,
    kv_dtype_option,
    model_argument,
    option,
    tp_option,
)
from .scenario import stated


@click.command("kv")
@model_argument()
@option(
    "--tokens", "--context", "tokens", type=Quantity("token"), required=True, help="Tokens of the sequence."
)
@tp_option(default=None)
@together(*layout_options())
@dtype_option()
@kv_dtype_option()
@option(
    "--hardware",
    type=GPU,
    multiple=True,
    help="GPU: a packaged name (costmodel show hardware) or a TOML file; repeat it for unlike pipeline stages.",
)
@together(*engine_options("; all: side by side"))
@MAX_MODEL_LEN
@option("--block-size", type=Whole(10**6), help="Tokens of a KV block; default: the engine's.")
@option(
    "--kv-pool",
    type=Quantity("byte"),
    multiple=True,
    help="KV pool of a GPU, such as 6.51GiB, instead of sizing it; repeat it for unlike stages.",
)
@option("--users", type=Whole(MOST_REQUESTS), help="Sequences held at once: asks for the fewest GPUs.")
@answers("kv", explain=True)
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> object:
    """KV cache bytes of a sequence of MODEL; with --hardware, what fits and what the engine will log.

    MODEL is a packaged name (costmodel show models) or the path of a config.json.

    \b
    Examples:
      costmodel kv deepseek-ai/DeepSeek-V2-Lite --tokens 8192 --hardware h100-sxm --gpu-memory-utilization 0.95
      costmodel kv Qwen3-235B-A22B --tokens 32768 --hardware h200-sxm --tp 8 --engine sglang
      costmodel kv Llama-3.1-70B --tokens 16384 --users 64 --hardware h100-sxm
    """
    from ..questions.kv import ask_kv

    _refuse_unused(stated(ctx), bool(options["hardware"]), bool(options["kv_pool"]))
    engine = take_engine(options, block_tokens=options.pop("block_size"), pool_bytes=options.pop("kv_pool"))
    split = layers_of_stages(options.pop("pp_layers"))
    boards = options.pop("hardware") or None
    return ask_kv(**options, hardware=boards, engine=engine, pp_layers=split)


#: What only a pool gives a meaning to, and what sizes one.
OF_A_POOL = ("max_num_seqs", "max_num_batched_tokens", "max_model_len", "block_size")
SIZING = ("memory_share", "activation", "non_torch")


def _refuse_unused(said: dict[str, str], hardware: bool, pool: bool) -> None:
    """Refuse by name what would change nothing."""
    why: dict[str, tuple[str, ...]] = {}
    if not hardware and not pool:
        why["no effect without --hardware or --kv-pool"] = (*OF_A_POOL, *SIZING)
    if pool:
        why["no effect beside --kv-pool, which is the pool itself"] = SIZING
    problems = [
        f"{', '.join(unused)}: {reason}"
        for reason, keys in why.items()
        if (unused := [said[key] for key in keys if key in said])
    ]
    if problems:
        raise InputError(problems)
