"""Settings of a plan under each engine's own names."""

from __future__ import annotations

from dataclasses import replace

from costmodel.inputs.flags import STRATEGIES, Decided, engine_settings, knobs
from costmodel.serving.strategies import STRATEGIES as KNOWN

PLAN = Decided("deflected", 2, 4, 3, 5, token_budget=512, max_seqs=128, kv_dtype="fp8", threshold_tokens=1400)


def told(decided: Decided) -> dict[str, str]:
    return {found.engine: "\n".join(found.lines) for found in engine_settings(decided)}


def notes(decided: Decided) -> dict[str, str]:
    return {found.engine: "\n".join(found.notes) for found in engine_settings(decided)}


def test_the_strategies_are_those_of_the_evaluators() -> None:
    assert tuple(strategy.name for strategy in KNOWN) == STRATEGIES


def test_each_role_gets_its_own_parallelism_and_the_router_its_threshold() -> None:
    found = told(PLAN)
    assert list(found) == ["vllm", "sglang", "dynamo", "llm-d"]
    prefill, decode = found["vllm"].splitlines()
    assert prefill.startswith("prefill x 3: --tensor-parallel-size 2 --max-num-seqs 128")
    assert "--max-num-batched-tokens" not in prefill  # prompts run whole there
    assert decode.startswith("decode x 5: --tensor-parallel-size 4")
    assert "--max-num-batched-tokens 512" in decode and "--kv-cache-dtype fp8" in decode
    assert '\'{"kv_connector":"NixlConnector","kv_role":"kv_both"}\'' in decode
    assert '"eff_isl_threshold":1400' in found["dynamo"]
    assert "replicas: 3" in found["dynamo"] and "replicas: 5" in found["dynamo"]
    assert "nonCachedTokens: 1400" in found["llm-d"]
    assert "without any cached prefix always goes to prefill" in notes(PLAN)["dynamo"]


def test_pooled_strategies_have_one_role_and_no_router() -> None:
    chunked = replace(
        PLAN, strategy="chunked", prefill_instances=2, decode_instances=2, threshold_tokens=None
    )
    found = told(chunked)
    assert found["vllm"].startswith("pooled x 4: --tensor-parallel-size 4")
    assert "--chunked-prefill-size 512 --enable-mixed-chunk" in found["sglang"]
    assert "router" not in found["sglang"] + found["llm-d"] + found["dynamo"]
    whole = told(replace(chunked, strategy="colocated"))
    assert "--no-enable-chunked-prefill" in whole["vllm"] and "512" not in whole["vllm"]
    assert "--chunked-prefill-size -1" in whole["sglang"]


def test_disaggregation_without_threshold_sends_everything_to_prefill() -> None:
    found = told(replace(PLAN, strategy="disaggregated", threshold_tokens=None))
    assert "nonCachedTokens: 1" in found["llm-d"]  # 0 would turn it off
    assert "conditional" not in found["dynamo"]


def test_what_is_not_decided_is_not_printed() -> None:
    found = told(replace(PLAN, kv_dtype=None))
    assert "kv-cache-dtype" not in found["vllm"] and "offloading" not in found["vllm"]
    offloaded = told(replace(PLAN, offload_bytes=64 * 2**30))
    assert "--kv-offloading-size 64" in offloaded["vllm"]
    assert "--hicache-size 69" in offloaded["sglang"]  # decimal gigabytes
    assert "no cache dtype for nvfp4" in notes(replace(PLAN, kv_dtype="nvfp4"))["sglang"]


def test_every_engine_was_checked_against_a_source() -> None:
    for found in engine_settings(PLAN):
        assert found.source and found.checked >= "2026-11-30"


def test_knobs_are_the_budget_and_the_threshold_alone() -> None:
    assert knobs("chunked", token_budget=512, threshold_tokens=9) == {
        "vllm": "--max-num-batched-tokens 512",
        "sglang": "--chunked-prefill-size 512 --enable-mixed-chunk",
    }
    assert knobs("deflected", token_budget=None, threshold_tokens=9) == {
        "dynamo": "eff_isl_threshold=9",
        "llm-d": "nonCachedTokens=9",
    }
    assert (
        knobs("colocated", token_budget=512, threshold_tokens=None)["vllm"] == "--no-enable-chunked-prefill"
    )


def test_what_starts_vllm_has_the_flags_of_vllm() -> None:
    """Role by role the same flags, however they are written; and the same note on whole prompts."""
    for strategy in STRATEGIES:
        decided = replace(PLAN, strategy=strategy)
        found, said = told(decided), notes(decided)
        for engine in ("dynamo", "llm-d"):
            for own, line in zip(found["vllm"].splitlines(), found[engine].splitlines()):
                flags = own.replace("=", " ").split(" --kv-transfer-config")[0].split(": ", 1)[1].split(" --")
                for flag in flags:
                    assert flag.removeprefix("--") in line.replace("=", " "), (strategy, engine, flag)
            whole = "at least the longest prompt"
            assert (whole in said[engine]) == (whole in said["vllm"]) == (strategy != "chunked")
    chunked = told(replace(PLAN, strategy="chunked"))
    assert "--max-num-batched-tokens 512" in chunked["dynamo"] and "--max-num-seqs 128" in chunked["dynamo"]
    assert "--max-num-batched-tokens=512" in chunked["llm-d"] and "--max-num-seqs=128" in chunked["llm-d"]
