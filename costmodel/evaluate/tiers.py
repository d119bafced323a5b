"""What of a prompt need not be computed: in an instance's memory, and in KV tiers below it, from which it is read."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ..inputs.workload import Request
from ..serving.deployment import Deployment
from ..serving.strategies import Role
from ..serving.tiers import KvTier
from .prefix import PrefixCache
from .timeline import PrefixUse, TierUse


class Prefills(Protocol):
    """Step times, of which prefills alone are asked for."""

    def prefill(self, tokens: int, prefix: int = 0) -> float:
        """One prompt alone, in one step."""


class Found(NamedTuple):
    """Prompt tokens that need no computing, and which of them are read: place of a tier and tokens."""

    cached: int
    reads: tuple[tuple[int, int], ...] = ()


NOTHING = Found(0)


class TierStore:
    """Blocks in a tier, the least recently used forgotten first; of one prompt, those at its end first."""

    def __init__(self, tier: KvTier) -> None:
        self.tier = tier
        self.most = tier.capacity_tokens
        self.tokens = 0
        self._blocks: OrderedDict[int, int] = OrderedDict()

    def has(self, block: int) -> bool:
        """Say whether a block is here."""
        return block in self._blocks

    def touch(self, blocks: Sequence[int]) -> None:
        """Note those of a prompt's blocks that are here as used just now."""
        for block in reversed(blocks):
            if block in self._blocks:
                self._blocks.move_to_end(block)

    def write(self, request: Request) -> int:
        """Note a prompt's blocks as used just now; forget what has no room; return the tokens that are new."""
        blocks, new = self._blocks, 0
        for block in reversed(request.blocks):
            if block in blocks:
                blocks.move_to_end(block)
            else:
                blocks[block] = request.block_tokens
                new += request.block_tokens
        self.tokens += new
        while self.tokens > self.most:
            self.tokens -= blocks.popitem(last=False)[1]
        return new


