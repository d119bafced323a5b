"""The page of ``costmodel reuse``."""

from __future__ import annotations

from ..questions.reuse import ReuseAnswer
from ..questions.reuse_loads import PrefixRow
from .page import Block, Heading, Page, banded, facts, table

PREFIX = {
    "prefix_tokens": "prefix",
    "kv_bytes": "KV",
    "prefill_s": "whole prefill (band)",
    "prefill_bound_s": "its bound",
    "after_hit_s": "after a hit",
    "recompute_s": "recompute",
    "mooncake_bytes_per_s": "Mooncake: load above",
}
LOADS = {
    "tier": "tier",
    "prefix_tokens": "prefix",
    "load_s": "load",
    "recompute_s": "recompute",
    "gain": "gain of a hit",
    "ttft_gain": "of its prefill",
    "break_even_bytes_per_s": "pays above",
    "pays": "pays",
    "pays_by_mooncake": "by Mooncake",
}
LOADS_DETAIL = {
    "tier": "tier",
    "prefix_tokens": "prefix",
    "stored_bytes": "bytes read",
    "bound_s": "bound of the load",
    "numeric_bytes_per_s": "pays above, by bisection",
    "break_even_regime": "regime of the closed form",
}
TIERS = {
    "name": "tier",
    "capacity_tokens": "holds, tokens",
    "bytes_per_token": "a token",
    "read_bytes_per_s": "reads",
    "shared_bytes_per_s": "beside writes",
    "duplex_factor": "duplex",
    "break_even_tokens": "pays from, tokens",
    "closed_form_tokens": "closed form",
}
TIERS_DETAIL = {
    "name": "tier",
    "latency_s": "latency",
    "per_chunk_s": "a piece",
    "chunk_tokens": "tokens of a piece",
    "piece_bytes": "bytes of a copy",
    "piece_bytes_per_s": "measured with such copies",
    "distance": "closed form less root",
    "closed_form_regime": "regime of the closed form",
}
OVERFLOW = {
    "sequences": "sequences at once",
    "context_tokens": "tokens of each",
    "wanted_bytes": "KV of all",
    "pool_bytes": "KV pool of the instance",
    "overflow_bytes": "does not fit",
    "overflow_tokens": "in tokens",
    "taken_by": "fits down to",
}
CURVE = {
    "requests": "requests",
    "mean_prompt_tokens": "mean prompt",
    "infinite_hit_rate": "found by a cache without bound",
    "nearly_tokens": "90 % of that in, tokens",
    "nearly_bytes": "in bytes",
    "enough_tokens": "nothing gained beyond, tokens",
    "enough_bytes": "in bytes",
    "working_set_tokens": "all distinct blocks, tokens",
    "flat_from_tokens": "widest stretch without gain, from",
    "flat_to_tokens": "to",
}
LEVELS = {
    "name": "found in",
    "room_tokens": "room, tokens",
    "hit_rate": "hits down to here",
    "gained_share": "gained",
}
POINTS = {"size_tokens": "cache, tokens", "size_bytes": "bytes", "hit_rate": "found"}
FLEET = {
    "tier": "tier",
    "prefix_tokens": "found",
    "hit_share": "hits",
    "hit_gain": "gain of a hit",
    "request_s": "GPU time a request",
    "reuse_s": "with the tier",
    "gain": "fleet gain",
    "hidden_gain": "loads hidden",
    "most_gain": "at most",
}
TURNS = {
    "place": "prefix kept at",
    "computed_tokens": "prefilled tokens",
    "prefill_s": "prefills",
    "to_decode_bytes": "to decode",
    "to_prefill_bytes": "to prefill",
    "stored_bytes": "stored",
}
MEASURED = {
    "load_fixed_s": "load: fixed",
    "load_per_token_s": "load: a token",
    "load_bytes_per_s": "load: bandwidth",
    "load_mape": "load: error, held out",
    "recompute_fixed_s": "recompute: fixed",
    "recompute_per_token_s": "recompute: a token",
    "recompute_growth_s": "recompute: a token squared",
    "recompute_mape": "recompute: error, held out",
    "paying": "lengths at which it pays, as measured",
    "predicted_bias": "step times over measured, less 1",
    "break_even_tokens": "pays from, tokens",
}
MEASURED_ROWS = {
    "tokens": "prefix",
    "fitted": "fitted",
    "load_s": "load",
    "load_fit_s": "fit",
    "recompute_s": "recompute",
    "recompute_fit_s": "fit ",
    "pays": "pays",
    "predicted_s": "step times",
}


