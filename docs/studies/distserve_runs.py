"""What is replayed beside DistServe: its systems by its published step times, and their goodput."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random

from distserve_figures import FITS, FIXED, GPU, KV_TOKENS, LARGE_BATCH, MODEL, TPOT, TTFT

from costmodel import Request, Scenario, Settings, Slo
from costmodel.evaluate.ideal import Ideal
from costmodel.evaluate.replay import replay
from costmodel.evaluate.summary import mean
from costmodel.evaluate.timeline import Record
from costmodel.inputs.step_times import Steps
from costmodel.serving.affine import AffineSteps
from costmodel.serving.deployment import Deployment
from costmodel.serving.instance import InstanceKind
from costmodel.serving.strategies import COLOCATED, DISAGGREGATED, Strategy
from costmodel.serving.table import StepTable
from costmodel.serving.work import Chunk

REQUESTS, SEEDS = 2500, (1, 2, 3)


@dataclass(frozen=True)
class Engine:
    """Whose fits, times a factor, and seconds added to every step."""

    name: str = "vllm"
    factor: float = 1.0
    added_s: float = 0.0

    def fit(self, tp: int) -> list[list[float]]:
        """Coefficients in ms: of a prefill, of a small and of a large decode batch."""
        rows = [row.split() for row in FITS.strip().splitlines()]
        values = next([float(v) for v in row[2:]] for row in rows if row[:2] == [self.name, str(tp)])
        return [values[k : k + 3] for k in (0, 3, 6)]


class PublishedSteps(StepTable):
    """Step times by the published fits."""

    def __init__(self, kind: InstanceKind, engine: Engine) -> None:
        super().__init__(kind)
        scale, added = 1e-3 * engine.factor, engine.added_s
        prompt, *decodes = ([scale * value for value in fit] for fit in engine.fit(kind.tp))
        self.prompts = AffineSteps(kind, Steps(prompt[0] + added, 0.0, 0.0, prompt[1], 2 * prompt[2]))
        self.small, self.large = (AffineSteps(kind, Steps(a + added, c, b, 0.0, 0.0)) for a, b, c in decodes)

    def _by(self, batch: int) -> AffineSteps:
        return self.small if batch < LARGE_BATCH else self.large

    def alone(self, tokens: int, prefix: int) -> tuple[float, float, float]:
        """One prompt in one step of its own."""
        return self.prompts.alone(tokens, prefix)

    def step(self, chunks: Sequence[Chunk], last: int, batch: int, context: float) -> float:
        """Time of a step of whole prompts; there are no fits of mixed steps."""
        assert not batch
        return self.prompts.step(chunks, last, 0, 0.0)

    def decode(self, batch: int, context: float) -> float:
        """Time of a decode step."""
        return self._by(batch).decode(batch, context)

    def run(self, batch: int, context: float, count: int) -> float:
        """Time of ``count`` decode steps."""
        return self._by(batch).run(batch, context, count)

    def until(self, batch: int, context: float, count: int, seconds: float) -> tuple[int, float]:
        """Decode steps up to the first whose end is not before ``seconds``, and its end."""
        return self._by(batch).until(batch, context, count, seconds)


@dataclass(frozen=True)
class System:
    """What serves what: each of ``slos`` has to be attained on its own. ``kv`` False: its memory has no end."""

    strategy: Strategy
    topology: str
    slos: tuple[Slo, ...]
    lengths: tuple[tuple[int, int], ...] = FIXED
    gpus: int = 1
    tp: tuple[int, int] = (1, 1)
    copies: bool = True
    budget: int = 2048
    first_token: str = "prefill"
    kv: bool = True


FIGURE = {
    "colocated": System(COLOCATED, "1", (TTFT, TPOT)),
    "prefill only": System(COLOCATED, "1", (TTFT,), ((512, 1),)),
    "decode only": System(DISAGGREGATED, "16P1D", (TPOT,), copies=False),
    "2P1D": System(DISAGGREGATED, "2P1D", (TTFT, TPOT), gpus=3),
}


@cache
def deployment(system: System) -> Deployment:
    """The GPUs of a system, with NVLink between them (or copies that take no time) and its KV pools."""
    settings = Settings(system.budget, max_seqs=100_000, first_token=system.first_token)
    prefill, decode = system.tp
    scenario = Scenario(
        MODEL, GPU, system.topology, "nvlink3", prefill_tp=prefill, decode_tp=decode, settings=settings
    )
    made = scenario.deployment()
    sized = [
        replace(pool, pool_bytes=float(KV_TOKENS[pool.kind.tp] * pool.held_bytes(1)) if system.kv else 1e15)
        for pool in (made.prefill_pool, made.decode_pool)
    ]
    path = made.path if system.copies else replace(made.path, time_factor=0.0)
    return replace(made, prefill_pool=sized[0], decode_pool=sized[1], path=path)


def drawn(lengths: Sequence[tuple[int, int]], rate: float, count: int, seed: int) -> list[Request]:
    """Poisson arrivals of requests drawn from ``lengths``; another rate only rescales time."""
    random, now, found = Random(seed), 0.0, []
    for _ in range(count):
        now += random.expovariate(1.0)
        found.append(Request(now / rate, (pair := random.choice(lengths))[0], 0, pair[1]))
    return found


def served(
    system: System,
    engine: Engine,
    requests: Sequence[Request],
    give_up: Callable[[Record], bool] | None = None,
) -> list[Record]:
    """Replay requests."""
    made = deployment(system)
    tables = {kind: PublishedSteps(kind, engine) for kind in made.kinds}
    ideal = Ideal(list(tables.values()))
    return replay(system.strategy, made, requests, Slo(), tables, ideal, give_up).records


def attains(system: System, engine: Engine, rate: float, seed: int = 1, count: int = REQUESTS) -> bool:
    """Say whether nine in ten requests meet each objective; the first fifth and the last twentieth do not count."""
    missed = dict.fromkeys(system.slos, 0)
    first, last = count // 5, count - count // 20
    allowed = (last - first) // 10

    def failed(record: Record) -> bool:
        for slo in missed if first <= record.index < last else ():
            missed[slo] += not slo.met(record.ttft, record.tpot)
        return max(missed.values()) > allowed

    served(system, engine, drawn(system.lengths, rate, count, seed), failed)
    return max(missed.values()) <= allowed


@cache
def goodput(system: System, engine: Engine, seed: int = 1, count: int = REQUESTS) -> float:
    """Highest rate that attains, requests/s a GPU, to half a per cent; 0 where 0.05 /s do not."""
    low = high = 4.0
    while low > 0.05 and not attains(system, engine, low, seed, count):
        low, high = low / 2, low
    if low <= 0.05:
        return 0.0
    while high == low or attains(system, engine, high, seed, count):
        low, high = high, 2 * high
    while high / low > 1.005:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if attains(system, engine, middle, seed, count) else (low, middle)
    return low / system.gpus


def means(records: Sequence[Record]) -> tuple[float, float]:
    """Mean TTFT and TPOT in ms."""
    return 1e3 * mean([r.ttft for r in records]), 1e3 * mean([r.tpot or 0.0 for r in records])
