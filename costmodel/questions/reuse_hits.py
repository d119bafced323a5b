"""What is found in GPU memory and in each tier below it, by a trace or by a stated rate, and what a fleet gains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from ..evaluate.stack import NEARLY, MissRatioCurve
from ..formulas import reuse as book
from ..serving.tiers import KvTier
from .reuse_times import NEEDS_GPU, Times

MEMORY = "GPU memory"
NO_CAPACITY = "not given: add capacity=500GiB after the name"
MEAN = "by a trace every request finds the mean of what is found"
_POINTS = 12


@dataclass(frozen=True)
class Point:
    """Hits of a cache of one size, as a share of all prompt tokens."""

    size_tokens: int
    size_bytes: float
    hit_rate: float


@dataclass(frozen=True)
class Curve:
    """Hits of a trace by size of an LRU cache; bytes are of this model's KV, each once.

    ``nearly_tokens`` finds 90 % of what a cache without bound finds; beyond ``enough_tokens`` nothing is gained, nor
    between ``flat_from_tokens`` and ``flat_to_tokens``, the widest stretch.
    """

    requests: int
    hashed_requests: int
    mean_prompt_tokens: float
    mean_output_tokens: float
    infinite_hit_rate: float
    nearly_tokens: int | None
    nearly_bytes: float | None
    nearly_reason: str | None
    enough_tokens: int
    enough_bytes: float
    working_set_tokens: int
    working_set_bytes: float
    flat_from_tokens: int | None
    flat_to_tokens: int | None
    flat_reason: str | None
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Level:
    """GPU memory or a tier: its room, and hits of it and all above together, as a share of prompt tokens."""

    name: str
    room_tokens: int | None
    room_reason: str | None
    hit_rate: float | None
    hit_rate_reason: str | None
    gained_share: float | None


@dataclass(frozen=True)
class Fleet:
    """What a tier gains one hit, and all requests on average: seconds of an instance that a request takes.

    ``request_s`` without the tier, ``reuse_s`` with it, where the instance waits for loads; ``hidden_gain`` where
    other work hides them; ``most_gain``: every request finds its prefix at no cost, by a trace as much
    as a cache without bound has. By a trace every request finds the mean, ``prefix_tokens``: no share of them hits.
    """

    tier: str
    prefix_tokens: int
    hit_share: float | None
    hit_share_reason: str | None
    recompute_s: float | None
    load_s: float | None
    hit_gain: float | None
    request_s: float | None
    reuse_s: float | None
    gain: float | None
    hidden_gain: float | None
    most_gain: float | None
    reason: str | None


def curve_of(found: MissRatioCurve, bytes_per_token: float) -> Curve:
    """Return a miss-ratio curve with its telling sizes."""
    nearly = found.size_for(NEARLY)
    flat = max(pairwise((0, *found.sizes_tokens)), key=lambda pair: pair[1] - pair[0], default=None)
    return Curve(
        requests=found.requests,
        hashed_requests=found.hashed,
        mean_prompt_tokens=found.prompt_tokens / found.requests,
        mean_output_tokens=found.output_tokens / found.requests,
        infinite_hit_rate=found.infinite_hit_rate,
        nearly_tokens=nearly,
        nearly_bytes=None if nearly is None else nearly * bytes_per_token,
        nearly_reason="nothing is found at any size" if nearly is None else None,
        enough_tokens=found.enough_tokens,
        enough_bytes=found.enough_tokens * bytes_per_token,
        working_set_tokens=found.working_set_tokens,
        working_set_bytes=found.working_set_tokens * bytes_per_token,
        flat_from_tokens=flat[0] if flat else None,
        flat_to_tokens=flat[1] if flat else None,
        flat_reason=None if flat else "nothing is found at any size",
        points=_points(found, bytes_per_token),
    )


def _points(found: MissRatioCurve, bytes_per_token: float) -> tuple[Point, ...]:
    """Sizes in even ratios, from the first that finds anything to the last that gains."""
    if not found.sizes_tokens:
        return ()
    low, high = found.sizes_tokens[0], found.sizes_tokens[-1]
    sizes = sorted({round(low * (high / low) ** (i / _POINTS)) for i in range(_POINTS + 1)})
    return tuple(Point(size, size * bytes_per_token, found.hit_rate(size)) for size in sizes)


def levels_of(
    found: MissRatioCurve | None, room: float | None, why: str | None, tiers: Sequence[KvTier]
) -> tuple[Level, ...]:
    """Return the hits of GPU memory, with ``room`` tokens, and of each tier below it.

    Whatever is computed is written to every tier, so that the largest so far says what is found.
    """
    rows, reached, before = [], room or 0.0, 0.0
    rooms: list[tuple[str, float | None, str | None]] = [(MEMORY, room, why)]
    for tier in tiers:
        bounded = math.isfinite(tier.capacity_tokens)
        rooms.append((tier.name, tier.capacity_tokens, None) if bounded else (tier.name, None, NO_CAPACITY))
    for name, tokens, reason in rooms:
        if tokens is None or found is None:
            rows.append(
                Level(name, None if tokens is None else int(tokens), reason, None, reason or "no trace", None)
            )
            continue
        reached = max(reached, tokens)
        rate = found.hit_rate(reached)
        rows.append(Level(name, int(tokens), None, rate, None, rate - before))
        before = rate
    return tuple(rows)


class Found(NamedTuple):
    """What requests find: ``hit_share`` of them ``prefix`` tokens, read in ``load_s``.

    ``held`` of these tokens are in GPU memory anyway; without any bound they would find ``most``. Prompts and outputs
    of a mean request; ``batch`` requests decode together. ``traced``: all requests are taken for the mean one;
    ``unheld``: why the tier does not hold it.
    """

    hit_share: float | None
    prefix: int
    load_s: float
    most: int
    held: int
    isl: int | None
    osl: int | None
    batch: int | None
    traced: bool = False
    unheld: str | None = None


def fleet_of(times: Times, tier: str, found: Found) -> Fleet:
    """Return what a tier gains a hit, and all requests on average."""
    hit_share, prefix, load, most, held, isl, osl, batch, traced, _ = found
    why = found.unheld or _missing(times, found)
    share, no_share = (None, MEAN) if traced else (hit_share, None)
    if why is not None or isl is None or osl is None or batch is None or hit_share is None:
        return Fleet(tier, prefix, share, no_share, None, None, None, None, None, None, None, None, why)
    in_memory = _saved(times, held, isl)
    computed, everything = (_saved(times, tokens, isl) - in_memory for tokens in (prefix, most))
    whole = (times.prefill_s(isl - held, held) or 0.0) + (times.decode_s(batch, isl + osl / 2, osl) or 0.0)
    return Fleet(
        tier=tier,
        prefix_tokens=prefix,
        hit_share=share,
        hit_share_reason=no_share,
        recompute_s=computed,
        load_s=load,
        hit_gain=float(book.hit_gain(computed, load)) if load else None,
        request_s=whole,
        reuse_s=float(book.reuse_request_time(whole, hit_share, computed, load)),
        gain=float(book.fleet_gain(whole, hit_share, computed, load)),
        hidden_gain=float(book.fleet_gain(whole, hit_share, computed, 0.0)),
        most_gain=float(book.fleet_gain(whole, 1.0, everything, 0.0)),
        reason=None if load else "nothing is found that GPU memory does not hold",
    )


def _saved(times: Times, prefix: int, isl: int) -> float:
    """Return what a prefix saves of a prompt; none for none."""
    return times.recompute_s(prefix, isl - prefix) if prefix else 0.0


def _missing(times: Times, found: Found) -> str | None:
    if times.steps is None:
        return NEEDS_GPU
    absent = {
        "--hit-rate, or --trace and a capacity": found.hit_share,
        "--isl": found.isl,
        "--osl": found.osl,
        "--sequences (that decode together)": found.batch,
    }
    missing = [name for name, value in absent.items() if value is None]
    return f"needs {', '.join(missing)}" if missing else None
