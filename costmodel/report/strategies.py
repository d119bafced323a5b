"""Strategies side by side: a column each, a row a figure. Short numbers, so that four columns fit a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from ..decision.results import PoolResult, StrategyResult
from ..serving.strategies import Role
from ..units import format_si
from .page import Table


class Compared(Protocol):
    """An answer that has strategies side by side, with the SLOs that they are held against."""

    @property
    def topology(self) -> str:
        """Instances, as xPyD."""

    @property
    def slo_ttft_s(self) -> float | None:
        """TTFT objective."""

    @property
    def slo_tpot_s(self) -> float | None:
        """TPOT objective."""

    @property
    def strategies(self) -> Sequence[StrategyResult]:
        """A column each."""


Cell = Callable[[StrategyResult], str]
NONE = "-"
GROUPS = (
    ("copy: link, hand-over", "copy_s"),
    ("interference: chunk+stall", "interference_s"),
    ("stranding: queue, admit", "stranding_s"),
    ("sharing: decode batch", "sharing_s"),
    ("prefix computed again", "recomputed_prefix_s"),
)
#: Seconds below which a mean shows in no column.
_SHOWS_S = 5e-4
_STAGES = ("queue", "prefill", "stretch", "copy", "admission")


def short(value: float | None, decimals: int = 2) -> str:
    """Return a number with few digits and no leading zero.

    >>> short(0.4826), short(2.8102), short(0.001), short(-0.03), short(12.34), short(123.4)
    ('.48', '2.81', '0', '-.03', '12.3', '123')
    """
    if value is None:
        return NONE
    size = abs(value)
    text = f"{value:.{decimals if size < 9.995 else min(decimals, 1) if size < 99.95 else 0}f}"
    if float(text) == 0:
        return "0"
    return text.replace("0.", ".", 1) if size < 1 and text.lstrip("-").startswith("0.") else text


def banded(value: float | None, low: float | None, high: float | None, decimals: int = 1) -> str:
    """Return a value with its band, where there is one."""
    if value is None:
        return NONE
    return short(value) if low is None else f"{short(value)} ({short(low, decimals)}-{short(high, decimals)})"


def pooled(result: StrategyResult) -> bool:
    """True where every instance does everything: nothing is copied."""
    return result.pools[0].role == Role.SHARED.value


def heading(answer: Compared, result: StrategyResult) -> str:
    """Return the head of a column."""
    return f"disagg. {answer.topology}" if result.name == "disaggregated" else result.name


def comparison(answer: Compared) -> Table:
    """Return the table of strategies; rows that no strategy fills are left out."""
    results = answer.strategies
    rows = []
    for label, cell in _rows(answer):
        cells = tuple(cell(result) for result in results)
        if any(text != NONE for text in cells):
            rows.append((label, *cells))
    headers = ("", *(heading(answer, result) for result in results))
    return Table(headers, tuple(rows), (False,) * len(headers))


def _rows(answer: Compared) -> Iterator[tuple[str, Cell]]:
    yield "load/capacity", _load
    yield "goodput/GPU, req/s (band)", _goodput
    yield "attainment at this rate", _attainment
    yield "P95 TTFT, s (band)+-sample", lambda r: _ttft(r, answer.slo_ttft_s)
    yield "queue|own|stretch|copy|adm", _stages
    if all(result.ttft_p95_stages is None for result in answer.strategies):
        yield "mean TTFT, s", lambda r: short(r.ttft_mean_s)
        yield "mean TPOT, ms", lambda r: _milliseconds(r.tpot_mean_s)
    yield "P99 TPOT, ms (band)", lambda r: _tpot(r, answer.slo_tpot_s)
    yield "mean delay over ideal, s", lambda r: short(r.mean_delay_s)
    results = answer.strategies
    read = any(result.tiers for result in results)
    for label, key in GROUPS:
        if key != "recomputed_prefix_s" or any(computed_again(result) for result in results):
            yield f" {label}{', read' if read and key == 'copy_s' else ''}", _group(key)
    yield "busy|MFU|MBU", lambda r: _uses(r, (Role.SHARED, Role.PREFILL))
    yield " of the decode pool", lambda r: _uses(r, (Role.DECODE,))
    yield "KV held for hand-over", _held
    yield "prompt in HBM|tiers|computed", _found
    yield "tiers: read|write use", _tiers


def computed_again(result: StrategyResult) -> float:
    """Mean seconds of prefixes that the ideal has cached and a strategy computes; 0 where nothing shows."""
    seconds = result.recomputed_prefix_s or 0.0
    return seconds if abs(seconds) >= _SHOWS_S else 0.0


def _load(result: StrategyResult) -> str:
    """Return the busiest pool's load, and by which rule a strategy that has one routes."""
    words = [short(result.utilisation), *([] if result.stable else ["UNSTABLE"])]
    return " ".join([*words, *([result.rule] if result.rule else [])])


