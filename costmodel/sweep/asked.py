"""What can be swept: the axes of a question, and how it is answered for many points at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ..answer import About
from ..errors import CostmodelError, InputError, unknown
from .axes import AxisKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Points of a column that blocks share, at most.
_MOST_SHARED = 1 << 15
#: Arrays by the name of their column.
Columns = Mapping[str, Any]
#: question -> its module of this package.
QUESTIONS = {"step": "steps", "recommend": "recommendations", "kv": "caches", "transfer": "copies"}


class Answers(NamedTuple):
    """Columns of figures of some points, and why points have none: "" for those that have (None: all have)."""

    figures: dict[str, NDArray[Any]]
    reasons: NDArray[Any] | None = None


class Asked(Protocol):
    """A question over a grid. Implementations are stateless but for caches, so that any process can answer."""

    name: str
    #: What is evaluated for each combination, and what goes in as arrays.
    outer: tuple[AxisKind, ...]
    inner: tuple[AxisKind, ...]
    #: Columns of its answers.
    figures: tuple[str, ...]

    def problems(self, axes: Mapping[str, Any]) -> list[str]:
        """Say what is missing, or means nothing beside the others; ``axes``: those given, by column."""

    def answers(self, outer: Mapping[str, Any], inner: Columns, points: int) -> Answers:
        """Return the figures of ``points`` points of one combination; never raises for what a point asks."""

    def about(self, row: Mapping[str, Any]) -> About:
        """Return what the figures of a point rest on."""


def question(name: str) -> Asked:
    """Return a question by name. Raises InputError."""
    if not isinstance(name, str) or name not in QUESTIONS:
        raise InputError(unknown("question", str(name), QUESTIONS, remedy=f"(one of {', '.join(QUESTIONS)})"))
    found: Asked = import_module(f"{__package__}.{QUESTIONS[name]}").QUESTION
    return found


@dataclass(frozen=True)
class Refused:
    """A combination that has no answer, and why: kept in the place of what would be evaluated."""

    reason: str


def refusal(error: CostmodelError) -> Refused:
    """Return an error as a refusal, on one line."""
    problems = error.problems if isinstance(error, InputError) else (str(error),)
    return Refused("; ".join(problem.replace("\n", " ") for problem in problems))


def constant(value: Any, points: int) -> NDArray[Any]:
    """Return a column of one value."""
    import numpy as np

    found: NDArray[Any] = np.empty(points, dtype=object if isinstance(value, str) else type(value))
    found.fill(value)
    return found


def shared(value: Any, points: int) -> NDArray[Any]:
    """Return a column of one value that is not to be written to: blocks of a size have the same one."""
    return _shared(value, points) if points <= _MOST_SHARED else constant(value, points)


@lru_cache(maxsize=64, typed=True)
def _shared(value: Any, points: int) -> NDArray[Any]:
    found = constant(value, points)
    found.flags.writeable = False
    return found


def none_of(names: tuple[str, ...], points: int, reason: str, texts: Collection[str] = ()) -> Answers:
    """Return the answers of points that are refused: no number, and None in the columns that are ``texts``."""
    import numpy as np

    figures: dict[str, NDArray[Any]] = {
        name: np.full(points, None, object) if name in texts else np.full(points, np.nan) for name in names
    }
    return Answers(figures, constant(reason, points))


def by_halves(
    names: tuple[str, ...], points: slice, ask: Callable[[slice], Answers], texts: Collection[str] = ()
) -> Answers:
    """Return the answers of points; where asking for all of them at once raises, of each half.

    So it is known of every point whether it has an answer, whatever others it stands beside.
    """
    start, count = points.start, points.stop - points.start
    if not count:
        return none_of(names, 0, "", texts)
    try:
        return ask(points)
    except CostmodelError as error:
        if count == 1:
            return none_of(names, 1, refusal(error).reason, texts)
    middle = start + count // 2
    found = none_of(names, count, "", texts)
    put(found, slice(count // 2), by_halves(names, slice(start, middle), ask, texts))
    return put(found, slice(count // 2, None), by_halves(names, slice(middle, points.stop), ask, texts))


def put(whole: Answers, part: Any, answers: Answers) -> Answers:
    """Put the answers of some points into those of all, which have reasons."""
    for name, column in answers.figures.items():
        whole.figures[name][part] = column
    assert whole.reasons is not None
    whole.reasons[part] = "" if answers.reasons is None else answers.reasons
    return whole
