"""Options of engines, as logs and results of benchmarks list them, as conditions."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..records.flags import OWN_CHOICE
from .sheet import Sheet

_ON, _OFF = ("true", "1"), ("false", "0")


def state_args(sheet: Sheet, args: Mapping[str, object], names: Mapping[str, str], said: str) -> None:
    """State the options that conditions have a name for; ``said``: the line or field they stand in."""
    quantized = str(args.get("quantization") or "none").lower()
    for option, condition in names.items():
        text = str(args.get(option)).removeprefix("torch.")
        if text.lower() in OWN_CHOICE or (condition == "dtype" and quantized not in OWN_CHOICE):
            continue
        if not sheet.state(condition, text, f"{said}, {option}"):
            sheet.note(f"{said}, {option}: {text[:60]!r} is no {condition}")
    if quantized not in OWN_CHOICE:
        sheet.state("dtype", quantized, f"{said}, quantization")
    _state_cache(sheet, args, said)
    _state_apart(sheet, args, said)
    if str(args.get("speculative_config") or args.get("speculative_algorithm") or "none").lower() != "none":
        sheet.warn("decoding is speculative: a step gives more than one token")


def _state_apart(sheet: Sheet, args: Mapping[str, object], said: str) -> None:
    """State copies of the engine and what copies KV between engines, where there is more than one."""
    copies = str(args.get("data_parallel_size") or args.get("dp_size") or "1")
    if str(args.get("enable_dp_attention")).lower() in _ON:
        sheet.warn("attention is data-parallel: each group of GPUs has requests of its own")
    elif copies.isdecimal() and int(copies[:6]) > 1:
        sheet.state("instances", int(copies), said)
    connector = re.search(
        r"kv_connector['\"]?\s*[=:]\s*['\"]([A-Za-z0-9_]{1,60})", str(args.get("kv_transfer_config"))
    )
    if connector:
        sheet.state("connector", connector[1], said)
    elif str(args.get("disaggregation_mode") or "null").lower() not in OWN_CHOICE:
        sheet.state("connector", args.get("disaggregation_transfer_backend"), said)


def _state_cache(sheet: Sheet, args: Mapping[str, object], said: str) -> None:
    on = str(args.get("enable_prefix_caching")).lower()
    off = str(args.get("disable_radix_cache")).lower()
    if on in _ON or off in _OFF:
        sheet.state("cache_state", "prefix cache on", said)
    elif on in _OFF or off in _ON:
        sheet.state("cache_state", "prefix cache off", said)
