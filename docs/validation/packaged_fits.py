"""Renew hardware/efficiency from the published tables: python docs/validation/packaged_fits.py FOLDER

FOLDER holds the tables by the names below. Each is read, fitted and written as ``costmodel calibrate`` does; only
the sources and the choice of stacks stand here.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from costmodel.inputs.efficiency import Efficiency
from costmodel.measured.calibrate import Calibrated, calibrate
from costmodel.measured.points import Given, Points
from costmodel.measured.tables import read_points
from costmodel.measured.write import as_toml, file_name

AIC = "aiconfigurator-core 0.12.0 (PyPI, 2026-09; Apache-2.0), table {}"
VIDUR = "github.com/microsoft/vidur@7d475133 (2024-11-19, MIT), {}; neither versions nor the board's variant are stated"
SIM = "github.com/casys-kaist/LLMServingSim@5daddb21 (2026-08-21, MIT), {}: CUDA 13.0, bf16, eager, one layer"

#: Table, source, and the stack where the table does not say it.
TABLES: tuple[tuple[str, str, str | None], ...] = (
    *(
        (f"aiconfigurator/{name}.csv", AIC.format(name), None)
        for name in (
            "gemm_bf16_a100_sxm", "gemm_bf16_h100_sxm", "gemm_fp8_h100_sxm", "context_attention_a100_sxm",
            "context_attention_h100_sxm", "generation_attention_a100_sxm", "generation_attention_h100_sxm",
            "mla_context_a100_trtllm", "mla_module_dsv3_vllm", "moe_a100_vllm", "moe_h100_vllm", "nccl",
            "vllm_custom_allreduce",
        )
    ),
    *((f"vidur/layer_ops_{gpu}.csv", VIDUR.format(f"layer_ops of {gpu}"), None) for gpu in ("a100", "a40", "h100")),
    ("vidur/collectives.csv", VIDUR.format("collectives of one node"), None),
    *(
        (f"llmservingsim/vllm019_{name}", SIM.format(name), "vllm-0.19.0")
        for name in (
            "dense_ops.csv", "chunked_prefill_attention.csv", "decode_attention.csv", "mixed_attention.csv.gz",
        )
    ),
)  # fmt: skip
#: Which stacks are packaged; the tables hold further versions of NCCL and of vLLM's all-reduce.
STACKS = {
    "a100-sxm-80gb": ("vllm-0.14.0", "vllm-0.14.0 eager", "vidur", "trtllm-1.0.0", "nccl-2.27.3"),
    "h100-sxm": ("vllm-0.24.0", "vllm-0.24.0 eager", "vidur", "nccl-2.27.3"),
    "a40": ("vidur",),
    "rtx-pro-6000-blackwell": ("vllm-0.19.0",),
    "rtx-4090": ("vllm-0.19.0",),
    "b200-sxm": ("vllm-0.24.0", "vllm-0.24.0 eager", "nccl-2.27.3"),
}
PREFIXES = (
    "no row has a cached prefix: chunks over one rest on the form, which tables of RTX boards bear out for"
)
NOTES = {
    ("a100-sxm-80gb", "attention_prefill"): f"{PREFIXES} FlashAttention 2",
    ("h100-sxm", "attention_prefill"): f"{PREFIXES} FlashAttention 2 and nothing does for 3",
    ("a100-sxm-80gb", "mla_prefill"): "attention alone: mla_module has what a module takes besides",
    (
        "h100-sxm",
        "mla_prefill",
    ): "fitted together with mla_module to whole modules, less their products; errors are "
    "the module's; prompts of up to absorbed_tokens attend in the latent space; no row has a cached prefix",
    (
        "h100-sxm",
        "mla_decode",
    ): "fitted together with mla_module_decode to whole modules; errors are the module's; "
    "compute_share is that of attention_prefill",
    (
        "h100-sxm",
        "mla_decode_fp8_cache",
    ): "as mla_decode, where the cache is fp8: arithmetic stays in 16 bits",
    (
        "h100-sxm",
        "moe_fp8",
    ): "block-scaled fp8 in Triton; balanced rows of 256 experts are taken to reach half of them",
}
DATE = "2026-11-29"
TARGET = Path(__file__).resolve().parents[2] / "hardware" / "efficiency"


def points_of(folder: Path) -> list[Points]:
    """Return the runs of the packaged stacks."""
    found = []
    for name, source, stack in TABLES:
        read = read_points(folder / name, Given(stack=stack))
        assert read is not None, name
        found += [
            replace(points, where=source)
            for points in read.points
            if points.stack in STACKS.get(points.gpu.name, ())
        ]
    return found


def noted(one: Calibrated) -> Calibrated:
    """Return a fit with what is to be known of it."""
    return replace(one, fit=replace(one.fit, note=NOTES.get((one.gpu, one.fit.kind))))


def main() -> None:
    """Write one file for each GPU and stack."""
    made = [noted(one) for one in calibrate(points_of(Path(sys.argv[1])))]
    for gpu, stack in sorted({(one.gpu, one.stack) for one in made}):
        fits = {one.fit.kind: one.fit for one in made if (one.gpu, one.stack) == (gpu, stack)}
        (TARGET / file_name(gpu, stack)).write_text(as_toml(Efficiency(gpu, stack, DATE, fits)))


if __name__ == "__main__":
    main()
