"""What would move a figure: the replay again with one setting moved, on the same requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ..audit.subject import Unknown
from ..errors import CostmodelError
from ..evaluate.timeline import Record
from ..serving.deployment import Deployment, Settings, Topology
from ..serving.strategies import CHUNKED, COLOCATED, DISAGGREGATED, Strategy
from .replays import SECONDS, Played, Replays

SETTING, STRATEGY, HARDWARE, LOAD = "setting", "strategy", "hardware", "load"
HELPS, HURTS, NOISE = "helps", "hurts", "within noise"
#: Names that engines give to what is moved.
FLAGS = {
    "token budget": {
        "vllm": "--max-num-batched-tokens", "sglang": "--chunked-prefill-size", "trtllm": "--max_num_tokens",
    },
    "sequences of a step": {
        "vllm": "--max-num-seqs", "sglang": "--max-running-requests", "trtllm": "--max_batch_size",
    },
}  # fmt: skip
_STRATEGIES = {
    CHUNKED.name: {"vllm": "--enable-chunked-prefill"},
    COLOCATED.name: {"vllm": "--no-enable-chunked-prefill", "sglang": "--chunked-prefill-size -1"},
}
#: Blocks of consecutive requests that are drawn again and again for the noise, and how often.
_BLOCKS, _DRAWS = 20, 200
#: A change below this is none to speak of, whatever its noise; and widths of a normal interval of 95 %.
_LEAST, _SIGMAS = 0.01, 1.96
_LIGHTER = 0.1


@dataclass(frozen=True)
class Move:
    """One setting moved: what results, and how engines call it."""

    name: str
    step: str
    kind: str
    settings: dict[str, str]
    played: Callable[[], Played]


@dataclass(frozen=True)
class Lever:
    """What a moved setting does to a figure. ``change``: relative; ``noise``: its 95 % half-width on other requests.

    ``effect``: helps, hurts or within noise. ``kind``: setting, strategy, hardware or load. ``settings``: by engine.
    None with the ``reason``.
    """

    name: str
    step: str
    kind: str
    settings: dict[str, str]
    value_s: float | None = None
    change: float | None = None
    noise: float | None = None
    effect: str | None = None
    reason: str | None = None


class Levers:
    """Replays of a run with settings moved; each is made once for all figures."""

    def __init__(self, replays: Replays) -> None:
        self.replays, self.ran = replays, replays.ran
        self._known: dict[int, Played | str] = {}

    def of(self, measure: str, word: str) -> tuple[Lever, ...]:
        """Return what each moved setting does to a statistic of ttft, tpot or e2e; most helpful first."""
        found = [self._lever(number, move, measure, word) for number, move in enumerate(self.moves)]
        return tuple(sorted(found, key=lambda lever: (lever.change is None, lever.change or 0.0)))

    def _lever(self, number: int, move: Move, measure: str, word: str) -> Lever:
        bare = Lever(move.name, move.step, move.kind, move.settings)
        if number not in self._known:
            try:
                self._known[number] = move.played()
            except (CostmodelError, Unknown) as why:
                self._known[number] = str(why)
        played = self._known[number]
        if isinstance(played, str):
            return replace(bare, reason=played)
        base, value = self.replays.base.value(measure, word), played.value(measure, word)
        if not base or value is None:
            return replace(bare, reason=f"no {measure} to compare")
        change, noise = value / base - 1, _noise(self.replays.base, played, measure, word)
        effect = NOISE if abs(change) <= max(_LEAST, noise) else HELPS if change < 0 else HURTS
        return replace(bare, value_s=value, change=change, noise=noise, effect=effect)

    @cached_property
    def moves(self) -> list[Move]:
        """What is moved: settings, strategies on the same GPUs, more hardware, less load."""
        return [*self._settings(), *self._strategies(), *self._hardware(), *self._load()]

    def _flags(self, names: dict[str, str], value: object) -> dict[str, str]:
        """Flags of the run's engine, of all where it is not known."""
        engine = self.ran.engine
        return {e: f"{flag} {value}".strip() for e, flag in names.items() if engine in (e, None)}

    def _settings(self) -> Iterator[Move]:
        own = self.ran.deployment.settings
        for step, factor in (("x 2", 2.0), ("/ 2", 0.5)):
            for name, settings in (
                ("token budget", dict[str, Any](token_budget=int(own.token_budget * factor))),
                ("sequences of a step", dict[str, Any](max_seqs=int(own.max_seqs * factor))),
            ):
                value = next(iter(settings.values()))
                if value >= 1:
                    moved = self._with(settings=replace(own, **settings))
                    yield Move(name, step, SETTING, self._flags(FLAGS[name], value), moved)

    def _strategies(self) -> Iterator[Move]:
        deployment, own = self.ran.deployment, self.ran.strategy
        others = [COLOCATED, CHUNKED]
        if deployment.topology.decode:
            others.append(DISAGGREGATED)
        for strategy in others:
            if strategy.name != own.name:
                flags = self._flags(_STRATEGIES.get(strategy.name, {}), "")
                yield Move("strategy", strategy.name, STRATEGY, flags, self._with(strategy=strategy))

    def _hardware(self) -> Iterator[Move]:
        at, path = self.ran.deployment.topology, self.ran.deployment.path
        if self.ran.strategy.pooled:
            more = Topology(at.prefill + 1, at.decode)
            yield Move("instances", "+ 1", HARDWARE, {}, self._with(topology=more))
            return
        for name, more in (
            ("prefill instances", Topology(at.prefill + 1, at.decode)),
            ("decode instances", Topology(at.prefill, at.decode + 1)),
        ):
            yield Move(name, "+ 1", HARDWARE, {}, self._with(topology=more))
        wider = replace(path, bandwidth_override=2 * path.bandwidth_bytes_per_s)
        yield Move(
            "copy bandwidth",
            "x 2",
            HARDWARE,
            {},
            self._with(deployment=replace(self.ran.deployment, path=wider)),
        )

    def _load(self) -> Iterator[Move]:
        clients, probe = self.replays.load.concurrency, self.replays.probe
        name, step = ("arrival rate", f"- {_LIGHTER:.0%}")
        if clients is not None:
            name, step = "concurrency", f"- {max(1, round(_LIGHTER * clients))}"
        yield Move(name, step, LOAD, {}, lambda: self.replays.played(probe.lighter(_LIGHTER)))

    def _with(
        self,
        *,
        settings: Settings | None = None,
        topology: Topology | None = None,
        strategy: Strategy | None = None,
        deployment: Deployment | None = None,
    ) -> Callable[[], Played]:
        moved = deployment or self.ran.deployment
        moved = replace(moved, settings=settings or moved.settings, topology=topology or moved.topology)
        return lambda: self.replays.played(self.replays.probe, moved, strategy)


