"""What a closed form answers of a strategy: loads of its pools, and means by account."""

from __future__ import annotations

from dataclasses import dataclass

from .line import Line
from .pace import Decodes

#: What the names of loads of a tier's ports begin with.
TIER = "tier "


def pool_label(role: str) -> str:
    """Name a pool, or a tier, in a sentence."""
    return role if role.startswith(TIER) else f"{role} pool"


@dataclass(frozen=True)
class PoolLoad:
    """Work offered to a pool over its capacity; at 1 or more it is unstable."""

    role: str
    utilisation: float
    instances: int

    @property
    def missing_instances(self) -> float:
        """Instances that the pool lacks to be just stable."""
        return max(0.0, (self.utilisation - 1) * self.instances)


@dataclass(frozen=True)
class Remote:
    """The prefill pool and the copies: offered work over capacity, and means over the remote requests.

    ``sent`` is the share of all requests whose KV is copied.
    """

    utilisation: float = 0.0
    wait: float = 0.0
    service: float = 0.0
    link_utilisation: float = 0.0
    link: float = 0.0
    copy: float = 0.0
    sent: float = 0.0
    line: Line | None = None


@dataclass(frozen=True)
class Means:
    """Mean seconds a request by account of the ledger, TTFT, TPOT and the state they hold at.

    None stands where the load has no closed form or no steady state; ``reason`` says which. ``batch`` is
    that of a decoding instance, ``prefill_wait_s`` the wait before remote prefill, ``local_share`` the share of prompts
    that run where they decode, ``lines`` what prompts wait in, ``crowding`` the tokens that a decoding instance makes
    over the most that its memory and seats allow, ``read_wait_s`` what of ``load`` is waiting for a tier's port,
    ``recomputed_prefix_s`` what of ``stretch`` computes a prefix that the ideal has cached,
    ``decodes`` what a request decodes among (None: unlike instances), ``late`` the seconds of each typical request
    from token 1 to its decoding.
    """

    strategy: str
    loads: tuple[PoolLoad, ...]
    ideal_s: float
    local_share: float
    accounts: dict[str, float] | None = None
    ttft_s: float | None = None
    tpot_s: float | None = None
    batch: float | None = None
    prefill_wait_s: float | None = None
    reason: str | None = None
    lines: tuple[Line, ...] = ()
    crowding: float = 0.0
    read_wait_s: float = 0.0
    recomputed_prefix_s: float = 0.0
    decodes: Decodes | None = None
    late: tuple[float, ...] = ()

    @property
    def utilisation(self) -> float:
        """Of the busiest pool."""
        return max(load.utilisation for load in self.loads)

    @property
    def stable(self) -> bool:
        """True where every pool has capacity to spare."""
        return self.utilisation < 1

    @property
    def delay_s(self) -> float | None:
        """Mean of E2E - ideal."""
        return None if self.accounts is None else sum(self.accounts.values())
