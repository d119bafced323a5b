"""``/metrics`` of vLLM and SGLang: means of histograms, and the buckets that quantiles lie in."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from ..errors import InputError
from ..records.record import Record
from .exposition import Histogram, Sample, samples_of
from .sheet import Sheet

FORM = "metrics of a server"
VLLM, SGLANG = "vllm:", "sglang:"
_ENGINES = {VLLM: "vLLM", SGLANG: "SGLang"}
#: Histograms by name without prefix: our metric and the unit.
_HISTOGRAMS = {
    "time_to_first_token_seconds": ("ttft", "s"),
    "time_per_output_token_seconds": ("itl", "s"),
    "inter_token_latency_seconds": ("itl", "s"),
    "request_time_per_output_token_seconds": ("tpot", "s"),
    "e2e_request_latency_seconds": ("e2e", "s"),
    "request_queue_time_seconds": ("prefill_queue_time", "s"),
    "queue_time_seconds": ("prefill_queue_time", "s"),
    "request_prefill_time_seconds": ("prefill_time", "s"),
    "request_decode_time_seconds": ("decode_time", "s"),
    "request_inference_time_seconds": ("request_inference_time", "s"),
    "request_prompt_tokens": ("input_tokens", "tokens"),
    "request_generation_tokens": ("output_tokens", "tokens"),
    "iteration_tokens_total": ("iteration_tokens", "tokens"),
    "nixl_xfer_time_seconds": ("kv_transfer_time", "s"),
    "nixl_post_time_seconds": ("nixl_post_time", "s"),
    "nixl_bytes_transferred": ("transfer_bytes", "B"),
    "nixl_num_descriptors": ("transfer_descriptors", ""),
}
#: Counters and gauges by name without prefix and "_total": our word and the unit.
_NUMBERS = {
    "num_preemptions": ("preemptions", ""),
    "kv_cache_usage_perc": ("kv_cache_usage_at_scrape", ""),
    "gpu_cache_usage_perc": ("kv_cache_usage_at_scrape", ""),
    "token_usage": ("kv_cache_usage_at_scrape", ""),
    "nixl_num_failed_transfers": ("failed_transfers", ""),
}
#: Tokens asked of a prefix cache, and those found.
_CACHES = (
    ("prefix_cache_queries", "prefix_cache_hits"),
    ("gpu_prefix_cache_queries", "gpu_prefix_cache_hits"),
)
_RATES = ("gpu_prefix_cache_hit_rate", "cache_hit_rate")
_CONFIG = {
    "block_size": "block_size", "cache_dtype": "kv_dtype", "gpu_memory_utilization": "memory_utilization",
}  # fmt: skip
BUCKET = "the ends of the bucket that it lies in"
QUANTILES = (0.5, 0.9, 0.95, 0.99)
_PART = re.compile(r"(.+)_(sum|count|bucket)")
TTFT_FROM = "the server's receipt"


def is_metrics(text: str) -> bool:
    """Say whether a text holds metrics of vLLM or SGLang."""
    return any(text.startswith(prefix) or f"\n{prefix}" in text for prefix in _ENGINES)


def read_metrics(text: str, where: str, name: str) -> list[Record]:
    """Return a record for each model of a scrape. Raises InputError for lines that cannot be read."""
    by_model: dict[str, list[Sample]] = {}
    config: list[Sample] = []
    for sample in samples_of(text, (VLLM, SGLANG), where):
        if sample.name.endswith("cache_config_info"):
            config.append(sample)
        else:
            by_model.setdefault(sample.labels.get("model_name", ""), []).append(sample)
    engines = {sample.name.partition(":")[0] + ":" for samples in by_model.values() for sample in samples}
    if len(engines) > 1:
        raise InputError("holds metrics of vLLM and of SGLang: keep one server's", where=where)
    return [_record(model, samples, config, where, name) for model, samples in by_model.items()]


def _record(model: str, samples: Iterable[Sample], config: list[Sample], where: str, name: str) -> Record:
    histograms, numbers = dict[str, Histogram](), dict[str, float]()
    prefix = ""
    for sample in samples:
        prefix = sample.name.partition(":")[0] + ":"
        word = sample.name.removeprefix(prefix)
        part = _PART.fullmatch(word)
        if part and part[1] in _HISTOGRAMS:
            histograms.setdefault(part[1], Histogram()).add(part[2], sample, where)
        elif not word.endswith("_created"):
            key = word.removesuffix("_total")
            numbers[key] = numbers.get(key, 0.0) + sample.value
    sheet = Sheet(numbers, where, f"model {model}" if model else "")
    sheet.state("engine", _ENGINES[prefix], prefix)
    sheet.state("model", model, "model_name")
    for key, histogram in histograms.items():
        _add_histogram(sheet, prefix + key, *_HISTOGRAMS[key], histogram)
    _add_numbers(sheet, prefix)
    _state_config(sheet, config)
    sheet.warn("the server counts from its start: warm-up and other clients are in it")
    if "engine_version" not in sheet.conditions:
        sheet.warn("the metrics state no engine version")
    return sheet.record(name, FORM, f"{FORM}, {_ENGINES[prefix]}")


def _add_histogram(sheet: Sheet, key: str, metric: str, unit: str, found: Histogram) -> None:
    """Add the mean, and each quantile as the two ends of its bucket."""
    problem = found.problem()
    if problem:
        sheet.note(f"{key}: {problem}")
    if not found.count or problem:
        return
    conditions = {"ttft_from": TTFT_FROM} if metric == "ttft" else {}
    text = f"{found.total:.6g} {unit} of {found.count:,.0f}"
    mean = found.total / found.count
    sheet.figure(metric, f"{key}_sum", mean, unit, "mean", conditions=conditions, text=text)
    for share in QUANTILES:
        ends = found.between(share)
        if ends is None:
            continue
        word = f"p{100 * share:g}"
        if math.isinf(ends[1]):
            sheet.warn(f"{key}: {word} lies beyond the last bucket, {ends[0]:g} {unit}".rstrip())
            continue
        text = f"{ends[0]:g} to {ends[1]:g} {unit}".strip()
        low, high = ends
        sheet.figure(
            metric, f"{key}_bucket", low, unit, word, high=high, conditions=conditions, text=text, note=BUCKET
        )


def _add_numbers(sheet: Sheet, prefix: str) -> None:
    for key, (metric, unit) in _NUMBERS.items():
        sheet.figure(metric, prefix + key, sheet.take(key), unit)
    for asked, found in _CACHES:
        queries, hits = sheet.number(asked, 1e18), sheet.number(found, 1e18)
        if queries and hits is not None:
            text = f"{hits:,.0f} of {queries:,.0f} tokens"
            sheet.figure("cache_hit_rate", prefix + found, hits / queries, "", text=text)
    for key in _RATES:
        rate = sheet.take(key)
        if rate is not None and rate != -1:  # vLLM writes -1 where the cache is off
            sheet.figure("cache_hit_rate", prefix + key, rate, "")
    done = sheet.number("request_success", 1e12)
    if done:
        sheet.state("requests", done, "request_success")


def _state_config(sheet: Sheet, config: list[Sample]) -> None:
    for sample in config:
        at = f"line {sample.line}"
        for label, condition in _CONFIG.items():
            text = sample.labels.get(label, "")
            if text.lower() not in ("", "auto", "none"):
                sheet.state(condition, text, at)
        cached = sample.labels.get("enable_prefix_caching")
        if cached in ("True", "False"):
            sheet.state("cache_state", f"prefix cache {'on' if cached == 'True' else 'off'}", at)
        for label, metric in (
            ("num_gpu_blocks", "kv_cache_blocks"),
            ("kv_cache_size_tokens", "kv_cache_tokens"),
        ):
            text = sample.labels.get(label, "")
            if text.isdecimal() and len(text) < 16:
                unit = "blocks" if metric == "kv_cache_blocks" else "tokens"
                again, told = sample.labels.get("engine"), f"{int(text):,} {unit}"
                sheet.figure(metric, f"{at}, {label}", int(text), "tokens", text=told, again=again)
