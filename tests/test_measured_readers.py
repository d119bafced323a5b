"""Readers of measured tables: a row's work by hand, what splits rows, names of GPUs and stacks, what is left out."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from written_tables import BASE, KINDS, Row, fit_of, shapes, write

from costmodel.errors import InputError
from costmodel.inputs.efficiency import OperatorFit
from costmodel.inputs.hardware import ALIASES, gpu_named, gpu_names, load_gpu, packaged_name
from costmodel.measured.compare import FitsFor, compare
from costmodel.measured.points import Given, Points, Read
from costmodel.measured.predict import predicted
from costmodel.measured.split import alternate, fitted_keys, in_order
from costmodel.measured.table import read_table
from costmodel.measured.tables import kind_of, read_points
from costmodel.operators.catalogue import FORMS, PARAMETERS
from costmodel.operators.catalogue import KINDS as OPERATORS

#: H100: dense bf16 and fp8 peaks, HBM, NVLink one way, L2.
FLOPS, FP8, HBM, LINK, L2 = 989e12, 1979e12, 3.35e12, 450e9, 50 * 2**20


def read(path: Path, rows: Sequence[Row], given: Given | None = None) -> Read:
    """What is read of rows; a time of 1 ms where they have none."""
    timed = [
        row if any(name.endswith(("_ms", "_us")) for name in row) else {**row, "latency_ms": 1}
        for row in rows
    ]
    found = read_points(write(path, timed), given or Given())
    assert found is not None
    return found


def one(path: Path, row: Row) -> Points:
    (points,) = read(path, [{**BASE, **row}]).points
    return points


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t.csv"


# What a row does, by hand


def test_a_product(path: Path) -> None:
    """2 * 512 * 4096 * 1024 FLOPs; 4096 * 1024 weights, 512 * (4096 + 1024) activations."""
    row = {"m": 512, "n": 4096, "k": 1024}
    wide = one(path, {**row, "gemm_dtype": "bfloat16"})
    assert (wide.kind, wide.operator, wide.dtype, wide.keys.tolist()) == (
        "gemm",
        "gemm",
        "bf16",
        ["4096/1024"],
    )
    assert wide.work.flop.tolist() == [4_294_967_296]
    assert wide.work.bytes_moved.tolist() == [2 * (4_194_304 + 2_621_440)]
    assert wide.bound_s[0] == pytest.approx(max(4_294_967_296 / FLOPS, 13_631_488 / HBM))
    narrow = one(path, {**row, "gemm_dtype": "fp8"})
    assert (narrow.operator, narrow.dtype) == ("gemm_fp8", "fp8")
    # weights of a byte; the input arrives and the result leaves wide
    assert narrow.bound_s[0] == pytest.approx(max(4_294_967_296 / FP8, (4_194_304 + 2 * 2_621_440) / HBM))


def test_a_dtype_that_is_not_stated_is_bf16(path: Path) -> None:
    bare = one(path, {"m": 1, "n": 64, "k": 64})
    assert (bare.operator, bare.dtype, bare.stack) == ("gemm", "bf16", "mine-1.0")


def test_prompts(path: Path) -> None:
    """3 prompts of 5 tokens: 15 pairs each, counted one by one."""
    row = {"batch_size": 3, "isl": 5, "num_heads": 8, "num_key_value_heads": 2, "head_dim": 128}
    found = one(path, row)
    pairs = sum(1 for _ in range(3) for token in range(5) for seen in range(5) if seen <= token)
    assert (found.kind, found.operator, found.keys.tolist()) == (
        "context_attention",
        "attention_prefill",
        ["8/2"],
    )
    assert found.work.flop.tolist() == [pairs * 2 * 2 * 8 * 128]
    # Q and O of 15 tokens, K and V of 15 tokens, in bf16
    moved = 2 * (2 * 15 * 8 * 128 + 2 * 15 * 2 * 128)
    assert found.bound_s[0] == pytest.approx(max(pairs * 4 * 8 * 128 / FLOPS, moved / HBM))
    later = one(path, {**row, "step": 7})
    pairs = sum(1 for _ in range(3) for token in range(5) for seen in range(12) if seen <= 7 + token)
    assert later.work.flop.tolist() == [pairs * 4 * 8 * 128]


def test_a_chunk_over_a_prefix(path: Path) -> None:
    """Llama-3.1-8B under TP 2: 16 query heads and 4 KV heads of 128. 4 tokens after 10: 11 + 12 + 13 + 14 pairs."""
    row = {"model": "meta-llama/Llama-3.1-8B", "tp": 2, "prefill_chunk": 4, "kv_prefill": 10}
    found = one(path, row)
    assert (found.kind, found.operator) == ("chunked_attention", "attention_prefill")
    assert found.keys.tolist() == ["meta-llama/Llama-3.1-8B"]
    assert found.work.flop.tolist() == [50 * 4 * 16 * 128]
    moved = 2 * 2 * 128 * (4 * 16 + 14 * 4)
    assert found.bound_s[0] == pytest.approx(max(50 * 4 * 16 * 128 / FLOPS, moved / HBM))


def test_decodes(path: Path) -> None:
    """kv_len counts the new token, kv_decode does not."""
    heads = {"num_heads": 32, "num_key_value_heads": 8, "head_dim": 128}
    found = one(path, {**heads, "batch_size": 4, "kv_len": 1001})
    assert (found.kind, found.operator) == ("generation_attention", "attention_decode")
    assert found.work.flop.tolist() == [4 * 1001 * 4 * 32 * 128]
    moved = 2 * (4 * 1001 * 2 * 8 * 128 + 2 * 4 * 32 * 128)
    assert found.work.bytes_moved.tolist() == [moved]
    assert found.bound_s[0] == pytest.approx(max(4 * 1001 * 4 * 32 * 128 / FLOPS, moved / HBM))
    named = one(path, {"model": "meta-llama/Llama-3.1-8B", "tp": 1, "n_decode": 4, "kv_decode": 1000})
    assert named.work.flop.tolist() == found.work.flop.tolist() and named.bound_s[0] == found.bound_s[0]


def test_a_chunk_with_decodes(path: Path) -> None:
    """The chunk's 50 pairs, and 3 decodes of 20 + 1."""
    row = {"model": "meta-llama/Llama-3.1-8B", "tp": 1, "prefill_chunk": 4, "kv_prefill": 10, "n_decode": 3,
           "kv_decode": 20}  # fmt: skip
    found = one(path, row)
    assert (found.kind, found.operator) == ("mixed_attention", "attention_mixed")
    flop = (50 + 63) * 4 * 32 * 128
    moved = 2 * 2 * 128 * ((4 + 3) * 32 + (14 + 63) * 8)
    assert found.bound_s[0] == pytest.approx(max(flop / FLOPS, moved / HBM))


