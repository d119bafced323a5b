"""A run beside its prediction: every figure with both bands, stage by stage."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ..audit.runs import Run
from ..audit.subject import Unknown
from ..errors import NoAnswerError
from ..evaluate import summary
from ..records import Figure, Stated
from ..serving.instance import InstanceKind
from ..serving.scenario import Scenario
from ..serving.strategies import Strategy
from ..serving.table import StepTable
from ..units import format_si
from .detail import Detail, Interval, interval, percent_of
from .offered import Offered, offered
from .ran import Ran, Taken, what_ran
from .replays import RATES, SECONDS, Banded, Replays
from .stepped import Steps, of_a_step

#: Parts of a request's life; all other times are of a whole request or token.
STAGES = ("prefill_queue_time", "prefill_time", "kv_transfer_time", "decode_queue_time", "decode_time")
STEP, LOADED = "step", "replay"
#: Conditions that say how requests came.
_LOADS = ("concurrency", "arrival_rate", "arrival_process", "burst")
_NO_DETAIL = (
    "the result does not list its requests: how far its figures would move in another run is not known"
)
_PLANNED = "steps are planned one ahead: a log may count the step under way as prefill, where this counts it as queue"


@dataclass(frozen=True)
class Row:
    """A time measured beside the same time predicted; seconds.

    ``ttft_from``: from where it counts, where figures of the run count from several moments. ``measured_low_s``,
    ``measured_high_s``: the 95 % interval of the statistic. ``low_s`` and ``high_s``: the band of the prediction;
    ``bound_s``: the least that physics allows. ``inside``: whether the two overlap; ``inside_with_front_end``: whether
    they would with what an engine may take outside of steps, at most ``front_end_s``; None where that is known.
    ``ratio``: predicted over measured. ``form``: step or replay. None with the ``reason``; ``note``: what else to know.
    """

    figure: str
    measure: str
    statistic: str | None
    measured_s: float
    measured_low_s: float | None = None
    measured_high_s: float | None = None
    predicted_s: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    bound_s: float | None = None
    front_end_s: float | None = None
    inside: bool | None = None
    inside_with_front_end: bool | None = None
    ttft_from: str | None = None
    ratio: float | None = None
    form: str | None = None
    reason: str | None = None
    measured_reason: str | None = None
    note: str | None = None

    @property
    def gap_s(self) -> float | None:
        """Measured less predicted, seconds; None where nothing is predicted."""
        return None if self.predicted_s is None else self.measured_s - self.predicted_s

    @property
    def gap_share(self) -> float | None:
        """The same as a share of what was measured."""
        return None if self.gap_s is None or not self.measured_s else self.gap_s / self.measured_s


@dataclass(frozen=True)
class RateRow:
    """A rate measured beside the same rate predicted, requests or tokens a second; as :class:`Row`."""

    figure: str
    measure: str
    measured_per_s: float
    predicted_per_s: float | None = None
    low_per_s: float | None = None
    high_per_s: float | None = None
    inside: bool | None = None
    ratio: float | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Prediction:
    """A run beside its prediction. ``rows``: times of requests and tokens, ``stages`` of their parts, ``rates``.

    ``load``: how requests come, None with ``load_reason`` where that is not known. ``ledger``: mean seconds of each
    account of the replay, of the ideal and of E2E. ``taken``: what the prediction rests on and who says so.
    ``warnings``: lists of single requests that cannot be.
    """

    run: str
    strategy: str | None
    topology: str | None
    gpus: int | None
    load: str | None
    rows: tuple[Row, ...]
    stages: tuple[Row, ...]
    rates: tuple[RateRow, ...]
    ledger: dict[str, float] | None
    requests: int | None
    taken: tuple[Taken, ...]
    reason: str | None = None
    load_reason: str | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Basis:
    """What a prediction and its diagnosis are made of: what ran, its load, and what was measured of each request."""

    run: Run
    given: Mapping[str, Stated] = field(hash=False)
    detail: Detail | None
    ran: Ran | None
    load: Offered | None
    reason: str | None
    load_reason: str | None
    tables: Callable[[InstanceKind], StepTable] | None = None
    warnings: tuple[str, ...] = ()

    @cached_property
    def replays(self) -> Replays | None:
        """Replays of the run; None where what ran or its load is not known."""
        if self.ran is None or self.load is None:
            return None
        queued = self.detail is not None and self.detail.queued
        return Replays(self.ran, self.load, self.tables, queued=queued)

    @cached_property
    def sent(self) -> Replays | None:
        """The same, times counted from the client's sending where those of ``replays`` count from the queue."""
        made = self.replays
        if made is None or not made.queued:
            return made
        return Replays(made.ran, made.load, self.tables)

    def replays_of(self, figure: Figure) -> Replays | None:
        """Replays that count from where a figure does."""
        return self.replays if self.detail is None or self.detail.queues(figure) else self.sent

    @property
    def loaded(self) -> bool:
        """Whether the run had a load, known or not."""
        return self.load is not None or any(key in {**self.run.conditions, **self.given} for key in _LOADS)

    @cached_property
    def unanswered(self) -> str | None:
        """Why there is no replay, even where all is known: a request that fits no instance."""
        if self.replays is None:
            return self.reason or self.load_reason
        try:
            return None if self.replays.nominal.records else "no request of the replay counts"
        except NoAnswerError as error:
            return str(error)


