"""Loading a prefix from each tier against computing it: seconds, gains, and where both cost the same."""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass

from ..decision.breakeven import Root, Symbolic
from ..decision.loading import bandwidth_form, bandwidth_root, tokens_form, tokens_root
from ..formulas import reuse as book
from ..serving.handover import HoldsKv
from ..serving.tiers import KvTier, copy_sizes
from .reuse_hits import NO_CAPACITY
from .reuse_times import NEEDS_GPU, UNKNOWN, Times, mooncake_rule
from .tiers import TierOption

#: Longest prefix of a break-even where the model states no longest context.
LONGEST = 1_048_576
#: How far a closed form may be from the length that step times give, as a share of that, to be told.
MOST_DISTANCE = 0.1


@dataclass(frozen=True)
class PrefixRow:
    """A prefix: its KV, each byte once, and what computing it takes.

    ``recompute_s`` = ``prefill_s`` of the whole prompt - ``after_hit_s`` of the rest over the prefix;
    ``mooncake_bytes_per_s``: bandwidth above which Mooncake's rule says to load.
    """

    prefix_tokens: int
    uncached_tokens: int
    kv_bytes: int
    prefill_s: float | None
    prefill_low_s: float | None
    prefill_high_s: float | None
    prefill_reason: str | None
    prefill_bound_s: float | None
    after_hit_s: float | None
    recompute_s: float | None
    recompute_reason: str | None
    mooncake_bytes_per_s: float | None
    mooncake_bytes_per_s_reason: str | None


@dataclass(frozen=True)
class LoadRow:
    """A prefix read from a tier: ``stored_bytes`` as the tier keeps it; nobody else reads meanwhile.

    ``fits``: the tier has room for it, None without its capacity; else nothing is gained, and ``load_s`` is that of a
    larger tier. ``bound_s``: these bytes at the wire's peak. ``gain`` = recompute / load; ``ttft_gain``: whole prefill
    over load and the rest's. ``break_even_bytes_per_s``: bandwidth at which both take as long, from the closed form.
    """

    tier: str
    prefix_tokens: int
    stored_bytes: float
    fits: bool | None
    fits_reason: str | None
    load_s: float
    bound_s: float | None
    bound_reason: str | None
    recompute_s: float | None
    recompute_reason: str | None
    gain: float | None
    gain_reason: str | None
    ttft_gain: float | None
    ttft_gain_reason: str | None
    pays: bool | None
    pays_reason: str | None
    pays_by_mooncake: bool | None
    pays_by_mooncake_reason: str | None
    break_even_bytes_per_s: float | None
    break_even_bytes_per_s_reason: str | None
    break_even_regime: str
    numeric_bytes_per_s: float | None
    numeric_bytes_per_s_reason: str | None


@dataclass(frozen=True)
class TierRow:
    """A tier as one instance sees it: bandwidths of all its paths, room in tokens of this model.

    ``shared_bytes_per_s``: of reads while as much is written. ``piece_bytes``: of one copy on one rank, where the
    software's layout is known. ``break_even_tokens``: the shortest prefix from which loading pays, by step times;
    ``closed_form_tokens`` the same by the formula.
    """

    name: str
    title: str
    shared: bool
    capacity_bytes: float | None
    capacity_tokens: int | None
    capacity_reason: str | None
    bytes_per_token: float
    fixed_bytes: float
    read_bytes_per_s: float
    latency_s: float
    per_chunk_s: float
    chunk_tokens: int
    duplex_factor: float | None
    duplex_factor_reason: str | None
    shared_bytes_per_s: float | None
    shared_bytes_per_s_reason: str | None
    piece_bytes: float | None
    piece_bytes_reason: str | None
    piece_bytes_per_s: float | None
    piece_bytes_per_s_reason: str | None
    break_even_tokens: float | None
    break_even_reason: str | None
    regime: str
    closed_form: str | None
    closed_form_latex: str | None
    closed_form_tokens: float | None
    closed_form_reason: str | None
    closed_form_regime: str
    valid_from: float | None
    valid_from_reason: str | None
    valid_to: float | None
    valid_to_reason: str | None
    distance: float | None
    distance_reason: str | None


