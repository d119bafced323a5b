"""Cases of latent attention (MLA) and of routed experts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from first_fit_points import A100, US, Array, Case, Gpu, Rows, columns, fill, gemm_time, prefill_cases, rows


def mla_prefill_a100(folder: Path, gpu: Gpu) -> list[Case]:
    """Expanded MLA attention alone (192 + 128 per head); 2, 8, 16 and 64 heads are held out."""
    b, s, h, t = columns(
        rows(folder, "aiconfigurator/mla_context_a100_trtllm.csv"),
        "batch_size",
        "isl",
        "num_heads",
        "latency_ms",
    )
    held = np.isin(h, (2, 8, 16, 64))
    one = (h == 16) & (b == 1)
    checks = {
        "16 heads": h == 16,
        "16 heads, batch 1": one,
        **{f"16 heads, batch 1, isl {n}": one & (s == n) for n in (2048, 8192, 16384)},
    }
    flop, size = 2 * b * h * 320 * s * (s + 1) / 2, b * s * h * (192 * 2 + 128 * 2) * 2
    return prefill_cases(
        gpu,
        "mla_prefill",
        flop,
        size,
        lambda tile: b * h * np.ceil(s / tile),
        t,
        ~held,
        "additive tile 128",
        checks,
    )


def mla_rows(folder: Path, phase: str) -> Rows:
    """bf16 rows of the DeepSeek-V3 MLA module; prompts of one token, which are launch-bound, are left out."""
    return [
        r
        for r in rows(folder, "aiconfigurator/mla_module_dsv3_vllm.csv")
        if r["phase"] == phase
        and r["gemm_type"] == r["kv_cache_dtype"] == "bfloat16"
        and (phase == "generation" or int(r["isl"]) > 1)
    ]


def mla_prefill_h100(folder: Path, gpu: Gpu, g: Array) -> list[Case]:
    """Module = projections (`g`: the fitted GEMM parameters) + attention + a cost per call and token."""
    b, s, h, t = columns(mla_rows(folder, "context"), "batch_size", "isl", "num_heads", "latency_ms")
    tokens = b * s

    def mm(n: Array | float, k: Array | float) -> Array:
        return gemm_time(tokens, np.asarray(n, float), np.asarray(k, float), g, gpu.bf16, gpu.hbm)

    projections = mm(1536 + 576, 7168) + mm(h * 192, 1536) + mm(h * 256, 512) + mm(7168, h * 128)
    flop, size = 2 * b * h * 320 * s * (s + 1) / 2, tokens * h * (192 * 2 + 128 * 2) * 2
    held = np.isin(h, (2, 4, 16, 64))
    checks = {"16 heads": h == 16, "128 heads": h == 128, "isl >= 8192": s >= 8192}

    def case(form: str, tile: int, ceiling: float, token_cost: float, chosen: bool) -> Case:
        work = flop * fill(b * h * np.ceil(s / tile), gpu.sms) if tile else flop

        def predict(p: Array) -> Array:
            attention = work / (p[0] * ceiling * gpu.bf16) + size / (p[1] * gpu.hbm)
            return np.asarray(projections + attention + p[2] + token_cost * p[3] * tokens)

        return Case(
            gpu.name,
            "mla_prefill",
            form,
            ("compute_share", "bandwidth_share", "call", "token"),
            (1, 1, US, 1e-9),
            ((0.7, 0.3, 80, 20),),
            predict,
            t,
            ~held,
            held,
            chosen,
            nuisance=("call", "token"),
            checks=checks,
        )

    return [
        case("additive", 0, 1.0, 1.0, True),
        case("additive tile 128", 128, 1.0, 1.0, False),
        case("additive, share held to 0.8", 0, 0.8, 1.0, False),
        case("additive, no overhead per token", 0, 1.0, 0.0, False),
    ]


def mla_decode(folder: Path, gpu: Gpu, g: Array) -> list[Case]:
    """Absorbed MLA decode: module less projections and the two absorbing batched GEMMs."""
    b, h, step, t = columns(mla_rows(folder, "generation"), "batch_size", "num_heads", "step", "latency_ms")
    kv = step + 1

    def mm(n: Array | float, k: Array | float) -> Array:
        return gemm_time(b, np.asarray(n, float), np.asarray(k, float), g, gpu.bf16, gpu.hbm)

    absorb = (
        np.maximum(
            2 * b * h * 128 * 512 / (g[0] * gpu.bf16), (h * 128 * 512 + b * h * 640) * 2 / (g[1] * gpu.hbm)
        )
        + g[2]
    )
    rest = mm(1536 + 576, 7168) + mm(h * 192, 1536) + 2 * absorb + mm(7168, h * 128)
    flop, size = 2 * b * h * (2 * 512 + 64) * kv, 1152 * b * kv + b * h * 1088 * 2
    held = np.isin(h, (1, 4, 16, 64))  # 128 heads alone come near the compute limit: they must be fitted
    checks = {
        "16 heads": h == 16,
        "128 heads": h == 128,
        "latent > half of the time": size / gpu.hbm > 0.5 * t,
        "batch <= 16": b <= 16,
    }

    def case(form: str, combine: Callable[[Array, Array], Array], chosen: bool) -> Case:
        def predict(p: Array) -> Array:
            return np.asarray(
                rest + combine(flop / (p[0] * gpu.bf16), size / (p[1] * gpu.hbm)) + p[2] + p[3] * b
            )

        return Case(
            gpu.name,
            "mla_decode",
            form,
            ("compute_share", "bandwidth_share", "latency", "per_sequence"),
            (1, 1, US, 1e-9),
            tuple((c, 0.9, 50, 100) for c in (0.5, 0.6, 0.7)),
            predict,
            t,
            ~held,
            held,
            chosen,
            checks=checks,
        )

    return [
        case("latent_decode", np.maximum, True),
        case("additive", np.add, False),
        case("norm2", np.hypot, False),
    ]


def moe(folder: Path, gpu: Gpu, dtype: str) -> list[Case]:
    """Fused routed experts (gate, up, down) in "bfloat16", or "fp8_block" (1 byte a weight, 2 an activation).

    The tile is the one with the smaller error on the fitted part. Fitted on the least skewed
    distribution, one expert-parallel rank, inter sizes that are multiples of 64. All shapes of hidden
    size 2048 (nearest to DeepSeek-V2-Lite) and every second other one are held out.
    """
    name = f"aiconfigurator/moe_{gpu.vidur}_vllm.csv"
    table = [r for r in rows(folder, name) if r["moe_dtype"] == dtype]
    peak, width = (gpu.bf16, 2.0) if dtype == "bfloat16" else (gpu.fp8, 1.0)
    m, h, inter, k, experts, tp, ep, t = columns(
        table,
        "num_tokens",
        "hidden_size",
        "inter_size",
        "topk",
        "num_experts",
        "moe_tp_size",
        "moe_ep_size",
        "latency_ms",
    )
    kind = np.array([r["distribution"] for r in table])
    i = inter / tp
    whole = (i % 64 == 0) & (ep == 1)
    # In fp8, balanced rows of 256 experts are faster than reading 256 experts at peak: not all are hit.
    level = "balanced" if "balanced" in kind and dtype == "bfloat16" else "power_law_1.01"
    base = whole & (kind == level)
    shapes = list(zip(h, i, experts, k, strict=True))
    kept = set(sorted({q for q, ok in zip(shapes, whole, strict=True) if ok and q[0] != 2048})[::2])
    inside = np.array([q in kept for q in shapes], dtype=bool)
    near = base & (h == 2048) & (tp == 1)
    checks = {
        "2048/768/128/8": near,
        "its 1..8 tokens": near & (m <= 8),
        "its 512..32768 tokens": near & (m >= 512) & (m <= 32768),
        "1 token": base & (m == 1),
        "tokens >= 2048": base & (m >= 2048),
        **{d: whole & (kind == d) & ~inside for d in sorted(set(kind))},
        "inter not a multiple of 64": (kind == level) & (ep == 1) & ~whole,
    }
    distinct = experts * (1 - (1 - k / experts) ** m)
    # routed rows in and out of both products; then the reduction reads them and writes one row a token
    activations = m * k * (2 * h + 3 * i) + m * (k + 1) * h

    def case(
        tile: int, small: bool, form: str, combine: Callable[[Array, Array], Array], chosen: bool
    ) -> Case:
        height = np.where(m <= experts, 16, tile) if small else np.full_like(m, tile)
        flop = 6 * h * i * distinct * np.ceil(m * k / distinct / height - 1e-9) * height
        size = distinct * 3 * h * i * width + activations * 2

        def predict(p: Array) -> Array:
            return np.asarray(combine(flop / (p[0] * peak), size / (p[1] * gpu.hbm)) + p[2])

        return Case(
            gpu.name,
            "moe" if dtype == "bfloat16" else "moe_fp8",
            f"{form} tile {'16/' if small else ''}{tile}",
            ("compute_share", "bandwidth_share", "latency"),
            (1, 1, US),
            ((0.5, 0.8, 10), (0.3, 0.9, 30)),
            predict,
            t,
            base & inside,
            base & ~inside,
            chosen,
            checks=checks,
        )

    best = 16 if gpu is A100 or dtype != "bfloat16" else 32
    return [
        case(tile, small, form, combine, (form, small, tile) == ("additive", False, best))
        for form, combine in (("norm2", np.hypot), ("additive", np.add), ("max", np.maximum))
        for tile, small in ((16, False), (32, False), (64, False), (128, False), (64, True))
    ]
