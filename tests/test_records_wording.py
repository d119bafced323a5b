"""Models and machines in the words of reports."""

from __future__ import annotations

import pytest

from costmodel.families.meant import model_meant
from costmodel.records.conditions import read_conditions
from costmodel.records.machine import machine_of


@pytest.mark.parametrize(
    ("words", "gpu", "gpus"),
    [
        ("NVIDIA H100 80GB HBM3", "h100-sxm", 1),
        ("4 H100s", "h100-sxm", 4),
        ("two A100s", "a100-sxm-80gb", 2),
        ("eight H100", "h100-sxm", 8),
        ("MI300X x8", "mi300x", 8),
        ("H100x8", "h100-sxm", 8),
        ("DGX H100", "h100-sxm", 8),
        ("DGX A100 (8x A100 80GB)", "a100-sxm-80gb", 8),
        ("two DGX H100", "h100-sxm", 16),
        ("2 nodes of 8xH100", "h100-sxm", 16),
        ("8xH800 per node, 12 nodes", "h800-sxm", 96),
        ("8xH200 + 8xH200", "h200-sxm", 16),
        ("p5.48xlarge", "h100-sxm", 8),
        ("H100 (p5.48xlarge)", "h100-sxm", 8),
        ("2xH100 (NC80adis_H100_v5)", "h100-sxm", 2),
        ("A100 PCIe 80GB", "a100-pcie-80gb", 1),
        ("8x Virtualized NVIDIA H200-SXM-141GB", "h200-sxm", 8),
        ("H100 (PCIe 4.0 x16)", "h100-pcie", 1),
        ("AMD Instinct MI300X 192GB HBM3 (x32)", "mi300x", 32),
        ("H100 (8 GPUs)", "h100-sxm", 8),
        ("4-way H100", "h100-sxm", 4),
        ("8*H100", "h100-sxm", 8),
        ("2x4090", "rtx-4090", 2),
        ("H100 with 2x Xeon", "h100-sxm", None),
        ("RTX 4090", "rtx-4090", 1),
        ("GB200 NVL72", "gb200", None),
        ("DGX Spark", None, None),
        ("a cluster", None, None),
    ],
)
def test_gpus_of_a_text(words: str, gpu: str | None, gpus: int | None) -> None:
    machine = machine_of({"hardware": words})
    assert (machine.gpu.name if machine.gpu else None, machine.gpus) == (gpu, gpus)


@pytest.mark.parametrize(
    ("words", "model"),
    [
        ("Llama-3-70B", "meta-llama/Meta-Llama-3-70B"),
        ("Llama 3.1 8B Instruct", "meta-llama/Llama-3.1-8B"),
        ("Llama-3-8B-262k", "meta-llama/Meta-Llama-3-8B"),
        ("Mixtral-8x7B-Instruct", "mistralai/Mixtral-8x7B-v0.1"),
        ("DeepSeek V3 671B", "deepseek-ai/DeepSeek-V3"),
        ("DeepSeek-R1-0528", "deepseek-ai/DeepSeek-R1"),
        ("Qwen3-Coder-480B", "Qwen/Qwen3-Coder-480B-A35B-Instruct"),
        ("Gemma-3-27B", "google/gemma-3-27b-it"),
        ("Llama-4-Scout", "meta-llama/Llama-4-Scout-17B-16E-Instruct"),
        ("Llama 3", None),
        ("Qwen3", None),
        ("Qwen1.5-72B", None),
        ("DeepSeek-R1-Distill-Qwen-32B", None),
        ("", None),
    ],
)
def test_the_model_that_a_loose_name_means(words: str, model: str | None) -> None:
    assert model_meant(words) == model


@pytest.mark.parametrize(
    ("stated", "key", "value"),
    [
        (
            {"scenario": "1P1D, MooncakeConnector, prefix cache off, 50 requests"},
            "cache_state",
            "prefix cache off",
        ),
        ({"scenario": "no prefix caching, concurrency 8"}, "concurrency", 8),
        ({"scenario": "64 concurrent chats"}, "concurrency", 64),
        ({"scenario": "batch size 16, greedy"}, "batch", 16),
        ({"engine_flags": "--disable-radix-cache --tp 8"}, "cache_state", "prefix cache off"),
        ({"scenario": "Server"}, "cache_state", None),
        ({"engine": "vLLM v0.6.3.post1"}, "engine_version", "0.6.3.post1"),
        ({"engine": "vLLM v0.6.3.post1"}, "engine", "vLLM"),
        ({"engine": "vLLM 0.18.1 with a scheduler"}, "engine", "vLLM 0.18.1 with a scheduler"),
        ({"engine": "vLLM 0.18.1 with a scheduler"}, "engine_version", "0.18.1"),
        ({"engine": "SGLang", "engine_version": "0.5"}, "engine_version", "0.5"),
        ({"engine": "GPT-4 server"}, "engine_version", None),
        ({"scenario": "warm cache", "cache_state": "cold"}, "cache_state", "cold"),
        ({"scenario": "warm cache", "cached_share": 0.5}, "cache_state", None),
    ],
)
def test_conditions_in_the_words_of_a_scenario(stated: dict[str, object], key: str, value: object) -> None:
    conditions = read_conditions(stated, "", []).stated
    assert conditions.get(key) == value
