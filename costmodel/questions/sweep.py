"""Any inputs of a question as a grid: answered block by block, flagged where there is no answer, written at once."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..answer import About
from ..errors import CostmodelError, InputError, nearest, shorten
from ..sweep.asked import Asked, question
from ..sweep.axes import Axis, AxisKind, read_axis
from ..sweep.blocks import REFUSED, answer, in_order, tasks
from ..sweep.product import Grid
from ..sweep.tally import End, Row, Tally, told
from ..sweep.writers import data_frame, tallied, write_csv, write_parquet
from .inputs import check_whole

if TYPE_CHECKING:
    from ..sweep.blocks import Block

SCHEMA = "costmodel.sweep/1"
#: Points of a block: its columns stay in the cache, and calls of numpy cost little beside it.
CHUNK_POINTS = 16_384
#: Sources are told of so many answered combinations.
_MOST_SOURCES = 4
#: Axes of one value, for it says which others there are.
ALONE = ("phase",)
_ONE_EACH = "one a sweep, for each has axes of its own; ask for a sweep of each"
FORMATS = (".csv", ".csv.gz", ".parquet")


@dataclass(frozen=True)
class AxisTold:
    """An axis: its column, how many values it has, and the first and last of them."""

    column: str
    values: int
    first: Any
    last: Any


@dataclass(frozen=True)
class Extremes:
    """The least and the most of a figure over all points, and the rows that have them."""

    figure: str
    least: float
    least_at: Row
    most: float
    most_at: Row


@dataclass(frozen=True)
class SweepAnswer:
    """A sweep that was gone through: its points, those refused by reason, extremes and the first rows.

    ``counts``: how often each text of a figure stands. ``path``: where the points were written; None: nowhere.
    """

    schema: str
    question: str
    points: int
    refused: int
    reasons: dict[str, int]
    axes: tuple[AxisTold, ...]
    extremes: tuple[Extremes, ...]
    counts: dict[str, dict[str, int]]
    path: str | None
    rows: tuple[Row, ...]
    about: About

    @property
    def answered(self) -> bool:
        """Whether any point has an answer."""
        return self.refused < self.points


@dataclass(frozen=True)
class Sweep:
    """A grid of a question, yet to be gone through: iterate over its blocks, or write it.

    A block is a mapping from columns to arrays: the axes, the figures, ``refused`` and ``reason``. Blocks come in the
    order of the points, whoever answers them.
    """

    asked: Asked
    grid: Grid
    executor: Executor | None
    chunk_points: int
    progress: Callable[[str], None] | None = None

    @property
    def points(self) -> int:
        """Points of the grid."""
        return self.grid.points

    def __iter__(self) -> Iterator[Block]:
        return in_order(answer, tasks(self.asked.name, self.grid, self.chunk_points), self.executor)

    def to_dataframe(self) -> Any:
        """Return all points as a pandas DataFrame; texts are categories. Raises InputError without pandas."""
        return data_frame(iter(self), self.points)

    def to_csv(self, path: str | Path) -> SweepAnswer:
        """Write all points, compressed where the name ends ``.gz``; 1 and nothing stand for what is not there."""
        return self._written(Path(path), write_csv)

    def to_parquet(self, path: str | Path) -> SweepAnswer:
        """Write all points, a row group a block. Raises InputError without pyarrow."""
        return self._written(Path(path), write_parquet)

    def to_file(self, path: str | Path) -> SweepAnswer:
        """Write all points as the file's name says (one of :data:`FORMATS`). Raises InputError for another."""
        if str(path).endswith(".parquet"):
            return self.to_parquet(path)
        if str(path).endswith((".csv", ".csv.gz")):
            return self.to_csv(path)
        raise InputError(f"-o {path}: the name ends in none of {', '.join(FORMATS)}")

    def summary(self) -> SweepAnswer:
        """Go through all points and keep none."""
        given = tasks(self.asked.name, self.grid, self.chunk_points)
        return self._told((tally for _, tally in tallied(given, self._figures, self.executor)), None)

    def _written(self, path: Path, write: Callable[..., Generator[Tally, None, None]]) -> SweepAnswer:
        given = tasks(self.asked.name, self.grid, self.chunk_points)
        with closing(write(path, given, self.points, self._figures, self.executor)) as tallies:
            return self._told(tallies, path)

    @property
    def _figures(self) -> tuple[str, ...]:
        return self.asked.figures

    def _told(self, tallies: Iterator[Tally], path: Path | None) -> SweepAnswer:
        whole = Tally()
        for tally in tallies:
            whole.merge(tally)
            if self.progress:
                self.progress(f"{whole.points:,} of {self.points:,} points, {whole.refused:,} refused")
        figures = [name for name in self._figures if name in whole.least]
        return SweepAnswer(
            schema=SCHEMA,
            question=self.asked.name,
            points=whole.points,
            refused=whole.refused,
            reasons=told(whole.reasons),
            axes=tuple(AxisTold(a.name, len(a), a.values[0], a.values[-1]) for a in self.grid.axes),
            extremes=tuple(_extremes(name, whole.least[name], whole.most[name]) for name in figures),
            counts={name: told(counts) for name, counts in whole.texts.items()},
            path=None if path is None else str(path),
            rows=tuple(whole.first),
            about=_about(self.asked, whole),
        )


