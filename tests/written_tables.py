"""Tables of measurements that tests write: shapes of every kind, and times from known parameters."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from costmodel.inputs.efficiency import OperatorFit
from costmodel.inputs.hardware import load_gpu
from costmodel.measured.compare import FitsFor
from costmodel.measured.points import Given, Points
from costmodel.measured.predict import predicted
from costmodel.measured.table import read_table
from costmodel.measured.tables import kind_of
from costmodel.operators.catalogue import FORMS

Row = dict[str, Any]
STACK = "mine-1.0"


def write(path: Path, rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None) -> Path:
    """Write rows as CSV, packed where the name says so."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns or list(rows[0]), extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    data = text.getvalue().encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def grid(**values: Sequence[Any]) -> list[Row]:
    """Every combination of values."""
    return [dict(zip(values, row)) for row in itertools.product(*values.values())]


def fit_of(kind: str, form: str, **parameters: float) -> OperatorFit:
    """A fit of made-up parameters."""
    assert set(FORMS[form].fitted) <= set(parameters)
    return OperatorFit(kind, form, parameters, "made up", 1, 1, "none", 0.1, 0.1)


def runs_of(path: Path, gpu: str | None = None) -> list[Points]:
    """The runs of a table."""
    table = read_table(path)
    kind = kind_of(table)
    assert kind is not None
    read = kind.read(table, Given(None if gpu is None else load_gpu(gpu)))
    assert not read.skipped, read.skipped
    return read.points


def timed(
    path: Path,
    rows: Sequence[Row],
    fits: Sequence[OperatorFit],
    *,
    time: str = "latency_ms",
    noise: float = 0.0,
) -> Path:
    """Write rows with the times that forms give for known parameters.

    ``time``: the column, with its unit; wide tables have their own. ``noise``: largest relative deviation, the same
    every time. What is not in ``fits`` is that of the packaged files.
    """
    wide = [name for name in rows[0] if name.endswith("_ms")]
    rows = [dict(row) if wide else {**row, time: 1.0} for row in rows]
    write(path, rows)
    unit = {"ms": 1e-3, "us": 1e-6}[time.rpartition("_")[2]]
    for part in runs_of(path):
        packaged = FitsFor().predicting(part).operators
        known = {**packaged, **{fit.kind: fit for fit in fits}}
        seconds = predicted(part, {kind: replace(fit, borrowed=None) for kind, fit in known.items()})
        for place, (line, value) in enumerate(zip(part.lines.tolist(), seconds.tolist())):
            column = time
            if wide:
                column = (
                    next(n for n, mask in part.regimes.items() if f"{n}_ms" in wide and mask[place]) + "_ms"
                )
            # The golden ratio's multiples spread evenly.
            rows[line - 2][column] = value / unit * (1 + noise * (2 * ((line * 0.618034 + place) % 1) - 1))
    return write(path, rows)


def scaled(path: Path, target: Path, factor: float, rename: Mapping[str, str] | None = None) -> Path:
    """Write a table with every time ``factor`` times as long, under other names of columns where given."""
    table = read_table(path)
    names = rename or {}
    times = [name for name in table.columns if name.endswith(("_ms", "_us"))]
    rows = []
    for place in range(len(table)):
        row = {name: str(cells[place]) for name, cells in table.columns.items()}
        row |= {name: repr(float(row[name]) * factor) for name in times if row[name]}
        rows.append({names.get(name, name): cell for name, cell in row.items()})
    return write(target, rows)


BASE: Row = {"gpu": "h100-sxm", "stack": STACK}
_WIDE = (
    "emb", "input_layernorm", "attn_pre_proj", "attn_rope", "attn_post_proj", "post_attention_layernorm",
    "mlp_up_proj", "mlp_act", "mlp_down_proj", "add",
)  # fmt: skip
_TOKENS = (1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096)
_MODELS = ("meta-llama/Llama-3.1-8B", "Qwen/Qwen3-8B", "Qwen/Qwen3-32B", "mistralai/Mistral-7B-v0.1")


def shapes(kind: str) -> list[Row]:
    """Rows of a kind, without times."""
    return [{**BASE, **row} for row in _SHAPES[kind]()]