def prepare(
    run: Run,
    scenario: Scenario,
    *,
    passed: Collection[str] = (),
    given: Mapping[str, Stated] | None = None,
    strategy: Strategy | str | None = None,
    detail: Detail | None = None,
    tables: Callable[[InstanceKind], StepTable] | None = None,
    warnings: Collection[str] = (),
) -> Basis:
    """Return what to predict a run from.

    Parameters
    ----------
    scenario: model, GPUs and settings; ``passed``: its fields, and those of its settings (token_budget, max_seqs, lag,
        first_token), that the user passed and that count before what the run states.
    given: conditions that the user states of the run. strategy: asked for, in place of the one stated or usual.
    detail: requests of the run one by one. tables: step times in place of those of operators. warnings: of its lists.

    Raises InputError for bad names or values.
    """
    ran, load, reason, load_reason = None, None, None, None
    try:
        ran = what_ran(run, scenario, passed, strategy)
    except (Unknown, NoAnswerError) as why:
        reason = str(why)
    try:
        load = offered(run, given, detail)
    except Unknown as why:
        load_reason = str(why)
    return Basis(run, given or {}, detail, ran, load, reason, load_reason, tables, tuple(warnings))


def predict(basis: Basis) -> Prediction:
    """Return every time and rate of a run beside its prediction."""
    times = [f for f in basis.run.figures if f.metric in _TIMES and f.dimension == "second"]
    made = [_row(basis, figure) for figure in times]
    rates = [_rate(basis, f) for f in basis.run.figures if f.metric in RATES]
    ran, load, why = basis.ran, basis.load, basis.unanswered
    replays = None if why else basis.replays
    return Prediction(
        run=Run(basis.run.record, {**basis.run.conditions, **basis.given}, ()).name,
        strategy=ran.strategy.name if ran else None,
        topology=str(ran.deployment.topology) if ran else None,
        gpus=ran.deployment.gpus if ran else None,
        load=load.told if load else None,
        rows=tuple(row for row in made if row.measure not in STAGES),
        stages=tuple(row for row in made if row.measure in STAGES),
        rates=tuple(rates),
        ledger=summary.mean_ledger(replays.nominal.records) if replays else None,
        requests=len(replays.nominal.records) if replays else None,
        taken=(*(ran.taken if ran else ()), *(load.taken if load else ())),
        reason=basis.reason or (why if load else None),
        load_reason=basis.load_reason,
        warnings=(*basis.warnings, *(basis.detail.doubts(basis.run.figures) if basis.detail else ())),
    )


#: Figures that hold waits for others, which depend on how lengths vary; and how long the last of them takes.
_WAITS = ("ttft", "prefill_queue_time", "duration")
_TIMES = (*SECONDS, "itl", "decode_step_time", "duration")


