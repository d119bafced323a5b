"""Results of SGLang's ``bench_serving``: a run a line."""

from __future__ import annotations

from ..records.flags import SGLANG
from ..records.record import Record
from .bench import read_lengths, read_measures, state_load, state_requests
from .engine_args import state_args
from .sheet import Sheet
from .singles import check_singles

FORM = "SGLang bench_serving"
#: Share of output tokens by which two counts may differ: texts do not split the same way twice.
RECOUNTED = 0.05
#: The client's name of SGLang's own protocol, which no other server speaks.
_NATIVE = "sglang"


def read_sglang(sheet: Sheet, name: str) -> Record:
    """Return the record of a line. Raises InputError."""
    info = sheet.take("server_info")
    if isinstance(info, dict):
        _state_server(sheet, info)
    if sheet.fields.get("backend") == _NATIVE:
        sheet.state("engine", "SGLang", str(sheet.take("backend")))
    sheet.state("workload", sheet.text("dataset_name"), "dataset_name")
    lists = sheet.fields.get("errors")
    completed = state_requests(sheet, len(lists) if isinstance(lists, list) else None)
    state_load(sheet, "Poisson")
    read_lengths(sheet, completed)
    read_measures(sheet, completed)
    check_singles(sheet)
    if completed != 0:
        sheet.figure("requests_in_flight", "concurrency", sheet.take("concurrency"), "", "mean")
    _state_asked(sheet, completed)
    _check_counts(sheet)
    report = sheet.take("cache_report")
    if isinstance(report, dict):
        sheet.figure(
            "cache_hit_rate", "cache_report.cache_hit_rate_pct", report.get("cache_hit_rate_pct"), "%"
        )
    if "engine_version" not in sheet.conditions:
        sheet.warn("the result states no engine version")
    if "model" not in sheet.conditions:
        sheet.warn("the result does not state the model")
    return sheet.record(name, FORM, sheet.text("tag") or FORM)


def _state_server(sheet: Sheet, info: dict[str, object]) -> None:
    """State what the server said of itself; apart prefill and decode servers are told by the decode one's figures."""
    several = info.get("decode")
    if isinstance(several, list):
        sheet.warn(
            f"prefill and decode servers run apart ({len(several)} decode): their options are not read"
        )
        return
    sheet.state("engine", "SGLang", "server_info")
    sheet.state("engine_version", info.get("version"), "server_info")
    state_args(sheet, info, SGLANG, "server_info")
    tokens = info.get("max_total_num_tokens")
    if tokens is not None:
        sheet.figure("kv_cache_tokens", "server_info.max_total_num_tokens", tokens, "tokens")


def _check_counts(sheet: Sheet) -> None:
    """Warn where the server counts other output tokens than the tokenizer does: TPOT is over the former."""
    told, counted = sheet.count("total_output_tokens"), sheet.count("total_output_tokens_retokenized")
    if told and counted and abs(told / counted - 1) > RECOUNTED:
        sheet.warn(f"output tokens: {told:,} by the server, {counted:,} by the tokenizer")


def _state_asked(sheet: Sheet, completed: int | None) -> None:
    """Take the lengths that were asked for: one for all where the mean is that very number."""
    if not str(sheet.fields.get("dataset_name", "")).startswith("random"):
        return
    sides = (
        ("input", "random_input_len", "total_input_tokens"),
        ("output", "random_output_len", "total_output_tokens"),
    )
    for side, asked, total in sides:
        length, tokens = sheet.count(asked), sheet.fields.get(total)
        every = completed and length and tokens == completed * length
        if every and sheet.number("random_range_ratio") == 1 and f"{side}_tokens" not in sheet.conditions:
            sheet.conditions.pop(f"{side}_length", None)
            sheet.state(f"{side}_tokens", length, asked)
