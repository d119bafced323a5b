"""What ``reuse`` is asked, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError
from .inputs import check_whole


@dataclass(frozen=True)
class ReuseOptions:
    """What is asked besides the model, the instance and its tiers; what is None was not given."""

    prefixes: Sequence[int] = ()
    isl: int | None = None
    osl: int | None = None
    trace: str | Path | None = None
    block_tokens: int | None = None
    hit_rate: float | None = None
    sequences: int | None = None
    context: int | None = None
    pool_bytes: float | None = None
    turns: int | None = None
    turn_tokens: int | None = None
    measured: str | Path | None = None
    prefill_per_token_s: float | None = None
    prefill_growth_s: float | None = None

    def __post_init__(self) -> None:
        for name, value in (
            ("--isl", self.isl),
            ("--osl", self.osl),
            ("--sequences", self.sequences),
            ("--context", self.context),
            ("--turns", self.turns),
            ("--turn-tokens", self.turn_tokens),
            *(("--prefix", prefix) for prefix in self.prefixes),
        ):
            if value is not None:
                check_whole(name, value)
        problems = []
        if self.trace is not None and self.hit_rate is not None:
            problems.append("--trace and --hit-rate both say what is found: pass one")
        elif self.hit_rate is not None and not self.prefixes:
            problems.append("--hit-rate is of a prefix: pass --prefix with the tokens that a hit finds")
        if self.context is not None and self.sequences is None:
            problems.append("--context is of --sequences: pass both")
        if self.turns is not None and (self.turn_tokens is None or self.osl is None):
            problems.append("--turns needs --turn-tokens and, for the answers, --osl")
        if self.turn_tokens is not None and self.turns is None:
            problems.append("--turn-tokens is of --turns: pass both")
        if self.prefill_growth_s is not None and self.prefill_per_token_s is None:
            problems.append("--prefill-growth goes with --prefill-per-token: pass both")
        if self.hit_rate is not None and not 0 <= self.hit_rate <= 1:
            problems.append(f"--hit-rate {self.hit_rate:g} is not in 0 .. 1")
        problems += [
            f"--prefix {prefix} leaves nothing of --isl {self.isl}, which includes it"
            for prefix in self.prefixes
            if self.isl is not None and prefix >= self.isl
        ]
        if problems:
            raise InputError(problems)
