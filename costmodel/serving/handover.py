"""The copy of a prompt's KV cache from a prefill to a decode instance: bytes, descriptors, time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from ..errors import InputError
from ..formula import Formula
from ..formulas import kv as kv_formulas
from ..formulas import transfer
from ..inputs.link import Connector, Link
from ..inputs.model import LatentAttention, Mixer, Model, Recurrent
from ..memory.kv import SequenceBytes, sequence_bytes

OVERLAPS = ("serial", "layerwise")


class HoldsKv(Protocol):
    """What a copy needs to know of the instance at its end; every ``InstanceKind`` is one."""

    @property
    def model(self) -> Model:
        """The model whose KV is copied."""

    @property
    def tp(self) -> int:
        """Tensor-parallel degree."""

    @property
    def kv_dtype(self) -> str:
        """Dtype of the cache."""


@dataclass(frozen=True)
class KvEnd:
    """An end of a copy without hardware: enough for its bytes and its time on the wire."""

    model: Model
    tp: int
    kv_dtype: str


@dataclass(frozen=True)
class Handover:
    """A path for KV: what is sent, over which ports, by which connector, overlapped or not.

    ``source`` and ``target`` are its ends (instance kinds, or :class:`KvEnd` where no GPU matters); ``nics``
    the ports of one instance.
    ``control_s`` is the control time of a hand-over (0 when not stated: the report says so);
    ``time_factor`` moves the whole copy, for bands.
    """

    source: HoldsKv
    target: HoldsKv
    link: Link
    connector: Connector
    nics: int = 1
    overlap: str = "serial"
    control_s: float = 0.0
    bandwidth_override: float | None = None
    time_factor: float = 1.0

    def __post_init__(self) -> None:
        if self.nics < 1:
            raise InputError(f"--nics must be at least 1, not {self.nics}")
        if self.overlap not in OVERLAPS:
            raise InputError(f"--overlap must be one of {', '.join(OVERLAPS)}, not {self.overlap!r}")
        if self.source.kv_dtype != self.target.kv_dtype:
            raise InputError(
                f"KV is copied as it is stored: prefill keeps {self.source.kv_dtype}, "
                f"decode {self.target.kv_dtype}; pass one --kv-dtype"
            )

    @property
    def bandwidth_bytes_per_s(self) -> float:
        """Peak bandwidth of all ports together, one direction."""
        if self.bandwidth_override is not None:
            return self.bandwidth_override
        return float(transfer.link_bandwidth(self.nics, self.link.bandwidth_bytes_per_s))

    @property
    def latency_s(self) -> float:
        """Fixed latency of a copy: of the connector, which includes the wire's, or at least the wire's."""
        return max(self.connector.latency_s, self.link.latency_s or 0.0)

    @property
    def block_rule(self) -> Formula:
        """The connector's rule of the KV blocks that hold so many tokens."""
        rules = {"ceil": kv_formulas.blocks_ceil, "floor_plus_one": kv_formulas.blocks_plus_one}
        return rules[self.connector.block_rule]

    def blocks(self, tokens: int) -> float:
        """KV blocks that hold ``tokens``, by the connector's rule."""
        return float(self.block_rule(tokens, self.connector.block_tokens))

    def _stored(self, tokens: int) -> int:
        """Tokens that the blocks of ``tokens`` have room for."""
        return int(self.blocks(tokens) * self.connector.block_tokens)

    def payload_bytes(self, tokens: int) -> float:
        """Unique KV bytes of ``tokens``, in whole blocks."""
        return self._unique.of(self._stored(tokens))

    @cached_property
    def _unique(self) -> SequenceBytes:
        return sequence_bytes(self.source.model, self.source.kv_dtype)

    @cached_property
    def _received(self) -> SequenceBytes:
        return sequence_bytes(self.target.model, self.target.kv_dtype, self.target.tp)

    def replication(self, tokens: int) -> float:
        """How often each KV byte crosses the wire: the mean over layers.

        Every receiving rank pulls what it keeps: its KV heads, repeated once there are more ranks than heads,
        its share of recurrent states, and a whole latent (MLA).
        """
        stored = self._stored(tokens)
        return self.target.tp * self._received.of(stored) / self._unique.of(stored)

    def wire_bytes(self, tokens: int) -> float:
        """Bytes that cross the wire: the payload times its replication."""
        return float(transfer.wire_bytes(self.payload_bytes(tokens), self.replication(tokens)))

    def descriptors(self, tokens: int) -> float:
        """Separate regions of the copy: blocks x layers x (K and V, or one latent) x ranks.

        A windowed layer sends the blocks of its window alone, a recurrent one its states, whatever the tokens.
        """
        ranks = max(self.source.tp, self.target.tp)
        count = 0.0
        for mixer, layers in self.source.model.mixers:
            blocks = self.blocks(tokens)
            if isinstance(mixer, Recurrent):
                blocks = 1.0
            elif mixer.window is not None:
                blocks = min(
                    blocks, float(kv_formulas.blocks_ceil(mixer.window, self.connector.block_tokens))
                )
            count += float(transfer.descriptors(blocks, layers, _regions(mixer) * ranks))
        return count

    def wire_s(self, tokens: int) -> float:
        """Time of the copy alone on a free link."""
        found = self._known.get(tokens)
        if found is None:
            key = -self.blocks(tokens)  # all that a copy depends on; negative: no number of tokens
            if key not in self._known:
                self._known[key] = self._wire_s(tokens)
            found = self._known[tokens] = self._known[key]
        return found

    @cached_property
    def _known(self) -> dict[float, float]:
        return {}

    def _wire_s(self, tokens: int) -> float:
        per_descriptor = self.connector.per_descriptor_s or 0.0
        return self.time_factor * float(
            transfer.wire_time(
                self.wire_bytes(tokens),
                self.bandwidth_bytes_per_s,
                self.latency_s,
                per_descriptor,
                self.descriptors(tokens),
                self.connector.bandwidth_share,
            )
        )

    def bound_s(self, tokens: int) -> float:
        """Wire bytes of exactly these tokens over peak bandwidth: no copy is faster."""
        return float(transfer.transfer_bound(self._unique.of(tokens), self.bandwidth_bytes_per_s))

    def exposed_s(self, tokens: int, prefill_s: float = 0.0) -> float:
        """Part of the copy that outlasts the prefill: all of it (serial), or what layers do not hide."""
        wire = self.wire_s(tokens)
        if self.overlap == "serial":
            return wire
        return float(transfer.exposed_layerwise(wire, prefill_s, self.source.model.layer_count))