def test_latent_attention_alone(path: Path) -> None:
    """DeepSeek's heads: 192 wide keys, 128 wide values; 2 prompts of 3 tokens: 6 pairs each."""
    found = one(path, {"num_heads": 16, "batch_size": 2, "isl": 3, "step": 0})
    assert (found.kind, found.operator, found.keys.tolist()) == ("mla", "mla_prefill", ["16"])
    assert found.work.flop.tolist() == [12 * 2 * 16 * (192 + 128)]
    moved = 2 * 2 * 16 * 3 * 2 * (192 + 128)  # Q, O, K and V of 2 * 3 tokens, expanded
    assert found.bound_s[0] == pytest.approx(max(12 * 2 * 16 * 320 / FLOPS, moved / HBM))


def test_a_latent_module_includes_its_products(path: Path) -> None:
    """128 heads, one decode over 1,000 latents: the new one comes on top."""
    row = {"phase": "generation", "num_heads": 128, "batch_size": 1, "isl": 1, "step": 1000}
    found = one(path, row)
    assert (found.operator, found.joint) == ("mla_decode", "mla_module_decode")
    assert found.work.flop.tolist() == [2 * 128 * (2 * 512 + 64) * 1001]
    # 7168 x 2112 down, 1536 x 24576 up, 16384 x 7168 out; absorbed 512 x 32768 stay wide
    products = {
        other.work.flop[0] for other in found.beside if other.operator == "gemm" and other.runs is not None
    }
    assert products >= {2 * 7168 * 2112, 2 * 1536 * 24576, 2 * 16384 * 7168, 2 * 512 * 128 * 256}
    weights = 7168 * 2112 + 1536 * 24576 + 16384 * 7168
    flop = 2 * weights + 2 * 128 * 1088 * 1001
    moved = 2 * weights + 2 * (1000 * 576 + 2 * 7168)
    assert found.bound_s[0] == pytest.approx(max(flop / FLOPS, moved / HBM))
    narrow = one(path, {**row, "gemm_type": "fp8_block"})
    assert {other.operator for other in narrow.beside} == {"gemm", "gemm_fp8", "mla_module_decode"}


