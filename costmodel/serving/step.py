"""Time of a step, operator by operator: the loads of :mod:`costmodel.serving.work` under the fitted efficiencies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..formulas import roofline
from ..operators.catalogue import COLLECTIVES, HOST, HOST_LAYERS, UNMEASURED
from .band import edges, moves, spread
from .bound import Bound, step_bound
from .host import HostBound
from .instance import InstanceKind, fit_of
from .mixing import chunk_loads, decode_loads, mixes, mixing_loads
from .operators import hbm_bytes, load_bound, load_time, peak
from .work import Chunk, Load, head_loads, token_loads

Factors = dict[str, float]
ByKind = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Operator:
    """One operator of a step, all its runs together. Times in seconds, on one GPU; ``bytes``: through HBM, or of the
    messages of a collective.
    """

    name: str
    kind: str
    count: float
    flop: float
    bytes: float
    intensity: float
    limit: str
    time_s: float
    bound_s: float


@dataclass(frozen=True)
class Step:
    """A step: its time, a band from the operators' held-out errors, its physical bound and its operators.

    ``flop`` are the useful ones, ``bytes`` those that the operators move in HBM (expected distinct experts);
    ``bound_s`` rests on the fewest bytes of any routing. ``band``: by what part each kind of operator, and the whole
    step, may move the time.
    """

    time_s: float
    low_s: float
    high_s: float
    bound_s: float
    flop: float
    bytes: float
    mfu: float
    mbu: float
    operators: tuple[Operator, ...]
    band: dict[str, float]


def _operator(kind: InstanceKind, load: Load) -> Operator:
    moved = hbm_bytes(kind, load)
    intensity = load.flop / moved if moved else 0.0
    bound, time = load_bound(kind, load), load_time(kind, load)
    limit = _limit(kind, load, intensity, time)
    return Operator(
        load.name,
        load.kind,
        load.runs,
        load.flop * load.runs,
        moved * load.runs,
        intensity,
        limit,
        time * load.runs,
        bound * load.runs,
    )


def _limit(kind: InstanceKind, load: Load, intensity: float, time: float) -> str:
    """What holds an operator up: the host, its launch, the link, arithmetic or bytes."""
    if load.kind in HOST:
        return "host"
    fixed = fit_of(kind, load.kind).parameters if load.kind != UNMEASURED else {}
    if fixed.get("latency", 0.0) + fixed.get("step_latency", 0.0) > time / 2:
        return "latency"
    if load.kind in COLLECTIVES:
        return "link"
    ridge = roofline.ridge_point(peak(kind, load.kind), kind.memory_peak)
    return "compute" if intensity > ridge else "memory"


class StepTimes:
    """Step times of one instance kind, fast enough for evaluators: what all tokens share is cached.

    ``factors`` multiplies the time of each operator kind (1 where absent): the shared errors that bands
    perturb. Views with other factors share the caches (:meth:`with_factors`).
    """

    def __init__(
        self, kind: InstanceKind, factors: Factors | None = None, base: StepTimes | None = None
    ) -> None:
        self.kind = kind
        self.factors = factors or {}
        self.host = HostBound(kind, self.factors)
        self._mixes = mixes(kind)
        self._shared: dict[int, ByKind] = base._shared if base else {}
        self._shared_heads: dict[int, ByKind] = base._shared_heads if base else {}
        self._shared_chunks: dict[Chunk, ByKind] = base._shared_chunks if base else {}
        self._tokens: dict[tuple[int, int], float] = {}
        self._alone: dict[tuple[int, int], float] = {}
        self._bytes: dict[tuple[int, int], float] = {}

    def with_factors(self, factors: Factors) -> StepTimes:
        """Return the same step times with other factors."""
        return StepTimes(self.kind, factors, self)

    def _by_kind(self, tokens: int) -> ByKind:
        found = self._shared.get(tokens)
        if found is None:
            found = self._shared[tokens] = self._sum(token_loads(self.kind, tokens, 0))
        return found

    def _head_by_kind(self, logits: int) -> ByKind:
        found = self._shared_heads.get(logits)
        if found is None:
            found = self._shared_heads[logits] = self._sum(head_loads(self.kind, logits) if logits else [])
        return found

    def _sum(self, loads: Iterable[Load]) -> ByKind:
        times: dict[str, float] = {}
        for load in loads:
            times[load.kind] = times.get(load.kind, 0.0) + load.runs * load_time(self.kind, load)
        return tuple(times.items())

    def token_time(self, tokens: int, logits: int) -> float:
        """Time of everything but attention for a step of ``tokens`` with ``logits`` sampled rows."""
        key = (tokens, logits)
        found = self._tokens.get(key)
        if found is None:
            factors = self.factors
            parts = self._by_kind(tokens) + self._head_by_kind(logits)
            found = sum(t * factors.get(kind, 1.0) for kind, t in parts)
            self._tokens[key] = found
        return found

    def _attention(self, loads: Iterable[Load]) -> float:
        factors, kind = self.factors, self.kind
        return float(sum(ld.runs * load_time(kind, ld) * factors.get(ld.kind, 1.0) for ld in loads))

    def decode(self, batch: int, context: float) -> float:
        """Time of a step of ``batch`` decodes over ``context`` cached tokens in all."""
        time = self.token_time(batch, batch) + self._attention(decode_loads(self.kind, batch, context))
        return self.host.time(time, batch)

    def token_smooth(self, tokens: float, logits: float) -> float:
        """``token_time`` at a mean number of tokens, for closed forms.

        Straight between whole numbers, and above 64 tokens between 32 points an octave: few are computed.
        """
        rows = max(1, round(logits))
        stride = 1 if tokens < 64 else 1 << (int(tokens).bit_length() - 6)
        low = int(tokens) // stride * stride
        part = (tokens - low) / stride
        below = self.token_time(low, rows) if low else 0.0
        return below if part == 0 else below + part * (self.token_time(low + stride, rows) - below)

    def decode_attention_smooth(self, batch: float, context: float) -> float:
        """Attention of a mean batch of decodes; below one decode, that share of one."""
        if batch < 1:
            return 0.0 if batch <= 0 else batch * self._attention(decode_loads(self.kind, 1, context / batch))
        return self._attention(decode_loads(self.kind, batch, context))

    def riding_smooth(self, chunk: Chunk, batch: float, context: float) -> float:
        """What a mean batch of decodes adds to the attention of a chunk; below one decode, that share of one."""
        if batch < 1:
            return 0.0 if batch <= 0 else batch * self.riding_smooth(chunk, 1, context / batch)
        if not self._mixes:
            return self._attention(decode_loads(self.kind, batch, context))
        return self._attention(mixing_loads(self.kind, (chunk,), batch, context)) - self.chunk_time(chunk)

    def decode_smooth(self, batch: float, context: float) -> float:
        """``decode`` for a mean batch."""
        time = self.token_smooth(batch, batch) + self.decode_attention_smooth(batch, context)
        return self.host.time(time, batch)

    def chunk_time(self, chunk: Chunk) -> float:
        """Attention of one chunk over its prefix and itself."""
        found = self._shared_chunks.get(chunk)
        if found is None:
            found = self._shared_chunks[chunk] = self._sum(chunk_loads(self.kind, chunk))
        factors = self.factors
        return sum(t * factors.get(kind, 1.0) for kind, t in found)

    def step(self, chunks: Sequence[Chunk], last: int, batch: int, context: float) -> float:
        """Time of a step of chunks, ``last`` of which end their prompt, and ``batch`` decodes."""
        tokens = batch + sum(chunk.tokens for chunk in chunks)
        time = self.token_time(tokens, batch + last)
        if batch and chunks and self._mixes:
            time += self._attention(mixing_loads(self.kind, chunks, batch, context))
        else:
            time += sum(self.chunk_time(chunk) for chunk in chunks)
            time += self._attention(decode_loads(self.kind, batch, context)) if batch else 0.0
        return self.host.time(time, batch + last)

    def token_bytes(self, tokens: int, logits: int) -> float:
        """HBM bytes of everything but attention for a step of ``tokens`` with ``logits`` sampled rows."""
        key = (tokens, logits)
        found = self._bytes.get(key)
        if found is None:
            loads = token_loads(self.kind, tokens, logits)
            found = sum(ld.runs * hbm_bytes(self.kind, ld) for ld in loads if ld.kind not in COLLECTIVES)
            self._bytes[key] = found
        return found

    def cached_bytes(self, batch: float, context: float) -> float:
        """Cached bytes that decodes over ``context`` tokens in all read, on one GPU."""
        reads, rest = decode_loads(self.kind, batch, context), decode_loads(self.kind, batch, 0.0)
        return sum(a.runs * (a.bytes_moved - b.bytes_moved) for a, b in zip(reads, rest))

    def prefill(self, tokens: int, prefix: int = 0) -> float:
        """Time of one prompt alone: ``tokens`` uncached over ``prefix`` cached, in one step."""
        key = (tokens, prefix)
        found = self._alone.get(key)
        if found is None:
            found = self._alone[key] = self.step((Chunk(tokens, prefix),), 1, 0, 0.0)
        return found


def _waiting(kind: InstanceKind, operators: Sequence[Operator], sampled: float) -> tuple[Operator, ...]:
    """What the host lets the GPU wait for beyond all operators, where it launches them slower than they run."""
    excess = HostBound(kind, {}).excess(sum(op.time_s for op in operators), sampled)
    return (Operator("host, launches", HOST_LAYERS, 1, 0.0, 0.0, 0.0, "host", excess, 0.0),) if excess else ()


def step_times(kinds: Iterable[InstanceKind]) -> dict[InstanceKind, StepTimes]:
    """Return the step times of instance kinds, to be shared by closed forms."""
    return {kind: StepTimes(kind) for kind in kinds}


def step_loads(
    kind: InstanceKind, chunks: Sequence[Chunk], last: int, batch: int, context: float
) -> list[Load]:
    """Return every load of a step of chunks (``last`` of which end their prompt) and decodes."""
    loads = token_loads(kind, batch + sum(c.tokens for c in chunks), batch + last)
    return loads + mixing_loads(kind, chunks, batch, context)


def seconds_by_kind(
    kind: InstanceKind, chunks: Sequence[Chunk], last: int, batch: int, context: float
) -> dict[str, float]:
    """Return the time that each kind of operator takes in a step, waiting for the host included."""
    found: dict[str, float] = {}
    for load in step_loads(kind, chunks, last, batch, context):
        found[load.kind] = found.get(load.kind, 0.0) + load.runs * float(load_time(kind, load))
    excess = HostBound(kind, {}).excess(sum(found.values()), batch + last)
    return found | {HOST_LAYERS: found.get(HOST_LAYERS, 0.0) + excess} if excess else found


def analyse_step(
    kind: InstanceKind,
    chunks: Sequence[Chunk] = (),
    *,
    last: int | None = None,
    batch: int = 0,
    context: float = 0.0,
) -> Step:
    """Analyse a step operator by operator.

    Parameters
    ----------
    chunks: prompt chunks of the step; ``last`` of them end their prompt (default: all) and need logits.
    batch, context: running decodes and the cached tokens they read in all.

    The band moves each operator kind by as much as it may be off (:func:`.band.edges`), one at a time, and combines
    them by root-sum-square.
    """
    ending = len(chunks) if last is None else last
    operators = tuple(_operator(kind, load) for load in step_loads(kind, chunks, ending, batch, context))
    operators += _waiting(kind, operators, batch + ending)
    time = sum(op.time_s for op in operators)
    moved = sum(op.bytes for op in operators if op.kind not in COLLECTIVES)
    bound: Bound = step_bound(kind, chunks, ending, batch, context)
    by_kind: dict[str, float] = {}
    for op in operators:
        by_kind[op.kind] = by_kind.get(op.kind, 0.0) + op.time_s
    measure = None if batch and chunks else "decode" if batch else "prefill"
    off = edges(kind, by_kind, measure)
    widths = moves(by_kind, off)
    factor = spread(time, [time + width for width in widths])
    return Step(
        time_s=time,
        low_s=max(time / factor, bound.time_s),
        high_s=time * factor,
        bound_s=bound.time_s,
        flop=bound.flop,
        bytes=moved,
        mfu=bound.compute_s / time,
        mbu=moved / kind.memory_peak / time,
        operators=operators,
        band={name: width / time for name, width in zip(off, widths)},
    )
