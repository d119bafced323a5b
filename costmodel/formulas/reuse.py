"""Reuse of cached prefixes: reading KV from a tier against computing it again."""

from __future__ import annotations

from typing import Any

from ..formula import formula
from ..ops import ceil, floor, maximum, minimum


@formula(
    unit="second",
    symbol="t_{load}",
    source="derived: a latency, the connector's time for each piece, and the bytes at the tier's bandwidth",
    assumes=(
        "nobody else reads from the tier meanwhile",
        "pieces are read one after the other, the last one no longer than what is left",
    ),
)
def tier_read_time(
    tokens: Any, kv_bytes_per_token: Any, latency: Any, tier_chunk: Any, per_chunk: Any, tier_bytes_per_s: Any
) -> Any:
    """Time to read the KV of ``tokens`` from a tier to an instance.

    1,000 tokens of 131,072 bytes in 4 pieces of 256 at 0.1 ms each, 1 ms of latency, 50 GB/s:
    1 + 0.4 + 2.62 ms:

    >>> t = tier_read_time(tokens=1000, kv_bytes_per_token=131_072, latency=0.001, tier_chunk=256,
    ...     per_chunk=0.0001, tier_bytes_per_s=50e9)
    >>> f"{t * 1e3:.2f} ms"
    '4.02 ms'
    """
    return latency + ceil(tokens / tier_chunk) * per_chunk + kv_bytes_per_token * tokens / tier_bytes_per_s


@formula(
    unit="byte",
    symbol="S_{over}",
    source="derived: what all sequences hold at once beyond the pool; below it nothing has to leave GPU memory",
    assumes=("all sequences are equally long",),
)
def kv_overflow(
    held_sequences: Any, length: Any, kv_bytes_per_token: Any, sequence_fixed_bytes: Any, free_bytes: Any
) -> Any:
    """KV bytes for which GPU memory has no room.

    10 sequences of 1,000 tokens of 100 kB and 5 MB besides are 1.05 GB; of them 0.8 GB fit:

    >>> kv_overflow(held_sequences=10, length=1000, kv_bytes_per_token=100_000, sequence_fixed_bytes=5_000_000,
    ...     free_bytes=800_000_000)
    250000000
    >>> kv_overflow(held_sequences=1, length=1000, kv_bytes_per_token=100_000, sequence_fixed_bytes=0,
    ...     free_bytes=800_000_000)
    0
    """
    return maximum(0, held_sequences * (kv_bytes_per_token * length + sequence_fixed_bytes) - free_bytes)


@formula(
    unit="second",
    symbol="t_{pf}",
    source="derived: each of u new tokens costs a, and b for every token before it and for itself, twice",
    assumes=("products take as long a token at any length", "attention looks back without a window"),
)
def prefill_over_prefix(
    uncached: Any, prefix: Any, prefill_fixed: Any, prefill_per_token: Any, prefill_growth: Any
) -> Any:
    """Time of a prefill of ``uncached`` tokens over a cached prefix, as a parabola.

    10 ms, 100 tokens of 20 us, and 1 ns times 100 * (100 + 2 * 1,000): 10 + 2 + 0.21 ms:

    >>> t = prefill_over_prefix(uncached=100, prefix=1000, prefill_fixed=0.01, prefill_per_token=20e-6,
    ...     prefill_growth=1e-9)
    >>> f"{t * 1e3:.2f} ms"
    '12.21 ms'
    """
    grown = uncached * (uncached + 2 * prefix)
    return prefill_fixed + prefill_per_token * uncached + prefill_growth * grown


@formula(
    unit="second",
    symbol="t_{re}",
    source="derived: prefill_over_prefix of the whole prompt less that of the rest over the prefix; the rest "
    "cancels",
    assumes=("those of prefill_over_prefix",),
)
def prefix_recompute_time(prefix: Any, prefill_per_token: Any, prefill_growth: Any) -> Any:
    """Prefill time that a cached prefix saves, whatever follows it.

    1,000 tokens of 20 us, and 1 ns times a million: 20 + 1 ms:

    >>> f"{prefix_recompute_time(prefix=1000, prefill_per_token=20e-6, prefill_growth=1e-9) * 1e3:.1f} ms"
    '21.0 ms'
    """
    return prefill_per_token * prefix + prefill_growth * prefix**2


@formula(
    unit="second",
    symbol=r"\Delta_{re}",
    source="derived: prefix_recompute_time less tier_read_time and what a sequence holds besides",
    assumes=("those of prefix_recompute_time and tier_read_time", "nothing hides the load"),
)
def load_advantage(
    prefix: Any,
    prefill_per_token: Any,
    prefill_growth: Any,
    kv_bytes_per_token: Any,
    sequence_fixed_bytes: Any,
    latency: Any,
    tier_chunk: Any,
    per_chunk: Any,
    tier_bytes_per_s: Any,
) -> Any:
    """Time that loading a prefix saves over computing it again; negative where computing is faster.

    21 ms of compute; 2 ms of latency, 4 pieces of 0.5 ms, 100 MB and 10 MB at 50 GB/s: 21 - 2 - 2 - 2.2 ms:

    >>> t = load_advantage(prefix=1000, prefill_per_token=20e-6, prefill_growth=1e-9,
    ...     kv_bytes_per_token=100_000, sequence_fixed_bytes=10_000_000, latency=0.002, tier_chunk=256,
    ...     per_chunk=0.0005, tier_bytes_per_s=50e9)
    >>> f"{t * 1e3:.1f} ms"
    '14.8 ms'
    """
    computed = prefix_recompute_time(prefix, prefill_per_token, prefill_growth)
    read = tier_read_time(prefix, kv_bytes_per_token, latency, tier_chunk, per_chunk, tier_bytes_per_s)
    return computed - read - sequence_fixed_bytes / tier_bytes_per_s


