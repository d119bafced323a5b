"""KV tiers of a deployment: where prefixes lie that GPU memory has no room for, and what reading them takes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..errors import InputError
from ..formulas.reuse import tier_read_time
from ..inputs.tier import Tier
from ..memory.kv import sequence_bytes
from .handover import HoldsKv
from .tier_rates import piece_bytes, rate_of


@dataclass(frozen=True)
class KvTier:
    """A tier below GPU memory, as instances see it.

    ``shared``: all instances share one store (KV reuse, as LMCache and Mooncake have it); else each has its own (KV
    offload, as vLLM has it). ``capacity_bytes``: of the store, or of one instance. Bandwidths: between one instance
    and the tier, one direction each; ``peak_read_bytes_per_s``: no read is faster, None where that is not stated.
    ``on_link``: reads cross the ports that hand-overs use, if those are of ``wire`` (None: whatever they are).
    ``bytes_per_token``: as the tier keeps them, of all layers and, where each rank stores what it holds, of all ranks.
    ``fixed_bytes``: of a sequence besides, with windows that are full; ``windows``: bytes of a token and length of
    each kind, of which a shorter prefix fills a part. ``told`` and ``warned``: where bandwidths come from, and what
    limits them.
    """

    name: str
    shared: bool
    capacity_bytes: float
    read_bytes_per_s: float
    write_bytes_per_s: float
    bytes_per_token: float
    fixed_bytes: float = 0.0
    latency_s: float = 0.0
    chunk_tokens: int = 256
    per_chunk_s: float = 0.0
    on_link: bool = False
    wire: str | None = None
    windows: tuple[tuple[float, float], ...] = ()
    peak_read_bytes_per_s: float | None = None
    told: tuple[str, ...] = ()
    warned: tuple[str, ...] = ()

    @property
    def capacity_tokens(self) -> float:
        """Tokens that the tier has room for."""
        return self.capacity_bytes / self.bytes_per_token if self.bytes_per_token else math.inf

    def fixed_of(self, tokens: float) -> float:
        """Bytes of a prefix of so many tokens beside ``bytes_per_token`` each: states, and windows as far as filled."""
        return self.fixed_bytes - sum(each * max(0.0, window - tokens) for each, window in self.windows)

    def bytes_of(self, tokens: float) -> float:
        """Bytes of a prefix of so many tokens, as the tier keeps it."""
        return self.bytes_per_token * tokens + self.fixed_of(tokens)

    def read_s(self, tokens: int) -> float:
        """Seconds to read the KV of so many tokens while nobody else reads; none for none."""
        if tokens <= 0:
            return 0.0
        return (
            float(
                tier_read_time(
                    tokens,
                    self.bytes_per_token,
                    self.latency_s,
                    self.chunk_tokens,
                    self.per_chunk_s,
                    self.read_bytes_per_s,
                )
            )
            + self.fixed_of(tokens) / self.read_bytes_per_s
        )


@dataclass(frozen=True)
class KvShape:
    """KV of one instance: bytes of a token, and of a sequence besides (full windows, states), each byte once.

    ``copies``: how often the ranks hold each byte of a token together, 1 unless there are more ranks than KV heads or
    the model has latents (MLA), which are whole on every rank; ``held_fixed_bytes``: ``fixed_bytes`` with copies.
    ``windows``: bytes of a token and length of each kind of window in ``fixed_bytes``; ``held_windows`` with copies.
    """

    bytes_per_token: float
    fixed_bytes: float
    copies: float
    held_fixed_bytes: float
    windows: tuple[tuple[float, float], ...] = ()
    held_windows: tuple[tuple[float, float], ...] = ()

    @property
    def held_bytes_per_token(self) -> float:
        """Bytes of a token on all ranks together."""
        return self.copies * self.bytes_per_token


def kv_shape(end: HoldsKv, *, whole_windows: bool = False) -> KvShape:
    """Return the KV of an instance; ``whole_windows``: layers with windows keep every token, as blocks do."""
    once, rank = (sequence_bytes(end.model, end.kv_dtype, ranks) for ranks in (1, end.tp))
    grows, held = (
        sum(each for each, window in part.grows if whole_windows or window == math.inf)
        for part in (once, rank)
    )
    own, ranks = (
        tuple(
            (each * times, window) for each, window in part.grows if not whole_windows and window < math.inf
        )
        for part, times in ((once, 1), (rank, end.tp))
    )
    fixed = once.constant + sum(each * window for each, window in own)
    kept = end.tp * rank.constant + sum(each * window for each, window in ranks)
    copies = end.tp * held / grows if grows else 1.0
    return KvShape(grows, fixed, copies, kept, own, ranks)


def kv_tier(
    tier: Tier,
    end: HoldsKv,
    *,
    capacity_bytes: float | None,
    shared: bool | None = None,
    bytes_per_token: float | None = None,
    read_bytes_per_s: float | None = None,
    write_bytes_per_s: float | None = None,
    latency_s: float | None = None,
    per_chunk_s: float | None = None,
    chunk_tokens: int | None = None,
    count: int | None = None,
    per_rank: bool | None = None,
    whole_windows: bool | None = None,
    on_link: bool | None = None,
    option: str = "--tier",
) -> KvTier:
    """Return a tier as instances of this kind see it; what is None is the file's.

    Bandwidths are of one GPU, drive, port or node, ``count`` of which serve an instance (None: its GPUs, where the
    figure is per GPU, else one). ``bytes_per_token``: of a tier that keeps another dtype or layout, all included.
    ``per_rank`` False: copies that ranks hold alike are stored once, but read by each rank and written by one.
    ``whole_windows``: of layers with windows the tier keeps every token, not a sequence's last window alone; always
    so where all layers have windows. A latency or a time of chunks that nobody states counts as none. ``on_link``:
    whether reads cross the ports of hand-overs, whatever their wires; None: where both are of one kind. ``option``
    is what errors name.

    Raises InputError where capacity or a bandwidth is stated nowhere.
    """
    own, chunk = (
        bytes_per_token is not None,
        int(_stated(chunk_tokens, tier.chunk_tokens, KvTier.chunk_tokens)),
    )
    paths = count if count is not None else end.tp if tier.per == "gpu" else 1
    missing = [] if capacity_bytes is not None else ["capacity=500GiB"]
    sizes = copy_sizes(tier, end, chunk, bytes_per_token)
    read = rate_of(tier, "read", end, given=read_bytes_per_s, paths=paths, sizes=sizes)
    write = rate_of(tier, "write", end, given=write_bytes_per_s, paths=paths)
    for direction, found in (("read", read), ("write", write)):
        if found is None:
            missing.append(f"{direction}=10GB/s ({tier.why_absent(f'{direction}_bandwidth')})")
    if capacity_bytes is None or read is None or write is None:
        raise InputError(f"{option} {tier.name} needs {' and '.join(missing)}: add it after a comma")
    shape = kv_shape(end, whole_windows=whole_windows or not kv_shape(end).bytes_per_token)
    ranks_store = tier.per_rank if per_rank is None else per_rank
    stored = shape.copies if ranks_store else 1.0
    share = 1.0 if own else stored / shape.copies
    return KvTier(
        name=tier.name,
        shared=tier.shared if shared is None else shared,
        capacity_bytes=capacity_bytes,
        read_bytes_per_s=read.bytes_per_s * share,
        write_bytes_per_s=write.bytes_per_s * share,
        bytes_per_token=stored * shape.bytes_per_token if bytes_per_token is None else bytes_per_token,
        fixed_bytes=0.0 if own else shape.held_fixed_bytes if ranks_store else shape.fixed_bytes,
        latency_s=_stated(latency_s, tier.value("latency"), 0.0),
        chunk_tokens=chunk,
        per_chunk_s=_stated(per_chunk_s, tier.value("per_chunk"), 0.0),
        on_link=tier.on_link if on_link is None else on_link,
        wire=tier.wire if on_link is None else None,
        windows=() if own else shape.held_windows if ranks_store else shape.windows,
        peak_read_bytes_per_s=None if read.peak_bytes_per_s is None else read.peak_bytes_per_s * share,
        told=(*read.told, *write.told),
        warned=(*read.warned, *write.warned),
    )


def copy_sizes(tier: Tier, end: HoldsKv, chunk: int, bytes_per_token: float | None = None) -> list[float]:
    """Return bytes of the copies on one rank that a tier's software reads; none where its layout is not stated."""
    if tier.piece is None:
        return []
    if bytes_per_token is not None:
        return [bytes_per_token * chunk / end.tp] if tier.piece == "chunk" else []
    return piece_bytes(end.model, end.kv_dtype, end.tp, chunk, tier.piece)


def _stated(given: float | None, of_file: float | None, absent: float) -> float:
    """Return the first that is stated."""
    return given if given is not None else of_file if of_file is not None else absent
