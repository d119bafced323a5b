"""``costmodel reuse``."""

from __future__ import annotations

from typing import Any

import click

from .options import (
    MOST_REQUESTS,
    SECONDS,
    Quantity,
    Whole,
    answers,
    dtype_option,
    efficiency_option,
    ep_option,
    hardware_option,
    kv_dtype_option,
    model_argument,
    option,
    stack_option,
    tokens_option,
    tp_option,
)

TIER = (
    "NAME[,capacity=500GiB][,bandwidth=50GB/s][,latency=1ms][,bytes_per_token=64kB]...: a tier below GPU memory "
    "(costmodel show tiers), the fastest first. Also read, write, per_chunk, chunk, count, name, windows=all|last, and "
    "shared, per_rank, on_link=yes|no."
)
KEYS = (
    "isl", "osl", "trace", "block_tokens", "hit_rate", "sequences", "context", "turns", "turn_tokens", "measured"
)  # fmt: skip


@click.command("reuse")
@model_argument()
@hardware_option()
@tp_option()
@ep_option()
@option("--tier", "tiers", multiple=True, help=TIER)
@tokens_option("--prefix", "Tokens of a cached prefix; repeat it for several.", multiple=True)
@tokens_option("--isl", "Prompt tokens, the prefix included; default: one more than it.")
@tokens_option("--osl", "Output tokens: of a request for what a fleet gains, of a turn for --turns.")
@option("--trace", type=click.Path(), help="A trace with hashes of prompt blocks, for what is found.")
@tokens_option("--block-tokens", "Tokens of a hashed block, where they are not those of the trace's format.")
@option("--hit-rate", type=Quantity("1", positive=False, most=1), help="Share of requests that hit --prefix.")
@option("--sequences", type=Whole(MOST_REQUESTS), help="Sequences that run at once on an instance.")
@tokens_option("--context", "Tokens of each of them.")
@option("--pool", type=Quantity("byte"), help="KV pool of the instance; default: as vLLM sizes it.")
@option("--turns", type=Whole(1000), help="Turns of a conversation.")
@tokens_option("--turn-tokens", "New prompt tokens of a turn.")
@option("--measured", type=click.Path(), help="CSV of measured prefixes: tokens,load_s,recompute_s.")
@option("--prefill-per-token", type=SECONDS, help="Prefill time of a token, in place of --hardware.")
@option("--prefill-growth", type=SECONDS, help="The same for each token squared.")
@dtype_option()
@kv_dtype_option()
@efficiency_option()
@stack_option()
@answers("reuse")
def command(
    tiers: tuple[str, ...],
    prefix: tuple[int, ...],
    pool: float | None,
    prefill_per_token: float | None,
    prefill_growth: float | None,
    model: Any,
    **options: Any,
) -> object:
    """Loading cached prefixes of MODEL's KV from tiers below GPU memory, against computing them again.

    \b
    Examples:
      costmodel reuse Llama-3.1-8B --hardware h100-sxm --tier dram-pcie5-vllm-0.12 --prefix 512 --prefix 90000
      costmodel reuse Qwen3-32B --hardware h100-sxm --tp 2 --tier dram-pcie5,capacity=800GB --prefix 30000 \\
        --isl 30256 --osl 1024 --sequences 6 --context 31280 --hit-rate 0.9
      costmodel reuse Llama-3.1-70B --hardware h100-sxm --tp 4 --trace mooncake.jsonl \\
        --tier dram-pcie5,capacity=1TB --tier store-eth-100,capacity=20TB,count=4
      costmodel reuse gpt-oss-120b --measured pulls.csv
    """
    from ..questions.reuse import ask_reuse
    from ..questions.reuse_options import ReuseOptions

    asked = ReuseOptions(
        prefixes=prefix,
        pool_bytes=pool,
        prefill_per_token_s=prefill_per_token,
        prefill_growth_s=prefill_growth,
        **{key: options.pop(key) for key in KEYS},
    )
    return ask_reuse(model, tiers, asked, **options)
