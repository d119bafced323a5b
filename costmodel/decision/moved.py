"""A load replayed at moved step times: bands where the closed form has no means, as under a load that varies."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ..evaluate.ideal import Ideal
from ..evaluate.replay import replay
from ..evaluate.summary import mean, quantile
from ..evaluate.timeline import Run
from ..inputs.workload import Request, Workload
from ..serving.deployment import Deployment
from ..serving.instance import InstanceKind
from ..serving.step import StepTimes
from ..serving.strategies import Strategy
from ..serving.table import StepTable
from .goodput import PROBE, Search

#: Requests that are replayed under each moved kind; they are the same ones, so that their noise cancels.
REQUESTS = 600
#: A kind that moves steps by less than this adds nothing that shows to those that move them by ten times as much.
_NEGLIGIBLE = 0.02
#: Steps by which that is judged: a prompt, and decodes with the tokens they read in all.
_PROMPT, _DECODES, _CONTEXT = 2048, 16, 16 * 1024
#: A goodput at moved step times is found this narrowly, and looked for down to this part of the nominal one.
_RESOLUTION, _LEAST = 1.04, 0.5


class Case(NamedTuple):
    """A deployment with the step times of one moved kind."""

    deployment: Deployment
    tables: dict[InstanceKind, StepTable]
    ideal: Ideal


Moves = Sequence[tuple[Deployment, Mapping[InstanceKind, StepTimes]]]


@dataclass(frozen=True)
class Figures:
    """What a band is wanted of: seconds, None where a run has none."""

    ttft_s: float
    tpot_s: float | None
    delay_s: float


class Moved:
    """Replays of one comparison, at nominal step times first and then with each kind moved.

    ``moves``: what the closed form would evaluate; ``requests`` draws those of the comparison.
    """

    def __init__(
        self,
        moves: Moves,
        tables: dict[InstanceKind, StepTable],
        workload: Workload,
        requests: Callable[[], Sequence[Request]],
        seed: int,
        progress: Callable[[str], None],
        probe: int = PROBE,
    ) -> None:
        self.moves, self.tables, self.workload = moves, tables, workload
        self.requests, self.seed, self.progress, self.probe = requests, seed, progress, probe
        self._figures: dict[Strategy, list[Figures]] = {}
        self._rates: dict[tuple[Strategy, float], list[float]] = {}

    @cached_property
    def cases(self) -> list[Case | None]:
        """Each move, None where it moves next to nothing; the nominal one first."""
        return [self._case(*move) for move in self.moves]

    def _case(self, deployment: Deployment, times: Mapping[InstanceKind, StepTimes]) -> Case | None:
        nominal = self.moves[0]
        if deployment is nominal[0] and times is not nominal[1]:
            moved = max(
                abs(math.log(a / b)) for kind in times for a, b in _steps(times[kind], nominal[1][kind])
            )
            if moved < _NEGLIGIBLE:
                return None
        tables = {
            kind: table.with_factors(times[kind].factors) if times[kind].factors else table
            for kind, table in self.tables.items()
        }
        return Case(deployment, tables, Ideal(list(tables.values())))

    def figures(self, strategy: Strategy) -> list[Figures]:
        """Figures of a strategy under the given load, nominal first."""
        if strategy not in self._figures:
            self.progress(f"{strategy.name}: bands by replay")
            requests = list(self.requests())[:REQUESTS]
            found: list[Figures] = []
            for case in self.cases:
                found.append(found[0] if case is None else self._replayed(strategy, case, requests))
            self._figures[strategy] = found
        return self._figures[strategy]

    def _replayed(self, strategy: Strategy, case: Case, requests: Sequence[Request]) -> Figures:
        slo = self.workload.slo
        run: Run = replay(strategy, case.deployment, requests, slo, case.tables, case.ideal)
        done = run.finished
        gaps = sorted(record.tpot for record in done if record.tpot is not None)
        return Figures(
            quantile(sorted(record.ttft for record in done), 0.95),
            quantile(gaps, 0.99) if gaps else None,
            mean([record.delay for record in done]),
        )

    def rates(self, strategy: Strategy, goodput: float) -> list[float]:
        """Goodputs of a strategy, nominal first: slower steps reach no more than it, faster ones no less."""
        if (strategy, goodput) not in self._rates:
            found = [goodput]
            for case, (_, times) in zip(self.cases[1:], self.moves[1:]):
                found.append(goodput if case is None else self._goodput(strategy, case, dict(times), goodput))
            self._rates[strategy, goodput] = found
        return self._rates[strategy, goodput]

    def _goodput(
        self, strategy: Strategy, case: Case, times: dict[InstanceKind, StepTimes], nominal: float
    ) -> float:
        search = Search(
            strategy, case.deployment, self.workload, times, case.tables, case.ideal, self.seed, self.progress,
            self.probe,
        )  # fmt: skip
        low, high = nominal * _LEAST, nominal
        if search.reaches(nominal):
            if all(factor >= 1 for moved in times.values() for factor in moved.factors.values()):
                return nominal
            low, high = nominal, nominal / _LEAST
        while high / low > _RESOLUTION:
            middle = math.sqrt(low * high)
            low, high = (middle, high) if search.reaches(middle) else (low, middle)
        return low


def _steps(moved: StepTimes, nominal: StepTimes) -> Sequence[tuple[float, float]]:
    return [
        (moved.prefill(_PROMPT), nominal.prefill(_PROMPT)),
        (moved.decode(_DECODES, _CONTEXT), nominal.decode(_DECODES, _CONTEXT)),
    ]
