"""Logs of requests as runs, for tests of what is predicted and diagnosed of them."""

from __future__ import annotations

from collections.abc import Mapping

from costmodel.audit.runs import Run
from costmodel.diagnosis.detail import STATISTICS, Detail, statistic
from costmodel.inputs.hardware import gpu_named
from costmodel.records import Figure, Stated


def run_of_log(detail: Detail, columns: Mapping[str, str], name: str = "") -> Run:
    """Return a log of requests as a run: what its columns say, and statistics of its requests as figures."""
    stated: dict[str, Stated] = {"requests": len(detail.requests)}
    if detail.timed:
        stated["arrival_process"] = "times of a trace"
    stated["ttft_from"] = "the engine's queue" if detail.queued else "the client's sending"
    if columns.get("gpu"):
        stated["hardware"] = gpu_named(columns["gpu"]).name
    if columns.get("vllm"):
        stated |= {"engine": "vLLM", "engine_version": columns["vllm"]}
    if columns.get("model"):
        stated["model"] = columns["model"]
    for key in ("tp", "max_num_seqs", "max_num_batched_tokens"):
        if columns.get(key, "").isdecimal():
            stated[key] = int(columns[key])
    figures = []
    for metric, values in detail.seconds.items():
        for word in STATISTICS:
            value = statistic(values, word)
            text = f"{value:.6g} s, {word} of {len(values):,}"
            figures.append(Figure(f"{metric} {word}", metric, value, "second", text, "s", word))
    return Run(name or detail.where, stated, tuple(figures))