def _regions(mixer: Mixer) -> int:
    """Regions of a block in one layer: K and V, or latent and indexer key; of a state: it and its convolution's."""
    if isinstance(mixer, Recurrent):
        return 2 if mixer.conv_elements else 1
    if isinstance(mixer, LatentAttention):
        return 2 if mixer.indexer else 1
    return 2 if mixer.own_kv else 0


@dataclass(frozen=True)
class Transfer:
    """What `costmodel transfer` answers."""

    tokens: int
    blocks: float
    payload_bytes: float
    wire_bytes: float
    replication: float
    descriptors: float
    wire_s: float
    bound_s: float
    exposed_s: float
    effective_bytes_per_s: float
    bandwidth_bytes_per_s: float
    intensity: float


def analyse_transfer(path: Handover, tokens: int, prefill_s: float = 0.0) -> Transfer:
    """Return the copy of ``tokens``; ``prefill_s`` matters only for layer-wise overlap.

    Raises InputError for fewer than 1 token.
    """
    if tokens < 1:
        raise InputError(f"--tokens must be at least 1, not {tokens}")
    wire = path.wire_s(tokens)
    return Transfer(
        tokens=tokens,
        blocks=path.blocks(tokens),
        payload_bytes=path.payload_bytes(tokens),
        wire_bytes=path.wire_bytes(tokens),
        replication=path.replication(tokens),
        descriptors=path.descriptors(tokens),
        wire_s=wire,
        bound_s=path.bound_s(tokens),
        exposed_s=path.exposed_s(tokens, prefill_s),
        effective_bytes_per_s=path.wire_bytes(tokens) / wire,
        bandwidth_bytes_per_s=path.bandwidth_bytes_per_s,
        intensity=0.0,
    )
