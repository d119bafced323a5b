"""All checks of a record, in one pass. Each is a function of a case; none knows a record."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from .bounds import check_bounds, invert_bounds
from .case import Case
from .copies import check_copies, invert_copies
from .finding import GRADES, Finding, Inversion
from .identities import check_e2e, check_littles_law, check_rates
from .load import check_capacity, check_offered
from .memory import check_batch, check_clients, check_pool, check_weights
from .peaks import check_links, check_memory_stated, check_peaks
from .pool import check_blocks, check_bytes_per_token, check_full_length, check_weight_bytes
from .shares import check_shares
from .slips import check_copy_bytes, check_kv_bytes
from .stages import check_stages, invert_handover
from .trends import check_growth, invert_series

CHECKS: tuple[Callable[[Case], Iterable[Finding]], ...] = (
    check_bounds,
    check_copies,
    check_e2e,
    check_littles_law,
    check_rates,
    check_offered,
    check_capacity,
    check_growth,
    check_shares,
    check_stages,
    check_copy_bytes,
    check_kv_bytes,
    check_links,
    check_peaks,
    check_memory_stated,
    check_weights,
    check_pool,
    check_batch,
    check_clients,
    check_bytes_per_token,
    check_blocks,
    check_full_length,
    check_weight_bytes,
)
INVERSIONS: tuple[Callable[[Case], Iterable[Inversion]], ...] = (
    invert_bounds,
    invert_copies,
    invert_series,
    invert_handover,
)


def examine(case: Case) -> tuple[Finding, ...]:
    """Return the findings of all checks, worst first."""
    found = [replace(f, record=case.record.name) for check in CHECKS for f in check(case)]
    return tuple(sorted(dict.fromkeys(found), key=lambda f: GRADES.index(f.grade)))


def invert(case: Case) -> tuple[Inversion, ...]:
    """Return what would explain the figures."""
    return tuple(replace(i, record=case.record.name) for invert_ in INVERSIONS for i in invert_(case))