def test_a_latent_module_over_an_fp8_cache(path: Path) -> None:
    """Decodes are a kind of their own; prompts are compared, and no fit sees them."""
    row = {"phase": "generation", "num_heads": 128, "batch_size": 64, "isl": 1, "step": 1000}
    row["kv_cache_dtype"] = "fp8"
    found = one(path, row)
    assert (found.operator, found.joint) == ("mla_decode_fp8_cache", "mla_module_decode_fp8_cache")
    # 1,001 latents of 576 bytes for each of 64 tokens; queries and outputs of 128 heads stay 2 bytes wide
    assert found.work.bytes_moved.tolist() == [64 * (1001 * 576 + 2 * 128 * (512 + 64 + 512))]
    weights = 7168 * 2112 + 1536 * 24576 + 16384 * 7168
    flop = 64 * (2 * weights + 2 * 128 * 1088 * 1001)
    moved = 2 * weights + 64 * (1000 * 576 + 2 * 2 * 7168)
    assert found.bound_s[0] == pytest.approx(max(flop / FLOPS, moved / HBM))
    assert not found.only_compared
    prompt = one(path, {**row, "phase": "context", "isl": 512, "step": 0})
    assert (prompt.operator, prompt.only_compared, prompt.keys.tolist()) == (
        "mla_prefill",
        True,
        ["128 fp8 cache"],
    )


def test_experts(path: Path) -> None:
    """512 tokens to 6 of 64 experts of 2048 x 1408, on one of 2 GPUs; the width is that of the whole expert."""
    row = {"num_tokens": 512, "hidden_size": 2048, "inter_size": 1408, "topk": 6, "num_experts": 64,
           "moe_ep_size": 2, "moe_tp_size": 1, "distribution": "balanced"}  # fmt: skip
    found = one(path, row)
    assert (found.kind, found.operator, found.keys.tolist()) == ("moe", "moe", ["2048/1408/6/64"])
    flop = 2 * 3 * 2048 * 1408 * 512 * 6 / 2
    least = 2 * 3 * 2048 * 1408 * 6 / 2  # tokens may all choose the same six, three of them here
    assert found.bound_s[0] == pytest.approx(max(flop / FLOPS, least / HBM))
    cut = one(path, {**row, "moe_ep_size": 1, "moe_tp_size": 4})
    assert cut.bound_s[0] == pytest.approx(2 * 3 * 2048 * 352 * 512 * 6 / FLOPS)
    assert one(path, {**row, "moe_dtype": "fp8_block"}).operator == "moe_fp8"


def test_collectives(path: Path) -> None:
    """1 MiB over 4 GPUs: an all-reduce sends 1.5 MiB from each, an all-gather 0.75 MiB; elements are 2 bytes."""
    rows = [
        {**BASE, "op": op, "num_gpus": 4, "bytes": 2**20} for op in ("all_reduce", "all_gather", "send_recv")
    ]
    found = {points.operator: points for points in read(path, rows).points}
    assert found["all_reduce"].bound_s[0] == pytest.approx(1.5 * 2**20 / LINK)
    assert found["all_gather"].bound_s[0] == pytest.approx(0.75 * 2**20 / LINK)
    assert found["point_to_point"].bound_s[0] == pytest.approx(2**20 / LINK)
    elements = one(path, {"num_gpus": 4, "message_size": 2**19, "allreduce_dtype": "bfloat16"})
    assert elements.bound_s[0] == found["all_reduce"].bound_s[0] and elements.keys.tolist() == ["1048576"]
    for dtype, size in (("half", 2), ("int8", 1), ("float32", 4), ("float", 4)):
        row = {
            "op_name": "all_reduce",
            "nccl_dtype": dtype,
            "num_gpus": 4,
            "message_size_elems_or_bytes": 512,
        }
        assert one(path, row).keys.tolist() == [str(512 * size)]


