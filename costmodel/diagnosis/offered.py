"""What was offered to a run: its requests and how they came, as a replay takes them. Nothing is made up."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from statistics import mean

from ..audit.runs import Run
from ..audit.subject import Unknown
from ..errors import InputError
from ..inputs.load import WeibullArrivals
from ..inputs.workload import Arrivals, Request
from ..records import Stated
from ..records.conditions import told
from .detail import Detail
from .lengths import SIDES, check_given, drawn
from .ran import ASSUMED, OPTION, STATED, Taken

CLOSED, OPEN, BURST = "closed loop", "open loop", "all at once"
#: Requests of a run that are replayed at most: as they arrive, and of a closed loop whose requests are alike.
MOST_RECORDED, MOST_ALIKE = 5000, 1000
#: Requests of a closed loop: so many a client at least, for its start to be a small part.
_EACH = 4
_CV = re.compile(r"(?:variation|cv)\s*(?:of\s*)?[:=]?\s*([0-9]+(?:\.[0-9]+)?)")
_CAP = re.compile(r"at most ([\d,]+) at a time")


@dataclass(frozen=True)
class Offered:
    """Requests of a replay, in order of arrival; ``concurrency`` clients send them where the loop is closed.

    ``spread``: lengths are those of the run request by request, one for all, or drawn; else only their means are known,
    and neither a percentile nor a wait follows. ``settled``: start and end of the replay count for nothing, as the
    run's number of requests is not known. ``whole``: all requests of the run are replayed. ``drawn``: arrivals of a
    process, by a seed.
    """

    form: str
    requests: tuple[Request, ...]
    concurrency: int | None = None
    spread: bool = True
    settled: bool = False
    whole: bool = True
    drawn: Arrivals | None = None
    taken: tuple[Taken, ...] = ()

    @property
    def waits(self) -> bool:
        """Whether requests wait for others as those of the run did: alike ones march in step, where lengths vary."""
        return self.spread or self.concurrency == 1

    @property
    def told(self) -> str:
        """How requests come, in words."""
        count = f"{len(self.requests):,} requests"
        if self.concurrency is not None:
            clients = "1 client" if self.concurrency == 1 else f"{self.concurrency:,} clients"
            return f"closed loop of {clients}, {count}"
        if self.drawn is not None:
            return f"{self.drawn.rate:g} requests/s, variation of gaps {self.drawn.cv:g}, {count}"
        return f"{count} all at once" if self.form == BURST else f"{count} as they arrived"

    def again(self, seed: int) -> Offered:
        """The same load with other arrivals of its process."""
        assert self.drawn is not None
        times = self.drawn.times(Random(f"gaps {seed}"))
        return replace(self, requests=tuple(r._replace(arrival_s=next(times)) for r in self.requests))

    def first(self, count: int) -> Offered:
        """The same load, its first requests alone: enough for each client to send some."""
        kept = max(count, 2 * (self.concurrency or 0))
        return replace(self, requests=self.requests[:kept])

    def lighter(self, share: float) -> Offered:
        """The load less by a share: fewer clients (one at least), or arrivals further apart.

        Raises Unknown where that leaves no client, or where requests have no rate.
        """
        if self.concurrency is not None:
            fewer = self.concurrency - max(1, round(share * self.concurrency))
            if fewer < 1:
                raise Unknown("one client cannot be fewer")
            return replace(self, concurrency=fewer)
        if self.form == BURST:
            raise Unknown("requests that come all at once have no rate")
        spaced = (r._replace(arrival_s=r.arrival_s / (1 - share)) for r in self.requests)
        return replace(self, requests=tuple(spaced))


class _Reader:
    """Conditions of a run and those that the user gives, as they are taken."""

    def __init__(self, run: Run, given: Mapping[str, Stated], detail: Detail | None) -> None:
        self.run, self.given, self.detail = run, given, detail
        self.conditions = {**run.conditions, **given}
        self.taken: list[Taken] = []

    def take(self, name: str, value: object, note: str = "", basis: str = "") -> None:
        """Note what is taken; where an option counts before something else that is stated, also that."""
        basis = basis or (OPTION if name in self.given else STATED)
        stated = self.run.conditions.get(name)
        if basis == OPTION and stated is not None and stated != self.given[name]:
            note = "; ".join(filter(None, (f"the result states {told(name, stated)}", note)))
        self.taken.append(Taken(name, str(value), basis, note))

    def number(self, key: str) -> float | None:
        value = self.conditions.get(key)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def offered(run: Run, given: Mapping[str, Stated] | None = None, detail: Detail | None = None) -> Offered:
    """Return the load of a run. ``given``: conditions that the user states; they count before the run's own.

    Raises Unknown where lengths or arrivals are not known, InputError where requests contradict what the user states.
    """
    reader = _Reader(run, given or {}, detail)
    if detail is not None:
        check_given(reader.given, detail)
    clients = reader.number("concurrency")
    if clients is not None and clients >= 1:
        reader.take("concurrency", int(clients))
        return _closed(reader, int(clients))
    process = str(reader.conditions.get("arrival_process", "")).lower()
    rate = reader.number("arrival_rate")
    if detail is not None and detail.timed:
        return _recorded(reader, detail)
    if _CAP.search(process):
        raise Unknown(f"arrivals are {process!r}: a load with both a rate and a cap is not replayed")
    if process in ("all at once", "burst"):
        reader.take("arrival_process", process)
        requests, spread, whole = _lengths(reader, None)
        return Offered(BURST, requests, spread=spread, whole=whole, taken=tuple(reader.taken))
    if rate is None or rate <= 0:
        raise Unknown("neither concurrency nor an arrival rate is stated: how requests came is not known")
    return _open(reader, rate, process)


def _closed(reader: _Reader, clients: int) -> Offered:
    requests, spread, whole = _lengths(reader, clients)
    settled = reader.detail is None and reader.number("requests") is None
    return Offered(
        CLOSED, requests, clients, spread, settled, whole and not settled, None, tuple(reader.taken)
    )


def _recorded(reader: _Reader, detail: Detail) -> Offered:
    requests, spread, whole = _lengths(reader, None)
    reader.take("arrivals", f"as recorded in {detail.where.rpartition('/')[2]}")
    return Offered(OPEN, requests, None, spread, False, whole, None, tuple(reader.taken))


def _open(reader: _Reader, rate: float, process: str) -> Offered:
    arrivals = _process(rate, process)
    reader.take("arrival_rate", f"{rate:g}/s")
    reader.take("arrival_process", process)
    if reader.detail is None and reader.number("requests") is None:
        raise Unknown("the number of requests is not stated: how long queues had to grow is not known")
    requests, spread, whole = _lengths(reader, None)
    made = Offered(OPEN, requests, None, spread, False, whole, arrivals, tuple(reader.taken))
    return made.again(1)


def _process(rate: float, words: str) -> Arrivals:
    """The arrivals that a process in words means. Raises Unknown where it means none."""
    found = _CV.search(words)
    if "poisson" in words or "exponential" in words:
        return Arrivals(rate)
    if found and "weibull" in words:
        return WeibullArrivals(rate, cv=float(found[1]))
    if found and "gamma" in words:
        return Arrivals(rate, cv=float(found[1]))
    if "constant" in words or "uniform" in words or "fixed" in words:
        return Arrivals(rate, cv=0.0)
    said = (
        f"arrivals are {words!r}, and their times are not known"
        if words
        else "the arrival process is not stated"
    )
    raise Unknown(f"{said}: waits depend on it")


def _lengths(reader: _Reader, clients: int | None) -> tuple[tuple[Request, ...], bool, bool]:
    """Requests, whether their lengths are known one by one (or alike), and whether they are all of the run."""
    detail = reader.detail
    if detail is not None:
        logged = _cached(reader, [each.request for each in detail.requests])
        kept = tuple(logged[:MOST_RECORDED])
        reader.take("lengths", f"of {len(logged):,} requests, one by one")
        if len(kept) < len(logged):
            reader.take("requests", f"the first {len(kept):,}", "later ones are not replayed", ASSUMED)
        return kept, True, len(kept) == len(logged)
    prompt, alike = _length(reader, "input")
    output, as_well = _length(reader, "output")
    cached = reader.number("cached_tokens") or round((reader.number("cached_share") or 0.0) * prompt)
    stated = reader.number("requests")
    least = _EACH * (clients or 0)
    count = int(stated or max(200, least))
    if stated is None:
        reader.take("requests", f"{count:,}", "not stated: start and end of the replay do not count", ASSUMED)
    kept_count = min(count, max(MOST_ALIKE, least) if clients is not None else MOST_RECORDED)
    if kept_count < count:
        why = (
            "the others are alike"
            if clients is not None
            else "later ones, who wait longer where queues grow, are not"
        )
        reader.take("requests", f"{kept_count:,} of {count:,}", why, ASSUMED)
    hits = int(cached)
    if hits >= prompt:
        raise InputError(f"{hits:,} cached tokens of prompts of {prompt:,}: a token at least is computed")
    one = Request(0.0, prompt - hits, hits, output)
    if alike and as_well:
        return (one,) * kept_count, True, kept_count == count
    sizes = [drawn(reader.run, side, kept_count) for side in SIDES]
    if any(found is None and not same for found, same in zip(sizes, (alike, as_well))):
        return (one,) * kept_count, False, kept_count == count
    reader.take(
        "lengths", "drawn", "by the mean and the deviation or the range that the result states", ASSUMED
    )
    prompts, outputs = (found or [size] * kept_count for found, size in zip(sizes, (prompt, output)))
    made = (_with_cached(Request(0.0, n, 0, m), hits / prompt) for n, m in zip(prompts, outputs))
    return tuple(made), True, kept_count == count


def _cached(reader: _Reader, requests: list[Request]) -> list[Request]:
    """Requests with the cached tokens that the user states, as a share of every prompt."""
    given = reader.given.get("cached_tokens")
    if not isinstance(given, int | float) or any(request.cached_tokens for request in requests):
        return requests
    share = given / mean(request.isl for request in requests)
    reader.take("cached_tokens", f"{given:g}", f"{share:.0%} of every prompt")
    return [_with_cached(request, share) for request in requests]


def _with_cached(request: Request, share: float) -> Request:
    """A request with a share of its prompt in the cache; one token at least is computed."""
    hits = min(round(share * request.isl), request.isl - 1)
    return request._replace(uncached_tokens=request.isl - hits, cached_tokens=hits)


def _length(reader: _Reader, side: str) -> tuple[int, bool]:
    """A length that all requests share, else the mean, with False. Raises Unknown where neither is stated."""
    key = f"{side}_tokens"
    number = reader.number(key)
    if number is not None and number >= 1:
        reader.take(key, f"{number:g}")
        return int(number), True
    middle = reader.run.get(key, "mean", None)
    words = reader.conditions.get(f"{side}_length")
    if middle is not None and middle.value >= 1:
        reader.take(key, f"{middle.value:.6g}", "mean of lengths that vary")
        return max(1, round(middle.value)), False
    what = "prompt" if side == "input" else "output"
    raise Unknown(f"{what} tokens are not stated as a number" + (f" ({words})" if words else ""))