def prefix_row(end: HoldsKv, times: Times, prefix: int, uncached: int, kv_bytes: int) -> PrefixRow:
    """Return what computing a prefix takes."""
    kind = times.steps.kind if times.steps else None
    rule, why = mooncake_rule(end.model, kind, prefix)
    band = times.band_s(prefix + uncached)
    return PrefixRow(
        prefix_tokens=prefix,
        uncached_tokens=uncached,
        kv_bytes=kv_bytes,
        prefill_s=times.prefill_s(prefix + uncached),
        prefill_low_s=band[0] if band else None,
        prefill_high_s=band[1] if band else None,
        prefill_reason=None if times.steps else NEEDS_GPU,
        prefill_bound_s=times.bound_s(prefix + uncached),
        after_hit_s=times.prefill_s(uncached, prefix),
        recompute_s=times.recompute_s(prefix, uncached) if times.known else None,
        recompute_reason=None if times.known else UNKNOWN,
        mooncake_bytes_per_s=rule,
        mooncake_bytes_per_s_reason=why,
    )


def load_row(tier: KvTier, option: TierOption, times: Times, row: PrefixRow) -> LoadRow:
    """Return what loading a prefix from a tier takes, and gains."""
    prefix, load = row.prefix_tokens, tier.read_s(row.prefix_tokens)
    stored, peak = tier.bytes_of(prefix), tier.peak_read_bytes_per_s
    form = numeric = None
    if times.known and row.recompute_s is not None:
        numeric = bandwidth_root(row.recompute_s, tier, prefix)
        form = bandwidth_form(times.parabola(prefix, row.uncached_tokens), tier, prefix).root
    room = no_room(tier, prefix)
    gain = None if row.recompute_s is None or room else float(book.hit_gain(row.recompute_s, load))
    bounded = math.isfinite(tier.capacity_bytes)
    whole = not room and row.prefill_s is not None and row.after_hit_s is not None
    rule = row.mooncake_bytes_per_s
    return LoadRow(
        tier=tier.name,
        prefix_tokens=prefix,
        stored_bytes=stored,
        fits=not room if bounded else None,
        fits_reason=room if bounded else NO_CAPACITY,
        load_s=load,
        bound_s=None if peak is None else stored / peak,
        bound_reason=option.tier.why_absent("read_bandwidth") if peak is None else None,
        recompute_s=row.recompute_s,
        recompute_reason=row.recompute_reason,
        gain=gain,
        gain_reason=room or row.recompute_reason,
        ttft_gain=(row.prefill_s or 0.0) / (load + (row.after_hit_s or 0.0)) if whole else None,
        ttft_gain_reason=None if whole else room or NEEDS_GPU,
        pays=False if room else None if gain is None else gain > 1,
        pays_reason=room or row.recompute_reason,
        pays_by_mooncake=None if rule is None else not room and tier.read_bytes_per_s > rule,
        pays_by_mooncake_reason=row.mooncake_bytes_per_s_reason,
        break_even_bytes_per_s=form.value if form else None,
        break_even_bytes_per_s_reason=_why(form),
        break_even_regime=form.regime if form else UNKNOWN,
        numeric_bytes_per_s=numeric.value if numeric else None,
        numeric_bytes_per_s_reason=_why(numeric),
    )


def no_room(tier: KvTier, prefix: int) -> str | None:
    """Say that a tier has no room for a prefix; None where it has, or its capacity is not known."""
    if tier.bytes_of(prefix) <= tier.capacity_bytes:
        return None
    return f"the tier has no room for it, but for {tier.capacity_tokens:,.0f} tokens"


def _why(root: Root | None) -> str | None:
    """Why there is no root: nothing is known, or what its regime says; None where there is one."""
    return UNKNOWN if root is None else root.regime if root.value is None else None