def test_which_kernel_reduces(path: Path) -> None:
    rows = [{**BASE, "stack": "vllm-0.24.0", "kernel_source": kernel, "num_gpus": 8, "message_size": elements}
            for kernel in ("vLLM_custom_graph", "vLLM_custom_eager") for elements in (2**20, 2**22, 2**23)]  # fmt: skip
    found = {(points.stack, points.operator): len(points) for points in read(path, rows).points}
    # 2 and 8 MiB, 16 MiB: the last two are beyond what vLLM's own kernel takes
    assert found == {
        ("vllm-0.24.0", "custom_all_reduce"): 1, ("vllm-0.24.0", "all_reduce"): 2,
        ("vllm-0.24.0 eager", "custom_all_reduce"): 1, ("vllm-0.24.0 eager", "all_reduce"): 2,
    }  # fmt: skip


def test_operators_of_a_layer(path: Path) -> None:
    """Llama-3.1-8B (hidden 4096, 32 heads and 8 KV heads of 128, width 14336) under TP 2, 10 tokens."""
    base = {**BASE, "model": "meta-llama/Llama-3.1-8B", "tp": 2, "tokens": 10, "sequences": ""}
    want = {
        "qkv_proj": (16 + 2 * 4) * 128 * 4096, "o_proj": 4096 * 16 * 128, "gate_up_proj": 2 * 7168 * 4096,
        "down_proj": 4096 * 7168, "lm_head": 128_256 // 2 * 4096,
    }  # fmt: skip
    rows = [{**base, "layer": layer} for layer in want]
    rows[-1] |= {"tokens": "", "sequences": 10}
    (products,) = read(path, rows).points
    assert (products.kind, products.operator) == ("layer_ops", "gemm")
    assert sorted(products.work.flop.tolist()) == sorted(2 * 10 * size for size in want.values())
    # elements read and written: a norm fused with the sum 4 h, gate and up in, one out: 3 w / tp, rope in and out
    streams = {
        "layernorm": 4 * 4096,
        "act_fn": 3 * 7168,
        "rotary_emb": 2 * (16 + 4) * 128,
        "embedding": 2 * 4096,
    }
    found = read(path, [{**base, "layer": layer, "tokens": 100_000} for layer in streams])
    for points in found.points:
        assert points.kind == "elementwise"
        (name,) = (name for name, mask in points.regimes.items() if name in streams and mask.all())
        moved = 2 * 100_000 * streams[name]
        assert points.work.bytes_moved.tolist() == [moved]
        assert points.bound_s[0] == pytest.approx((moved - L2) / HBM)


def test_wide_tables_have_a_column_an_operator(path: Path) -> None:
    row = {"gpu": "h100", "model": "meta-llama/Llama-3.1-8B", "tp": 1, "num_tokens": 8, "attn_pre_proj_ms": 0.5,
           "mlp_down_proj_us": 7, "input_layernorm_ms": 0, "add_ms": "", "mlp_act_ms": 0.25, "linear_ms": 3,
           "sampler_ms": 2, "note": "emb_ms"}  # fmt: skip
    found = read(path, [row])
    times = {tuple(points.regimes): points.seconds.tolist() for points in found.points}
    assert {points.stack for points in found.points} == {"vidur"}
    assert sorted(time for part in times.values() for time in part) == pytest.approx([7e-6, 0.25e-3, 0.5e-3])
    assert [(left.rows, left.why) for left in found.skipped] == [(1, "sampler is not modelled")]


def test_sizes_of_models_stand_beside_the_table(path: Path) -> None:
    row = {**BASE, "model": "acme/own-1b", "tp": 1, "tokens": 1, "layer": "down_proj"}
    found = read(path, [row])
    assert not found.points and "the sizes of 'acme/own-1b' are not known" in found.skipped[0].why
    dims = {"model": "Acme/Own-1B", "n_head": 16, "n_kv_head": 4, "n_embd": 2048, "n_expanded_embd": 6000,
            "vocab_size": 1000, "use_gated_mlp": "True"}  # fmt: skip
    write(path.parent / "model_dims.csv", [dims])
    assert one(path, row).work.flop.tolist() == [2 * 6000 * 2048]
    write(path.parent / "model_dims.csv", [{**dims, "n_expanded_embd": 7000}])
    assert one(path, row).work.flop.tolist() == [2 * 7000 * 2048]
    write(path.parent / "model_dims.csv", [{**dims, "n_head": "many"}])
    (left,) = read(path, [row]).skipped
    assert "model_dims.csv: line 2, column 'n_head': 'many' is not a whole number" in left.why


# What splits rows


def test_keys_are_sorted_by_number_where_they_are_numbers() -> None:
    assert in_order(["16", "8", "128", "8"]) == ["8", "16", "128"]
    assert in_order(["8/1", "64/8", "8/10", "8/2"]) == ["8/1", "8/2", "8/10", "64/8"]
    assert in_order(["b/10", "a", "b/9"]) == ["a", "b/10", "b/9"]