class Prefixes:
    """The prefixes that one instance can use: in its own ``cache``, and in ``stores``, the fastest first.

    ``held``: cached tokens of unknown blocks are in its memory; ``stored``: they lie in the first store. ``cheaper``:
    read only what reads faster than it computes, both alone.
    """

    def __init__(
        self,
        cache: PrefixCache,
        stores: Sequence[TierStore],
        times: Prefills,
        *,
        held: bool = True,
        stored: bool = False,
        cheaper: bool = False,
    ) -> None:
        self.cache, self.stores, self.times = cache, list(stores), times
        self.held, self.stored, self.cheaper = held, stored, cheaper
        self.memory_tokens = self.computed_tokens = self.hits = 0
        self.alone_s = self.saved_s = 0.0
        self.uses = [TierUse(store.tier.name, 1) for store in self.stores]

    def find(self, request: Request) -> Found:
        """Return what of a prompt need not be computed here, now."""
        if request.blocks:
            found = self.cache.hit(request)
            return self._continued(request, found) if self.stores else Found(found)
        cached = request.cached_tokens
        if not cached:
            return NOTHING
        if self.stored:
            return self._worth(request, 0, [(0, cached)]) if holds(self.stores[0].tier, cached) else NOTHING
        return Found(cached) if self.held else NOTHING

    def _continued(self, request: Request, held: int) -> Found:
        """Continue the prefix in memory by blocks of the tiers, each of the fastest that has it."""
        left = request.isl - 1 - held
        if left <= 0:
            return Found(held)
        runs: list[tuple[int, int]] = []
        for block in request.blocks[held // request.block_tokens :]:
            place = next((i for i, store in enumerate(self.stores) if store.has(block)), -1)
            tokens = min(request.block_tokens, left)
            if place < 0 or tokens <= 0:
                break
            left -= tokens
            if runs and runs[-1][0] == place:
                runs[-1] = (place, runs[-1][1] + tokens)
            else:
                runs.append((place, tokens))
        return self._worth(request, held, runs)

    def _worth(self, request: Request, held: int, runs: list[tuple[int, int]]) -> Found:
        """Take all runs of blocks, or as many as serve the prompt soonest while nobody else is there."""
        if self.cheaper and runs:
            choices = [_found(held, runs[:count]) for count in range(len(runs) + 1)]
            isl = request.isl

            def takes(choice: Found) -> float:
                return self.read_s(choice.reads) + self.times.prefill(isl - choice.cached, choice.cached)

            return min(choices, key=takes)
        return _found(held, runs)

    def seconds(self, place: int, tokens: int) -> float:
        """Seconds of a read while its port is free."""
        return self.stores[place].tier.read_s(tokens)

    def read_s(self, reads: Sequence[tuple[int, int]]) -> float:
        """Seconds until reads from different tiers, begun together on free ports, have all ended."""
        return together([(self.stores[place].tier, tokens) for place, tokens in reads])

    def take(self, request: Request, found: Found) -> None:
        """Note what a prompt that is placed here found: blocks that are read were used just now."""
        read = 0
        for place, tokens in found.reads:
            use, seconds = self.uses[place], self.seconds(place, tokens)
            use.reads += 1
            use.read_tokens += tokens
            use.read_s += seconds
            read += tokens
            if request.blocks:
                self.stores[place].touch(request.blocks[: -(-found.cached // request.block_tokens)])
        self.memory_tokens += found.cached - read
        self.computed_tokens += request.isl - found.cached
        if found.reads:
            self.hits += 1
            self.alone_s += self.read_s(found.reads)
            held, isl, prefill = found.cached - read, request.isl, self.times.prefill
            self.saved_s += prefill(isl - held, held) - prefill(isl - found.cached, found.cached)
        elif self.stored and not request.blocks and request.cached_tokens:
            self.uses[0].unheld += not holds(self.stores[0].tier, request.cached_tokens)

    def write(self, request: Request, computed: int) -> None:
        """Write a prompt that is computed to every tier: what is new there, or of unknown blocks what was computed."""
        for store, use in zip(self.stores, self.uses):
            written = store.write(request) if request.blocks else computed
            use.written_tokens += written
            use.write_s += written * store.tier.bytes_per_token / store.tier.write_bytes_per_s


def holds(tier: KvTier, tokens: int) -> bool:
    """Say whether a tier has room for the prefix of so many tokens at all."""
    return tier.bytes_of(tokens) <= tier.capacity_bytes


def together(reads: Sequence[tuple[KvTier, int]]) -> float:
    """Return seconds until the reads of one prompt from different tiers have all ended, on free ports.

    They go at the same time, but for those by the ports of hand-overs, which take turns.
    """
    turns = sum(tier.read_s(tokens) for tier, tokens in reads if tier.on_link)
    return max([turns, *(tier.read_s(tokens) for tier, tokens in reads if not tier.on_link)])


def _found(held: int, runs: Sequence[tuple[int, int]]) -> Found:
    by_place: dict[int, int] = {}
    for place, tokens in runs:
        by_place[place] = by_place.get(place, 0) + tokens
    return Found(held + sum(by_place.values()), tuple(sorted(by_place.items())))


def shared_stores(deployment: Deployment) -> dict[str, TierStore]:
    """Return the stores that all instances have in common, empty."""
    return {tier.name: TierStore(tier) for tier in deployment.tiers if tier.shared}


def prefixes(
    deployment: Deployment,
    role: Role,
    cache: PrefixCache,
    times: Prefills,
    shared: dict[str, TierStore],
) -> Prefixes:
    """Return the prefixes of an instance of a role, its own stores empty."""
    stores = [shared[tier.name] if tier.shared else TierStore(tier) for tier in deployment.tiers]
    return Prefixes(
        cache,
        stores,
        times,
        held=deployment.holds(role),
        stored=deployment.held == "store",
        cheaper=deployment.settings.load == "cheaper",
    )


def used(instances: Sequence[Prefixes], span_s: float) -> PrefixUse:
    """Add up what instances found and read until ``span_s``."""
    total = PrefixUse()
    for one in instances:
        total.memory_tokens += one.memory_tokens
        total.computed_tokens += one.computed_tokens
        total.hits += one.hits
        total.alone_s += one.alone_s
        total.saved_s += one.saved_s
    for place, _ in enumerate(instances[0].uses if instances else ()):
        total.tiers.append(sum_of([one.uses[place] for one in instances], span_s))
    return total


def sum_of(ports: Sequence[TierUse], span_s: float) -> TierUse:
    """Add up the ports of one tier, and find the busiest."""
    found = TierUse(ports[0].name, len(ports))
    for port in ports:
        found.reads += port.reads
        found.read_tokens += port.read_tokens
        found.read_s += port.read_s
        found.written_tokens += port.written_tokens
        found.write_s += port.write_s
        found.unheld += port.unheld
    if span_s > 0:
        found.read_use = max(port.read_s for port in ports) / span_s
        found.write_use = max(port.write_s for port in ports) / span_s
    return found
