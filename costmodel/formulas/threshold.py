"""Where to prefill: the delay that one prompt costs everybody, in the decode pool and in the prefill pool.

Both costs are seconds, the prompt's own TTFT and the delay it inflicts on others. Setting both queue factors
to 0 leaves what the prompt itself and the running decodes feel.
"""

from __future__ import annotations

from typing import Any

from ..formula import formula
from ..ops import ceil

DERIVED = "derived for this project: delay of the prompt itself and of those it makes wait"


@formula(
    unit="second",
    symbol=r"t_{add}",
    source="derived: a mixed step hides the share p of the per-token and p0 of the fixed prefill time",
)
def unhidden_prefill(
    uncached: Any, prefill_fixed: Any, prefill_per_token: Any, piggyback: Any, piggyback_fixed: Any
) -> Any:
    """Time by which a prompt lengthens the decode steps that carry it.

    1,000 tokens of 40 us, a quarter hidden, and all of the fixed part: 0.75 * 40 ms:

    >>> t = unhidden_prefill(uncached=1000, prefill_fixed=0.01, prefill_per_token=40e-6, piggyback=0.25,
    ...     piggyback_fixed=1)
    >>> f"{t * 1e3:.1f} ms"
    '30.0 ms'
    """
    return (1 - piggyback) * prefill_per_token * uncached + (1 - piggyback_fixed) * prefill_fixed


@formula(
    unit="second",
    symbol=r"C_{local}",
    source=DERIVED,
    assumes=(
        "prompts wait in one M/G/1 queue",
        "every chunk rides on one step of the running decodes",
        "the batch stays as it is while the prompt is prefilled",
    ),
)
def local_cost(
    uncached: Any,
    chunk: Any,
    prefill_fixed: Any,
    prefill_per_token: Any,
    decode_step: Any,
    piggyback: Any,
    piggyback_fixed: Any,
    decode_weight: Any,
    batch: Any,
    queued_decode: Any,
) -> Any:
    """Delay of a prompt prefilled among the running decodes, and of the decodes and prompts behind it.

    3,000 tokens of 40 us in two chunks on steps of 10 ms, 5 decodes of weight 2, half a prompt behind:
    1.5 * (20 + 120) + 2 * 5 * 120 ms:

    >>> t = local_cost(uncached=3000, chunk=2048, prefill_fixed=0, prefill_per_token=40e-6,
    ...     decode_step=0.01, piggyback=0, piggyback_fixed=0, decode_weight=2, batch=5, queued_decode=0.5)
    >>> f"{t:.3f} s"
    '1.410 s'
    """
    added = unhidden_prefill(uncached, prefill_fixed, prefill_per_token, piggyback, piggyback_fixed)
    served = ceil(uncached / chunk) * decode_step + added
    return (1 + queued_decode) * served + decode_weight * batch * added


@formula(
    unit="second",
    symbol=r"C_{remote}",
    source=DERIVED,
    assumes=("prompts wait in one M/G/1 queue", "the copy starts when the prefill ends"),
)
def remote_cost(
    uncached: Any,
    prefill_fixed: Any,
    prefill_per_token: Any,
    wait: Any,
    queued_prefill: Any,
    control: Any,
    latency: Any,
    kv_bytes_per_token: Any,
    link_bytes_per_s: Any,
) -> Any:
    """Delay of a prompt prefilled in the prefill pool and handed over, and of the prompts behind it.

    1,000 tokens of 40 us after 200 ms, half a prompt behind, 10 ms of control, 1 ms of latency and
    100 MB over 25 GB/s: 200 + 1.5 * 40 + 10 + 1 + 4 ms:

    >>> t = remote_cost(uncached=1000, prefill_fixed=0, prefill_per_token=40e-6, wait=0.2,
    ...     queued_prefill=0.5, control=0.01, latency=0.001, kv_bytes_per_token=100_000,
    ...     link_bytes_per_s=25e9)
    >>> f"{t * 1e3:.0f} ms"
    '275 ms'
    """
    served = (1 + queued_prefill) * (prefill_fixed + prefill_per_token * uncached)
    return wait + served + control + latency + kv_bytes_per_token * uncached / link_bytes_per_s


@formula(
    unit="second",
    symbol=r"\Delta",
    source=DERIVED,
    assumes=("those of the local and of the remote cost",),
)
def remote_advantage(
    uncached: Any,
    chunk: Any,
    prefill_fixed: Any,
    prefill_per_token: Any,
    decode_step: Any,
    piggyback: Any,
    piggyback_fixed: Any,
    decode_weight: Any,
    batch: Any,
    queued_decode: Any,
    wait: Any,
    queued_prefill: Any,
    control: Any,
    latency: Any,
    kv_bytes_per_token: Any,
    link_bytes_per_s: Any,
) -> Any:
    """Delay saved by remote prefill: positive where the copy is cheaper than the interference.

    2,000 tokens of 50 us in one chunk, 10 decodes, steps of 12 ms; no wait, 100 ms of control, 31,104
    bytes a token over 25 GB/s: 12 + 1100 ms against 100 + 100 + 2.49 ms:

    >>> t = remote_advantage(uncached=2000, chunk=2048, prefill_fixed=0, prefill_per_token=50e-6,
    ...     decode_step=0.012, piggyback=0, piggyback_fixed=0, decode_weight=1, batch=10,
    ...     queued_decode=0, wait=0, queued_prefill=0, control=0.1, latency=0, kv_bytes_per_token=31_104,
    ...     link_bytes_per_s=25e9)
    >>> f"{t * 1e3:.1f} ms"
    '909.5 ms'
    """
    local = local_cost(
        uncached,
        chunk,
        prefill_fixed,
        prefill_per_token,
        decode_step,
        piggyback,
        piggyback_fixed,
        decode_weight,
        batch,
        queued_decode,
    )
    remote = remote_cost(
        uncached,
        prefill_fixed,
        prefill_per_token,
        wait,
        queued_prefill,
        control,
        latency,
        kv_bytes_per_token,
        link_bytes_per_s,
    )
    return local - remote