def tier_row(end: HoldsKv, tier: KvTier, option: TierOption, times: Times, row: PrefixRow) -> TierRow:
    """Return a tier with its break-even length.

    The parabola of the closed form goes through that length and twice it; where there is none, through ``row``.
    """
    prefix, uncached, longest = row.prefix_tokens, row.uncached_tokens, end.model.max_context or LONGEST
    root: Root | None = None
    form: Symbolic | None = None
    if times.known:
        held = bisect.bisect_right(range(1, longest + 1), tier.capacity_bytes, key=tier.bytes_of)
        root = (
            tokens_root(lambda tokens: times.recompute_s(tokens, uncached), tier, held)
            if held
            else Root(None, "the tier has no room for any prefix")
        )
        around = 2 * int(root.value) if root.value is not None else prefix
        form = tokens_form(times.parabola(around, uncached), tier)
    bounded = math.isfinite(tier.capacity_bytes)
    factor, both = _duplex(option)
    size, why = _pieces(end, tier, option)
    rate, slow = _measured(option, size, why)
    value, unlike = _closed(form, root)
    bounds = form.root if form and value is not None else None
    return TierRow(
        name=tier.name,
        title=option.tier.title,
        shared=tier.shared,
        capacity_bytes=tier.capacity_bytes if bounded else None,
        capacity_tokens=int(tier.capacity_tokens) if bounded and tier.bytes_per_token else None,
        capacity_reason=None if bounded else NO_CAPACITY,
        bytes_per_token=tier.bytes_per_token,
        fixed_bytes=tier.fixed_bytes,
        read_bytes_per_s=tier.read_bytes_per_s,
        latency_s=tier.latency_s,
        per_chunk_s=tier.per_chunk_s,
        chunk_tokens=tier.chunk_tokens,
        duplex_factor=factor,
        duplex_factor_reason=both if factor is None else None,
        shared_bytes_per_s=None if factor is None else tier.read_bytes_per_s * min(1.0, factor / 2),
        shared_bytes_per_s_reason=both if factor is None else None,
        piece_bytes=size,
        piece_bytes_reason=why,
        piece_bytes_per_s=rate,
        piece_bytes_per_s_reason=slow,
        break_even_tokens=root.value if root else None,
        break_even_reason=_why(root),
        regime=root.regime if root else UNKNOWN,
        closed_form=f"prefix = {form.text}" if form and form.text else None,
        closed_form_latex=f"P = {form.latex}" if form and form.latex else None,
        closed_form_tokens=value,
        closed_form_reason=unlike,
        closed_form_regime=unlike or (bounds.regime if bounds else UNKNOWN),
        valid_from=bounds.valid_from if bounds else None,
        valid_from_reason=unlike,
        valid_to=bounds.valid_to if bounds else None,
        valid_to_reason=unlike
        or ("it holds for every longer prefix" if bounds and bounds.valid_to is None else None),
        distance=_less(value, root.value if root else None),
        distance_reason=unlike or _why(root),
    )


def _closed(form: Symbolic | None, root: Root | None) -> tuple[float | None, str | None]:
    """Return the closed form's length, or why it is not told: it has none, or is far from that of step times."""
    value = form.root.value if form else None
    if root is not None and root.value == 1:
        return None, root.regime
    if form is None or value is None or root is None:
        return None, _why(form.root if form else None)
    if root.value is None:
        return None, f"step times have no such length, a parabola through two of them {value:,.0f} tokens"
    if abs(value - root.value) > max(1.0, MOST_DISTANCE * root.value):
        return None, f"step times are no parabola around {root.value:,.0f} tokens: it would be {value:,.0f}"
    return value, None


def _less(value: float | None, base: float | None) -> float | None:
    return None if value is None or base is None else value - base


def _duplex(option: TierOption) -> tuple[float | None, str | None]:
    """Return the duplex factor of a tier at its stated bandwidth, or why there is none."""
    both, one = option.tier.value("both_ways"), option.tier.used("read")
    if both is None or one is None:
        return None, option.tier.why_absent("both_ways")
    return float(book.duplex_factor(both, one.value)), None


def _pieces(end: HoldsKv, tier: KvTier, option: TierOption) -> tuple[float | None, str | None]:
    """Return bytes of one copy on one rank, the smallest where layers differ, or why that is not known."""
    if option.tier.piece is None:
        return None, "no software's layout is stated for it"
    own = tier.bytes_per_token if "bytes_per_token" in option.given else None
    sizes = copy_sizes(option.tier, end, tier.chunk_tokens, own)
    return (min(sizes), None) if sizes else (None, "no layer caches tokens, or not as the GPU does")


def _measured(option: TierOption, size: float | None, why: str | None) -> tuple[float | None, str | None]:
    """Return the bandwidth measured with copies of this size, or why there is none."""
    if size is None:
        return None, why
    if not option.tier.pieces:
        return None, "its bandwidth was not measured by the size of copies"
    rate = option.tier.bandwidth_of_pieces(size)
    return rate, "they are smaller than any that were measured" if rate is None else None