@formula(
    unit="byte/second",
    symbol=r"\mathrm{BW}_{min}",
    source="Mooncake (FAST'25), equations 1 and 2: KV bytes of a layer over its FLOPs, times the peak rate; "
    "a = 4 and b = 22 for Llama-3-70B",
    assumes=(
        "prefill runs at the peak rate of all GPUs",
        "nothing but bytes takes time while loading",
        "b holds for the widths of Llama-3-70B alone",
    ),
)
def mooncake_bandwidth(
    prefix: Any,
    hidden: Any,
    kv_group: Any,
    kv_dtype_bytes: Any,
    compute_flop_per_s: Any,
    attention_flop: Any = 4,
    linear_flop: Any = 22,
    kv_tensors: Any = 2,
) -> Any:
    """Bandwidth above which loading a prefix beats computing it again, by Mooncake's rule.

    8,192 tokens of Llama-3-70B in 16 bits on 8 x 312 TFLOP/s; the paper rounds it to 6 GB/s:

    >>> b = mooncake_bandwidth(prefix=8192, hidden=8192, kv_group=8, kv_dtype_bytes=2,
    ...     compute_flop_per_s=8 * 312e12)
    >>> f"{b / 1e9:.2f} GB/s"
    '5.86 GB/s'
    """
    work = kv_group * (attention_flop * prefix * hidden + linear_flop * hidden**2)
    return compute_flop_per_s * kv_tensors * hidden * kv_dtype_bytes / work


@formula(
    unit="1",
    symbol="f_{duplex}",
    source="definition; vLLM's connector on PCIe 5.0: 83.4 GB/s both ways, about 50 one way "
    "(blog.vllm.ai/2026/01/08/kv-offloading-connector.html)",
)
def duplex_factor(both_ways_bytes_per_s: Any, tier_bytes_per_s: Any) -> Any:
    """How much more a tier moves with both directions in use than with one: 2 where they do not disturb each other.

    >>> f"{duplex_factor(both_ways_bytes_per_s=83.4e9, tier_bytes_per_s=50e9):.2f}"
    '1.67'
    """
    return both_ways_bytes_per_s / tier_bytes_per_s


@formula(unit="1", symbol="g_{hit}", source="definition")
def hit_gain(recompute: Any, load_time: Any) -> Any:
    """How many times faster a hit has the KV of its prefix than computing it: that prefix alone.

    >>> hit_gain(recompute=2.0, load_time=0.08)
    25.0
    """
    return recompute / load_time


@formula(
    unit="second",
    symbol=r"\bar T",
    source="Amdahl (AFIPS 1967), of the GPU time of a mean request: hits do not touch the rest",
    assumes=("every hit saves the same", "no request waits for another's load"),
)
def reuse_request_time(request_time: Any, hit_share: Any, recompute: Any, load_time: Any) -> Any:
    """Mean time of an instance that a request takes where some find their prefix.

    3 s, of which 2 s are the prefix; four in five load it in 0.1 s instead: 3 - 0.8 * 1.9:

    >>> f"{reuse_request_time(request_time=3.0, hit_share=0.8, recompute=2.0, load_time=0.1):.2f} s"
    '1.48 s'
    """
    return request_time - hit_share * (recompute - load_time)


@formula(
    unit="1",
    symbol=r"g_{fleet}",
    source="Amdahl (AFIPS 1967): requests a second with reuse over those without",
    assumes=("those of reuse_request_time", "instances are busy either way"),
)
def fleet_gain(request_time: Any, hit_share: Any, recompute: Any, load_time: Any) -> Any:
    """How many times more requests the same GPUs serve: far less than a hit gains where decoding takes the time.

    >>> f"{fleet_gain(request_time=3.0, hit_share=0.8, recompute=2.0, load_time=0.1):.2f}"
    '2.03'
    """
    return request_time / reuse_request_time(request_time, hit_share, recompute, load_time)


@formula(
    unit="1",
    symbol="h_{LRU}",
    source="folklore of caches: a cyclic scan longer than an LRU cache evicts every item just before its next use",
    assumes=("the same prompts come again and again in the same order",),
)
def cyclic_lru_hits(set_tokens: Any, cache_tokens: Any) -> Any:
    """Share of hits of an LRU cache under a cyclic scan: all or nothing.

    >>> cyclic_lru_hits(set_tokens=1000, cache_tokens=1000), cyclic_lru_hits(set_tokens=1001, cache_tokens=1000)
    (1.0, 0.0)
    """
    return floor(minimum(1, cache_tokens / set_tokens))