def test_every_second_key_is_fitted(path: Path) -> None:
    rows = [
        {**BASE, "num_heads": heads, "batch_size": 1, "isl": 8, "step": 0} for heads in (128, 16, 32, 64, 8)
    ]
    assert fitted_keys(read(path, rows).points) == ("8", "32", "128")
    assert fitted_keys(read(path, rows[:1]).points) == ("128",)


def test_a_head_of_unusual_width_is_a_shape_of_its_own(path: Path) -> None:
    rows = [{**BASE, "batch_size": 1, "isl": 8, "num_heads": 32, "num_key_value_heads": 8, "head_dim": dim}
            for dim in (64, 128, 256)]  # fmt: skip
    (points,) = read(path, rows).points
    assert sorted(points.keys.tolist()) == ["32/8", "32/8/256", "32/8/64"]


def test_rows_of_one_shape_alternate_whatever_their_order(path: Path) -> None:
    rows = [{**BASE, "m": m, "n": 8, "k": 8, "latency_ms": m} for m in range(1, 8)]
    random.Random(1).shuffle(rows)
    (points,) = read(path, rows).points
    chosen = points.work.shape["m"][alternate(points)]
    assert sorted(chosen.tolist()) == [1, 3, 5, 7]


# Names of GPUs and stacks


@pytest.mark.parametrize(
    ("text", "name"),
    [
        # as nvidia-smi, torch.cuda.get_device_name and jax.devices() print them
        ("NVIDIA H100 80GB HBM3", "h100-sxm"), ("NVIDIA H100 PCIe", "h100-pcie"), ("NVIDIA H100 NVL", "h100-nvl"),
        ("NVIDIA H200", "h200-sxm"), ("NVIDIA H20", "h20"), ("NVIDIA H800", "h800-sxm"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"), ("NVIDIA A100-SXM4-40GB", "a100-sxm-40gb"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"), ("NVIDIA A100-PCIE-40GB", "a100-pcie-40gb"),
        ("NVIDIA A800-SXM4-80GB", "a800-sxm-80gb"), ("NVIDIA A40", "a40"), ("NVIDIA A10", "a10"),
        ("NVIDIA L4", "l4"), ("NVIDIA L40S", "l40s"), ("NVIDIA B200", "b200-sxm"),
        ("NVIDIA B300 SXM6 AC", "b300-sxm"), ("NVIDIA GB200", "gb200"), ("NVIDIA GB300", "gb300"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"), ("NVIDIA GeForce RTX 5090", "rtx-5090"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000-blackwell"),
        ("AMD Instinct MI300X OAM", "mi300x"), ("AMD Instinct MI325X", "mi325x"), ("TPU v5 lite", "tpu-v5e"),
        ("TPU v5p", "tpu-v5p"), ("TPU v6 lite", "tpu-v6e"), ("Intel Gaudi 3", "gaudi3"),
        # as tables name systems
        ("h100_sxm", "h100-sxm"), ("H200_SXM", "h200-sxm"), ("b200_sxm", "b200-sxm"), ("a100", "a100-sxm-80gb"),
        ("RTX5090", "rtx-5090"), ("RTXPRO6000", "rtx-pro-6000-blackwell"), ("L40S", "l40s"), (" h100 ", "h100-sxm"),
        ("A100-40GB", "a100-sxm-40gb"),
    ],
)  # fmt: skip
def test_gpus_as_logs_and_tables_name_them(text: str, name: str) -> None:
    assert packaged_name(text) == name and gpu_named(text).name == name


