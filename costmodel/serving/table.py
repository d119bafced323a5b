"""Step times for evaluators: compiled for one instance kind, and many decode steps at once.

While a batch is constant its context grows by one token a sequence and step. :class:`StepTable` has the time of
such steps as straight lines in the context, so that a run of them is a sum in closed form, and the steps that end
by a moment follow from a square root.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ..formulas.decode import BLOCK_TOKENS
from ..inputs.model import Attention
from ..operators.catalogue import COLLECTIVES
from ..specialise import Specialised
from .bound import step_bound
from .host import HostBound
from .instance import InstanceKind
from .mixing import chunk_loads, decode_loads, mixes, mixing_loads
from .operators import hbm_bytes, load_time
from .step import Factors
from .work import Chunk, Load, head_loads, token_loads

#: Mean contexts to which lines are laid: at first, where there are many short ones, and at most.
_FIRST, _LONGEST = 2.0**11, 2.0**24
#: A line goes on while it meets the time ahead within this relative distance; its end is found as narrowly.
_STRAIGHT, _NARROW = 1e-11, 1e-13
#: Blocks at which a line is looked at, of each stretch.
_LOOKS = 64
#: Shapes whose times are kept; then they are forgotten, so that memory has an end.
_MOST_KNOWN = 100_000
#: Chunks of one step for which there is compiled code.
_MOST_CHUNKS = 6


class Line(NamedTuple):
    """Decode steps of one batch from a mean context on: seconds at it, and more for each token of it."""

    length: float
    seconds: float
    slope: float


class StepTable:
    """Times, bytes and FLOPs of steps of one instance kind; ``factors`` as in :class:`~.step.StepTimes`."""

    def __init__(self, kind: InstanceKind, factors: Factors | None = None) -> None:
        self.kind, self.factors = kind, factors or {}
        self.host = HostBound(kind, self.factors)
        self._mixes = mixes(kind)
        time, moved = self._time, self._moved
        self._token_time = Specialised(lambda n: time(token_loads(kind, n, 0)))
        self._head_time = Specialised(lambda n: time(head_loads(kind, n)))
        self._token_moved = Specialised(lambda n: moved(token_loads(kind, n, 0)))
        self._head_moved = Specialised(lambda n: moved(head_loads(kind, n)))
        self._chunking = Specialised(lambda n, prefix: time(chunk_loads(kind, Chunk(n, prefix))))
        self._decoding = Specialised(lambda batch, context: time(decode_loads(kind, batch, context)))
        self._mixing = [Specialised(self._mixed) for _ in range(_MOST_CHUNKS + 1)]
        self._computing = Specialised(
            lambda n, prefix: step_bound(kind, (Chunk(n, prefix),), 1, 0, 0).compute_s
        )
        self._tokens: dict[int, float] = {}
        self._heads: dict[int, float] = {0: 0.0}
        self._bytes: dict[tuple[int, int], float] = {}
        self._chunks: dict[tuple[int, int], float] = {}
        self._prompts: dict[tuple[int, int], tuple[float, float, float]] = {}
        self._lines: dict[int, tuple[list[float], list[Line]]] = {}
        self._reach: dict[int, float] = {}
        self._stairs = _steps_up(kind)

    def with_factors(self, factors: Factors) -> StepTable:
        """Return the same step times with other factors."""
        return StepTable(self.kind, factors)

    def _time(self, loads: Sequence[Load]) -> Any:
        factors, kind = self.factors, self.kind
        return sum(load.runs * load_time(kind, load) * factors.get(load.kind, 1.0) for load in loads)

    def _moved(self, loads: Sequence[Load]) -> Any:
        return sum(load.runs * hbm_bytes(self.kind, load) for load in loads if load.kind not in COLLECTIVES)

    def _mixed(self, batch: float, context: float, *shape: float) -> Any:
        chunks = [Chunk(*pair) for pair in zip(shape[::2], shape[1::2])]  # type: ignore[arg-type]
        return self._time(mixing_loads(self.kind, chunks, batch, context))

    # --- single steps --------------------------------------------------------------------------------

    def token_time(self, tokens: int, logits: int) -> float:
        """Time of everything but attention for a step of ``tokens`` with ``logits`` sampled rows."""
        found = self._tokens.get(tokens)
        if found is None:
            found = self._tokens[tokens] = self._token_time(tokens)
        head = self._heads.get(logits)
        if head is None:
            head = self._heads[logits] = self._head_time(logits)
        return found + head

    def token_bytes(self, tokens: int, logits: int) -> float:
        """HBM bytes of everything but attention for a step of ``tokens`` with ``logits`` sampled rows."""
        key = (tokens, logits)
        found = self._bytes.get(key)
        if found is None:
            head = self._head_moved(logits) if logits else 0.0
            found = self._bytes[key] = self._token_moved(tokens) + head
        return found

    def cached_bytes(self, batch: float, context: float) -> float:
        """Cached bytes that decodes over ``context`` tokens in all read, on one GPU."""
        reads, rest = (decode_loads(self.kind, batch, tokens) for tokens in (context, 0.0))
        return sum(a.runs * (a.bytes_moved - b.bytes_moved) for a, b in zip(reads, rest))

    def chunk_time(self, tokens: int, prefix: int) -> float:
        """Attention of one chunk over its prefix and itself."""
        key = (tokens, prefix)
        found = self._chunks.get(key)
        if found is None:
            if len(self._chunks) >= _MOST_KNOWN:
                self._chunks.clear()
            found = self._chunks[key] = self._chunking(tokens, prefix)
        return found

    def alone(self, tokens: int, prefix: int) -> tuple[float, float, float]:
        """One prompt in one step of its own: its time, the bytes of everything but attention, and the time of its
        FLOPs at the peak rate (the same however it is cut into chunks).
        """
        key = (tokens, prefix)
        found = self._prompts.get(key)
        if found is None:
            time = self.token_time(tokens, 1) + self.chunk_time(tokens, prefix)
            time = self.host.time(time, 1)
            found = time, self.token_bytes(tokens, 1), self._computing(tokens, prefix)
            if len(self._prompts) >= _MOST_KNOWN:
                self._prompts.clear()
            self._prompts[key] = found
        return found

    def prefill(self, tokens: int, prefix: int = 0) -> float:
        """Time of one prompt alone: ``tokens`` uncached over ``prefix`` cached, in one step."""
        return self.alone(tokens, prefix)[0]

    def step(self, chunks: Sequence[Chunk], last: int, batch: int, context: float) -> float:
        """Time of a step of chunks, ``last`` of which end their prompt, and ``batch`` decodes."""
        if not chunks:
            return self.decode(batch, context)
        tokens, together = batch, batch and self._mixes
        time = 0.0 if together else sum([self.chunk_time(*chunk) for chunk in chunks])
        for chunk in chunks:
            tokens += chunk[0]
        time += self.token_time(tokens, batch + last)
        if batch:
            time += self._beside(chunks, batch, context) if together else self._decodes(batch, context)
        return self.host.time(time, batch + last)

    def _decodes(self, batch: int, context: float) -> float:
        """Attention of decodes alone: off the lines, where these have nothing else in them."""
        if self.host.layer_floor:
            return float(self._decoding(batch, context))
        return self.decode(batch, context) - self.token_time(batch, batch)

    def _beside(self, chunks: Sequence[Chunk], batch: int, context: float) -> float:
        """Attention of chunks and decodes in one call."""
        shape = [number for chunk in chunks for number in chunk]
        mixing = self._mixing[len(chunks)] if len(chunks) <= _MOST_CHUNKS else self._mixed
        return float(mixing(batch, context, *shape))

    def decode(self, batch: int, context: float) -> float:
        """Time of a step of ``batch`` decodes over ``context`` cached tokens in all."""
        length = context / batch
        starts, lines = self._at(batch, length, 1)
        start, value, slope = lines[bisect_right(starts, length) - 1]
        return value + slope * (length - start)

    # --- many decode steps ---------------------------------------------------------------------------

    def _lay(self, batch: int, reach: float = 0.0) -> tuple[list[float], list[Line]]:
        """Lay the lines of one batch up to a mean context of at least ``reach``; return their starts and them."""
        starts, lines = self._lines.setdefault(batch, ([], []))
        base, decoding = self.token_time(batch, batch), self._decoding

        def time(length: float) -> float:
            return self.host.time(float(base + decoding(batch, batch * length)), batch)

        here = self._reach.get(batch, 1.0)
        while here < min(max(reach, _FIRST), _LONGEST):
            line, here = _line(time, here, stairs=self._stairs)
            starts.append(line.length)
            lines.append(line)
        self._reach[batch] = here
        return starts, lines

    def _at(self, batch: int, length: float, count: int) -> tuple[list[float], list[Line]]:
        """Return the lines of a batch, laid as far as ``count`` steps from a mean context reach."""
        if self._reach.get(batch, 0.0) < length + count:
            return self._lay(batch, length + count)
        return self._lines[batch]

    def run(self, batch: int, context: float, count: int) -> float:
        """Time of ``count`` decode steps, the first of them over ``context`` tokens in all."""
        length = context / batch
        starts, lines = self._at(batch, length, count)
        place = bisect_right(starts, length)
        if place == len(lines):  # on the last line: one sum
            start, value, slope = lines[-1]
            return count * (value + slope * (length - start)) + slope * count * (count - 1) / 2
        return self._walk(length, count, math.inf, starts, lines, place)[1]

    def until(self, batch: int, context: float, count: int, seconds: float) -> tuple[int, float]:
        """Return the steps, at most ``count``, up to the first whose end is not before ``seconds``, and its end."""
        length = context / batch
        starts, lines = self._at(batch, length, count)
        return self._walk(length, count, seconds, starts, lines, bisect_right(starts, length))

    def _walk(
        self, length: float, count: int, seconds: float, starts: list[float], lines: list[Line], place: int
    ) -> tuple[int, float]:
        done, passed = 0, 0.0
        while True:
            start, value, slope = lines[place - 1]
            first = value + slope * (length - start)
            left = count - done
            # Steps before the next line begins; the length grows by 1 a step.
            here = left if place == len(lines) else min(left, max(1, math.ceil(starts[place] - length)))
            total = here * first + slope * here * (here - 1) / 2
            if passed + total >= seconds:
                here = _steps(first, slope, seconds - passed, here)
                return done + here, passed + here * first + slope * here * (here - 1) / 2
            done, passed, length, place = done + here, passed + total, length + here, place + 1
            if done == count:
                return done, passed


def _steps(first: float, slope: float, seconds: float, most: int) -> int:
    """Fewest steps, 1 to ``most``, of lengths first, first + slope, ... that take ``seconds`` together."""
    if slope > 0:
        half = first - slope / 2
        guess = (math.sqrt(half * half + 2 * slope * max(0.0, seconds)) - half) / slope
    else:
        guess = seconds / first
    found = min(most, max(1, math.ceil(guess)))
    while found > 1 and (found - 1) * first + slope * (found - 1) * (found - 2) / 2 >= seconds:
        found -= 1
    while found < most and found * first + slope * found * (found - 1) / 2 < seconds:
        found += 1
    return found


def _steps_up(kind: InstanceKind) -> bool:
    """Say whether decode times may leave a line and come back: unsplit caches are read in whole blocks."""
    mixers = [mixer for mixer, _ in kind.model.mixers]
    return any(isinstance(mixer, Attention) and mixer.heads == mixer.kv_heads for mixer in mixers)


def _line(time: Callable[[float], float], start: float, *, stairs: bool) -> tuple[Line, float]:
    """Follow a straight line from ``start`` and return it with where it ends: at most ``_LONGEST``.

    From a short stretch on, each one twice as long has to lie on the line (where there are ``stairs``, behind every
    block, too); then the break is bisected.
    """
    value = time(start)
    good = start * 2.0**-10
    slope = (time(start + good) - value) / good

    def leaves(length: float) -> bool:
        ahead = time(start + length)
        return abs(value + slope * length - ahead) > _STRAIGHT * ahead

    while start + good < _LONGEST:
        bad = next((n for n in _ahead(start, good, stairs=stairs) if leaves(n)), 0.0)
        if bad:
            break
        good *= 2
        slope = (time(start + good) - value) / good
    else:
        return Line(start, value, slope), start + good
    while bad - good > _NARROW * (start + good):
        middle = (good + bad) / 2
        good, bad = (good, middle) if leaves(middle) else (middle, bad)
    return Line(start, value, slope), start + bad


def _ahead(start: float, length: float, *, stairs: bool) -> Iterator[float]:
    """Yield lengths at which a line is looked at before it is taken to be twice as long."""
    if stairs:
        first, last = (math.floor((start + n) / BLOCK_TOKENS) for n in (length, 2 * length))
        for block in range(first + 1, last + 1, max(1, (last - first) // _LOOKS)):
            yield block * BLOCK_TOKENS * (1 + 1e-12) - start
    yield 2 * length


def step_tables(kinds: Iterable[InstanceKind]) -> dict[InstanceKind, StepTable]:
    """Return the step times of instance kinds, to be shared by evaluations."""
    return {kind: StepTable(kind) for kind in kinds}
