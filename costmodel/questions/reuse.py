"""Reuse of cached prefixes: what loading takes and gains, where it pays, what is found, what a fleet gains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..answer import About
from ..decision.loading import Parabola
from ..errors import InputError
from ..evaluate.stack import MissRatioCurve, miss_ratio_curve
from ..evaluate.tiers import together
from ..inputs.efficiency import Efficiency
from ..inputs.hardware import Gpu
from ..inputs.model import Model
from ..inputs.stack import Stack
from ..inputs.traces import Reading, Trace
from ..memory.kv import sequence_bytes
from ..memory.parallelism import check_tp
from ..serving.handover import HoldsKv, KvEnd
from ..serving.instance import InstanceKind
from ..serving.step import StepTimes
from ..serving.tiers import KvTier, kv_shape
from .inputs import as_instance, as_model, kv_dtype_of
from .reuse_about import about_reuse
from .reuse_hits import Curve, Fleet, Found, Level, curve_of, fleet_of, levels_of
from .reuse_loads import LoadRow, PrefixRow, TierRow, load_row, no_room, prefix_row, tier_row
from .reuse_measured import Measured, measured_of
from .reuse_memory import Overflow, memory_of, overflow_of
from .reuse_options import ReuseOptions
from .reuse_times import Times
from .reuse_turns import PlaceRow, turn_rows
from .tiers import parse_tiers

SCHEMA = "costmodel.reuse/1"
#: Prefixes of the curve of gains, where none is asked for.
PREFIXES = (512, 2048, 8192, 32768)
#: Share of prompt tokens without a hash that is not worth a word.
_MOST_UNHASHED = 0.005


@dataclass(frozen=True)
class ReuseAnswer:
    """What reuse of prefixes takes and gains on one instance; a part that was not asked for is None or empty.

    ``kv_bytes_per_token`` and ``fixed_bytes_per_sequence`` hold each byte once, ``copies`` says how many the ranks
    have together. See the rows for the rest.
    """

    schema: str
    model: str
    hardware: str | None
    tp: int
    kv_dtype: str
    kv_bytes_per_token: float
    fixed_bytes_per_sequence: float
    copies: float
    prefixes: tuple[PrefixRow, ...]
    tiers: tuple[TierRow, ...]
    loads: tuple[LoadRow, ...]
    overflow: Overflow | None
    trace: str | None
    curve: Curve | None
    levels: tuple[Level, ...]
    hit_rate: float | None
    fleet: tuple[Fleet, ...]
    turns: tuple[PlaceRow, ...]
    measured: Measured | None
    about: About


def ask_reuse(
    model: Model | str,
    tiers: Sequence[str] = (),
    options: ReuseOptions | None = None,
    *,
    hardware: Gpu | str | Path | None = None,
    tp: int = 1,
    ep: int = 1,
    dtype: str | None = None,
    kv_dtype: str | None = None,
    efficiency: Efficiency | str | Path | None = None,
    stack: Stack | str | Path | None = None,
) -> ReuseAnswer:
    """Return what reuse of prefixes takes and gains, tier by tier (the fastest first).

    ``tiers``: texts as of --tier, ``NAME[,capacity=500GiB][,bandwidth=50GB/s]...``. Without ``hardware`` loads, bytes
    and turns are answered, and with ``prefill_per_token_s`` break-evens, too.

    Raises InputError for bad input and for what contradicts itself; DoesNotFitError where weights leave no pool.
    """
    asked = options or ReuseOptions()
    end, kind = _end(model, hardware, tp, ep, dtype, kv_dtype, efficiency, stack)
    given = (
        Parabola(asked.prefill_per_token_s, asked.prefill_growth_s or 0.0)
        if asked.prefill_per_token_s is not None
        else None
    )
    times = Times(StepTimes(kind) if kind else None, given)
    chosen = parse_tiers(tiers)
    if not chosen and asked.turns is None and asked.measured is None and asked.trace is None:
        raise InputError(
            "nothing to load from: pass --tier (costmodel show tiers), --trace, --turns or --measured"
        )
    if asked.hit_rate is not None and not chosen:
        raise InputError("--hit-rate is of prefixes in a tier: pass --tier, too")
    below = tuple(option.kv_tier(end, reads_alone=True) for option in chosen)
    shape = kv_shape(end)
    rows = _prefix_rows(end, times, asked, bool(chosen))
    memory = memory_of(kind, asked.pool_bytes, shape)
    found = None
    if asked.trace is not None:
        found = miss_ratio_curve(Trace(asked.trace, Reading(timed=False, block_tokens=asked.block_tokens)))
    room = memory.room_tokens(asked.sequences, asked.context)
    levels = levels_of(found, room, memory.reason, below) if found else ()
    measured = measured_of(asked.measured, shape.bytes_per_token, times) if asked.measured else None
    pairs, last = tuple(zip(below, chosen)), rows[-1] if rows else None
    return ReuseAnswer(
        schema=SCHEMA,
        model=end.model.name,
        hardware=kind.gpu.name if kind else None,
        tp=end.tp,
        kv_dtype=end.kv_dtype,
        kv_bytes_per_token=shape.bytes_per_token,
        fixed_bytes_per_sequence=shape.fixed_bytes,
        copies=shape.copies,
        prefixes=rows,
        tiers=tuple(tier_row(end, tier, option, times, last) for tier, option in pairs if last),
        loads=tuple(load_row(tier, option, times, row) for tier, option in pairs for row in rows),
        overflow=overflow_of(memory, asked.sequences, asked.context, below)
        if asked.sequences and asked.context
        else None,
        trace=None if asked.trace is None else str(asked.trace),
        curve=curve_of(found, shape.bytes_per_token) if found else None,
        levels=levels,
        hit_rate=asked.hit_rate,
        fleet=_fleets(times, below, levels, found, asked, rows),
        turns=turn_rows(times, shape.bytes_per_token, asked.turns, asked.turn_tokens, asked.osl)
        if asked.turns and asked.turn_tokens and asked.osl
        else (),
        measured=measured,
        about=about_reuse(end, kind, chosen, below, asked, rows, _warnings(measured, found)),
    )


def _end(
    model: Model | str,
    hardware: Gpu | str | Path | None,
    tp: int,
    ep: int,
    dtype: str | None,
    kv_dtype: str | None,
    efficiency: Efficiency | str | Path | None,
    stack: Stack | str | Path | None,
) -> tuple[HoldsKv, InstanceKind | None]:
    """Return the instance: with a GPU its kind, without one enough for bytes."""
    if hardware is not None:
        kind = as_instance(
            model, hardware, tp=tp, ep=ep, dtype=dtype, kv_dtype=kv_dtype, efficiency=efficiency, stack=stack
        )
        return kind, kind
    if efficiency is not None or stack is not None:
        raise InputError("--efficiency and --stack are of a GPU: pass --hardware")
    found = as_model(model)
    check_tp(found, tp)
    return KvEnd(found, tp, kv_dtype_of(found, kv_dtype, dtype)), None


def _warnings(measured: Measured | None, found: MissRatioCurve | None) -> tuple[str, ...]:
    """Say what to beware of in measurements and in a trace."""
    said = measured.warnings() if measured else ()
    share = found.unhashed_tokens / found.prompt_tokens if found else 0.0
    if share > _MOST_UNHASHED:
        said = (
            *said,
            f"trace: {share:.0%} of prompt tokens are beyond the hashes of their prompts: never found",
        )
    return said


def _prefix_rows(end: HoldsKv, times: Times, asked: ReuseOptions, tiers: bool) -> tuple[PrefixRow, ...]:
    held = sequence_bytes(end.model, end.kv_dtype)
    longest = end.model.max_context or max(PREFIXES) + 1
    below = min(asked.isl or longest, longest)
    usual = [prefix for prefix in PREFIXES if prefix < below] or sorted({below // 4, below // 2} - {0})
    if tiers and not asked.prefixes and not usual:
        raise InputError(f"--isl {below} leaves no prefix of a token beside the one that is computed")
    prefixes = sorted(set(asked.prefixes)) or (usual if tiers else [])
    rest = {prefix: 1 if asked.isl is None else asked.isl - prefix for prefix in prefixes}
    return tuple(
        prefix_row(end, times, prefix, uncached, held.of(prefix)) for prefix, uncached in rest.items()
    )


def _fleets(
    times: Times,
    tiers: Sequence[KvTier],
    levels: Sequence[Level],
    found: MissRatioCurve | None,
    asked: ReuseOptions,
    prefixes: Sequence[PrefixRow],
) -> tuple[Fleet, ...]:
    """One row a tier: by a trace, every request finds the mean of what is found there; else one a stated prefix."""
    if found is None:
        if asked.hit_rate is None:
            return ()
        mean = (0, asked.isl, asked.osl, asked.sequences)
        return tuple(
            fleet_of(
                times,
                tier.name,
                Found(
                    asked.hit_rate, prefix, tier.read_s(prefix), prefix, *mean, unheld=no_room(tier, prefix)
                ),
            )
            for tier in tiers
            for prefix in (row.prefix_tokens for row in prefixes)
        )
    isl = asked.isl or round(found.prompt_tokens / found.requests)
    osl = asked.osl or max(1, round(found.output_tokens / found.requests))

    def tokens(rate: float | None) -> int:
        return min(isl - 1, round((rate or 0.0) * isl))

    held, most = tokens(levels[0].hit_rate), tokens(found.infinite_hit_rate)
    rows, above, reads = [], held, list[tuple[KvTier, int]]()
    for tier, level in zip(tiers, levels[1:]):
        share = None if level.hit_rate is None else 1.0
        prefix = max(above, tokens(level.hit_rate))
        reads.append((tier, prefix - above))
        above = prefix
        found_here = Found(share, prefix, together(reads), most, held, isl, osl, asked.sequences, traced=True)
        rows.append(fleet_of(times, tier.name, found_here))
    return tuple(rows)