def _extremes(name: str, least: End, most: End) -> Extremes:
    return Extremes(name, least.value, least.row, most.value, most.row)


def _about(asked: Asked, tally: Tally) -> About:
    """What some of the answered points rest on, each sentence once."""
    seen = [row for row in tally.first if not row[REFUSED]]
    ends = [end.row for ends in (tally.least, tally.most) for end in ends.values()]
    rows: dict[tuple[Any, ...], Row] = {}
    for row in [*seen, *ends]:
        rows.setdefault(tuple(row[kind.column] for kind in asked.outer if kind.column in row), row)
    found = [asked.about(row) for row in list(rows.values())[:_MOST_SOURCES]]

    def joined(part: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(text for about in found for text in getattr(about, part)))

    return About(*(joined(part) for part in ("assumptions", "sources", "not_modelled", "warnings")))


def ask_sweep(
    name: str,
    axes: Mapping[str, object],
    *,
    executor: Executor | None = None,
    chunk_points: int = CHUNK_POINTS,
    progress: Callable[[str], None] | None = None,
) -> Sweep:
    """Return a sweep of a question (``step``, ``recommend``, ``kv``, ``transfer``) over axes.

    ``axes``: the options of the command by name (``{"model": "Llama-3.1-8B", "batch": range(1, 257), "tp": "1,2"}``): a
    value, a sequence, or a text as the command line takes it (``lo:hi:step``). Any executor of ``concurrent.futures``
    answers blocks of ``chunk_points`` points; None: this process does. What comes out does not depend on who answers,
    and on the size of blocks in the last digits of verdicts' figures alone, whose sums are over all points of a block.

    Raises InputError with every problem of the axes. What single points ask for is never an error: they are flagged.
    """
    asked = question(name)
    check_whole("--chunk-points", chunk_points)
    if not isinstance(axes, Mapping):
        raise InputError(
            f"axes: pass a mapping from names to values, such as {{'tp': (1, 2)}}, not {shorten(repr(axes))}"
        )
    kinds = {kind.key: kind for kind in (*asked.outer, *asked.inner)}
    problems = [_unknown(name, key, kinds) for key in axes if key not in kinds]
    read: dict[str, Axis] = {}
    for key, kind in kinds.items():
        given = axes.get(key)
        given = kind.default if given is None else given
        if given is None:
            continue
        try:
            read[kind.column] = read_axis(kind, given)
        except CostmodelError as error:
            problems += error.problems if isinstance(error, InputError) else [str(error)]
    bad = {key for key in kinds if axes.get(key) is not None} - {
        k.key for k in kinds.values() if k.column in read
    }
    several = [f"{kinds[key].option}: {_ONE_EACH}" for key in ALONE if len(read.get(key, ())) > 1]
    if not bad:
        problems += several or asked.problems(read)
    if problems:
        raise InputError(problems)
    grid = Grid(_of(asked.outer, read), _of(asked.inner, read))
    return Sweep(asked, grid, executor, chunk_points, progress)


def _of(kinds: tuple[AxisKind, ...], read: Mapping[str, Axis]) -> tuple[Axis, ...]:
    return tuple(read[kind.column] for kind in kinds if kind.column in read)


def _unknown(name: str, key: str, kinds: Mapping[str, AxisKind]) -> str:
    match = nearest(key, kinds) if isinstance(key, str) else None
    hint = f"; did you mean {match!r}?" if match else ""
    return f"a sweep of {name} has no axis {key!r}{hint} ({', '.join(kinds)})"
