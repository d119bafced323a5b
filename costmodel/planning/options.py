"""What a plan may consist of, and what it is to be best by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..errors import InputError, unknown
from ..serving.strategies import STRATEGIES

OBJECTIVES = ("cost", "gpus")
METHODS = ("search", "distserve")
NAMES = tuple(strategy.name for strategy in STRATEGIES)
BUDGETS = (512, 2048, 8192)
TPS = (1, 2, 4, 8)


def silent(message: str) -> None:
    """Report no progress."""
    del message


@dataclass(frozen=True)
class PlanOptions:
    """What the search may try.

    ``hardware``: GPUs, each alone and any two as prefill and decode pools. ``tp`` of every instance, unless
    ``prefill_tp`` or ``decode_tp`` say otherwise of a role. ``token_budgets``: of strategies that mix prompts and
    decodes. ``thresholds``: uncached tokens below which a deflected prompt stays local; none: quantiles of the
    prompts. ``spare``: instances of any one role that may be down. ``prices``: US dollars an hour of a GPU, before
    the packaged ones (of ``provider``). ``replays``: at most so many, ``requests`` each (None: enough to be in a
    steady state, or all of a trace). ``top``: plans of so many kinds are looked for.
    """

    hardware: tuple[str, ...]
    tp: tuple[int, ...] = TPS
    prefill_tp: tuple[int, ...] | None = None
    decode_tp: tuple[int, ...] | None = None
    strategies: tuple[str, ...] = NAMES
    token_budgets: tuple[int, ...] = BUDGETS
    thresholds: tuple[int, ...] = ()
    max_gpus: int = 64
    spare: int = 0
    prices: Mapping[str, float] = field(default_factory=dict)
    provider: str | None = None
    objective: str = "cost"
    top: int = 5
    method: str = "search"
    requests: int | None = None
    replays: int = 40
    seed: int = 1
    progress: Callable[[str], None] = silent

    def __post_init__(self) -> None:
        problems = []
        if not self.hardware:
            problems.append("no GPU: pass --hardware (costmodel show hardware lists the packaged ones)")
        for name in self.strategies:
            if name not in NAMES:
                problems.append(unknown("--strategy", name, NAMES))
        for option, value, known in (
            ("--objective", self.objective, OBJECTIVES),
            ("--method", self.method, METHODS),
        ):
            if value not in known:
                problems.append(unknown(option, value, known))
        lists = {
            "--tp": self.tp,
            "--prefill-tp": self.prefill_tp,
            "--decode-tp": self.decode_tp,
            "--token-budget": self.token_budgets,
        }
        for option, numbers in lists.items():
            if numbers is not None and (not numbers or min(numbers) < 1):
                problems.append(f"{option}: expected whole numbers of at least 1, not {numbers or 'none'}")
        if not self.strategies:
            problems.append("--strategy: no strategy is left to try")
        for option, least, count in (
            ("--max-gpus", 1, self.max_gpus),
            ("--spare", 0, self.spare),
            ("--top", 1, self.top),
            ("--replays", 1, self.replays),
        ):
            if count < least:
                problems.append(f"{option} must be at least {least}, not {count}")
        if self.requests is not None and self.requests < 1:
            problems.append(f"--requests must be at least 1, not {self.requests}")
        if problems:
            raise InputError(problems)

    def role_tp(self, role: str) -> tuple[int, ...]:
        """Degrees to try of a role: "prefill", "decode" or "shared"."""
        own = {"prefill": self.prefill_tp, "decode": self.decode_tp}.get(role)
        return self.tp if own is None else own
