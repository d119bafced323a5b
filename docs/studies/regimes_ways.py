"""What the regime maps compare: models, ways to serve them, and a cell that says which of two ways wins."""

from __future__ import annotations

import math
from dataclasses import dataclass

from costmodel.serving.strategies import CHUNKED, COLOCATED, DISAGGREGATED, Strategy


@dataclass(frozen=True)
class Size:
    """A model as it is served: ``tp`` GPUs an instance, one port a GPU."""

    name: str
    model: str
    tp: int


SMALL = Size("8B", "meta-llama/Llama-3.1-8B", 1)
LARGE = Size("70B", "meta-llama/Llama-3.1-70B", 4)
SIZES = (SMALL, LARGE)


@dataclass(frozen=True)
class Way:
    """A way to serve: a strategy, its prefill instances where there is a split, and its token budget."""

    letter: str
    strategy: Strategy
    prefill: int = 1
    budget: int = 2048


POOLED = (Way("O", COLOCATED), Way("C", CHUNKED), Way("C", CHUNKED, budget=512))


def splits(instances: int, letter: str = "D", strategy: Strategy = DISAGGREGATED) -> tuple[Way, ...]:
    """Every integer split of so many instances."""
    return tuple(Way(letter, strategy, prefill) for prefill in range(1, instances))


@dataclass(frozen=True)
class Cell:
    """Two ways, and their figures of merit seed by seed: more is better, 0 is out of the race."""

    ours: Way
    theirs: Way
    pairs: tuple[tuple[float, float], ...]

    @property
    def ratio(self) -> float:
        """Ours over theirs; infinite where theirs is 0, not a number where both are."""
        ours, theirs = (sum(side) for side in zip(*self.pairs))
        return ours / theirs if theirs else math.inf if ours else math.nan

    @property
    def sign(self) -> int:
        """1: ours, -1: theirs, 0: within 3 %, or the seeds disagree."""
        if math.isnan(self.ratio) or len({ours > theirs for ours, theirs in self.pairs}) > 1:
            return 0
        return 1 if self.ratio >= 1.03 else -1 if self.ratio <= 1 / 1.03 else 0

    def __str__(self) -> str:
        if not self.sign:
            return "-" if math.isnan(self.ratio) else "="
        letter, size = self.ours.letter, self.ratio
        if self.sign < 0:
            letter, size = self.theirs.letter, 1 / self.ratio if self.ratio else math.inf
        return f"{letter} only" if math.isinf(size) else f"{letter} {size:.2f}"
