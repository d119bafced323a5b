"""Whatever a record states, it is examined: every figure and condition with odd values, alone and together."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.audit.absent import absent_of
from costmodel.audit.case import Case
from costmodel.audit.comparable import compared
from costmodel.audit.examine import examine, invert
from costmodel.audit.finding import GRADES, NOT_COMPUTABLE
from costmodel.records.record import Figure, Record
from costmodel.records.vocabulary import CONDITIONS, METRICS

TEXTS = {
    "model": ["Qwen3-8B", "DeepSeek-V3", "gpt-oss-120b", "unheard-of", "13B", "Jamba-v0.1"],
    "hardware": ["8x H100", "H800, TP8 prefill + TP8 decode on 2 nodes", "Ascend 910B", "M2 Pro (200 GB/s)", "cluster",
                 "2x A10", "TPU v5e", "RTX 4090", "gaudi2"],
    "topology": ["1P1D", "2P2D", "4"], "link": ["NVLink", "4x400G IB", "ib-hdr", "PCIe Gen5 x16", "ConnectX-7", "none"],
    "engine": ["vLLM", "SGLang with our scheduler"], "engine_version": ["0.11.0", "main"],
    "scenario": ["Offline", "Server", "closed loop", "fixed batch"], "strategy": ["disaggregated", "colocated"],
    "cache_state": ["cold", "warm", "off"], "dtype": ["fp8", "bf16", "int4", "strange"], "kv_dtype": ["fp8", "odd"],
    "throughput_counts": ["output", "total"], "tpot_definition": ["gaps"], "seed": ["0"],
}  # fmt: skip
COUNTS = st.sampled_from([0, 1, 2, 7, 64, 512, 8192, 131072, 10**9])
VALUES = st.sampled_from([0.0, 1e-9, 1e-6, 1e-3, 0.5, 1.0, 3.3, 67.0, 1e3, 1e6, 1e9, 4.5e11, 1e15])


def _condition(name: str) -> st.SearchStrategy[Any]:
    kind = CONDITIONS[name].kind
    if kind == "text":
        return st.sampled_from(TEXTS.get(name, ["none", "some words 12"]))
    return COUNTS if kind == "count" else VALUES


_names = st.lists(st.sampled_from(sorted(CONDITIONS)), max_size=8, unique=True)
_likely = st.lists(
    st.sampled_from(["model", "hardware", "input_tokens", "output_tokens", "concurrency", "tp", "link"]),
    unique=True,
)


@st.composite
def conditions(draw: Any) -> dict[str, Any]:
    names = dict.fromkeys([*draw(_likely), *draw(_names)])
    return {name: draw(_condition(name)) for name in names}


@st.composite
def records(draw: Any) -> Record:
    figures = []
    for number in range(draw(st.integers(1, 6))):
        metric = draw(st.sampled_from([*sorted(METRICS), "prefill_time_share_of_ttft", "own_words"]))
        value = draw(VALUES)
        high = value * 2 if metric.endswith("_of_ttft") else None
        dimension = METRICS[metric].dimension if metric in METRICS else None
        statistic = draw(st.sampled_from([None, "mean", "p50", "p95", "p99", "std", "max"]))
        own = draw(conditions()) if draw(st.booleans()) else {}
        name, per_gpu = f"f{number}", draw(st.booleans())
        figures.append(
            Figure(name, metric, value, dimension, f"{value:g}", "u", statistic, high, own, None, per_gpu)
        )
    return Record("any", "any.toml", "record", tuple(figures), draw(conditions()))


@settings(max_examples=120, deadline=None)
@given(records())
def test_any_record_is_examined(record: Record) -> None:
    case = Case(record)
    findings = examine(case)
    compared(case, findings)
    for found in findings:
        assert found.grade in GRADES and found.said and found.of
        assert (found.arithmetic is None) == (found.grade == NOT_COMPUTABLE), found
        assert found.grade != NOT_COMPUTABLE or found.reason
    for inversion in invert(case):
        assert inversion.value is not None or inversion.reason, inversion
        assert inversion.value is None or inversion.value == inversion.value, inversion
    for absent in absent_of(record):
        assert absent.recovered_by and absent.reason
