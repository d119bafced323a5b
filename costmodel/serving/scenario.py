"""From names to a deployment: what the commands and the library take, checked once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from ..errors import InputError
from ..families import read_model
from ..inputs.efficiency import Efficiency
from ..inputs.hardware import load_gpu
from ..inputs.link import load_connector, load_link
from ..inputs.model import Model
from ..inputs.stack import Stack
from ..memory.parallelism import Parallelism
from ..memory.settings import EngineSettings
from .deployment import Deployment, Settings, parse_topology
from .handover import Handover, HoldsKv
from .instance import InstanceKind, make_instance
from .memory import kv_pool
from .tiers import KvTier

#: The connector whose copies are measured over the widest range of sizes.
CONNECTOR = "mooncake-vllm"


class TierAsked(Protocol):
    """A KV tier as a user states it; every ``questions.tiers.TierOption`` is one."""

    def kv_tier(self, end: HoldsKv) -> KvTier:
        """Return the tier as instances of this kind see it."""

    def notes(self) -> tuple[str, ...]:
        """Say what stands in for what in its figures."""

    def sources(self) -> tuple[str, ...]:
        """Say where they come from."""


@dataclass(frozen=True)
class Scenario:
    """Names and settings of a comparison; :meth:`deployment` resolves them.

    ``prefill_*`` and ``decode_*`` override what both pools share. ``efficiency`` replaces the packaged
    operator fits of both GPUs; ``stack`` is what an engine adds to them. ``offload``: KV tiers of each instance's own;
    ``reuse``: stores that all instances share.
    """

    model: str | Model
    hardware: str
    topology: str = "2P2D"
    link: str = "ib-hdr"
    connector: str = CONNECTOR
    nics: int = 1
    tp: int = 1
    prefill_tp: int | None = None
    decode_tp: int | None = None
    prefill_hardware: str | None = None
    decode_hardware: str | None = None
    dtype: str | None = None
    kv_dtype: str | None = None
    overlap: str = "serial"
    control_s: float | None = None
    engine: EngineSettings = field(default_factory=EngineSettings)
    settings: Settings = field(default_factory=Settings)
    efficiency: Efficiency | str | Path | None = None
    stack: Stack | str | Path | None = None
    expert_skew: float = 0.0
    offload: tuple[TierAsked, ...] = ()
    reuse: tuple[TierAsked, ...] = ()

    def deployment(self) -> Deployment:
        """Return the deployment. Raises InputError for bad names or values, NoAnswerError where nothing fits."""
        topology = parse_topology(self.topology)
        model = read_model(self.model) if isinstance(self.model, str) else self.model
        prefill = self._kind(model, self.prefill_hardware, self.prefill_tp)
        same = (self.prefill_hardware, self._tp(self.prefill_tp)) == (
            self.decode_hardware,
            self._tp(self.decode_tp),
        )
        decode = prefill if same else self._kind(model, self.decode_hardware, self.decode_tp)
        connector = load_connector(self.connector)
        control = self.control_s if self.control_s is not None else (connector.control_s or 0.0)
        path = Handover(
            prefill, decode, load_link(self.link), connector, self.nics, self.overlap, control_s=control
        )
        pools = [kv_pool(kind, self.engine) for kind in (prefill, decode)]
        asked = (*self.offload, *self.reuse)
        tiers = fastest_first([
            *(wired(replace(one.kv_tier(prefill), shared=False), path) for one in self.offload),
            *(wired(replace(one.kv_tier(prefill), shared=True), path) for one in self.reuse),
        ])  # fmt: skip
        if self.settings.load != Settings.load and not tiers:
            raise InputError(
                f"--load {self.settings.load}: there is no KV tier to load from; add --offload or --reuse"
            )
        rates = tuple(said for tier in tiers for said in tier.told)
        return Deployment(
            topology, prefill, decode, pools[0], pools[1], path, self.settings,
            tiers=tiers,
            tiers_told=(*(note for one in asked for note in one.notes()), *rates),
            tiers_sources=tuple(source for one in asked for source in one.sources()),
        )  # fmt: skip

    def _tp(self, own: int | None) -> int:
        return self.tp if own is None else own

    def _kind(self, model: Model, hardware: str | None, tp: int | None) -> InstanceKind:
        gpu = load_gpu(self.hardware if hardware is None else hardware)
        layout = Parallelism(tp=self._tp(tp))
        return make_instance(
            model, gpu, layout, dtype=self.dtype, kv_dtype=self.kv_dtype, efficiency=self.efficiency,
            stack=self.stack, expert_skew=self.expert_skew,
        )  # fmt: skip


def wired(tier: KvTier, path: Handover) -> KvTier:
    """Return a tier whose reads cross the ports of hand-overs only where both are of one kind of wire."""
    return replace(tier, on_link=tier.on_link and tier.wire in (None, path.link.kind))


def fastest_first(tiers: Sequence[KvTier]) -> tuple[KvTier, ...]:
    """Return tiers by the bandwidth of their reads; equal ones as they are."""
    return tuple(sorted(tiers, key=lambda tier: -tier.read_bytes_per_s))
