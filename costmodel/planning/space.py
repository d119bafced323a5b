"""What a plan can be made of: instances of a GPU and a degree, and layouts of them under a strategy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ..errors import DoesNotFitError, InputError, NoAnswerError
from ..evaluate.limits import check_fits, limits
from ..inputs.model import Model
from ..inputs.prices import Price
from ..inputs.workload import Request, Workload
from ..serving.deployment import Deployment, Topology
from ..serving.scenario import Scenario
from ..serving.strategies import (
    CHUNKED,
    COLOCATED,
    DEFLECTED,
    DISAGGREGATED,
    Rule,
    RuleKind,
    Strategy,
    deflected,
)
from .options import PlanOptions

#: Quantiles of uncached prompts that serve as thresholds where none are given.
_THRESHOLDS = (0.25, 0.5, 0.75)


@dataclass(frozen=True, eq=False)
class Unit:
    """An instance: a GPU, how many of them, what they cost an hour; ``deployment`` has one in each role."""

    hardware: str
    tp: int
    deployment: Deployment
    usd_per_hour: float | None

    @property
    def gpus(self) -> int:
        """GPUs of the instance."""
        return self.deployment.prefill.gpus

    def label(self) -> str:
        """Short name."""
        return f"{self.hardware} TP{self.tp}"


@dataclass(frozen=True)
class Layout:
    """A strategy over two kinds of instances (of pooled ones: the same), with its token budget."""

    strategy: Strategy
    prefill: Unit
    decode: Unit
    budget: int

    @property
    def pooled(self) -> bool:
        """True where every instance does everything."""
        return self.strategy.pooled

    @property
    def family(self) -> tuple[str, str, str]:
        """What plans of one kind have in common: strategy and GPUs."""
        return self.strategy.name, self.prefill.hardware, self.decode.hardware

    @property
    def threshold(self) -> int | None:
        """Uncached tokens below which a prompt stays local; None where no rule says so."""
        return self.strategy.rule.threshold if self.strategy.rule else None

    def at(self, topology: Topology) -> Deployment:
        """Return the deployment of so many instances; KV tiers are those that prefill instances see."""
        first, last = self.prefill.deployment, self.decode.deployment
        settings = replace(first.settings, token_budget=self.budget)
        if first is last:
            return replace(first, topology=topology, settings=settings)
        path = replace(first.path, target=last.decode)
        return replace(
            first, topology=topology, decode=last.decode, decode_pool=last.decode_pool, path=path, settings=settings
        )  # fmt: skip

    def gpus(self, topology: Topology) -> int:
        """GPUs of so many instances."""
        return topology.prefill * self.prefill.gpus + topology.decode * self.decode.gpus

    def usd_per_hour(self, topology: Topology) -> float | None:
        """Dollars an hour of so many instances; None where a GPU has no price."""
        first, last = self.prefill.usd_per_hour, self.decode.usd_per_hour
        if first is None or last is None:
            return None
        return topology.prefill * first + topology.decode * last


@dataclass(frozen=True)
class Space:
    """All layouts to try, the units that they are made of, and why other units are none."""

    layouts: tuple[Layout, ...]
    units: tuple[Unit, ...]
    refused: Mapping[tuple[str, int], str]


def space(scenario: Scenario, workload: Workload, options: PlanOptions, prices: Mapping[str, Price]) -> Space:
    """Return what there is to try. Raises InputError for names and values that cannot be."""
    found: dict[tuple[str, int], Unit] = {}
    refused: dict[tuple[str, int], str] = {}
    wrong: InputError | None = None
    longest = _longest(workload)
    degrees = sorted({*options.role_tp("shared"), *options.role_tp("prefill"), *options.role_tp("decode")})
    for hardware in dict.fromkeys(options.hardware):
        for tp in degrees:
            try:
                unit = _unit(scenario, hardware, tp, prices)
                for request in longest:
                    check_fits(request, limits(COLOCATED, unit.deployment))
            except (DoesNotFitError, NoAnswerError) as error:
                refused[hardware, tp] = str(error)
            except InputError as error:
                wrong = wrong if of_the_degree(scenario.model, tp) else wrong or error
                refused[hardware, tp] = str(error)
            else:
                found[hardware, tp] = unit
    if wrong is not None and not found:
        raise wrong
    layouts = tuple(_layouts(options, found, thresholds(workload, options)))
    return Space(layouts, tuple(found.values()), refused)


def _unit(scenario: Scenario, hardware: str, tp: int, prices: Mapping[str, Price]) -> Unit:
    one = replace(
        scenario, hardware=hardware, prefill_hardware=None, decode_hardware=None, tp=tp, prefill_tp=None,
        decode_tp=None, topology="1P1D",
    )  # fmt: skip
    deployment = one.deployment()
    price = prices.get(deployment.prefill.gpu.name)
    usd = None if price is None else price.usd_per_hour * deployment.prefill.gpus
    return Unit(deployment.prefill.gpu.name, tp, deployment, usd)


def of_the_degree(model: str | Model, tp: int) -> bool:
    """Say whether a model cannot be split so."""
    from ..families import read_model
    from ..memory.parallelism import Parallelism, divides

    return not divides(read_model(model) if isinstance(model, str) else model, Parallelism(tp=tp))


def _longest(workload: Workload) -> list[Request]:
    """The longest sequence of a workload."""
    if workload.requests:
        return [max(workload.requests, key=lambda r: r.isl + r.output_tokens)]
    return [max(workload.typical(), key=lambda r: r.isl + r.output_tokens)]


def thresholds(workload: Workload, options: PlanOptions) -> tuple[int, ...]:
    """Return the thresholds to try: given ones, else quantiles that keep some prompts local and not all."""
    if options.thresholds:
        return options.thresholds
    prompts = sorted(request.uncached_tokens for request in workload.typical(32))
    picked = {prompts[int(share * len(prompts))] for share in _THRESHOLDS}
    return tuple(sorted(tokens for tokens in picked if prompts[0] < tokens <= prompts[-1]))


def no_threshold(workload: Workload, options: PlanOptions) -> str | None:
    """Say that deflection has no threshold to try; None where it has one, or is not asked for."""
    if DEFLECTED.name not in options.strategies or thresholds(workload, options):
        return None
    return "no threshold that keeps some prompts local and not all: they are too alike (--threshold sets one)"


def _layouts(
    options: PlanOptions, units: Mapping[tuple[str, int], Unit], marks: tuple[int, ...]
) -> Iterator[Layout]:
    """Yield every layout of the units."""
    whole = min(options.token_budgets, key=lambda budget: abs(budget - 2048))
    shared = [unit for (_, tp), unit in units.items() if tp in options.role_tp("shared")]
    firsts = [unit for (_, tp), unit in units.items() if tp in options.role_tp("prefill")]
    lasts = [unit for (_, tp), unit in units.items() if tp in options.role_tp("decode")]
    wanted = options.strategies
    for unit in shared:
        if COLOCATED.name in wanted:
            yield Layout(COLOCATED, unit, unit, whole)
        if CHUNKED.name in wanted:
            yield from (Layout(CHUNKED, unit, unit, budget) for budget in options.token_budgets)
    for first in firsts:
        for last in lasts:
            if DISAGGREGATED.name in wanted:
                yield Layout(DISAGGREGATED, first, last, whole)
            if DEFLECTED.name in wanted:
                for mark in marks:
                    rule = deflected(Rule(RuleKind.THRESHOLD, threshold=mark))
                    yield from (Layout(rule, first, last, budget) for budget in options.token_budgets)
