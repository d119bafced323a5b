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
        ("GB200 NVL72", "gb200", 72),
        ("GB300 NVL72", "gb300", 72),
        ("DGX Spark", None, None),
        # GPUs in all, wherever their nodes are said.
        ("16 H100s (2 nodes)", "h100-sxm", 16),
        ("16x H100 SXM, 2 nodes", "h100-sxm", 16),
        ("2 nodes, 16 GPUs, H100", "h100-sxm", 16),
        ("16 A100-80GB on 4 nodes", "a100-sxm-80gb", 16),
        ("64 H800 GPUs (8 nodes)", "h800-sxm", 64),
        ("16 H100 GPUs across 2 nodes", "h100-sxm", 16),
        ("8 A100-80GB across 2 nodes", "a100-sxm-80gb", 8),
        ("2 nodes, 8 H100 in total", "h100-sxm", 8),
        ("16xH100 (2x8)", "h100-sxm", 16),
        # GPUs of a node or a box, times how many there are.
        ("2 nodes, 8x H100", "h100-sxm", 16),
        ("3 nodes, 8x H20 each", "h20", 24),
        ("8xH100 per node, 2 nodes", "h100-sxm", 16),
        ("12 nodes x 8 H100 (Atlas Cloud)", "h100-sxm", 96),
        ("8x H100 x 2 nodes", "h100-sxm", 16),
        ("DGX H100 x2", "h100-sxm", 16),
        ("2x DGX H100", "h100-sxm", 16),
        ("DGX H100, 2 nodes", "h100-sxm", 16),
        ("2xDGX-H100", "h100-sxm", 16),
        ("1 H100 of a DGX", "h100-sxm", 1),
        ("DGX H100 (8 GPUs)", "h100-sxm", 8),
        ("HGX H100 8-GPU", "h100-sxm", 8),
        ("B200 (8x HGX)", "b200-sxm", 8),
        ("1/2 of DGX H100", "h100-sxm", 4),
        ("1x H100 (DGX H100, H100-SXM5-80GB)", "h100-sxm", 1),
        ("p5.48xlarge x2", "h100-sxm", 16),
        ("2x p5.48xlarge", "h100-sxm", 16),
        ("H100 x 8 x 2", "h100-sxm", 16),
        ("2x8xH100", "h100-sxm", 16),
        ("2 x (8 x H100)", "h100-sxm", 16),
        ("1 x 8xH100-SXM5 node", "h100-sxm", 8),
        ("a single node with 8 A100 (80 GB) GPUs connected by NVLink", "a100-sxm-80gb", 8),
        # Names, with sizes anywhere, and what no name is.
        ("8*H100-80G-SXM", "h100-sxm", 8),
        ("H100-SXM-80GB-x4", "h100-sxm", 4),
        ("A100-80G PCIe * 4", "a100-pcie-80gb", 4),
        ("A100 (unspecified memory) x8", "a100-sxm-80gb", 8),
        ("A100 SXM4 40 GB, 4 GPUs", "a100-sxm-40gb", 4),
        ("8x A100 40GB / 80GB", None, 8),
        ("TPU v5e-8", "tpu-v5e", 8),
        ("TPU v6e-1 (single chip)", "tpu-v6e", 1),
        ("TPU v5p-8", "tpu-v5p", 4),  # two cores a chip
        ("2 x MI300X (192 GB HBM3), TP2xEP2", "mi300x", 2),
        ("8 x A100-80GB (power limit 330W), TP=8", "a100-sxm-80gb", 8),
        ("4 nodes x 8 A100-SXM-80GB, NVLink, 25 Gbps across nodes", "a100-sxm-80gb", 32),
        ("A100 pair, 200 Gbps InfiniBand", "a100-sxm-80gb", 2),
        ("8 H100 nodes", "h100-sxm", None),
        ("2P2D, NVIDIA A100 80GB nodes", "a100-sxm-80gb", None),
        # No packaged GPU, and yet a number.
        ("1x GH200", None, 1),
        ("Ascend 910B3 x16", None, 16),
        ("8x H20-3e + 8x H20-3e", None, 16),
        ("NVIDIA L20, 2 nodes, TP16", None, 16),
        ("H100 or A100 (mixed pool), 8 GPUs", None, 8),
        ("Intel Xeon 8480+", None, None),
        ("a cluster", None, None),
    ],
)
def test_gpus_of_a_text(words: str, gpu: str | None, gpus: int | None) -> None:
    machine = machine_of({"hardware": words})
    assert (machine.gpu.name if machine.gpu else None, machine.gpus) == (gpu, gpus)


@pytest.mark.parametrize(
    ("stated", "prefill", "decode", "gpus"),
    [
        ({"hardware": "prefill: 4x H100; decode: 8x H20"}, ("h100-sxm", 4), ("h20", 8), 12),
        ({"hardware": "4 H100s for prefill, 8 H20s for decode"}, ("h100-sxm", 4), ("h20", 8), 12),
        ({"hardware": "4x H100 prefill + 4x H100 decode"}, ("h100-sxm", 4), ("h100-sxm", 4), 8),
        ({"hardware": "prefill: 8x H100 TP4; decode: 8x H20 TP8"}, ("h100-sxm", 4), ("h20", 8), 16),
        ({"hardware": "decode 2 nodes of 8x H20, prefill 8x H100"}, ("h100-sxm", 8), ("h20", 16), 24),
        ({"prefill_hardware": "4x H100", "decode_hardware": "8x H20"}, ("h100-sxm", 4), ("h20", 8), 12),
        ({"prefill_hardware": "4x H100", "decode_hardware": "8x H20", "topology": "2P1D"},
         ("h100-sxm", 4), ("h20", 8), 16),
        ({"prefill_hardware": "8x H100", "decode_hardware": "8x H20", "decode_tp": 4, "topology": "1P2D"},
         ("h100-sxm", 8), ("h20", 4), 24),
    ],
)  # fmt: skip
def test_gpus_of_each_side(
    stated: dict[str, str | int], prefill: tuple[str, int], decode: tuple[str, int], gpus: int
) -> None:
    machine = machine_of(stated)
    assert machine.gpu and machine.decoding and machine.decoding.gpu
    assert (machine.gpu.name, machine.most_per_prompt) == prefill
    assert (machine.decoding.gpu.name, machine.most_per_step) == decode
    assert machine.gpus == gpus and machine.split


def test_a_side_whose_gpu_is_not_packaged() -> None:
    machine = machine_of({"hardware": "prefill: 4x H100; decode: 8x GH200"})
    assert machine.gpu is not None and machine.decoding is not None
    assert machine.decoding.gpu is None and "GH200" in str(machine.decoding.reason)


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
        ({"engine": "TensorRT-LLM (v0.17)"}, "engine_version", "0.17"),
        ({"engine": "TensorRT-LLM (v0.17)"}, "engine", "TensorRT-LLM"),
        ({"engine": "SGLang", "engine_version": "0.5"}, "engine_version", "0.5"),
        ({"engine": "GPT-4 server"}, "engine_version", None),
        ({"scenario": "warm cache", "cache_state": "cold"}, "cache_state", "cold"),
        ({"scenario": "warm cache", "cached_share": 0.5}, "cache_state", None),
    ],
)
def test_conditions_in_the_words_of_a_scenario(stated: dict[str, object], key: str, value: object) -> None:
    conditions = read_conditions(stated, "", []).stated
    assert conditions.get(key) == value
