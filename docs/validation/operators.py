"""The table of operators.md: python docs/validation/operators.py FOLDER, which holds the published tables."""

from __future__ import annotations

import sys

from costmodel.measured.errors import ErrorRow
from costmodel.operators.catalogue import FORMS, PARAMETERS
from costmodel.quantities import QUANTITIES
from costmodel.questions.validate import ValidateAnswer, ask_validate
from costmodel.units import format_si

#: What the table shows: label, kind, GPU, stack, regime.
SHOWN = (
    ("GEMM bf16, layers by model", "layer_ops", "a100-sxm-80gb", "vidur", "all"),
    ("", "layer_ops", "h100-sxm", "vidur", "all"),
    ("", "layer_ops", "a40", "vidur", "all"),
    ("", "layer_ops", "rtx-pro-6000-blackwell", "vllm-0.19", "all"),
    ("GEMM bf16", "gemm", "a100-sxm-80gb", "vllm-0.14.0", "all"),
    ("", "gemm", "h100-sxm", "vllm-0.24.0", "bf16"),
    ("GEMM fp8, input quantised", "gemm", "h100-sxm", "vllm-0.24.0", "fp8"),
    ("prefill attention", "context_attention", "a100-sxm-80gb", "vllm-0.14.0", "all"),
    ("", "context_attention", "h100-sxm", "vllm-0.24.0", "all"),
    ("chunk over a prefix", "chunked_attention", "rtx-pro-6000-blackwell", "vllm-0.19", "all"),
    ("decode attention", "generation_attention", "a100-sxm-80gb", "vllm-0.14.0", "all"),
    ("", "generation_attention", "h100-sxm", "vllm-0.24.0", "all"),
    ("", "generation_attention", "rtx-pro-6000-blackwell", "vllm-0.19", "all"),
    ("mixed prefill and decode attention", "mixed_attention", "rtx-pro-6000-blackwell", "vllm-0.19", "all"),
    *(
        (f"MLA module, {regime}", "mla", "h100-sxm", "vllm-0.24.0", regime)
        for regime in ("prefill, bf16 cache", "prefill, fp8 cache", "decode, bf16 cache", "decode, fp8 cache")
    ),
    ("MLA attention of prompts alone", "mla", "a100-sxm-80gb", "trtllm-1.0.0", "all"),
    ("MoE bf16, balanced", "moe", "h100-sxm", "vllm-0.24.0", "bf16, balanced"),
    ("MoE bf16, skewed", "moe", "h100-sxm", "vllm-0.24.0", "bf16, skewed"),
    ("MoE fp8 blocks", "moe", "h100-sxm", "vllm-0.24.0", "fp8"),
    ("MoE bf16, skewed", "moe", "a100-sxm-80gb", "vllm-0.14.0", "bf16, skewed"),
    ("element-wise", "elementwise", "a100-sxm-80gb", "vidur", "all"),
    ("", "elementwise", "h100-sxm", "vidur", "all"),
    ("", "elementwise", "a40", "vidur", "all"),
    ("", "elementwise", "rtx-pro-6000-blackwell", "vllm-0.19", "all"),
    ("all-reduce, NCCL", "collective", "a100-sxm-80gb", "nccl-2.27.3", "all_reduce"),
    ("", "collective", "h100-sxm", "nccl-2.27.3", "all_reduce"),
    ("", "collective", "b200-sxm", "nccl-2.27.3", "all_reduce"),
    ("all-reduce, vLLM (graphs)", "collective", "a100-sxm-80gb", "vllm-0.14.0", "all"),
    ("", "collective", "h100-sxm", "vllm-0.24.0", "all"),
    ("", "collective", "b200-sxm", "vllm-0.24.0", "all"),
    ("all-gather, NCCL", "collective", "h100-sxm", "nccl-2.27.3", "all_gather"),
    ("reduce-scatter, NCCL", "collective", "h100-sxm", "nccl-2.27.3", "reduce_scatter"),
    ("all-to-all, NCCL", "collective", "h100-sxm", "nccl-2.27.3", "all_to_all"),
    ("point to point", "collective", "h100-sxm", "vidur", "point_to_point"),
    ("KV copy, Mooncake and vLLM", "kv_transfer", "H800 x16 (8/node)", "mooncake_vllm_pd", "all"),
    ("KV copy, Mooncake and SGLang", "kv_transfer", "H20-3e x16 (8/node)", "mooncake_sglang_pd", "all"),
)


def show(answer: ValidateAnswer) -> None:
    """Print the table of an answer in markdown."""
    rows = {
        (row.kind, row.gpu, row.stack.removesuffix(".0") if row.stack == "vllm-0.19.0" else row.stack, row.regime,
         row.split): row
        for row in answer.rows
    }  # fmt: skip
    print("| operator | GPU, stack | fitted | held out | median | P90 | bias | rows held out |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for label, *key in SHOWN:
        fitted, held = rows.get((*key, "fitted")), rows[(*key, "held_out")]
        print(f"| {label} | {key[1]}, {key[2]} | {_line(fitted, held)} |")
    _parameters()


def _parameters() -> None:
    """Print every fitted parameter with its range and the forms that have it."""
    print("\n## Parameters\n\n| parameter | range | forms | meaning |\n| --- | --- | --- | --- |")
    for name, known in PARAMETERS.items():
        forms = [form for form, made in FORMS.items() if name in (*made.fitted, *made.stated)]
        low, high = (format_si(value, known.dimension) for value in (known.low, known.high))
        span = ", ".join(f"{value:g}" for value in known.choices) or f"{low} to {high}"
        stated = "absorbed_tokens"
        meaning = (
            QUANTITIES[name].meaning if name != stated else "longest prompt that attends in the latent space"
        )
        print(f"| `{name}` | {span} | {', '.join(forms)} | {meaning} |")


def _line(fitted: ErrorRow | None, held: ErrorRow) -> str:
    """Figures in percent; what no fit is made of has no error of a fit."""
    figures = " | ".join(f"{100 * share:.1f}" for share in (held.mape, held.median, held.p90))
    seen = f"{100 * fitted.mape:.1f}" if fitted else "-"
    return f"{seen} | {figures} | {100 * held.bias:+.1f} | {held.n:,}"


if __name__ == "__main__":
    show(ask_validate(measurements=sys.argv[1]))
