"""Options of engines as conditions, and words that tell of drafted tokens."""

from __future__ import annotations

import pytest

from costmodel.records.conditions import read_conditions
from costmodel.records.flags import speculates, stated_by_options


@pytest.mark.parametrize(
    ("flags", "stated"),
    [
        ("--kv-cache-dtype fp8_e5m2", {"kv_dtype": "fp8_e5m2"}),
        ("--kv_cache_dtype=auto --dtype auto", {}),
        ("--quantization awq_marlin --dtype float16", {"dtype": "awq"}),
        ("--quantization compressed-tensors", {}),
        ("--load-in-4bit", {"dtype": "int4"}),
        ("-tp 8 -pp 2", {"tp": 8, "pp": 2}),
        ("--tensor-parallel-size, 4, --max-num-seqs, 128", {"tp": 4, "max_num_seqs": 128}),
        ("ServerArgs(tp_size=8, chunked_prefill_size=4096)", {"tp": 8, "max_num_batched_tokens": 4096}),
        ('{"kv_cache_dtype": "fp8", "max_model_len": 8192}', {"kv_dtype": "fp8", "max_model_len": 8192}),
        ("--max-num-batched-tokens 2k", {}),
        ("--enable_fp8 --fp8_kv_cache", {"dtype": "fp8", "kv_dtype": "fp8"}),
        ("--no-enable-prefix-caching", {"cache_state": "prefix cache off"}),
        ("--enable-prefix-caching", {"cache_state": "prefix cache on"}),
        ("enable_prefix_caching=False", {"cache_state": "prefix cache off"}),
        ("disable_radix_cache: false", {"cache_state": "prefix cache on"}),
        ("--max_num_tokens 8192 --max_batch_size 64", {"max_num_batched_tokens": 8192, "max_num_seqs": 64}),
        ("", {}),
    ],
)
def test_options_state_conditions(flags: str, stated: dict[str, object]) -> None:
    assert stated_by_options({"engine_flags": flags}) == stated


def test_a_condition_of_its_own_counts_more_than_an_option() -> None:
    stated = read_conditions(
        {"tp": 4, "cached_share": 0.5, "flags": "-tp 8 --enable-prefix-caching"}, "", []
    ).stated
    assert stated["tp"] == 4 and "cache_state" not in stated


@pytest.mark.parametrize(
    # 16 bits beside a quantization are those of activations; two quantizations are a contradiction left as it stands.
    ("dtype", "read"),
    [("float16", "fp8"), ("int8", "int8")],
)
def test_weights_are_what_a_quantization_makes_them(dtype: str, read: str) -> None:
    assert read_conditions({"dtype": dtype, "flags": "--quantization fp8"}, "", []).stated["dtype"] == read


@pytest.mark.parametrize(
    ("arrivals", "more", "burst"),
    [
        ("all at once (request rate inf)", {}, 1000),
        ("inf", {}, 1000),
        ("Poisson", {}, None),
        ("request rate inf", {"concurrency": 16}, None),
    ],
)
def test_requests_sent_at_once_are_a_burst(arrivals: str, more: dict[str, int], burst: int | None) -> None:
    table = {"arrivals": arrivals, "num_prompts": 1000, **more}
    assert read_conditions(table, "", []).stated.get("burst") == burst


@pytest.mark.parametrize(
    ("conditions", "note", "drafted"),
    [
        ({"engine_flags": '--speculative-config \'{"method": "ngram"}\''}, None, True),
        ({"engine": "SGLang + EAGLE-3"}, None, True),
        ({"workload": "spec-decoding, MT-Bench"}, None, True),
        ({"strategy": "prompt lookup"}, None, True),
        ({"model": "DeepSeek-R1 with MTP"}, None, True),
        ({}, "with a 1B draft model", True),
        ({"engine": "vLLM", "scenario": "without speculative decoding"}, None, False),
        ({"scenario": "speculative decoding off"}, None, False),
        ({"workload": "prompts of 512 tokens"}, "median of three", False),
    ],
)
def test_words_that_tell_of_drafted_tokens(
    conditions: dict[str, str], note: str | None, drafted: bool
) -> None:
    assert speculates(conditions, note) == drafted