def _goodput(result: StrategyResult) -> str:
    """Return the goodput, and the SLO that ends it."""
    band = result.goodput_low_per_gpu_per_s, result.goodput_high_per_gpu_per_s
    text = banded(result.goodput_per_gpu_per_s, *band, decimals=2)
    return f"{text} {result.goodput_binding}" if result.goodput_binding else text


def _attainment(result: StrategyResult) -> str:
    return NONE if result.attainment is None else f"{result.attainment * 100:.3g} %"


def _ttft(result: StrategyResult, limit: float | None) -> str:
    """Return P95 TTFT; beyond its SLO the mark takes the place of the sampling error (--detail has it)."""
    value, spread = result.ttft_p95_s, result.ttft_p95_ci_s
    if value is None:
        return NONE
    decimals = 2 if value < 0.995 else 1 if value < 9.995 else 0
    text = banded(value, result.ttft_p95_low_s, result.ttft_p95_high_s, decimals)
    if limit is not None and value > limit:
        return f"{text} > SLO"
    return text if spread is None else f"{text}+-{short(spread, 1 if spread >= 0.095 else 2)}"


def _stages(result: StrategyResult) -> str:
    parts = result.ttft_p95_parts
    return NONE if parts is None else "|".join(short(parts[name]) for name in _STAGES)


def _milliseconds(seconds: float | None) -> str:
    return NONE if seconds is None else format_si(seconds, "second").replace(" ms", "").replace(" us", " us")


def _tpot(result: StrategyResult, limit: float | None) -> str:
    text = _milliseconds(result.tpot_p99_s)
    if result.tpot_p99_low_s is not None and result.tpot_p99_high_s is not None:
        low, high = (f"{1e3 * value:.0f}" for value in (result.tpot_p99_low_s, result.tpot_p99_high_s))
        text += f" ({low}-{high})"
    over = limit is not None and result.tpot_p99_s is not None and result.tpot_p99_s > limit
    return f"{text} > SLO" if over else text


def _group(key: str) -> Cell:
    def cell(result: StrategyResult) -> str:
        if key == "copy_s" and pooled(result) and not result.copy_s:
            return NONE
        return short(getattr(result, key), 3 if key in ("copy_s", "recomputed_prefix_s") else 2)

    return cell


def _uses(result: StrategyResult, roles: Iterable[Role]) -> str:
    names = {role.value for role in roles}
    return next((_use(pool) for pool in result.pools if pool.role in names), NONE)


def _use(pool: PoolResult) -> str:
    if pool.busy_share is None:
        return NONE
    return "|".join(short(value) for value in (pool.busy_share, pool.mfu, pool.mbu))


def _held(result: StrategyResult) -> str:
    if result.kv_held_bytes is None or result.kv_pool_bytes is None or pooled(result):
        return NONE
    held, pool = (format_si(v, "byte", 2, binary=True) for v in (result.kv_held_bytes, result.kv_pool_bytes))
    return f"{held} of {pool}"


def _found(result: StrategyResult) -> str:
    """Return where prompt tokens were found, where there are KV tiers."""
    if not result.tiers or result.hit_rate_tokens is None:
        return NONE
    return "|".join(f"{share:.0%}" for share in result.hit_rate_tokens.values())


def _tiers(result: StrategyResult) -> str:
    """Return the busy shares of each tier's busiest port."""
    return ", ".join(f"{short(tier.read_use)}|{short(tier.write_use)}" for tier in result.tiers) or NONE
