"""Cases of the operators every model has, of the all-reduce and of the KV connectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from first_fit_points import (
    A100,
    US,
    Array,
    Case,
    Gpu,
    Rows,
    columns,
    every_second,
    gemm_time,
    prefill_cases,
    rows,
)


def gemm(folder: Path, gpu: Gpu, dtype: str) -> list[Case]:
    """Dense GEMMs; every second (n, k) is held out."""
    table = rows(folder, f"aiconfigurator/gemm_{dtype}_{gpu.table}.csv")
    m, n, k, t = columns(table, "m", "n", "k", "latency_ms")
    fitted = every_second(list(zip(n, k, strict=True)))
    peak, width = (gpu.fp8, 1.0) if dtype == "fp8" else (gpu.bf16, 2.0)
    checks = {
        "m <= 64": m <= 64,
        "m >= 1024": m >= 1024,
        "m >= 1024, n and k <= 4096": (m >= 1024) & (n <= 4096) & (k <= 4096),
    }

    def case(form: str, extra: float, chosen: bool) -> Case:
        def predict(p: Array) -> Array:
            return np.asarray(gemm_time(m, n, k, p, peak, gpu.hbm, width) + extra * m * k / (p[1] * gpu.hbm))

        return Case(
            gpu.name,
            "gemm_fp8" if dtype == "fp8" else "gemm",
            form,
            ("compute_share", "bandwidth_share", "latency"),
            (1, 1, US),
            ((0.7, 0.8, 5),),
            predict,
            t,
            fitted,
            ~fitted,
            chosen,
            checks=checks,
        )

    cases = [case("tile_roofline", 0.0, True)]
    if dtype == "fp8":  # the quantised input, written and read again at 1 byte each
        cases.append(case("tile_roofline + quantise bytes", 2.0, False))
    return cases


def attention_prefill(folder: Path, gpu: Gpu) -> list[Case]:
    """Causal GQA prefill without a cached prefix; every second (heads, KV heads) is held out."""
    b, s, h, kv, d, t = columns(
        rows(folder, f"aiconfigurator/context_attention_{gpu.table}.csv"),
        "batch_size",
        "isl",
        "num_heads",
        "num_key_value_heads",
        "head_dim",
        "latency_ms",
    )
    fitted = every_second(list(zip(h, kv, strict=True)))
    checks = {"isl >= 1024, batch <= 4": (s >= 1024) & (b <= 4), "isl <= 256": s <= 256}
    flop, size = 4 * b * h * d * s * (s + 1) / 2, b * s * d * (2 * h + 2 * kv) * 2
    return prefill_cases(
        gpu,
        "attention_prefill",
        flop,
        size,
        lambda tile: b * h * np.ceil(s / tile),
        t,
        fitted,
        "additive tile 128" if gpu is A100 else "additive",
        checks,
    )


def attention_decode(folder: Path, gpu: Gpu) -> list[Case]:
    """GQA decode, K, V, Q and O counted once; every second (heads, KV heads) is held out."""
    b, s, h, kv, d, t = columns(
        rows(folder, f"aiconfigurator/generation_attention_{gpu.table}.csv"),
        "batch_size",
        "kv_len",
        "num_heads",
        "num_key_value_heads",
        "head_dim",
        "latency_ms",
    )
    fitted = every_second(list(zip(h, kv, strict=True)))
    cache = b * s * d * kv * 4
    checks = {"KV > 50 MB": cache > 50e6, "batch >= 256": b >= 256}

    def case(form: str, size: Array, chosen: bool, floor: bool = False) -> Case:
        def predict(p: Array) -> Array:
            stream = size / (p[0] * gpu.hbm)
            return np.asarray((np.maximum(stream, p[1]) if floor else stream + p[1]) + p[2] * b * kv)

        return Case(
            gpu.name,
            "attention_decode",
            form,
            ("bandwidth_share", "latency", "per_sequence_head"),
            (1, US, 1e-9),
            ((0.8, 12, 20),),
            predict,
            t,
            fitted,
            ~fitted,
            chosen,
            checks=checks,
        )

    return [
        case("decode_attention", cache + b * h * d * 4, True),
        case("decode_attention, K and V only", cache, False),
        case("max with the latency", cache, False, True),
    ]


def elementwise(folder: Path, gpu: Gpu) -> list[Case]:
    """Norms, residual add, activation, rope, fp16; every second model is held out."""
    dims = {r["model"]: r for r in rows(folder, "vidur/model_dims.csv") if r["gpu"] == gpu.vidur}
    size, t, op, model, group = [], [], [], [], []
    for index, r in enumerate(rows(folder, f"vidur/layer_ops_{gpu.vidur}.csv")):
        if r["model"] not in dims:
            continue
        d, tp, n = dims[r["model"]], int(r["tp"]), int(r["num_tokens"])
        hidden, inter, heads = int(d["n_embd"]), int(d["n_expanded_embd"]), int(d["n_head"])
        rotated = hidden / heads * (heads + max(int(d["n_kv_head"]), tp)) / tp
        per_token = {
            "input_layernorm": 4 * hidden,
            "post_attention_layernorm": 4 * hidden,
            "add": 6 * hidden,
            "mlp_act": (6 if d["use_gated_mlp"] == "True" else 4) * inter / tp,
            "attn_rope": 4 * rotated,
        }
        for key, width in per_token.items():
            if r[f"{key}_ms"] and float(r[f"{key}_ms"]) > 0:
                size.append(width * n)
                t.append(float(r[f"{key}_ms"]) * 1e-3)
                op.append(key)
                model.append(r["model"])
                group.append(index)
    x, ops, fitted = np.array(size, float), np.array(op), every_second(model)

    def predict(p: Array) -> Array:
        return np.asarray(x / (p[0] * gpu.hbm) + p[1])

    return [
        Case(
            gpu.name,
            "elementwise",
            "streaming",
            ("bandwidth_share", "latency"),
            (1, US),
            ((0.6, 3),),
            predict,
            np.array(t),
            fitted,
            ~fitted,
            True,
            checks={k: ops == k for k in sorted(set(op))},
            groups=np.array(group),
        )
    ]


def all_reduce(folder: Path, gpu: Gpu) -> list[Case]:
    """vLLM's all-reduce under CUDA graphs, and NCCL's; elements of 2 bytes, every second size held out."""
    version = "0.14.0" if gpu is A100 else "0.24.0"
    tables = {
        "all_reduce (vLLM graph)": (
            "message_size",
            [
                r
                for r in rows(folder, "aiconfigurator/vllm_custom_allreduce.csv")
                if r["system"] == gpu.table
                and r["kernel_source"] == "vLLM_custom_graph"
                and r["version"] == version
            ],
        ),
        "all_reduce (NCCL)": (
            "message_size_elems_or_bytes",
            [
                r
                for r in rows(folder, "aiconfigurator/nccl.csv")
                if r["system"] == gpu.table and r["op_name"] == "all_reduce"
            ],
        ),
    }

    def case(form: str, key: str, table: Rows, per_gpu: bool) -> Case:
        n, elements, t = columns(table, "num_gpus", key, "latency_ms")
        size = elements * 2
        fitted = every_second(list(size))

        def predict(p: Array) -> Array:
            start = p[0] + (p[3] * n if per_gpu else 0)
            return np.asarray(
                start + 2 * (n - 1) / n * size / (p[1] * gpu.nvlink) * (1 + np.sqrt(p[2] / size))
            )

        return Case(
            gpu.name,
            "all_reduce",
            form + (" + latency per GPU" if per_gpu else ""),
            ("latency", "bandwidth_share", "half_size", "per_gpu")[: 4 if per_gpu else 3],
            (US, 1, 1e6, US)[: 4 if per_gpu else 3],
            ((5, 0.7, 1, 1)[: 4 if per_gpu else 3], (10, 0.7, 0.1, 1)[: 4 if per_gpu else 3]),
            predict,
            t,
            fitted,
            ~fitted,
            "vLLM" in form and not per_gpu,
            checks={f"{q} GPUs": n == q for q in (2, 4, 8)}
            | {"<= 64 KiB": size <= 65536, ">= 1 MB": size >= 1e6},
        )

    return [case(form, key, table, extra) for form, (key, table) in tables.items() for extra in (False, True)]


def connectors(folder: Path) -> list[Case]:
    """Mooncake's two series over a node of 200 GB/s; every second prompt length is held out."""
    cases = []
    for group in ("mooncake_vllm_pd", "mooncake_sglang_pd"):
        table = [r for r in rows(folder, "kv_transfer/kv_transfer.csv") if r["group"] == group]
        size, t = columns(table, "bytes", "time_ms")
        if (
            "sglang" in group
        ):  # printed sizes are rounded: 94 layers, 4 KV heads, twice (TP 8 replicates heads)
            prompts = [float(r["note"].split("prompt_tokens=")[1].split(";")[0]) for r in table]
            size = 2 * 94 * 2 * 4 * 128 * 2 * np.array(prompts)

        def predict(p: Array, size: Array = size) -> Array:
            return np.asarray(p[0] + size / (p[1] * 200e9))

        fitted = every_second(list(size))
        cases.append(
            Case(
                "connector",
                group,
                "latency + bytes / bandwidth",
                ("latency", "bandwidth_share"),
                (1e-3, 1),
                ((1, 0.7),),
                predict,
                t,
                fitted,
                ~fitted,
                True,
            )
        )
    return cases