def test_every_packaged_gpu_is_found_by_its_name_and_aliases_are_packaged() -> None:
    assert all(packaged_name(name) == name for name in gpu_names())
    assert set(ALIASES.values()) <= set(gpu_names()) and not set(ALIASES) & set(gpu_names())


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("NVIDIA H100 96GB HBM4", "h100"),
        ("V100", None),
        ("RTX 5090 Ti", "rtx-5090"),
        ("", None),
        ("H20-3e", "h20"),
    ],
)
def test_another_board_is_not_taken_for_one(text: str, match: str | None) -> None:
    with pytest.raises(InputError) as caught:
        gpu_named(text)
    assert str(caught.value).startswith(f"unknown GPU {text!r}")
    assert match is None or f"did you mean '{match}" in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "file", "stack"),
    [
        ({}, "gemm.csv", "not stated"),
        ({}, "gemm_vllm_0.24.0.csv", "vllm-0.24.0"),
        ({}, "vllm019_gemm.csv", "vllm-0.19"),
        ({}, "sglang-v0.5.3.csv", "sglang-0.5.3"),
        ({"stack": "own 3"}, "vllm019.csv", "own 3"),
        ({"stack": ""}, "t.csv", "not stated"),
        ({"framework": "VLLM", "version": "0.24.0"}, "t.csv", "vllm-0.24.0"),
        ({"framework": "VLLM", "version": ""}, "t.csv", "vllm"),
        ({"framework": "", "version": ""}, "t.csv", "not stated"),
        ({"engine": "sglang", "engine_version": "0.5"}, "t.csv", "sglang-0.5"),
        ({"backend": "trtllm", "version": "1.0.0"}, "t.csv", "trtllm-1.0.0"),
        ({"nccl_version": "2.27.3"}, "t.csv", "nccl-2.27.3"),
        ({"vllm": "0.19.0"}, "t.csv", "vllm-0.19.0"),
        ({"version": "0.24.0", "kernel_source": "vllm_fused_moe"}, "t.csv", "vllm-0.24.0"),
        ({"version": "1", "kernel_source": "torch"}, "t.csv", "kernel-1"),
        ({"framework": "VLLM"}, "t.csv", "not stated"),
    ],
)
def test_where_a_stack_is_stated(tmp_path: Path, columns: dict[str, str], file: str, stack: str) -> None:
    row = {"gpu": "h100", "m": 1, "n": 8, "k": 8, **columns}
    (points,) = read(tmp_path / file, [row]).points
    assert points.stack == stack
    (points,) = read(tmp_path / file, [row], Given(stack="said")).points
    assert points.stack == "said"


def test_which_gpu_a_row_is_of(path: Path) -> None:
    row = {"m": 1, "n": 8, "k": 8}
    with pytest.raises(
        InputError, match=r"t.csv: no column says the GPU \(gpu or system\); name it with --hardware"
    ):
        read(path, [row])
    h200 = load_gpu("h200-sxm")
    for name in ("gpu", "system", "hardware", "device"):
        (points,) = read(path, [{**row, name: "H100"}]).points
        assert points.gpu.name == "h100-sxm"
        # what a row says comes first
        (points,) = read(path, [{**row, name: "H100"}], Given(h200)).points
        assert points.gpu.name == "h100-sxm"
    (points,) = read(path, [row], Given(h200)).points
    assert points.gpu.name == "h200-sxm"
    for unknown in ("X1", ""):
        (points,) = read(path, [{**row, "gpu": unknown}], Given(h200)).points
        assert points.gpu.name == "h200-sxm"


def test_a_gpu_file_stands_for_the_board_of_its_name(path: Path, tmp_path: Path) -> None:
    """A file called h100-sxm, as a user may have corrected it, is meant where a table says H100."""
    packaged = Path(__file__).parent.parent / "hardware" / "gpus" / "h100-sxm.toml"
    own = tmp_path / "h100.toml"
    own.write_text(packaged.read_text().replace('"3350 GB/s"', '"1675 GB/s"'))
    (points,) = read(path, [{**BASE, "m": 1, "n": 8, "k": 8}], Given(load_gpu(own))).points
    assert points.bound_s[0] == pytest.approx(2 * (64 + 8 + 8) / 1.675e12)


# What is left out


