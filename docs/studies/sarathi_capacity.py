"""Capacity as the paper defines it: the highest rate with P99 of all gaps between tokens and median delay in bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import median

from common import last, place
from sarathi_engine import GPU, MISTRAL, YI, instance
from sarathi_lengths import ARXIV, CHAT, Data, Fit, filtered, plain, requests, weighted

from costmodel.evaluate.instances import Instance
from costmodel.evaluate.reference import Reference
from costmodel.evaluate.replay import replay
from costmodel.evaluate.tasks import Prompt, Sequence_
from costmodel.evaluate.timeline import Run
from costmodel.inputs.workload import Request, Slo
from costmodel.serving.deployment import Deployment
from costmodel.serving.instance import InstanceKind
from costmodel.serving.strategies import CHUNKED, COLOCATED, Strategy
from costmodel.serving.table import StepTable

#: Median scheduling delay of the paper's capacity, seconds.
DELAY = 2.0
#: Steps of the search: the artifact's search stops at 2.5 %.
GRID = 1.02


class Gaps(Reference):
    """The reference evaluator, which counts the gap before each token but the first of every request."""

    def __init__(
        self, strategy: Strategy, deployment: Deployment, times: dict[InstanceKind, StepTable]
    ) -> None:
        super().__init__(strategy, deployment, Slo(), times)
        self.gaps: dict[float, int] = {}
        self.latest: dict[int, float] = {}

    def _token(self, sequence: int, now: float) -> None:
        if sequence in self.latest:
            gap = now - self.latest[sequence]
            self.gaps[gap] = self.gaps.get(gap, 0) + 1
        self.latest[sequence] = now

    def _end_step(self, inst: Instance, now: float) -> list[Instance]:
        running: list[Sequence_] = inst.running if inst._decoding else []
        for sequence in running:
            self._token(sequence.record.index, now)
        return super()._end_step(inst, now)

    def _prefilled(self, inst: Instance, prompt: Prompt, now: float) -> list[Instance]:
        self._token(prompt.record.index, now)  # the first token, or that of a prompt computed again
        return super()._prefilled(inst, prompt, now)


def delay_of(run: Run) -> float:
    """Median scheduling delay."""
    return median(record.p0 - record.request.arrival_s for record in run.records)


class System:
    """A strategy on a deployment under one sample of requests, looked at for rates on a geometric grid."""

    def __init__(self, strategy: Strategy, deployment: Deployment, sample: Sequence[Request]) -> None:
        self.strategy, self.deployment, self.sample = strategy, deployment, sample
        self.times = {kind: StepTable(kind) for kind in deployment.kinds}
        self.known: dict[int, tuple[float, float]] = {}

    def _at(self, number: int) -> list[Request]:
        rate = GRID**number
        return [request._replace(arrival_s=request.arrival_s / rate) for request in self.sample]

    def measure(self, number: int) -> tuple[float, float]:
        """P99 of all gaps between tokens, and the median scheduling delay, at a rate of the grid."""
        if number not in self.known:
            found = Gaps(self.strategy, self.deployment, self.times)
            run = found.run(self._at(number))
            self.known[number] = weighted(found.gaps.items(), 0.99), delay_of(run)
        return self.known[number]

    def delay(self, number: int) -> float:
        """The median scheduling delay alone, by the fast evaluator."""
        return delay_of(replay(self.strategy, self.deployment, self._at(number), Slo(), self.times))

    def capacity(self, tbt_s: float, guess: float) -> float:
        """The highest rate on the grid with P99 TBT and median delay within the SLO, searched from a guess."""

        def both(number: int) -> bool:
            tbt, delay = self.measure(number)
            return tbt <= tbt_s and delay <= DELAY

        start = place(guess, GRID)
        if self.strategy is COLOCATED:
            return GRID ** highest(both, start)
        found = highest(lambda number: self.delay(number) <= DELAY, start)
        return GRID ** (found if both(found) else highest(both, found))


def highest(holds: Callable[[int], bool], start: int, stride: int = 4) -> int:
    """The highest whole number for which something holds that holds below and not above."""
    low = high = start
    if holds(start):
        while holds(high := low + stride):
            low = high
    else:
        while not holds(low := high - stride):
            high = low
    return last(holds, low, high)


@dataclass(frozen=True)
class Pair:
    """Capacities, requests/s, of `colocated` and of chunks, and the gain."""

    whole: float
    chunked: float

    @property
    def gain(self) -> float:
        """How many times the requests."""
        return self.chunked / self.whole

    @property
    def cells(self) -> tuple[str, str, str]:
        """All three for a table."""
        return f"{self.whole:.2f}", f"{self.chunked:.2f}", f"{self.gain:.2f}"


@dataclass(frozen=True)
class Case:
    """What is compared: SLO of P99 TBT, token budget of chunks, requests, and rates near which the search begins."""

    name: str
    model: str
    tp: int
    data: Data
    tbt_s: float
    budget: int
    count: int
    guesses: tuple[float, float]
    published: str = "-"
    fit: Fit | None = None
    seed: int = 1
    gpu: str = GPU
    stack: str | None = None
    together: bool = False


@cache
def pair(case: Case) -> Pair:
    """Capacities of both schedules; a step of whole prompts holds up to ``data.total`` tokens."""
    total = case.data.total
    sample = requests(case.fit or filtered(case.data), total, case.count, case.seed)
    sides = (COLOCATED, total), (CHUNKED, case.budget)
    found = []
    for (strategy, budget), guess in zip(sides, case.guesses):
        made = instance(case.model, case.tp, budget, case.gpu, case.stack, together=case.together)
        found.append(System(strategy, made, sample).capacity(case.tbt_s, guess))
    return Pair(*found)


STRICT = Case("Mistral-7B, chat, strict", MISTRAL, 1, CHAT, 0.1, 512, 2048, (1.2, 3.1), "2.6 or 3.5")
RELAXED = Case("Mistral-7B, chat, relaxed", MISTRAL, 1, CHAT, 0.5, 2048, 1024, (2.7, 3.5))
LONG = Case("Mistral-7B, arxiv, strict", MISTRAL, 1, ARXIV, 0.1, 512, 512, (0.67, 1.28))
LARGER = Case("Yi-34B TP2, chat, strict", YI, 2, CHAT, 0.2, 512, 1024, (0.49, 1.55), "3.7")
CASES = (
    STRICT,
    RELAXED,
    LONG,
    Case("Mistral-7B, arxiv, relaxed", MISTRAL, 1, ARXIV, 0.5, 2048, 512, (0.92, 1.5)),
    LARGER,
)
BASE = replace(STRICT, name="as above", count=512, guesses=(1.2, 3.28))
SAMPLES = (
    BASE,
    replace(BASE, name="another sample (seed 2)", seed=2, guesses=(1.1, 3.0)),
    replace(BASE, name="another sample (seed 3)", seed=3, guesses=(1.05, 3.0)),
)
EARLY = replace(
    BASE, name="lengths: published median and P90 before the filter", fit=plain(CHAT), guesses=(1.2, 4.2)
)
ONCE = replace(
    BASE, name="one attention call for chunks and decodes (borrowed fit)", together=True, guesses=(1.2, 2.2)
)
TIGHT, LOOSE = (replace(BASE, name=f"P99 TBT <= {s * 1e3:g} ms", tbt_s=s) for s in (0.08, 0.125))
VARIANTS = (
    *SAMPLES,
    EARLY,
    ONCE,
    TIGHT,
    LOOSE,
    replace(BASE, name="A100 PCIe: 5 % less bandwidth", gpu="a100-pcie-80gb"),
    replace(BASE, name="steps of stack splitwise-2023", stack="splitwise-2023", guesses=(0.74, 2.16)),
    replace(BASE, name="no attention window (Mistral-7B-v0.3)", model="mistralai/Mistral-7B-v0.3"),
)
