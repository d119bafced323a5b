"""A start-up log beside results: it says what they do not, and must not contradict them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from costmodel.errors import InputError
from costmodel.records import Figure, Record
from costmodel.results import merged

POOL = Figure("line 9", "kv_cache_tokens", 609_632.0, "token", "609,632 tokens", "tokens")
TTFT = Figure("mean_ttft_ms", "ttft", 0.1, "second", "100 ms", "ms", "mean")
START = Record(
    "start.log",
    "logs/start.log",
    "start-up log",
    (POOL, Figure("line 8", "weight_bytes", 1e10, "byte", "10 GB")),
    {"model": "/models/Qwen3-8B", "engine": "vLLM", "engine_version": "0.19.0", "tp": 1, "max_num_seqs": 16},
    unread={"served_model_name": "small"},
)
RESULT = Record(
    "r.json",
    "r.json",
    "vllm bench serve",
    (TTFT,),
    {"model": "Qwen/Qwen3-8B", "concurrency": 8},
    warnings=("the result states no engine version", "3 of 10 requests failed"),
)


def test_results_have_what_the_engine_said_at_its_start() -> None:
    found, start = merged([RESULT, START])
    assert start is START and found.name == "r.json"
    assert found.conditions == {**START.conditions, **RESULT.conditions}
    assert [f.name for f in found.figures] == ["mean_ttft_ms", "start.log, line 9"]
    assert found.warnings == ("3 of 10 requests failed",)  # the version is known now


def test_the_order_of_files_does_not_matter_and_all_results_are_filled() -> None:
    start, one, other = merged([START, RESULT, replace(RESULT, name="s.json")])
    assert start is START and one.conditions["max_num_seqs"] == other.conditions["max_num_seqs"] == 16


def test_a_name_under_which_a_model_is_served_is_that_model() -> None:
    (found, _) = merged([replace(RESULT, conditions={"model": "small"}), START])
    assert found.conditions["model"] == "/models/Qwen3-8B"


@pytest.mark.parametrize("form", ["record", "transfer table"])
def test_what_no_such_engine_served_stays_as_it_is(form: str) -> None:
    other = replace(RESULT, form=form)
    assert merged([other, START]) == (other, START)


def test_without_a_start_nothing_changes() -> None:
    assert merged([RESULT]) == (RESULT,) and merged([START, START]) == (START, START)


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"tp": 2}, "is of tp '2', but logs/start.log of '1': pass the start-up log"),
        ({"model": "Qwen/Qwen3-14B"}, "is of model"),
        ({"engine_version": "0.18.0"}, "is of engine_version"),
        ({"engine": "SGLang"}, "is of engine"),
    ],
)
def test_contradictions_are_refused(stated: dict[str, str | int], said: str) -> None:
    with pytest.raises(InputError, match=said):
        merged([replace(RESULT, conditions={**RESULT.conditions, **stated}), START])


@pytest.mark.parametrize("stated", [{"engine_version": "v0.19.0+cu128"}, {"engine": "vllm"}, {"tp": 1}])
def test_other_ways_to_write_the_same_are_no_contradictions(stated: dict[str, str | int]) -> None:
    assert merged([replace(RESULT, conditions=stated), START])[0].conditions["max_num_seqs"] == 16


def test_pools_must_agree_and_are_told_once() -> None:
    same, other = (replace(RESULT, figures=(TTFT, replace(POOL, value=v))) for v in (610_000.0, 300_000.0))
    assert len(merged([same, START])[0].figures) == 2
    with pytest.raises(InputError, match="has kv_cache_tokens"):
        merged([other, START])


def test_of_two_starts_nobody_knows_which_served() -> None:
    with pytest.raises(InputError, match="one of 2 start-up logs"):
        merged([RESULT, START, START])


def test_gpus_are_the_same_by_what_they_are() -> None:
    start = replace(START, conditions={**START.conditions, "hardware": "NVIDIA H100 80GB HBM3"})
    assert (
        merged([replace(RESULT, conditions={"hardware": "h100-sxm"}), start])[0].conditions["hardware"]
        == "h100-sxm"
    )
    with pytest.raises(InputError, match="is of hardware"):
        merged([replace(RESULT, conditions={"hardware": "a100-sxm-80gb"}), start])
