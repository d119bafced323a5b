"""Tables of whole runs: steps by prompt and batch size, closed loops by lengths and concurrency."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container
from functools import lru_cache
from typing import Any

from ..errors import InputError, shorten
from ..families.named import model_named
from ..inputs.model import Model
from ..measured.points import NOT_STATED, Given, Read, gpu_of, gpus, stacks
from ..measured.table import Table, missing
from ..serving.closed_loop import Loop
from ..serving.work import Chunk
from .runs import END_TO_END, STEP, Setting, Shape, Whole, loaded_as

#: Columns of times: the measure, and the names it goes by, with each unit.
TIMES = {
    measure: tuple(name + unit for name in names for unit in ("_ms", "_s", "_us", "_ns"))
    for measure, names in {
        "prefill": ("prompt", "prefill"), "decode": ("token", "decode"), "ttft": ("ttft", "silicon_ttft"),
        "tpot": ("tpot", "silicon_tpot"),
    }.items()
}  # fmt: skip
STEP_COLUMNS = ("prompt_size", "batch_size")
LOG_COLUMNS = ("arrival_s", "prompt_tokens", "output_tokens")
LOG_TIMES = ("ttft_s", "ttft_from_queued_s")
LOOP_COLUMNS = ("isl", "osl", "concurrency")
MOST_COUNT = 10**9
#: Sequences of a step: no engine takes more.
MOST_BATCH = 8192
#: GPUs of a node, over which collectives were measured.
MOST_GPUS = 8
_BACKENDS = (("backend", "backend_version"), ("engine", "engine_version"), ("framework", "version"))
#: Columns that spread experts or attention, by their names.
_EXPERTS, _WITHIN, _GROUPS = "moe_ep_size", "moe_tp_size", "attention_dp_size"


def is_steps(table: Table) -> bool:
    """Say whether a table holds steps."""
    return all(name in table for name in STEP_COLUMNS) and bool(_times(table, ("prefill", "decode")))


def is_loops(table: Table) -> bool:
    """Say whether a table holds closed loops."""
    return all(name in table for name in LOOP_COLUMNS) and bool(_times(table, ("ttft", "tpot")))


def holds_whole(columns: Container[object]) -> bool:
    """Say whether columns are those of whole steps or closed loops."""
    for names, measures in ((STEP_COLUMNS, ("prefill", "decode")), (LOOP_COLUMNS, ("ttft", "tpot"))):
        if all(name in columns for name in names) and any(n in columns for m in measures for n in TIMES[m]):
            return True
    return False


def is_log(table: Table) -> bool:
    """Say whether a table is a log of requests."""
    return all(name in table for name in LOG_COLUMNS) and any(name in table for name in LOG_TIMES)


def _times(table: Table, measures: tuple[str, ...]) -> dict[str, str]:
    """The column of each measure that the table has. Raises InputError where two of one tell different times."""
    found = {}
    for measure in measures:
        named = [name for name in TIMES[measure] if name in table]
        for other in named[1:]:
            table.agree(named[0], other)
        if named:
            found[measure] = named[0]
    return found


def read_whole(table: Table, given: Given) -> tuple[list[Whole], Read]:
    """Return the runs of a table, and what was left out.

    Raises InputError for cells that are no number, or a table that says neither model nor GPU.
    """
    make, measures = (_step, ("prefill", "decode")) if is_steps(table) else (_loop, ("ttft", "tpot"))
    columns = {measure: table.seconds(name) for measure, name in _times(table, measures).items()}
    found, read, why = [], Read(), Counter[str]()
    rows = _Rows(table, given)
    for place in range(len(table)):
        seconds = {measure: float(values[place]) for measure, values in columns.items()}
        try:
            found += make(rows, place, seconds)
        except BadCell:
            raise
        except InputError as error:
            why[str(error)] += 1
    for reason, count in sorted(why.items()):
        read.skip(table, count, reason)
    return found, read


class BadCell(InputError):
    """A cell that is no number: the file is wrong, and not only a row of no use here."""


class _Rows:
    """Cells of a table by row; numbers are checked once, for the whole column."""

    def __init__(self, table: Table, given: Given) -> None:
        self.table, self.given = table, given
        self.lines = table.lines.tolist()
        self.gpus = gpus(table, given).tolist()
        self.models = table.texts("model", "model_path").tolist()
        self.stacks = _stacks(table, given)
        self._whole: dict[str, Any] = {}

    def model(self, place: int) -> Model:
        """The model of a row. Raises InputError where it is not known."""
        return _model(self.models[place])

    def text(self, *names: str) -> str | None:
        """Column of the first of these names that is there."""
        return next((name for name in names if name in self.table), None)

    def cell(self, place: int, *names: str, default: str = "") -> str:
        """The text of a cell; ``default`` where no such column is."""
        name = self.text(*names)
        return str(self.table.columns[name][place]).strip() if name else default

    def count(self, place: int, *names: str, default: int | None = None) -> int:
        """A whole number of at least 1. Raises InputError for another; an empty or absent cell is the default."""
        text = self.cell(place, *names)
        if not text:
            if default is None:
                if self.text(*names) is None:
                    raise BadCell(missing(names, self.table.columns), where=self.table.where)
                raise InputError(f"no {names[0]} is stated")
            return default
        try:
            value = float(text)
        except ValueError:
            value = 0.5
        if not 1 <= value <= MOST_COUNT or value != int(value):
            raise BadCell(
                f"line {self.lines[place]}, column {self.text(*names)!r}: {shorten(text)!r} is not a whole number of "
                "at least 1",
                where=self.table.where,
            )
        return int(value)


_model = lru_cache(maxsize=256)(model_named)
_gpu = lru_cache(maxsize=256)(gpu_of)


def _stacks(table: Table, given: Given) -> list[str]:
    named = next((names for names in _BACKENDS if names[0] in table), None)
    if given.stack or named is None:
        return [str(name) for name in stacks(table, given).tolist()]
    pairs = zip(*(table.texts(name, default="").tolist() for name in named))
    return ["-".join(part for part in pair if part).lower() or NOT_STATED for pair in pairs]


def _setting(rows: _Rows, place: int) -> Setting:
    model = rows.model(place)
    tp = rows.count(place, "tensor_parallel", "tp_size", "tp", default=1)
    ep = rows.count(place, _EXPERTS, "ep", default=1)
    within = rows.count(place, _WITHIN, default=0) if rows.cell(place, _WITHIN) else 0
    if rows.count(place, _GROUPS, default=1) > 1:
        raise InputError("attention is data-parallel, which step times do not model")
    if rows.count(place, "pp_size", "pp", default=1) > 1:
        raise InputError("layers are spread over pipeline stages, which step times do not model")
    if not model.has_experts:
        ep, within = 1, 0
    if within and within * ep != tp:
        raise InputError(
            f"experts over {within} x {ep} GPUs and attention over {tp}: one engine has as many for both"
        )
    if tp > MOST_GPUS:
        raise InputError(f"{tp} GPUs: collectives were measured over up to {MOST_GPUS}")
    dtype = loaded_as(model, rows.cell(place, "precision", "dtype"))
    kv_dtype = rows.cell(place, "kv_cache_dtype", "kv_dtype") or None
    gpu = _gpu(rows.gpus[place], rows.given)
    return Setting(model, gpu, tp, ep, dtype, kv_dtype)


def _step(rows: _Rows, place: int, seconds: dict[str, float]) -> list[Whole]:
    """A prompt step of ``batch_size`` prompts; decode steps of as many, over the tokens they have on average."""
    prompt, batch = rows.count(place, "prompt_size"), rows.count(place, "batch_size")
    grown = rows.count(place, "token_size", "output_size", default=1)
    shapes = {
        "prefill": Shape(chunks=(Chunk(prompt),) * min(batch, MOST_BATCH)),
        "decode": Shape(batch=batch, context=batch * (prompt + grown / 2)),
    }
    setting = _setting(rows, place)
    if batch > MOST_BATCH:
        raise InputError(f"more than {MOST_BATCH:,} sequences of a step")
    return [
        Whole(
            STEP,
            rows.stacks[place],
            setting,
            shapes[measure],
            {measure: time},
            rows.table.where,
            rows.lines[place],
        )
        for measure, time in seconds.items()
    ]


def _loop(rows: _Rows, place: int, seconds: dict[str, float]) -> list[Whole]:
    if rows.cell(place, "mode", default="agg") not in ("agg", "aggregated", "colocated", ""):
        raise InputError("prefill and decode run apart, and the workers of both are not stated for every row")
    lengths = [rows.count(place, name) for name in LOOP_COLUMNS]
    setting, line = _setting(rows, place), rows.lines[place]
    if lengths[1] == 1:  # one output token has no gaps
        seconds = {measure: time for measure, time in seconds.items() if measure == "ttft"}
    return [Whole(END_TO_END, rows.stacks[place], setting, Loop(*lengths), seconds, rows.table.where, line)]


KINDS: dict[str, Callable[[Table], bool]] = {
    STEP: is_steps,
    END_TO_END: lambda table: is_loops(table) or is_log(table),
}