@pytest.mark.parametrize(
    ("kind", "change", "why"),
    [
        ("gemm", {"gpu": "V100"}, "unknown GPU 'V100'"),
        ("gemm", {"gpu": "NVIDIA H100 80GB HBM9"}, "unknown GPU 'NVIDIA H100 80GB HBM9'; did you mean 'h100-80gb"),
        ("gemm", {"gpu": "RTX5090"}, "rtx-5090 has no peak_bf16: "),
        ("gemm", {"gemm_dtype": "nvfp4"}, "gemm_dtype 'nvfp4' is not modelled"),
        ("gemm", {"gemm_dtype": "fp8", "gpu": "a100"}, "gemm_dtype 'fp8' has no peak on a100-sxm-80gb"),
        ("context_attention", {"num_key_value_heads": 5}, "KV heads are no divisor of the query heads"),
        ("context_attention", {"num_key_value_heads": 96}, "KV heads are no divisor of the query heads"),
        ("context_attention", {"kv_cache_dtype": "fp8"}, "kv_cache_dtype: only 16 bits are modelled"),
        ("generation_attention", {"attn_dtype": "fp8"}, "attn_dtype: only 16 bits are modelled"),
        ("generation_attention", {"window_size": 128}, "attention with a window was not fitted"),
        ("mixed_attention", {"n_decode": 0}, "n_decode is 0: another kernel's call"),
        ("mixed_attention", {"prefill_chunk": 0}, "prefill_chunk is 0: another kernel's call"),
        ("mixed_attention", {"model": "acme/nothing"}, "the sizes of 'acme/nothing' are not known"),
        ("mixed_attention", {"model": "deepseek-ai/DeepSeek-V3"}, "is not a dense model of equal layers"),
        ("chunked_attention", {"tp": 3}, "its TP does not split the model into equal parts"),
        ("chunked_attention", {"tp": 64}, "its TP does not split the model into equal parts"),
        ("layer_ops_long", {"tp": 3}, "its TP does not split the model into equal parts"),
        ("layer_ops_long", {"layer": "sampler"}, "sampler is not modelled"),
        ("mla_module", {"kv_cache_dtype": "int4"}, "cache 'int4', products 'bfloat16' are not modelled"),
        ("mla_module", {"phase": "warm-up"}, "phase 'warm-up', cache 'bfloat16', products 'bfloat16'"),
        ("mla_module", {"gemm_type": "fp8_block", "gpu": "a100"}, "no peak for products in fp8_block"),
        ("moe", {"topk": 500}, "experts, top k or width do not split over its GPUs"),
        ("moe", {"moe_ep_size": 7}, "experts, top k or width do not split over its GPUs"),
        ("moe", {"moe_tp_size": 5}, "experts, top k or width do not split over its GPUs"),
        ("moe", {"moe_dtype": "w4a16_mxfp4"}, "moe_dtype 'w4a16_mxfp4' is not modelled on h100-sxm"),
        ("moe", {"kernel_source": "vllm_flashinfer_moe"}, "of the kernel 'vllm_flashinfer_moe' are not modelled"),
        ("collective", {"num_gpus": 1}, "one GPU exchanges nothing"),
        ("collective", {"op_name": "broadcast"}, "operation 'broadcast' is not modelled"),
        ("collective", {"gpu": "l40s"}, "l40s has no nvlink_bandwidth"),
        ("custom_all_reduce", {"allreduce_dtype": "fp4"}, "its dtype is not modelled"),
    ],
)  # fmt: skip
def test_rows_that_are_left_out_say_why(path: Path, kind: str, change: Row, why: str) -> None:
    row = shapes(kind)[5]
    plain = {"attn_dtype": "", "window_size": 0, "kernel_source": ""}
    extra = {name: plain.get(name, "bfloat16") for name in change if name not in row}
    found = read(path, [{**row, **extra}, {**row, **extra, **change}])
    assert sum(map(len, found.points)) == 1
    (left,) = found.skipped
    assert (left.rows, left.where) == (1, str(path)) and why in left.why


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("context_attention", {"kv_cache_dtype": "fp8"}),
        ("generation_attention", {"window_size": 128}),
        ("mixed_attention", {"n_decode": 0}),
        ("chunked_attention", {"model": "acme/nothing"}),
        ("layer_ops_long", {"model": "acme/nothing"}),
        ("layer_ops_wide", {"tp": 3}),
        ("moe", {"moe_ep_size": 7}),
        ("collective", {"num_gpus": 1}),
        ("custom_all_reduce", {"allreduce_dtype": "fp4"}),
        ("mla_module", {"kv_cache_dtype": "int4"}),
    ],
)
def test_tables_of_which_nothing_is_left(path: Path, kind: str, change: Row) -> None:
    found = read(path, [{**row, **change} for row in shapes(kind)[:9]])
    assert not found.points and sum(left.rows for left in found.skipped) == 9


def test_collectives_across_nodes(path: Path) -> None:
    rows = [{"network": "h100_dgx", "op": "all_reduce", "num_workers": 8, "devices_per_node": per, "bytes": 1024,
             "median_ms": 0.1} for per in (8, 4, 1)]  # fmt: skip
    found = read(path, rows)
    (points,) = found.points
    assert (len(points), points.stack, points.gpu.name) == (1, "vidur", "h100-sxm")
    assert [(left.rows, left.why[:13]) for left in found.skipped] == [(2, "crosses nodes")]


