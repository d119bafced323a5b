"""A deployment: instances of each pool, the path between them and the engine's settings."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ..errors import InputError, shorten
from .handover import Handover
from .instance import InstanceKind
from .memory import KvPool
from .strategies import Role
from .tiers import KvTier

MOST_INSTANCES = 4096
MOST_SPLITS = 15
FIRST_TOKEN = ("decode", "prefill", "recompute")
KV_POLICIES = ("grow", "reserve")
ROUTINGS = ("shortest", "round-robin", "prefix")
PREFIX_HELD = ("both", "prefill", "decode", "store")
LOADS = ("always", "cheaper")


@dataclass(frozen=True)
class Topology:
    """``xPyD``: x prefill and y decode instances."""

    prefill: int
    decode: int

    def __str__(self) -> str:
        return f"{self.prefill}P{self.decode}D" if self.decode else str(self.prefill)

    @property
    def instances(self) -> int:
        """Instances in all."""
        return self.prefill + self.decode


def parse_topology(text: str) -> Topology:
    """Return the topology written as 2P2D, or a number of instances for pooled strategies alone.

    Raises InputError for anything else and for an empty pool.
    """
    shown = repr(shorten(text))
    if re.fullmatch("[1-9][0-9]{0,3}", text.strip()) and int(text) <= MOST_INSTANCES:
        return Topology(int(text), 0)
    match = re.fullmatch(r"([0-9]+)P([0-9]+)D", text.strip(), re.IGNORECASE)
    if not match:
        raise InputError(f"--topology {shown}: write instances as xPyD, such as 2P2D")
    if max(len(match[1]), len(match[2])) > 9 or int(match[1]) + int(match[2]) > MOST_INSTANCES:
        raise InputError(f"--topology {shown}: at most {MOST_INSTANCES:,} instances in all")
    found = Topology(int(match[1]), int(match[2]))
    if found.prefill < 1 or found.decode < 1:
        raise InputError(
            f"--topology {shown}: a disaggregated deployment needs at least one prefill and one decode "
            "instance; the pooled strategies are compared on the same GPUs anyway"
        )
    return found


@dataclass(frozen=True)
class Settings:
    """What an engine is told: budgets, limits, and which side emits the first token.

    ``token_budget``: all tokens of a mixed step; whole prompts share a prefill step up to it. ``max_seqs``:
    sequences of an instance, running or reserved. ``kv_policy``: "grow" admits a prompt by its own KV and
    preempts the last to come, by recomputing it, where decodes outgrow the pool (vLLM, SGLang); "reserve" admits
    it with its whole output and preempts nobody (TensorRT-LLM's guaranteed_no_evict). ``lag``: a step is
    planned while the one before it runs, so that an arrival misses one step of a busy engine. ``routing``: to
    the instance with the fewest prompt tokens to compute ("shortest"), the same counting what its prefix cache
    saves ("prefix"), or in turns ("round-robin").

    ``prefix_held``: where cached tokens of unknown blocks lie: on both sides, where prompts are computed ("prefill"),
    where they decode, or in the first KV tier ("store"); None: in the first tier where there is one, else on both.
    ``load``: a prefix in a tier is read always, as engines do, or only where that is "cheaper" than to compute it,
    both alone.
    """

    token_budget: int = 2048
    max_seqs: int = 256
    first_token: str = "decode"
    kv_policy: str = "grow"
    lag: bool = False
    routing: str = "shortest"
    prefix_held: str | None = None
    load: str = "always"

    def __post_init__(self) -> None:
        if self.token_budget < 1:
            raise InputError(f"--token-budget must be at least 1, not {self.token_budget}")
        if self.max_seqs < 1:
            raise InputError(f"--max-seqs must be at least 1, not {self.max_seqs}")
        for option, value, known in (
            ("--first-token", self.first_token, FIRST_TOKEN),
            ("--kv-policy", self.kv_policy, KV_POLICIES),
            ("--routing", self.routing, ROUTINGS),
            ("--prefix-held", self.prefix_held or PREFIX_HELD[0], PREFIX_HELD),
            ("--load", self.load, LOADS),
        ):
            if value not in known:
                raise InputError(f"{option} must be one of {', '.join(known)}, not {value!r}")

    @property
    def grows(self) -> bool:
        """True where KV is taken token by token, so that decodes can outgrow the pool."""
        return self.kv_policy == "grow"

    def admitted_tokens(self, isl: int, output_tokens: int) -> int:
        """Tokens whose KV must find room before a request is admitted to where it decodes."""
        return isl if self.grows else isl + output_tokens


@dataclass(frozen=True)
class Deployment:
    """The GPUs at hand and how they are wired. Pooled strategies use all instances of both pools.

    ``tiers``: where prefixes lie that leave GPU memory, the fastest first; ``tiers_told`` and ``tiers_sources``: what
    stands in for what in their figures, and where those come from.
    """

    topology: Topology
    prefill: InstanceKind
    decode: InstanceKind
    prefill_pool: KvPool
    decode_pool: KvPool
    path: Handover
    settings: Settings
    tiers: tuple[KvTier, ...] = ()
    tiers_told: tuple[str, ...] = ()
    tiers_sources: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.settings.prefix_held == "store" and not self.tiers:
            raise InputError(
                "--prefix-held store: there is no store; add a KV tier with --offload or --reuse"
            )
        names = [tier.name for tier in self.tiers]
        if len(set(names)) < len(names):
            raise InputError(f"two KV tiers of one name: {', '.join(names)}")

    @property
    def held(self) -> str:
        """Where cached tokens of unknown blocks lie: both, prefill, decode or store."""
        return self.settings.prefix_held or ("store" if self.tiers else "both")

    def holds(self, role: Role) -> bool:
        """Say whether instances of a role have cached tokens of unknown blocks in their memory."""
        return self.held != "store" and (role is Role.SHARED or self.held in ("both", role.value))

    @property
    def copies_prefix(self) -> bool:
        """True where a hand-over carries cached tokens of unknown blocks, too: the decode side lacks them."""
        return self.held in ("prefill", "store")

    @property
    def kinds(self) -> set[InstanceKind]:
        """Instance kinds, each once."""
        return {self.prefill, self.decode}

    @property
    def request_latency(self) -> float:
        """What the engine takes of a request outside of steps, before its first token: of the slower pool's stack."""
        stacks = [kind.stack for kind in (self.prefill, self.decode)]
        return max(stack.parameters.request_latency if stack else 0.0 for stack in stacks)

    @property
    def gpus(self) -> int:
        """GPUs in all."""
        return self.topology.prefill * self.prefill.gpus + self.topology.decode * self.decode.gpus

    def pool(self, role: Role) -> list[tuple[InstanceKind, KvPool]]:
        """Return kind and KV pool of each instance of a role."""
        prefill = [(self.prefill, self.prefill_pool)] * self.topology.prefill
        decode = [(self.decode, self.decode_pool)] * self.topology.decode
        return {Role.SHARED: prefill + decode, Role.PREFILL: prefill, Role.DECODE: decode}[role]

    def need_split(self) -> None:
        """Check that there are prefill and decode instances. Raises InputError."""
        if not self.topology.decode:
            raise InputError(
                f"--topology {self.topology}: one pool of instances serves colocated and chunked alone; write xPyD, "
                "such as 1P1D"
            )

    def without_tiers(self) -> Deployment:
        """Return the same deployment without KV tiers."""
        held = None if self.settings.prefix_held == "store" else self.settings.prefix_held
        return replace(
            self, tiers=(), tiers_told=(), tiers_sources=(), settings=replace(self.settings, prefix_held=held)
        )

    def with_topology(self, topology: Topology) -> Deployment:
        """Return the same deployment split another way."""
        return replace(self, topology=topology)

    @property
    def splits_reason(self) -> str | None:
        """Why other splits are not of the same GPUs; None where they are."""
        if self.prefill is self.decode:
            return None
        return "the pools differ in hardware or parallelism: another split is not of the same GPUs"

    def splits(self) -> list[Topology]:
        """Other integer splits of the same GPUs into prefill and decode instances; none of unlike pools.

        Of many, the ``MOST_SPLITS`` nearest to this one, by prefill instances.
        """
        if self.splits_reason:
            return []
        own, instances = self.topology.prefill, self.topology.instances
        others = (prefill for prefill in range(1, instances) if prefill != own)
        nearest = sorted(others, key=lambda prefill: abs(prefill - own))[:MOST_SPLITS]
        return [Topology(prefill, instances - prefill) for prefill in sorted(nearest)]
