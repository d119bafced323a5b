"""Renew the sampled tables of hardware/measurements: python docs/validation/packaged_samples.py FOLDER

FOLDER holds the published tables (packaged_fits.py names them). Of each, rows of the packaged stacks are drawn by a
checksum of their text, so that the same rows come out whatever their order, and written with the columns that
``costmodel validate`` reads.
"""

from __future__ import annotations

import csv
import gzip
import io
import sys
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from packaged_fits import STACKS, TABLES

from costmodel.errors import InputError
from costmodel.inputs.hardware import gpu_named
from costmodel.measured.copies import CONNECTORS
from costmodel.measured.points import Given, gpus, stacks
from costmodel.measured.table import Table, read_table

TARGET = Path(__file__).resolve().parents[2] / "hardware" / "measurements"
#: Rows to keep of a table, about.
ROWS = 600
#: Columns that say how a row was measured and not what; GPU and stack replace them.
DROPPED = {
    "system", "device", "framework", "version", "nccl_version", "network", "vllm", "max_devices_per_node", "min_ms",
    "max_rank_median_ms", "std_ms", "n_rank_rows", "algbw_GBps", "busbw_GBps", "linear_ms", "nonattn_layer_ms",
    "nccl_dtype", "allreduce_dtype", "mla_dtype", "activated_experts", "tp_size",
}  # fmt: skip
SPLITWISE = "github.com/Mutinifni/splitwise-sim@8f99e7dc (2024-04-25, MIT), medians of data/perf_model.csv"
#: Tables of whole runs, and columns of them that nothing reads.
WHOLE = {
    "splitwise/prefill.csv": SPLITWISE,
    "splitwise/decode.csv": SPLITWISE,
    "llmservingsim/e2e_vllm019_requests.csv": "github.com/casys-kaist/LLMServingSim@5daddb21 (2026-08-21, MIT), "
    "end-to-end runs of vLLM 0.19.0: 300 ShareGPT requests each",
}
DROPPED_WHOLE = ("n", "pmin", "pmax")
#: Sizes of the models that the layer tables name, as they were profiled: heads, KV heads, hidden, feed-forward,
#: vocabulary, gated. github.com/microsoft/vidur@7d475133 (MIT); not every vocabulary is the published one.
DIMS = {
    "Qwen/Qwen-72B": (64, 64, 8192, 24576, 152064, True),
    "codellama/CodeLlama-34b-Instruct-hf": (64, 8, 8192, 22016, 32768, True),
    "internlm/internlm-20b": (40, 40, 5120, 13824, 103168, True),
    "meta-llama/Llama-2-70b-hf": (64, 8, 8192, 28672, 32768, True),
    "meta-llama/Llama-2-7b-hf": (32, 32, 4096, 11008, 32768, True),
    "meta-llama/Meta-Llama-3-70B": (64, 8, 8192, 28672, 128256, True),
    "meta-llama/Meta-Llama-3-8B": (32, 8, 4096, 14336, 128256, True),
    "microsoft/phi-2": (32, 32, 2560, 10240, 51200, False),
}


def sample(table: Table, given: Given) -> Table:
    """Return about ROWS rows of the packaged stacks, under packaged names of GPU and stack."""
    names = gpus(table, given) if "network" not in table else table.texts("network")
    named = np.array([_packaged(str(name)) for name in names])
    stack = stacks(table, given, "vidur") if "network" not in table else np.full(len(table), "vidur")
    known = np.array(
        [any(s == k.removesuffix(" eager") for k in STACKS.get(g, ())) for g, s in zip(named, stack)]
    )
    kept = {name: cells for name, cells in table.columns.items() if name not in DROPPED}
    table = Table(table.where, {**kept, "gpu": named, "stack": stack}, table.lines).where_true(known)
    every = max(1, len(table) // ROWS)
    marks = [zlib.crc32("|".join(row).encode()) % every == 0 for row in zip(*table.columns.values())]
    return table.where_true(np.array(marks))


def _packaged(name: str) -> str:
    try:
        return gpu_named(name).name
    except InputError:
        return ""


def text_of(header: list[str], rows: Iterable[Iterable[str]], source: str) -> bytes:
    """Return a CSV with its source as a remark."""
    out = io.StringIO()
    out.write(f"# {source}; a sample\n")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue().encode()


def _write_copies(folder: Path) -> None:
    """Write the series of KV copies that packaged connectors were fitted to, whole: they have nine sizes each."""
    table = read_table(folder / "kv_transfer/kv_transfer.csv").filled("bytes", "time_ms")
    table = table.where_true(np.isin(table.texts("group"), list(CONNECTORS)))
    columns = ["group", "hardware", "link", "software", "bytes", "time_ms", "theoretical_GBps"]
    rows = zip(*(table.columns[name] for name in columns))
    source = "github.com/kvcache-ai/Mooncake@3b5a594 docs/source/performance"
    (TARGET / "kv_transfer.csv").write_bytes(text_of(columns, rows, source).replace(b"; a sample", b""))


def _write_whole(folder: Path) -> None:
    """Write the tables of whole steps and the log of requests, whole: a step is one of a few, a log one run."""
    for name, source in WHOLE.items():
        table = read_table(folder / name)
        kept = {column: cells for column, cells in table.columns.items() if column not in DROPPED_WHOLE}
        data = text_of(list(kept), zip(*kept.values()), source).replace(b"; a sample", b"")
        stem = name.replace("/", "_").removesuffix(".csv")
        if len(table) > ROWS // 2:
            (TARGET / f"{stem}.csv.gz").write_bytes(gzip.compress(data, 9, mtime=0))
        else:
            (TARGET / f"{stem}.csv").write_bytes(data)


def main() -> None:
    """Write the samples and the sizes of the models they name."""
    folder = Path(sys.argv[1])
    for name, source, stack in TABLES:
        found = sample(read_table(folder / name), Given(stack=stack))
        rows = sorted(zip(*found.columns.values()))
        data = text_of(list(found.columns), rows, source)
        target = TARGET / f"{Path(name).name.split('.')[0]}.csv.gz"
        target.write_bytes(gzip.compress(data, 9, mtime=0))
    _write_copies(folder)
    _write_whole(folder)
    header = ["model", "n_head", "n_kv_head", "n_embd", "n_expanded_embd", "vocab_size", "use_gated_mlp"]
    sizes = [[model, *map(str, values)] for model, values in DIMS.items()]
    (TARGET / "model_dims.csv").write_bytes(
        text_of(header, sizes, "github.com/microsoft/vidur@7d475133 (MIT)")
    )


if __name__ == "__main__":
    main()