TURNS = "derived: turn t of a conversation has (t - 1) (q + o) tokens before it"
ALIKE = ("every turn brings as many new tokens, and as long an answer",)


@formula(unit="1", symbol=r"\Sigma P", source=TURNS, assumes=ALIKE)
def turns_context(turns: Any, turn_tokens: Any, osl: Any) -> Any:
    """Tokens that stand before the turns of a conversation, summed over its turns.

    3 turns of 100 tokens with answers of 50: 0 + 150 + 300:

    >>> turns_context(turns=3, turn_tokens=100, osl=50)
    450.0
    """
    return (turn_tokens + osl) * turns * (turns - 1) / 2


@formula(
    unit="1",
    symbol="n_{new}",
    source=TURNS,
    assumes=(*ALIKE, "prefill finds prompts and answers: kept for it in a store, or copied back from decode"),
)
def turns_computed_all_kept(turns: Any, turn_tokens: Any) -> Any:
    """Tokens that prefill computes in a conversation where it finds all that came before: the new ones.

    >>> turns_computed_all_kept(turns=3, turn_tokens=100)
    300
    """
    return turns * turn_tokens


@formula(
    unit="1",
    symbol="n_{pf}",
    source=TURNS,
    assumes=(*ALIKE, "a prefill instance keeps what it computed and never sees what decoding added"),
)
def turns_computed_prefill_side(turns: Any, turn_tokens: Any, osl: Any) -> Any:
    """Tokens that prefill computes where prefill instances keep the prefix: the new ones, and each answer once.

    3 * 100 + 2 answers of 50:

    >>> turns_computed_prefill_side(turns=3, turn_tokens=100, osl=50)
    400
    """
    return turns_computed_all_kept(turns, turn_tokens) + (turns - 1) * osl


@formula(
    unit="1",
    symbol="n_{all}",
    source=TURNS,
    assumes=(*ALIKE, "prefill finds nothing: nobody keeps it, or decode does and copies go one way"),
)
def turns_computed_nothing_kept(turns: Any, turn_tokens: Any, osl: Any) -> Any:
    """Tokens that prefill computes where it finds nothing of the turns before: all of them again.

    450 before the turns and 300 new:

    >>> turns_computed_nothing_kept(turns=3, turn_tokens=100, osl=50)
    750.0
    """
    return turns_context(turns, turn_tokens, osl) + turns_computed_all_kept(turns, turn_tokens)


@formula(
    unit="byte",
    symbol="S_{P:D}",
    source=TURNS,
    assumes=(*ALIKE, "decode keeps nothing between turns, so that whole prompts are copied to it"),
)
def turns_copied_whole(turns: Any, turn_tokens: Any, osl: Any, kv_bytes_per_token: Any) -> Any:
    """KV bytes copied from prefill to decode in a conversation where each copy is of the whole prompt.

    >>> turns_copied_whole(turns=3, turn_tokens=100, osl=50, kv_bytes_per_token=1000)
    750000.0
    """
    return kv_bytes_per_token * turns_computed_nothing_kept(turns, turn_tokens, osl)


@formula(
    unit="byte",
    symbol="S_{P:D}",
    source=TURNS,
    assumes=(*ALIKE, "decode keeps the turns before, so that only what is new to it is copied"),
)
def turns_copied_new(turns: Any, turn_tokens: Any, kv_bytes_per_token: Any) -> Any:
    """KV bytes copied from prefill to decode in a conversation where decode keeps what it has.

    >>> turns_copied_new(turns=3, turn_tokens=100, kv_bytes_per_token=1000)
    300000
    """
    return kv_bytes_per_token * turns_computed_all_kept(turns, turn_tokens)


@formula(
    unit="byte",
    symbol="S_{D:P}",
    source=TURNS,
    assumes=(
        *ALIKE,
        "prefill keeps nothing between turns: it takes what stands before each turn from decode",
    ),
)
def turns_copied_back(turns: Any, turn_tokens: Any, osl: Any, kv_bytes_per_token: Any) -> Any:
    """KV bytes that prefill takes of what came before: back from decode, or out of a store.

    >>> turns_copied_back(turns=3, turn_tokens=100, osl=50, kv_bytes_per_token=1000)
    450000.0
    """
    return kv_bytes_per_token * turns_context(turns, turn_tokens, osl)


@formula(
    unit="byte",
    symbol="S_{store}",
    source=TURNS,
    assumes=(*ALIKE, "every token is stored once: prompts by prefill, answers by decode"),
)
def turns_stored(turns: Any, turn_tokens: Any, osl: Any, kv_bytes_per_token: Any) -> Any:
    """KV bytes that a conversation writes to a store.

    >>> turns_stored(turns=3, turn_tokens=100, osl=50, kv_bytes_per_token=1000)
    450000
    """
    return kv_bytes_per_token * turns * (turn_tokens + osl)