def _layouts() -> list[Row]:
    pairs = ((32, 32), (32, 8), (32, 4), (64, 8), (16, 16), (8, 1), (64, 64), (12, 2))
    return [{"num_heads": h, "num_key_value_heads": k, "head_dim": 128} for h, k in pairs]


def _crossed(one: Sequence[Row], other: Sequence[Row]) -> list[Row]:
    return [{**a, **b} for a in one for b in other]


def _gemm() -> list[Row]:
    inner = itertools.product((1024, 2560, 6144, 14336), (1536, 4096, 12288))
    return _crossed(grid(m=_TOKENS), [{"n": n, "k": k} for n, k in inner])


def _module() -> list[Row]:
    heads = (8, 16, 32, 64, 128)
    prompts = grid(phase=("context",), num_heads=heads, batch_size=(1, 4), isl=(1, 16, 128, 512, 2048, 8192))
    decodes = grid(
        phase=("generation",), num_heads=heads, batch_size=(1, 16, 128, 512), step=(64, 1024, 8192)
    )
    return [*({**row, "step": 0} for row in prompts), *({**row, "isl": 1} for row in decodes)]


def _moe() -> list[Row]:
    sizes = ((2048, 1408, 6, 64), (4096, 14336, 2, 8), (2048, 768, 8, 128), (7168, 2048, 8, 256))
    names = ("hidden_size", "inter_size", "topk", "num_experts")
    spread = grid(
        num_tokens=(1, 4, 16, 64, 256, 1024, 4096, 16384), moe_tp_size=(1, 2), moe_ep_size=(1, 4),
        distribution=("balanced", "power_law_1.2"),
    )  # fmt: skip
    return _crossed([dict(zip(names, size)) for size in sizes], spread)


_SHAPES: dict[str, Callable[[], list[Row]]] = {
    "gemm": _gemm,
    "gemm_fp8": lambda: [{**row, "gemm_dtype": "fp8"} for row in _gemm()],
    "context_attention": lambda: _crossed(
        _layouts(), grid(batch_size=(1, 2, 8, 32), isl=(1, 16, 64, 256, 1024, 4096, 16384))
    ),
    "chunked_attention": lambda: grid(
        model=_MODELS[:3], tp=(1, 2), prefill_chunk=(16, 32, 64, 128, 256, 512, 2048),
        kv_prefill=(0, 16, 512, 4096, 32768),
    ),
    "generation_attention": lambda: _crossed(
        _layouts(), grid(batch_size=(1, 4, 16, 64, 256, 1024), kv_len=(2, 64, 256, 1024, 4096, 16384))
    ),
    "mixed_attention": lambda: grid(
        model=_MODELS[:3], tp=(1, 2), prefill_chunk=(16, 64, 256, 1024), kv_prefill=(0, 512, 4096),
        n_decode=(1, 4, 16, 64, 256), kv_decode=(16, 256, 2048, 8192),
    ),
    "mla": lambda: grid(
        num_heads=(8, 16, 32, 64, 128), batch_size=(1, 4, 16), isl=(16, 64, 256, 1024, 4096), step=(0, 1024)
    ),
    "mla_module": _module,
    "mla_module_fp8_cache": lambda: [
        {**row, "kv_cache_dtype": "fp8"} for row in _module() if row["phase"] == "generation"
    ],
    "moe": _moe,
    "collective": lambda: grid(
        op_name=("all_reduce", "all_gather", "reduce_scatter", "alltoall"), num_gpus=(2, 4, 8),
        bytes=tuple(2**power for power in range(8, 31)),
    ),
    "custom_all_reduce": lambda: grid(
        kernel_source=("vLLM_custom_graph",), num_gpus=(2, 4, 8), message_size=tuple(2**p for p in range(6, 22))
    ),
    "layer_ops_wide": lambda: [
        {**row, **{f"{name}_ms": 1.0 for name in _WIDE}}
        for row in grid(model=_MODELS, tp=(1, 2, 4), num_tokens=_TOKENS)
    ],
    "layer_ops_long": lambda: grid(
        model=_MODELS, tp=(1, 2), tokens=_TOKENS,
        layer=("qkv_proj", "o_proj", "gate_up_proj", "down_proj", "layernorm", "act_fn", "rotary_emb", "embedding"),
    ),
}  # fmt: skip
KINDS = tuple(_SHAPES)