def _noise(base: Played, moved: Played, measure: str, word: str) -> float:
    """Half-width of the 95 % interval of a relative change, from blocks of the same requests drawn again and again."""
    import numpy as np

    find = SECONDS[measure]
    pairs = [(find(a), find(b)) for a, b in _paired(base, moved)]
    known = [(a, b) for a, b in pairs if a is not None and b is not None]
    size = max(1, len(known) // _BLOCKS)
    starts = np.random.default_rng(1).integers(0, len(known) - size + 1, (_DRAWS, max(1, len(known) // size)))
    picked = (starts[:, :, None] + np.arange(size)).reshape(_DRAWS, -1)
    drawn = [np.array(column)[picked] for column in zip(*known)]
    told = [d.mean(axis=1) if word == "mean" else np.percentile(d, _percent(word), axis=1) for d in drawn]
    return float(_SIGMAS * np.std(told[1] / told[0]))


def _percent(word: str) -> float:
    return {"min": 0.0, "max": 100.0}.get(word) or float(word.removeprefix("p"))


def _paired(base: Played, moved: Played) -> Iterator[tuple[Record, Record]]:
    others = {record.index: record for record in moved.records}
    return ((record, others[record.index]) for record in base.records if record.index in others)


def best(levers: Sequence[Lever]) -> Lever | None:
    """Return the setting or strategy that helps most; None where none does beyond noise."""
    return next((each for each in levers if each.effect == HELPS and each.kind in (SETTING, STRATEGY)), None)
