"""Records of published figures: reading what a report states, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.errors import InputError
from costmodel.records.conditions import condition_named
from costmodel.records.figures import meant, statistic_of
from costmodel.records.machine import machine_of
from costmodel.records.packaged import FIRST, load_records, record_names
from costmodel.records.read import read_records, records_of
from costmodel.records.record import Record
from costmodel.records.vocabulary import CONDITIONS, METRICS


def _read(text: str, tmp_path: Path, name: str = "report.toml") -> tuple[Record, ...]:
    path = tmp_path / name
    path.write_text(text)
    return read_records(path)


ONE = """
model = "Qwen3-8B"
[[measurement]]
id = "a"
metric = "p95_ttft_ms"
isl = 128
value = 46.09
"""


def test_a_record_is_read_with_other_names(tmp_path: Path) -> None:
    (record,) = _read(ONE, tmp_path)
    (figure,) = record.figures
    assert (figure.metric, figure.statistic, figure.value) == ("ttft", "p95", pytest.approx(0.04609))
    assert record.conditions_of(figure) == {"model": "Qwen3-8B", "input_tokens": 128}


@pytest.mark.parametrize(
    ("metric", "unit", "value", "si"),
    [
        ("ttft", "ms", 46.09, 0.04609),
        ("kv_transfer_bandwidth", "GiB/s", 1, 2**30),
        ("kv_transfer_bandwidth", "GB/s", 1, 1e9),
        ("kv_transfer_bandwidth", "Gbit/s", 90, 11.25e9),
        ("goodput", "req/s", 1.6, 1.6),
        ("slo_attainment", "%", 97, 0.97),
        ("output_throughput", "tok/s", 793.3, 793.3),
        ("kv_bytes", "GiB", 1.13, 1.13 * 2**30),
        ("peak_flops", "TFLOPS", 989, 989e12),
        ("tpot", "ms/token", 12.5, 0.0125),
        ("kv_cache_tokens", "tokens", 42656, 42656),
        ("ttft", "us", 3.7, 3.7e-6),
    ],
)
def test_units_become_si(metric: str, unit: str, value: float, si: float, tmp_path: Path) -> None:
    text = f'[[measurement]]\nmetric = "{metric}"\nvalue = {value}\nunit = "{unit}"\n'
    assert _read(text, tmp_path)[0].figures[0].value == pytest.approx(si, rel=1e-12)


def test_a_range_has_both_ends(tmp_path: Path) -> None:
    text = '[[measurement]]\nmetric = "kv_transfer_share_of_p95_ttft"\nvalue = [57, 22]\nunit = "%"\n'
    figure = _read(text, tmp_path)[0].figures[0]
    assert (figure.value, figure.high, figure.text) == (
        pytest.approx(0.22),
        pytest.approx(0.57),
        "22 to 57 %",
    )


def test_per_gpu_is_kept(tmp_path: Path) -> None:
    figure = _read('[[measurement]]\nmetric = "goodput"\nvalue = 3.3\nunit = "req/s/GPU"\n', tmp_path)[
        0
    ].figures[0]
    assert figure.per_gpu and figure.value == 3.3


@pytest.mark.parametrize("word", ["", "?", "not stated", "Unknown", "n/a", "TBD", "-"])
def test_what_says_nothing_is_absent(word: str, tmp_path: Path) -> None:
    (record,) = _read(f'warmup = "{word}"\nconcurrency = "{word}"\n{ONE}', tmp_path)
    assert not record.conditions.keys() & {"warmup", "concurrency"}


def test_no_warm_up_is_stated(tmp_path: Path) -> None:
    assert _read(f'warmup = "none"\n{ONE}', tmp_path)[0].conditions["warmup"] == "none"
    assert _read(f"warmup = false\n{ONE}", tmp_path)[0].conditions["warmup"] == "no"


def test_lengths_in_words_are_stated_but_no_number(tmp_path: Path) -> None:
    (record,) = _read(f'output_tokens = "about 5k"\n{ONE}', tmp_path)
    assert record.conditions["output_length"] == "about 5k" and "output_tokens" not in record.conditions


def test_unknown_keys_are_kept_and_named(tmp_path: Path) -> None:
    (record,) = _read(f'output_tokns = 12\nmood = "good"\n{ONE}', tmp_path)
    assert record.unread == {"output_tokns": 12, "mood": "good"}
    assert any("output_tokns" in text and "output_tokens" in text for text in record.warnings)


def test_conditions_shared_by_all_figures_are_the_records(tmp_path: Path) -> None:
    rows = "".join(
        f'[[measurement]]\nmetric = "ttft"\nvalue = {n}\nunit = "s"\nengine = "vLLM"\nconcurrency = {n}\n'
        for n in (1, 2)
    )
    (record,) = _read(rows, tmp_path)
    assert record.conditions == {"engine": "vLLM"}
    assert [figure.conditions for figure in record.figures] == [{"concurrency": 1}, {"concurrency": 2}]


def test_several_sources_are_several_records(tmp_path: Path) -> None:
    rows = "".join(
        f'[[measurement]]\nsource = "{s}"\nmetric = "ttft"\nvalue = 1\nunit = "s"\n' for s in "aba"
    )
    records = _read(rows, tmp_path)
    assert [(record.source, len(record.figures)) for record in records] == [("a", 2), ("b", 1)]
    assert len({record.name for record in records}) == 2


def test_a_series_is_so_many_figures(tmp_path: Path) -> None:
    text = '[[series]]\nid = "s"\nmetric = "ttft"\nunit = "s"\nover = "clients"\nat = [1, 5]\nvalues = [0.1, 0.6]\n'
    (record,) = _read(text, tmp_path)
    assert [(f.name, f.value, dict(f.conditions)) for f in record.figures] == [
        ("s-1", 0.1, {"concurrency": 1}),
        ("s-5", 0.6, {"concurrency": 5}),
    ]


def test_json_is_read_alike(tmp_path: Path) -> None:
    text = '{"model": "Qwen3-8B", "measurement": [{"metric": "ttft", "value": 1, "unit": "s"}]}'
    assert _read(text, tmp_path, "report.json")[0].conditions == {"model": "Qwen3-8B"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("a = [", "TOML"),
        ('model = "x"', "[[measurement]]"),
        ("mesurement = []", "nearest present: 'mesurement'"),
        ('[[measurement]]\nmetric = "ttft"\nvalue = 1', "no unit"),
        ('[[measurement]]\nmetric = "ttft"\nvalue = 1\nunit = "GB"', "does not measure ttft"),
        ('[[measurement]]\nmetric = "ttft"\nvalue = "fast"\nunit = "s"', "'fast'"),
        ('[[measurement]]\nmetric = "ttft"\nvalue = nan\nunit = "s"', "finite"),
        ('[[measurement]]\nmetric = "ttft"\nvalue = -1\nunit = "s"', "negative"),
        ('[[measurement]]\nvalue = 1\nunit = "s"\nmetrc = "ttft"', "nearest present: 'metrc'"),
        ('[[measurement]]\nmetric = "ttft"\nvalue = 1\nunit = "s"\nconcurrency = -3', "concurrency"),
        (
            '[[measurement]]\nmetric = "ttft"\nvalue = 1\nunit = "s"\nconcurrency = 2\nclients = 3',
            "stated twice",
        ),
        ('link_bandwidth = 25\n[[measurement]]\nmetric = "ttft"\nvalue = 1\nunit = "s"', "needs a unit"),
        ('link_bandwidth = "25 GBs"\n[[measurement]]\nmetric = "ttft"\nvalue = 1\nunit = "s"', "GBs"),
        ("conditions = 3\n[[measurement]]\nmetric = 'ttft'\nvalue = 1\nunit = 's'", "conditions"),
        ('[[series]]\nmetric = "ttft"\nunit = "s"\nover = "batch"\nat = [1]\nvalues = [1, 2]', "1 values"),
        ("measurement = 3", "[[measurement]]"),
    ],
)
def test_a_bad_file_says_what_is_wrong(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        _read(text, tmp_path)
    assert said in str(error.value) and "report.toml" in str(error.value)


def test_all_problems_at_once(tmp_path: Path) -> None:
    bad = '[[measurement]]\nmetric = "ttft"\nvalue = "a"\nunit = "s"\n'
    text = bad + '[[measurement]]\nmetric = "tpot"\nvalue = 1\nunit = "GB"\n'
    with pytest.raises(InputError) as error:
        _read(text, tmp_path)
    assert len(error.value.problems) == 2


_scalars = st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | st.text(max_size=20)
_keys = st.sampled_from(
    [*list(CONDITIONS), "measurement", "series", "conditions", "metric", "value", "unit", "over", "at"]
)


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(
        _keys,
        st.recursive(
            _scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=4)
        ),
        max_size=6,
    )
)
def test_whatever_stands_in_a_file_it_is_read_or_refused(tables: dict[str, object]) -> None:
    try:
        records = records_of(tables, "report.toml", "report")
    except InputError:
        return
    assert all(isinstance(record, Record) for record in records)


def test_names_and_aliases_mean_one_thing() -> None:
    for vocabulary in (CONDITIONS, METRICS):
        names = [*vocabulary, *(alias for entry in vocabulary.values() for alias in entry.aliases)]
        assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("text", "name"),
    [("ISL", "input_tokens"), ("max-concurrency", "concurrency"), ("QPS", "arrival_rate"), ("what", None)],
)
def test_conditions_by_other_names(text: str, name: str | None) -> None:
    assert condition_named(text) == name


@pytest.mark.parametrize(
    ("text", "found"),
    [("P95", "p95"), ("99th", "p99"), ("median", "p50"), ("average", "mean"), ("", None), ("p99.9", "p99.9")],
)
def test_statistics(text: str, found: str | None) -> None:
    assert statistic_of(text) == found


@pytest.mark.parametrize(
    ("written", "metric", "statistic", "unit"),
    [
        ("mean_ttft_ms", "ttft", "mean", "ms"),
        ("tbt_p99", "itl", "p99", None),
        ("prefill_queue_ms", "prefill_queue_time", None, "ms"),
        ("TTFT", "ttft", None, None),
        ("request throughput", "request_throughput", None, None),
    ],
)
def test_metrics_by_other_names(written: str, metric: str, statistic: str | None, unit: str | None) -> None:
    found = meant(written)
    assert (found.metric, found.statistic, found.unit) == (metric, statistic, unit)


@pytest.mark.parametrize(
    ("conditions", "gpu", "gpus", "prefill", "decode"),
    [
        ({"hardware": "H800, TP8 prefill + TP8 decode on 2 nodes", "topology": "1P1D"}, "h800-sxm", 16, 8, 8),
        (
            {"hardware": "2 prefill + 2 decode nodes (2P2D), each NVIDIA A100 80GB"},
            "a100-sxm-80gb",
            None,
            None,
            None,
        ),
        ({"hardware": "8xH200 + 8xH200"}, "h200-sxm", 16, None, None),
        ({"hardware": "2x8 H20, TP4 each"}, "h20", 16, 4, 4),
        ({"hardware": "8xH20 per node", "topology": "2P1D"}, "h20", 24, None, None),
        ({"hardware": "a100-80gb, TP8"}, "a100-sxm-80gb", 8, 8, 8),
        ({"hardware": "H200 SXM"}, "h200-sxm", 1, None, None),
        ({"hardware": "2 nodes x 4 A100-80G, TP4-PP2"}, "a100-sxm-80gb", 8, 8, 8),
        ({"hardware": "production A100 cluster"}, "a100-sxm-80gb", None, None, None),
        ({"hardware": "16 H100", "tp": 2, "instances": 8}, "h100-sxm", 16, 2, 2),
        ({"hardware": "DGX-H100x8"}, "h100-sxm", 8, None, None),
        ({"hardware": "8 x A40-48G"}, "a40", 8, None, None),
        ({"hardware": "H100 80GB SXM5 x 8"}, "h100-sxm", 8, None, None),
        ({"hardware": "NVIDIA GB200 NVL72"}, "gb200", 72, None, None),
        ({"hardware": "M2 Pro"}, None, None, None, None),
        ({"hardware": "RTX 4090 + A100"}, None, None, None, None),
        ({}, None, None, None, None),
    ],
)
def test_hardware_in_words(
    conditions: dict[str, str | int],
    gpu: str | None,
    gpus: int | None,
    prefill: int | None,
    decode: int | None,
) -> None:
    found = machine_of(conditions)
    assert (found.gpu and found.gpu.name, found.gpus) == (gpu, gpus)
    assert (found.per_prefill, found.per_decode) == (prefill, decode)
    assert (found.reason is None) == (gpu is not None)


def test_a_gpu_that_is_not_packaged_is_what_the_report_says_of_it() -> None:
    found = machine_of({"hardware": "8xL20 (864 GB/s, 119.5 TFLOP/s)"})
    assert found.gpus == 8 and found.gpu is not None
    assert (found.gpu.memory_bytes_per_s, found.gpu.peak_flop_per_s("bf16")) == (864e9, 119.5e12)


def test_the_packaged_records_can_be_read_and_the_brief_comes_first() -> None:
    names = record_names()
    assert names[0] == FIRST == "kairos" and {"distserve", "sarathi-serve", "splitwise"} <= set(names)
    for name in names:
        for record in load_records(name):
            assert record.source and record.figures and not record.unread and record.confidence
