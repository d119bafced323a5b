"""The KV copy from a prefill to a decode instance: bytes, descriptors, time on the wire, what stays exposed.

Bandwidths are per direction. A copy does no arithmetic: its operational intensity is 0 on any hardware.
"""

from __future__ import annotations

from typing import Any

from ..formula import formula
from ..ops import maximum
from .roofline import operational_intensity

LAYERWISE = "derived: pipeline of L equal layers, the overlap of Splitwise, arXiv 2311.18677"


@formula(
    unit="byte",
    symbol="S",
    source="definition",
    assumes=("every layer grows with the prompt; constant state is added by the caller",),
)
def payload_bytes(tokens: Any, kv_bytes_per_token: Any) -> Any:
    """Distinct KV bytes of ``tokens`` tokens.

    Llama-3.1-8B in bf16 (131,072 bytes a token), 512 tokens, 64 MiB:

    >>> payload_bytes(tokens=512, kv_bytes_per_token=131_072)
    67108864
    """
    return tokens * kv_bytes_per_token


@formula(
    unit="byte",
    symbol="S_w",
    source="derived: each GPU that holds a replica receives it; Mooncake's table for TP 8 over 4 KV heads "
    "shows twice the distinct bytes",
    assumes=("a replica crosses the wire: it is not rebuilt inside the receiving instance",),
)
def wire_bytes(kv_bytes: Any, replication: Any) -> Any:
    """Bytes on the wire for ``kv_bytes`` distinct bytes.

    Qwen3-235B-A22B, TP 8 over 4 KV heads, 32,768 tokens of 192,512 bytes; published 12.62 GB:

    >>> f"{wire_bytes(kv_bytes=32_768 * 192_512, replication=2) / 1e9:.2f} GB"
    '12.62 GB'
    """
    return kv_bytes * replication


@formula(
    unit="byte/second",
    symbol=r"\mathrm{BW}",
    source="definition: InfiniBand and Ethernet figures are per port",
    assumes=("the copy is spread evenly over the ports",),
)
def link_bandwidth(ports: Any, port_bytes_per_s: Any) -> Any:
    """Bandwidth of an instance's ports together, one direction.

    Eight ports of 200 Gb/s (25 GB/s):

    >>> link_bandwidth(ports=8, port_bytes_per_s=25e9)
    200000000000.0
    """
    return ports * port_bytes_per_s


@formula(
    unit="1",
    symbol="n_d",
    source="derived: a block's memory in one layer is contiguous within a region, and nowhere else",
)
def descriptors(blocks: Any, layers: Any, regions: Any) -> Any:
    """Transfer descriptors of a copy: one for each block, layer and region.

    5,000 tokens in blocks of 16 (313), 36 layers, K and V apart: 313 * 36 * 2:

    >>> descriptors(blocks=313, layers=36, regions=2)
    22536
    """
    return blocks * layers * regions


@formula(
    unit="second",
    symbol="t_w",
    source="Mooncake's 18 published points fit latency and bandwidth within 7 %; NIXL's block sizes add a "
    "time per descriptor (vLLM issue 50913)",
    assumes=("the link is free",),
)
def wire_time(
    kv_bytes: Any,
    link_bytes_per_s: Any,
    latency: Any,
    per_descriptor: Any,
    descriptors: Any,
    bandwidth_share: Any,
) -> Any:
    """Time of the copy on a free link.

    1 GB at 0.8 of 25 GB/s (50 ms), 0.4 ms, and 1,000 descriptors of 2 us (2 ms):

    >>> t = wire_time(kv_bytes=1e9, link_bytes_per_s=25e9, latency=0.4e-3, per_descriptor=2e-6,
    ...     descriptors=1000, bandwidth_share=0.8)
    >>> f"{t * 1e3:.1f} ms"
    '52.4 ms'
    """
    copy = transfer_bound(kv_bytes, bandwidth_share * link_bytes_per_s)
    return latency + copy + per_descriptor * descriptors


@formula(
    unit="second",
    symbol="t_w",
    source="derived: the bytes over the whole bandwidth",
)
def transfer_bound(kv_bytes: Any, link_bytes_per_s: Any) -> Any:
    """Least time of the copy.

    512 tokens of DeepSeek-V2-Lite (31,104 bytes each) over NVLink 3, 300 GB/s in one direction:

    >>> f"{transfer_bound(kv_bytes=512 * 31_104, link_bytes_per_s=300e9) * 1e6:.1f} us"
    '53.1 us'
    """
    return kv_bytes / link_bytes_per_s


@formula(
    unit="second",
    symbol="t_x",
    source="definition",
    assumes=("the copy starts when the prefill ends",),
)
def exposed_serial(wire: Any) -> Any:
    """Part of a copy that the request waits for when it starts after the prefill: all of it.

    >>> exposed_serial(wire=0.05)
    0.05
    """
    return wire


@formula(
    unit="second",
    symbol="t_x",
    source=LAYERWISE,
    assumes=(
        "layers take equal shares of the prefill and of the copy",
        "a layer's copy starts when its prefill and the copies before it are done",
    ),
)
def exposed_layerwise(wire: Any, prefill_time: Any, layers: Any) -> Any:
    """Part of a layer-wise copy that outlasts the prefill, and at least the copy of the last layer.

    A 40 ms copy over 10 layers hides behind a 100 ms prefill but for its last layer:

    >>> exposed_layerwise(wire=0.04, prefill_time=0.1, layers=10)
    0.004
    """
    return maximum(wire / layers, wire - prefill_time * (layers - 1) / layers)


@formula(
    unit="second",
    symbol="t_h",
    source="definition",
    assumes=("nothing of the control time overlaps the copy",),
)
def handover_time(control: Any, exposed: Any) -> Any:
    """Time from the end of the prefill to KV in place: control, and what the copy exposes.

    >>> f"{handover_time(control=0.1, exposed=0.004) * 1e3:.0f} ms"
    '104 ms'
    """
    return control + exposed


@formula(
    unit="flop/byte",
    symbol="I",
    source="definition: a copy does no arithmetic",
)
def transfer_intensity(bytes_moved: Any, flop: Any = 0) -> Any:
    """Operational intensity of a copy: 0, so no peak rate shortens it.

    >>> transfer_intensity(bytes_moved=1e9)
    0.0
    """
    return operational_intensity(flop, bytes_moved)