def _row(basis: Basis, figure: Figure) -> Row:
    word = figure.statistic
    row = Row(figure.name, figure.metric, word, figure.value)
    seen = _measured(basis.detail, figure)
    several = len({f.conditions.get("ttft_from") for f in basis.run.all(figure.metric)}) > 1
    bare = {
        **vars(row),
        "ttft_from": str(figure.conditions.get("ttft_from")) if several else None,
        "measured_low_s": seen.low,
        "measured_high_s": seen.high,
        "measured_reason": seen.reason,
    }
    try:
        found, form, note = _predicted(basis, figure)
    except Unknown as why:
        return Row(**{**bare, "reason": str(why)})
    low, high = seen.low or figure.value, seen.high or figure.value
    inside = None if found.low is None or found.high is None else low <= found.high and high >= found.low
    allowed = None
    if inside is False and found.high is not None and found.front_end:
        needed = low - found.high
        allowed = 0 < needed <= found.front_end
        told = f"inside only with a front end of {format_si(needed, 'second')} or more, which no stack tells"
        note = "; ".join(filter(None, (note, told if allowed else "")))
    ratio = found.best / figure.value if figure.value > 0 else None
    return Row(
        **bare | {
            "predicted_s": found.best, "low_s": found.low, "high_s": found.high, "bound_s": found.bound,
            "front_end_s": found.front_end, "inside": inside, "inside_with_front_end": allowed,
            "ratio": ratio, "form": form, "reason": found.reason, "note": note or None,
        }
    )  # fmt: skip


def _measured(detail: Detail | None, figure: Figure) -> Interval:
    values = detail.of(figure) if detail else []
    if not values:
        return Interval(reason=_NO_DETAIL)
    return interval(values, figure.statistic or "mean")


def _predicted(basis: Basis, figure: Figure) -> tuple[Banded, str, str | None]:
    """What is predicted of a figure, by which form, and what to know of it. Raises Unknown."""
    if basis.ran is None:
        raise Unknown(str(basis.reason))
    split = not basis.ran.strategy.pooled
    if of_a_step(basis.run, figure, loaded=basis.loaded, split=split):
        return Steps(basis.run, basis.ran, basis.given).predicted(figure), STEP, None
    if basis.unanswered or basis.replays is None or basis.load is None:
        raise Unknown(str(basis.unanswered))
    word, replays = _word(basis.load, figure), basis.replays_of(figure)
    found = replays.predicted(figure.metric, word) if replays else None
    if found is None:
        raise Unknown(f"the replay has no {figure.metric}: {basis.ran.strategy.name} has no such stage")
    notes = ["no statistic is stated: beside the mean"] if figure.statistic is None else []
    if figure.metric in ("prefill_queue_time", "prefill_time") and basis.ran.deployment.settings.lag:
        notes.append(_PLANNED)
    return found, LOADED, "; ".join(notes) or None


def _word(load: Offered, figure: Figure) -> str:
    """The statistic to predict. Raises Unknown for one that does not follow from what is known."""
    word, metric = figure.statistic or "mean", figure.metric
    if metric == "decode_step_time":
        raise Unknown("steps of a replay are not told apart")
    if metric == "duration" and not load.whole:
        raise Unknown("not all requests of the run are replayed")
    if not load.waits and metric in _WAITS:
        raise Unknown(f"lengths vary and only their means are known: waits, and so {metric}, depend on how")
    if metric == "duration" or word == "mean":
        return word
    if metric == "itl":
        raise Unknown("single gaps between tokens are not kept by a replay: their mean alone is predicted")
    if not load.spread:
        raise Unknown(f"lengths vary and only their means are known: no {word} follows")
    if percent_of(word) is None and word not in ("min", "max", "std"):
        raise Unknown(f"{word!r} is no statistic that is predicted")
    return word


def _rate(basis: Basis, figure: Figure) -> RateRow:
    row = RateRow(figure.name, figure.metric, figure.value)
    if basis.ran is None or basis.unanswered or basis.replays is None:
        return RateRow(row.figure, row.measure, row.measured_per_s, reason=basis.unanswered)
    found = basis.replays.predicted(figure.metric, "mean")
    if found is None:
        return RateRow(row.figure, row.measure, row.measured_per_s, reason="the replay took no time")
    share = 1 / basis.ran.deployment.gpus if figure.per_gpu else 1.0
    best = found.best * share
    low, high = (None if end is None else end * share for end in (found.low, found.high))
    inside = None if low is None or high is None else low <= figure.value <= high
    ratio = best / figure.value if figure.value > 0 else None
    return RateRow(row.figure, row.measure, row.measured_per_s, best, low, high, inside, ratio, found.reason)