def page(answer: ReuseAnswer, detail: bool) -> Page:
    """Return the page of an answer; ``detail`` adds pieces, bounds, roots and closed forms."""
    where = f"on {answer.hardware}" if answer.hardware else "no GPU named"
    title = f"Reuse of prefixes: {answer.model}, {answer.kv_dtype} KV, TP{answer.tp}, {where}"
    blocks: list[Block] = []
    if answer.prefixes:
        rows = [{key: getattr(row, key) for key in PREFIX} | _band(row) for row in answer.prefixes]
        blocks.append(table(rows, PREFIX))
    if answer.tiers:
        tiers = [{key: _whole(getattr(row, key)) for key in TIERS} for row in answer.tiers]
        blocks += [Heading("Load against recompute"), table(answer.loads, LOADS), table(tiers, TIERS)]
        blocks += _reasons(answer)
    if detail and answer.tiers:
        blocks += [table(answer.tiers, TIERS_DETAIL), table(answer.loads, LOADS_DETAIL)]
        blocks += list(dict.fromkeys(row.closed_form for row in answer.tiers if row.closed_form))
    if answer.overflow:
        blocks += [Heading("What GPU memory has no room for"), facts(answer.overflow, OVERFLOW)]
    if answer.curve:
        blocks += [Heading(f"Hits of {answer.trace}"), facts(answer.curve, CURVE)]
        blocks += [table(answer.levels, LEVELS)] if answer.levels else []
        blocks += [table(answer.curve.points, POINTS)]
    if answer.fleet:
        blocks += [Heading("One hit, and a fleet"), table(answer.fleet, FLEET)]
        blocks += [f"{row.tier}: {row.reason}" for row in answer.fleet if row.reason]
    if answer.turns:
        blocks += [Heading("A conversation, all turns"), table(answer.turns, TURNS)]
    if answer.measured:
        blocks += [Heading(f"Measured: {answer.measured.path}"), facts(answer.measured, MEASURED)]
        blocks += [answer.measured.break_even_regime, table(answer.measured.rows, MEASURED_ROWS)]
    return Page(title, tuple(blocks), answer.about, cite=detail)


def _band(row: PrefixRow) -> dict[str, str]:
    """The whole prefill with its band, where step times are known."""
    if row.prefill_s is None or row.prefill_low_s is None or row.prefill_high_s is None:
        return {}
    return {"prefill_s": banded("prefill_s", row.prefill_s, row.prefill_low_s, row.prefill_high_s)}


def _whole(value: object) -> object:
    """Tokens of a break-even in whole ones."""
    return round(value) if isinstance(value, float) and value >= 1000 else value


def _reasons(answer: ReuseAnswer) -> list[Block]:
    """Why a break-even has no value, or what holds where it has one."""
    said = [
        f"{row.name}: {row.regime or row.break_even_reason}"
        for row in answer.tiers
        if row.regime or row.break_even_reason
    ]
    said += [
        f"{row.name}, closed form: {row.closed_form_reason}"
        for row in answer.tiers
        if row.closed_form_reason and (row.break_even_tokens or 0) > 1
    ]
    said += list(
        dict.fromkeys(
            f"{row.tier}, {row.prefix_tokens:,} tokens: {row.fits_reason}"
            for row in answer.loads
            if row.fits is False
        )
    )
    rules = [row.mooncake_bytes_per_s_reason for row in answer.prefixes]
    rule = next((why for why in rules if why), None)
    return [*said, f"Mooncake's rule: {rule}"] if rule else list(said)
