"""Rows of InferenceX (InferenceMAX before): a configuration and its closed loop, flat or with its metrics apart."""

from __future__ import annotations

import re

from ..records.record import Record
from .bench import TPOT, TTFT_FROM
from .documents import Fields
from .sheet import Sheet, statistic

FORM = "InferenceX"
_CONDITIONS = {
    "model": "model",
    "hw": "hardware",
    "hardware": "hardware",
    "device": "hardware",
    "framework": "engine",
    "image": "engine_build",
    "precision": "dtype",
    "tp": "tp",
    "ep": "ep",
    "prefill_tp": "prefill_tp",
    "decode_tp": "decode_tp",
    "isl": "input_tokens",
    "osl": "output_tokens",
    "conc": "concurrency",
}
_THROUGHPUTS = {
    "tput_per_gpu": "total_throughput",
    "output_tput_per_gpu": "output_throughput",
    "input_tput_per_gpu": "input_throughput",
}
_TIMES = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2el": "e2e"}
_DEFINED = {"ttft": {"ttft_from": TTFT_FROM}, "tpot": {"tpot_definition": TPOT}}
_TIME = re.compile(r"(mean|median|std|p[0-9.]{1,5})_(ttft|tpot|itl|e2el|intvty)")
_NO = ("", "none", "false", "off", "0", "null")


def is_row(fields: Fields) -> bool:
    """Say whether an object is a row."""
    return "tput_per_gpu" in _measures(fields) and "conc" in fields


def read_inferencex(sheet: Sheet, name: str) -> Record:
    """Return the record of a row. Raises InputError."""
    for key, condition in _CONDITIONS.items():
        value = sheet.take(key)
        if value is not None and not sheet.state(condition, value, key):
            sheet.note(f"{key}: {value!r} is no {condition}")
    sheet.state("arrival_process", "closed loop", "conc")
    _state_layout(sheet)
    _read_figures(sheet)
    for key in ("spec_decoding", "spec_method", "mtp"):
        if str(sheet.take(key) or "").lower() not in _NO:
            sheet.warn(f"decoding was speculative ({sheet.fields[key]}): a step gives more than one token")
    sheet.warn("isl and osl are the lengths asked for; requests may be shorter")
    if "engine_build" not in sheet.conditions:
        sheet.warn("the row states no engine version")
    return sheet.record(name, FORM, FORM)


def _measures(fields: Fields) -> Fields:
    found = fields.get("metrics")
    return found if isinstance(found, dict) else fields


def _state_layout(sheet: Sheet) -> None:
    """State prefill and decode instances that run apart, and the GPUs of both."""
    apart = str(sheet.take("disagg") or "false").lower() not in _NO
    if str(sheet.take("dp_attention") or "false").lower() not in _NO:
        sheet.warn("attention is data-parallel: each group of GPUs has requests of its own")
    counts = {
        key: sheet.count(key)
        for key in ("prefill_num_workers", "decode_num_workers", "num_prefill_gpu", "num_decode_gpu")
    }
    if not apart:
        return
    sheet.state("strategy", "disaggregated", "disagg")
    workers = counts["prefill_num_workers"], counts["decode_num_workers"]
    if all(workers):
        sheet.state("topology", f"{workers[0]}P{workers[1]}D", "prefill_num_workers")
    gpus = counts["num_prefill_gpu"], counts["num_decode_gpu"]
    if gpus[0] and gpus[1]:
        sheet.state("gpus", gpus[0] + gpus[1], "num_prefill_gpu")


def _read_figures(sheet: Sheet) -> None:
    found = _measures(sheet.fields)
    nested = "metrics." if found is not sheet.fields else ""
    if nested:
        sheet.take("metrics")
    for key, value in found.items():
        match = _TIME.fullmatch(key)
        metric, word = _THROUGHPUTS.get(key), statistic(match[1]) if match else None
        if metric:
            sheet.figure(metric, nested + key, value, "tok/s", per_gpu=True)
        elif match and match[2] == "intvty" and word != "std":  # 1 over a deviation is nothing
            _add_speed(sheet, nested + key, value, word)
        elif match and word and match[2] in _TIMES:
            metric = _TIMES[match[2]]
            sheet.figure(metric, nested + key, value, "s", word, conditions=_DEFINED.get(metric))
        else:
            continue
        sheet.take(key)


def _add_speed(sheet: Sheet, key: str, value: object, word: str | None) -> None:
    """Add tokens a second of a user, which are 1 over a statistic of TPOT: the slow 1 % is where TPOT has its P99."""
    if word == "mean":
        sheet.figure(
            "user_throughput", key, value, "tok/s", note="1 over the mean TPOT, not a mean of speeds"
        )
    elif word:
        sheet.figure("user_throughput", key, value, "tok/s", f"p{100 - float(word[1:]):g}")
