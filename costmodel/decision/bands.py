"""Bands: one factor per operator kind, shared by all strategies, perturbed by how far it may be off.

Each kind is moved to its edge (:mod:`..serving.band`), the whole answer recomputed from closed-form means, and the
kinds combined by root-sum-square of the logarithms: near utilisation 1 waits amplify, and errors common to two
strategies cancel in their ratio.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from ..evaluate.closed import ClosedForm, Means
from ..inputs.efficiency import COVER
from ..inputs.workload import Workload
from ..serving.band import edges, factors, spread, used_kinds
from ..serving.deployment import Deployment
from ..serving.instance import InstanceKind
from ..serving.step import StepTimes
from ..serving.strategies import CHUNKED, COLOCATED, DISAGGREGATED, Strategy
from .moved import Moved

COPY = "kv_copy"
Form = Callable[[float], ClosedForm]


def errors(deployment: Deployment) -> dict[str, float]:
    """Return how far each operator kind of the deployment may be off, the whole step, and the copy."""
    found: dict[str, float] = {}
    for kind in {deployment.prefill, deployment.decode}:
        for name, edge in edges(kind, used_kinds(kind)).items():
            found[name] = max(found.get(name, 0.0), edge)
    copy = deployment.path.connector.held_out_mape
    return found | ({COPY: COVER * copy} if copy else {})


Case = tuple[Deployment, dict[InstanceKind, StepTimes]]
#: Strategies whose stability says on which side a kind is moved.
_BASE = (COLOCATED, CHUNKED, DISAGGREGATED)


def perturbed(
    deployment: Deployment, times: dict[InstanceKind, StepTimes], *, faster: bool = False
) -> list[Case]:
    """Return deployment and step times with each operator kind, in turn, slower by as much as it may be off.

    ``faster``: faster by the same factor.
    """
    answers = []
    for name, edge in errors(deployment).items():
        error = 1 / (1 + edge) - 1 if faster else edge
        if name == COPY:
            path = replace(deployment.path, time_factor=1 + error)
            answers.append((replace(deployment, path=path), times))
        else:
            moved = {kind: t.with_factors(factors(kind, name, error)) for kind, t in times.items()}
            answers.append((deployment, moved))
    return answers


class Bands:
    """Closed forms of one comparison at nominal and at perturbed step times.

    ``replayed`` recomputes by replay what the closed form has no means for; None: it then has no band.
    """

    replayed: Moved | None = None
    #: Kinds that are moved to the faster edge, as slower ones would exceed the capacity of a strategy.
    turned: tuple[str, ...] = ()

    def __init__(
        self,
        deployment: Deployment,
        workload: Workload,
        times: dict[InstanceKind, StepTimes],
        points: int = 16,
    ) -> None:
        self.workload, self.gpus = workload, deployment.gpus
        self.kinds = ["", *errors(deployment)]
        self.moves: list[Case] = [(deployment, times), *perturbed(deployment, times)]

        def form(case: Case) -> Form:
            return lambda rate: ClosedForm(case[0], workload.at_rate(rate), case[1], points)

        self.forms = [form(case) for case in self.moves]
        self.at_load = [make(workload.rate) for make in self.forms]
        beyond = [i for i, moved in enumerate(self.at_load) if self._exceeds(moved)]
        other = perturbed(deployment, times, faster=True) if beyond else []
        for i in beyond:
            self.moves[i] = other[i - 1]
            self.forms[i] = form(self.moves[i])
            self.at_load[i] = self.forms[i](workload.rate)
        self.turned = tuple(self.kinds[i] for i in beyond)
        self._means: dict[Strategy, list[Means]] = {}

    def _exceeds(self, moved: ClosedForm) -> bool:
        """Say whether a strategy that is stable as it is would not be any more."""
        nominal = self.at_load[0]
        return any(nominal.means(s).stable and not moved.means(s).stable for s in _BASE)

    def means(self, strategy: Strategy) -> list[Means]:
        """Means of a strategy at the given rate: nominal first, then perturbed."""
        if strategy not in self._means:
            self._means[strategy] = [form.means(strategy) for form in self.at_load]
        return self._means[strategy]

    def delays(self, strategy: Strategy) -> list[float] | None:
        """Mean delays, nominal first; None where one of them is not known, or not above 0."""
        values = [m.delay_s for m in self.means(strategy)]
        if self.by_replay(strategy):
            assert self.replayed is not None
            values = [f.delay_s for f in self.replayed.figures(strategy)]
        return None if any(v is None or v <= 0 for v in values) else [v for v in values if v is not None]

    def by_replay(self, strategy: Strategy) -> bool:
        """Say whether bands of a stable strategy are replayed: where the closed form has no means of it."""
        nominal = self.means(strategy)[0]
        return self.replayed is not None and nominal.stable and nominal.delay_s is None

    def widest(self, values: Sequence[float]) -> str:
        """Return the operator kind that moves a figure most; values as :meth:`delays` returns them."""
        moves = {kind: abs(math.log(v / values[0])) for kind, v in zip(self.kinds[1:], values[1:])}
        return max(moves, key=lambda kind: moves[kind])

    def factor(self, strategy: Strategy, measure: str) -> float | None:
        """Factor of the band of ``ttft_s`` or ``tpot_s``, from its closed-form mean; None where it has none."""
        values = [getattr(m, measure) for m in self.means(strategy)]
        if self.by_replay(strategy):
            assert self.replayed is not None
            values = [getattr(f, measure) for f in self.replayed.figures(strategy)]
        if any(v is None for v in values):
            return None
        return spread(values[0], values[1:])

    def rates(self, strategy: Strategy, goodput: float, binding: str | None) -> list[float] | None:
        """Rates at which the binding mean keeps the level it has at the nominal goodput, nominal first.

        The closed form knows no percentile: it carries the goodput of the exact evaluator over to moved step
        times by holding the mean of what binds: TTFT, TPOT, or the utilisation of the busiest pool. None where
        it has no means there.
        """
        if goodput <= 0:
            return None
        if self.workload.bursty:
            return self.replayed.rates(strategy, goodput) if self.replayed else None
        level = _level(self.forms[0](goodput).means(strategy), binding)
        if level is None:
            return None

        def rate_at(form: Form) -> float:
            low, high = goodput / 4, goodput * 4
            for _ in range(12):
                middle = math.sqrt(low * high)
                value = _level(form(middle).means(strategy), binding)
                low, high = (middle, high) if value is not None and value <= level else (low, middle)
            return math.sqrt(low * high)

        return [goodput, *(rate_at(form) for form in self.forms[1:])]


def _level(means: Means, binding: str | None) -> float | None:
    """Return the mean that binds; None beyond stability."""
    if binding is None:
        return means.utilisation
    return means.ttft_s if binding == "ttft" else means.tpot_s
