"""One line a request: a CSV of a replay, written as its requests finish."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..evaluate.timeline import ACCOUNTS, Record
from ..inputs.workload import Slo
from ..whole_file import whole_file

_SHAPE = ("index", "arrival_s", "prompt_tokens", "cached_tokens", "output_tokens")
_COURSE = ("route", "prefill_on", "decode_on", "preempted")
_TIMES = ("ttft_s", "tpot_s", "e2e_s", "ideal_s", *(f"{name}_s" for name in ACCOUNTS))
_STAMPS = ("p0_s", "p1_s", "reserved_s", "copied_s", "d0_s", "first_s", "end_s")
COLUMNS = (*_SHAPE, *_COURSE, *_TIMES, *_STAMPS, "met")

#: 17 digits give every number back as it was; repr would be shorter for few of these and takes longer.
_EXACT = "%.17g"
_COPY, _NO_COPY = ",".join([_EXACT] * 3), ",,"
#: What may be blank is made text before.
_ROW = ",".join(
    [
        *("%d", "%r", "%d", "%d", "%d"),
        *("%s", "%d", "%s", "%d"),
        *(_EXACT, "%s", _EXACT, _EXACT),
        *([_EXACT] * len(ACCOUNTS)),
        *(_EXACT, _EXACT, "%s", _EXACT, _EXACT),
        "%s\n",
    ]
)


@contextmanager
def requests_csv(path: Path, slo: Slo | None = None) -> Iterator[Callable[[Record], None]]:
    """Give a function that writes a finished request to ``path``, compressed where that ends ``.gz``.

    Times are seconds from the start of the run. What a request did not go through is blank: TPOT of a single
    output token, the stages of a copy, ``decode_on`` of what ended with its prompt; ``met`` (1 or 0) where no
    SLO is set. ``cached_tokens`` were found in the cache, ``admission_s`` has the decode side's wait, and the
    accounts add up to ``e2e_s - ideal_s``. All or nothing is written. Raises InputError where it cannot be.
    """
    asked = slo if slo is not None and slo.given else None
    with whole_file(path) as write:
        write(",".join(COLUMNS) + "\n")
        yield lambda record: write(row(record, asked))


def row(record: Record, slo: Slo | None) -> str:
    """Return a finished request as a line; None: whether it met its SLOs is left blank."""
    arrival, uncached, cached, output = record.request[:4]
    ttft, tpot = record.ttft, record.tpot
    on, copied = record.decode_on, record.copied
    return _ROW % (
        record.index,
        arrival,
        uncached + cached,
        record.cached,
        output,
        record.route,
        record.prefill_on,
        on if on >= 0 else "",
        record.preempted,
        ttft,
        "" if tpot is None else _EXACT % tpot,
        record.e2e,
        record.ideal,
        record.queue,
        record.account("admission"),
        record.load,
        record.stretch,
        record.link,
        record.handover,
        record.stalls,
        record.gathering,
        record.recompute,
        record.p0,
        record.p1,
        _COPY % (record.reserved, copied, record.d0) if copied else _NO_COPY,
        record.first,
        record.end,
        "" if slo is None else int(slo.met(ttft, tpot)),
    )
