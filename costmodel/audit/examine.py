"""All checks of a record, in one pass. Each is a function of a case; none knows a record."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from .case import Case
from .checks.bounds import check_bounds
from .checks.bursts import check_bursts, invert_bursts
from .checks.cached import check_cached, check_ratio, check_repeated, invert_ratio
from .checks.chunks import check_chunks, invert_chunk_sizes, invert_chunks
from .checks.claims import check_populations
from .checks.copies import check_copies, invert_copies
from .checks.counts import check_characters
from .checks.crossings import invert_crossings
from .checks.descriptors import invert_blocks, invert_descriptor_sizes, invert_descriptors, invert_posting
from .checks.experts import check_experts
from .checks.explained import invert_bounds
from .checks.identities import check_e2e, check_littles_law, check_rates
from .checks.interference import check_chunk_gaps, check_stalls, invert_stalls
from .checks.layout import check_layout
from .checks.lengths import check_lengths, invert_lengths
from .checks.load import check_capacity, check_offered
from .checks.memory import check_batch, check_clients, check_pool, check_weights
from .checks.needed import check_far, invert_size
from .checks.objectives import check_attainment, check_objectives
from .checks.order import check_gaps, check_order, check_ranges, check_streams, invert_gaps
from .checks.parallel import (
    check_bytes_read,
    invert_all_reduce,
    invert_bytes_read,
    invert_prompt_all_reduces,
    invert_tensor_parallel,
)
from .checks.peaks import check_bandwidth_stated, check_links, check_memory_stated, check_peaks
from .checks.pool import check_blocks, check_bytes_per_token, check_full_length, check_weight_bytes
from .checks.predictions import check_predictions, invert_predictions
from .checks.ratios import check_ratios
from .checks.readings import check_readings
from .checks.repeats import check_repeats, invert_repeats
from .checks.reuse import invert_reuse
from .checks.saturated import check_saturated, invert_saturated
from .checks.scenarios import check_scenarios
from .checks.shares import check_shares
from .checks.sides import check_gpus, check_prefill_twice, check_ratio_of_two, check_tokens
from .checks.slips import check_copy_bytes, check_kv_bytes, check_payload
from .checks.split import invert_ratios, invert_split, invert_wire
from .checks.stages import check_stages, invert_handover
from .checks.sweeps import check_scaling, check_sweeps, invert_scaling
from .checks.trends import check_growth, check_serial, invert_series
from .finding import GRADES, Finding, Inversion

CHECKS: tuple[Callable[[Case], Iterable[Finding]], ...] = (
    check_bounds,
    check_copies,
    check_e2e,
    check_littles_law,
    check_rates,
    check_readings,
    check_offered,
    check_capacity,
    check_growth,
    check_shares,
    check_stages,
    check_copy_bytes,
    check_kv_bytes,
    check_payload,
    check_links,
    check_peaks,
    check_memory_stated,
    check_bandwidth_stated,
    check_weights,
    check_pool,
    check_batch,
    check_clients,
    check_bytes_per_token,
    check_blocks,
    check_full_length,
    check_weight_bytes,
    check_repeated,
    check_cached,
    check_ratio,
    check_characters,
    check_populations,
    check_prefill_twice,
    check_ratio_of_two,
    check_gpus,
    check_tokens,
    check_serial,
    check_stalls,
    check_bursts,
    check_saturated,
    check_chunks,
    check_repeats,
    check_bytes_read,
    check_far,
    check_lengths,
    check_layout,
    check_predictions,
    check_order,
    check_ranges,
    check_gaps,
    check_streams,
    check_sweeps,
    check_scaling,
    check_ratios,
    check_objectives,
    check_attainment,
    check_experts,
    check_scenarios,
    check_chunk_gaps,
)
INVERSIONS: tuple[Callable[[Case], Iterable[Inversion]], ...] = (
    invert_bounds,
    invert_copies,
    invert_series,
    invert_handover,
    invert_ratio,
    invert_stalls,
    invert_bursts,
    invert_saturated,
    invert_chunks,
    invert_descriptors,
    invert_descriptor_sizes,
    invert_posting,
    invert_blocks,
    invert_repeats,
    invert_split,
    invert_ratios,
    invert_wire,
    invert_crossings,
    invert_tensor_parallel,
    invert_all_reduce,
    invert_prompt_all_reduces,
    invert_bytes_read,
    invert_size,
    invert_lengths,
    invert_predictions,
    invert_chunk_sizes,
    invert_gaps,
    invert_scaling,
    invert_reuse,
)


def examine(case: Case) -> tuple[Finding, ...]:
    """Return the findings of all checks, worst first."""
    found = [replace(f, record=case.record.name) for check in CHECKS for f in check(case)]
    return tuple(sorted(dict.fromkeys(found), key=lambda f: GRADES.index(f.grade)))


#: Inversions that nearly every figure has: those that say more come first.
_OF_EACH = ("mfu", "mbu", "overhead_s", "effective_bytes_per_s", "prompt_tokens", "gpus_factor")


def invert(case: Case) -> tuple[Inversion, ...]:
    """Return what would explain the figures: what no stated hardware has first, what each figure has last."""
    found = [replace(i, record=case.record.name) for invert_ in INVERSIONS for i in invert_(case)]
    return tuple(sorted(found, key=lambda i: (i.plausible is not False, i.quantity in _OF_EACH)))
