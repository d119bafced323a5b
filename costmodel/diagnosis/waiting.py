"""The cause of a wait that hurts: by the replay, and whether it is the same at both edges of the band."""

from __future__ import annotations

from functools import cached_property

from .accounts import causes_of
from .answer import Cause
from .causes import MEMORY, PROMPTS, SLOTS, STEP, WAITS, Causes
from .replays import Played, Replays


class Waiting:
    """Causes of the waits of a replay, for all figures of its run."""

    def __init__(self, replays: Replays) -> None:
        self.replays = replays
        self._found: dict[tuple[str, str, str], Cause | None] = {}

    @cached_property
    def _nominal(self) -> Causes:
        return self._causes(self.replays.nominal)

    @cached_property
    def _edges(self) -> dict[float, Causes]:
        return {}

    def _causes(self, played: Played) -> Causes:
        return Causes(played.everyone, self.replays.ran.deployment)

    def of(self, account: str, measure: str, word: str) -> Cause | None:
        """Return the cause of an account of a statistic; None where it is no wait, or nobody waits."""
        key = account, measure, word
        if account not in WAITS or measure == "tpot":
            return None
        if key not in self._found:
            self._found[key] = self._cause(account, measure, word)
        return self._found[key]

    def _cause(self, account: str, measure: str, word: str) -> Cause | None:
        shares = causes_of(self.replays.nominal, self._nominal, measure, word).get(account)
        if shares is None:
            return None
        name = _most(shares)
        others = [_most(at) for at in self._at_edges(account, measure, word)]
        steady = all(other == name for other in others) if others else None
        return Cause(name, shares[name], self._told(name, shares[name]), shares, steady)

    def _at_edges(self, account: str, measure: str, word: str) -> list[dict[str, float]]:
        """Shares at both edges of the band of steps; nothing where nobody waits there."""
        if self.replays.fitted:
            return []
        factor = self.replays.step_spread(measure)
        found = []
        for by in (1 / factor, factor):
            played = self.replays.all_steps(by)
            if by not in self._edges:
                self._edges[by] = self._causes(played)
            if shares := causes_of(played, self._edges[by], measure, word).get(account):
                found.append(shares)
        return found

    def _told(self, name: str, share: float) -> str:
        deployment = self.replays.ran.deployment
        of = f"for {share:.0%} of the wait"
        if name == SLOTS:
            return f"its {deployment.settings.max_seqs:,} sequence slots were full {of}"
        if name == MEMORY:
            pool = min((deployment.prefill_pool, deployment.decode_pool), key=lambda p: p.pool_bytes)
            tokens = pool.pool_bytes / pool.sequence.most_per_token
            return f"its KV pool of {tokens:,.0f} tokens could not take the next request {of}"
        told = {PROMPTS: "prompts that came before were computed", STEP: "a step was under way"}
        return f"{told[name]} {of}"


def _most(shares: dict[str, float]) -> str:
    return max(shares, key=lambda name: shares[name])
