"""What would move a figure: the replay again with one setting moved, on the same requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from ..audit.subject import Unknown
from ..errors import CostmodelError
from ..evaluate.timeline import Record
from .moves import SETTING, STRATEGY, Move, moves_of
from .replays import SECONDS, Played, Replays

HELPS, HURTS, NOISE = "helps", "hurts", "within noise"
#: Figures of which levers tell the side effects.
FIGURES = ("ttft", "tpot", "e2e")
#: Blocks of consecutive requests that are drawn again and again for the noise, and how often.
_BLOCKS, _DRAWS = 20, 200
#: A change below this is none to speak of, whatever its noise; and widths of a normal interval of 95 %.
_LEAST, _SIGMAS = 0.01, 1.96


@dataclass(frozen=True)
class Lever:
    """What a moved setting does to a figure. ``change``: relative; ``noise``: its 95 % half-width on other requests.

    ``effect``: helps, hurts or within noise. ``kind``: setting, strategy, hardware or load. ``settings``: by engine.
    ``causes``: of waits that it moves. ``others``: relative changes of the means of the other two of TTFT, TPOT and
    E2E. None with the ``reason``.
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
    causes: tuple[str, ...] = ()
    others: dict[str, float] = field(default_factory=dict)

    @property
    def worsens(self) -> str | None:
        """The other figure that it worsens by more than it helps this one; None where it does not."""
        worse = {
            name: change
            for name, change in self.others.items()
            if change > max(_LEAST, -(self.change or 0.0))
        }
        return max(worse, key=lambda name: worse[name], default=None)


class Levers:
    """Replays of a run with settings moved; each is made once for all figures."""

    def __init__(self, replays: Replays) -> None:
        self.replays, self.ran = replays, replays.ran
        self._known: dict[int, Played | str] = {}

    @cached_property
    def moves(self) -> list[Move]:
        """What is moved: settings, strategies on the same GPUs, more hardware, less load."""
        return list(moves_of(self.replays))

    def of(self, measure: str, word: str) -> tuple[Lever, ...]:
        """Return what each moved setting does to a statistic of ttft, tpot or e2e; most helpful first.

        What is within noise is left out, unless nothing else was replayed; what could not be replayed comes last.
        """
        found = [self._lever(number, move, measure, word) for number, move in enumerate(self.moves)]
        told = [lever for lever in found if lever.effect != NOISE]
        kept = told if any(lever.effect for lever in told) else found
        return tuple(sorted(kept, key=lambda lever: (lever.change is None, lever.change or 0.0)))

    def _played(self, number: int, move: Move) -> Played | str:
        """The replay of a move, or why there is none."""
        if number not in self._known:
            try:
                self._known[number] = move.played()
            except (CostmodelError, Unknown) as why:
                self._known[number] = str(why)
        return self._known[number]

    def _lever(self, number: int, move: Move, measure: str, word: str) -> Lever:
        bare = Lever(move.name, move.step, move.kind, move.settings, causes=move.causes)
        played = self._played(number, move)
        if isinstance(played, str):
            return replace(bare, reason=played)
        base, value = self.replays.base.value(measure, word), played.value(measure, word)
        if not base or value is None:
            return replace(bare, reason=f"no {measure} to compare")
        change, noise = value / base - 1, _noise(self.replays.base, played, measure, word)
        effect = NOISE if abs(change) <= max(_LEAST, noise) else HELPS if change < 0 else HURTS
        others = self._others(played, measure)
        return replace(bare, value_s=value, change=change, noise=noise, effect=effect, others=others)

    def _others(self, played: Played, measure: str) -> dict[str, float]:
        known = [n for n in FIGURES if n != measure and (n != "ttft" or self.replays.load.waits)]
        means = {n: (self.replays.base.value(n, "mean"), played.value(n, "mean")) for n in known}
        return {name: after / before - 1 for name, (before, after) in means.items() if before and after}


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


def best(levers: Sequence[Lever], cause: str | None = None) -> Lever | None:
    """Return the setting or strategy that helps most and worsens no other figure by more; None where none does.

    One that moves the cause of a wait comes first, where there is one.
    """
    good = [
        lever
        for lever in levers
        if lever.effect == HELPS and lever.kind in (SETTING, STRATEGY) and lever.worsens is None
    ]
    return next((each for each in good if cause in each.causes), good[0] if good else None)
