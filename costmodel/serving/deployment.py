"""A deployment: instances of each pool, the path between them and the engine's settings."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ..errors import InputError
from .handover import Handover
from .instance import InstanceKind
from .memory import KvPool
from .strategies import Role

FIRST_TOKEN = ("decode", "prefill", "recompute")


@dataclass(frozen=True)
class Topology:
    """``xPyD``: x prefill and y decode instances."""

    prefill: int
    decode: int

    def __str__(self) -> str:
        return f"{self.prefill}P{self.decode}D"

    @property
    def instances(self) -> int:
        """Instances in all."""
        return self.prefill + self.decode


def parse_topology(text: str) -> Topology:
    """Return the topology written as 2P2D. Raises InputError for anything else and for an empty pool."""
    match = re.fullmatch(r"(\d+)P(\d+)D", text.strip(), re.IGNORECASE)
    if not match:
        raise InputError(f"--topology {text!r}: write instances as xPyD, such as 2P2D")
    found = Topology(int(match[1]), int(match[2]))
    if found.prefill < 1 or found.decode < 1:
        raise InputError(
            f"--topology {text!r}: a disaggregated deployment needs at least one prefill and one decode "
            "instance; the pooled strategies are compared on the same GPUs anyway"
        )
    return found


@dataclass(frozen=True)
class Settings:
    """What an engine is told: budgets, limits, and which side emits the first token.

    ``token_budget``: all tokens of a mixed step; whole prompts share a prefill step up to it. ``max_seqs``:
    sequences of an instance, running or reserved.
    """

    token_budget: int = 2048
    max_seqs: int = 256
    first_token: str = "decode"

    def __post_init__(self) -> None:
        if self.token_budget < 1:
            raise InputError(f"--token-budget must be at least 1, not {self.token_budget}")
        if self.max_seqs < 1:
            raise InputError(f"--max-seqs must be at least 1, not {self.max_seqs}")
        if self.first_token not in FIRST_TOKEN:
            raise InputError(
                f"--first-token must be one of {', '.join(FIRST_TOKEN)}, not {self.first_token!r}"
            )


@dataclass(frozen=True)
class Deployment:
    """The GPUs at hand and how they are wired. Pooled strategies use all instances of both pools."""

    topology: Topology
    prefill: InstanceKind
    decode: InstanceKind
    prefill_pool: KvPool
    decode_pool: KvPool
    path: Handover
    settings: Settings

    @property
    def gpus(self) -> int:
        """GPUs in all."""
        return self.topology.prefill * self.prefill.gpus + self.topology.decode * self.decode.gpus

    def pool(self, role: Role) -> list[tuple[InstanceKind, KvPool]]:
        """Return kind and KV pool of each instance of a role."""
        prefill = [(self.prefill, self.prefill_pool)] * self.topology.prefill
        decode = [(self.decode, self.decode_pool)] * self.topology.decode
        return {Role.SHARED: prefill + decode, Role.PREFILL: prefill, Role.DECODE: decode}[role]

    def with_topology(self, topology: Topology) -> Deployment:
        """Return the same deployment split another way."""
        return replace(self, topology=topology)

    def splits(self) -> list[Topology]:
        """Other integer splits of the same GPUs into prefill and decode instances."""
        found = []
        for prefill in range(1, self.gpus // self.prefill.gpus + 1):
            left = self.gpus - prefill * self.prefill.gpus
            if left > 0 and left % self.decode.gpus == 0:
                found.append(Topology(prefill, left // self.decode.gpus))
        return [split for split in found if split != self.topology]