# No prediction is faster than physics


def anything(kind: str, known: list[Row], rng: random.Random) -> Row:
    """A random row of a kind, from tiny to huge."""
    row = {
        **rng.choice(known),
        "gpu": rng.choice(("h100", "a100", "h200", "b200", "RTXPRO6000", "a40", "l40s")),
    }
    for name in ("m", "n", "k", "isl", "batch_size", "kv_len", "prefill_chunk", "kv_prefill", "n_decode", "kv_decode",
                 "num_tokens", "tokens", "step", "hidden_size"):  # fmt: skip
        if name in row and not (name == "isl" and row.get("phase") == "generation"):
            row[name] = max(int(2 ** rng.uniform(0, 17)), 1)
    if "num_heads" in row and "num_key_value_heads" in row:
        row["num_key_value_heads"] = 2 ** rng.randrange(7)
        row["num_heads"] = row["num_key_value_heads"] * rng.randrange(1, 20)
        row["head_dim"] = rng.choice((64, 80, 96, 128, 192, 256))
    if "num_experts" in row:
        row["moe_ep_size"] = rng.choice((1, 2, 4, 8))
        row["num_experts"] = row["moe_ep_size"] * rng.randrange(1, 40)
        row["topk"] = rng.randrange(1, min(10, row["num_experts"]) + 1)
        row["moe_tp_size"] = rng.choice((1, 2, 4))
        row["inter_size"] = row["moe_tp_size"] * rng.randrange(8, 4000)
        row["moe_dtype"] = rng.choice(("bfloat16", "bfloat16", "fp8_block"))
    for name in ("bytes", "message_size"):
        if name in row:
            row |= {name: int(2 ** rng.uniform(1, 33)), "num_gpus": rng.randrange(2, 17)}
    if kind in ("collective", "custom_all_reduce"):
        row["gpu"] = rng.choice(("h100", "a100", "h200", "b200"))
    return row


@pytest.mark.parametrize("kind", KINDS)
def test_no_prediction_is_below_its_bound(path: Path, kind: str) -> None:
    rng = random.Random(kind)
    known = shapes(kind)
    rows = [anything(kind, known, rng) for _ in range(800)]
    found = read(path, rows)
    compared = 0
    for points in found.points:
        done = compare(points, FitsFor().of(points.gpu, points.stack))
        assert np.isfinite(done.predicted_s).all() and (done.predicted_s > 0).all()
        assert np.isfinite(points.bound_s).all() and (points.bound_s >= 0).all()
        below = np.flatnonzero(done.predicted_s < points.bound_s * (1 - 1e-9))
        shown = [
            (rows[points.lines[place] - 2], done.predicted_s[place], points.bound_s[place])
            for place in below[:3]
        ]
        assert not len(below), (points.operator, points.gpu.name, len(below), shown)
        compared += len(points)
    assert compared > 400


def ideal(kind: str, form: str) -> OperatorFit:
    """The fastest fit that a file may state: whole shares, nothing besides."""
    names = (*FORMS[form].fitted, *FORMS[form].stated)
    shares = {name: PARAMETERS[name].high for name in names if name.endswith(("_share", "_part"))}
    return fit_of(
        kind, form, **{name: 16.0 if name == "tile_rows" else shares.get(name, 0.0) for name in names}
    )


@pytest.mark.parametrize("kind", KINDS)
def test_no_parameters_predict_below_the_bound(path: Path, kind: str) -> None:
    rng = random.Random(kind)
    known = shapes(kind)
    runs = read(path, [anything(kind, known, rng) for _ in range(800)]).points
    for place in (0, -1):
        fits = {name: ideal(name, entry.forms[place]) for name, entry in OPERATORS.items()}
        for points in runs:
            times = predicted(points, fits)
            assert (times >= points.bound_s * (1 - 1e-9)).all(), (points.operator, points.gpu.name)


def test_readers_agree_on_kinds(path: Path) -> None:
    """Every kind of the bench is recognised by its columns, and nothing of it is left out."""
    for kind in KINDS:
        rows: list[Any] = shapes(kind)[:40]
        found = read(path, rows)
        known = kind_of(read_table(path))
        assert known is not None and found.points and not found.skipped
        assert {points.kind for points in found.points} <= set(known.kinds)
