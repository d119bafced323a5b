"""Bandwidth between a tier and one instance: of a path, of all paths, and of the wire that all of them cross."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..inputs.model import Attention, LatentAttention, Model
from ..inputs.tier import Tier
from ..memory.kv import bytes_per_gpu
from ..units import format_si
from .handover import HoldsKv
from .instance import InstanceKind

#: Wires that a GPU reaches without its PCIe.
_PAST_PCIE = ("c2c",)
_SLACK = 1 + 1e-9


@dataclass(frozen=True)
class Rate:
    """Bytes a second one way of all paths of an instance, and ``peak_bytes_per_s``, which no copy exceeds, if stated.

    ``told``: where the figure comes from; ``warned``: what limits it, or what it exceeds.
    """

    bytes_per_s: float
    peak_bytes_per_s: float | None
    told: tuple[str, ...] = ()
    warned: tuple[str, ...] = ()


def rate_of(
    tier: Tier, direction: str, end: HoldsKv, *, given: float | None, paths: int, sizes: Sequence[float] = ()
) -> Rate | None:
    """Return the bandwidth of ``paths`` paths to an instance, ``read`` or ``write``; None where it is stated nowhere.

    ``given``: of one path, in place of the file's. ``sizes``: bytes of the copies that reads consist of, by which
    some tiers were measured. Where the GPUs' own PCIe carries less than all paths, it is what counts.
    """
    each, told, warned = (given, [], []) if given is not None else _stated(tier, direction, sizes)
    if each is None:
        return None
    rate, peak = each * paths, tier.value(f"{direction}_bandwidth")
    if peak is not None and math.isfinite(each) and each > peak * _SLACK:
        shown = f"{_gb(each)} a {tier.per} exceeds its peak, {_gb(peak)}"
        warned = [*warned, f"{tier.name}: {shown}"]
    top = None if peak is None else max(peak, each) * paths
    host = host_bytes_per_s(tier, end)
    if host is not None and isinstance(end, InstanceKind):
        top = host if top is None else min(top, host)
        if rate > host * _SLACK:
            wires = f"PCIe of {end.gpus} x {end.gpu.name}"
            if math.isfinite(rate):
                limited = (
                    f"{direction}s at {_gb(host)}, the peak of {wires}: {_gb(rate)} do not reach one instance"
                )
                warned = [*warned, f"{tier.name}: {limited}"]
            rate = host
    return Rate(rate, top, tuple(told), tuple(warned))


def host_bytes_per_s(tier: Tier, end: HoldsKv) -> float | None:
    """Peak of the PCIe of an instance's GPUs, which drives, ports and host memory are reached through.

    None where no GPU is named, where its file does not state it, or the tier has a wire of its own.
    """
    if not isinstance(end, InstanceKind) or tier.wire in _PAST_PCIE:
        return None
    stated = end.gpu.values.get("pcie_bandwidth")
    return None if stated is None else end.gpus * stated.value


def _stated(tier: Tier, direction: str, sizes: Sequence[float]) -> tuple[float | None, list[str], list[str]]:
    """Return the file's bandwidth of one path, by the size of copies where measured; what to tell, and warn."""
    stated, pieces, name = tier.used(direction), tier.pieces, tier.name
    rate = None if stated is None else stated.value
    if direction != "read" or not pieces:
        return rate, [], []
    if not sizes:
        rates = [piece.bytes_per_s for piece in pieces]
        shown = f"{_gb(min(rates))} to {_gb(max(rates))} by the size of copies"
        return rate, [f"{name}: measured with {shown}, which no software's layout says"], []
    least = pieces[0]
    found = [tier.bandwidth_of_pieces(size) or least.bytes_per_s for size in sizes]
    rate = sum(sizes) / sum(size / each for size, each in zip(sizes, found))
    shown = " and ".join(dict.fromkeys(format_si(size, "byte") for size in sizes))
    told = f"{name}: reads at {_gb(rate)} a {tier.per}, as measured with copies of {shown}"
    if min(sizes) >= least.size_bytes:
        return rate, [told], []
    small = (
        f"copies of {shown} are smaller than any that were measured and count at the {_gb(least.bytes_per_s)}"
    )
    return rate, [], [f"{name}: {small} of {format_si(least.size_bytes, 'byte')}, which they do not reach"]


def piece_bytes(model: Model, kv_dtype: str, tp: int, tokens: int, piece: str) -> list[float]:
    """Return the bytes of one copy of ``tokens`` tokens on one rank: of all layers, or of each kind of layer.

    Copies by layer hold its keys or its values; a latent is one.
    """
    each = [
        (count, bytes_per_gpu(mixer, kv_dtype, tp) * tokens, isinstance(mixer, LatentAttention))
        for mixer, count in model.mixers
        if isinstance(mixer, Attention | LatentAttention) and bytes_per_gpu(mixer, kv_dtype, tp)
    ]
    if piece == "chunk":
        return [sum(count * size for count, size, _ in each)] if each else []
    return [size if latent else size / 2 for _, size, latent in each]


def _gb(rate: float) -> str:
    return format_si(rate, "byte/second")
