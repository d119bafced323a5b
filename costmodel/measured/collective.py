"""Tables of collectives: operation, GPUs, size of a message and a time, inside one node."""

from __future__ import annotations

import numpy as np

from ..inputs.hardware import Gpu
from ..operators.work import collective
from .points import BYTES, Given, Points, Read, bands, by_gpu_and_stack, dtype_of, kept
from .table import Array, Table

SPLIT = "every second size held out"
#: Bytes of an element in tables that count elements, by the dtype that a column says; 16 bits where none does.
ELEMENTS = {**BYTES, "fp32": 4.0}
DTYPE_COLUMNS = ("nccl_dtype", "allreduce_dtype", "dtype")
OPERATIONS = {
    "all_reduce": "all_reduce", "allreduce": "all_reduce", "all_gather": "all_gather",
    "allgather": "all_gather", "reduce_scatter": "reduce_scatter", "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all", "all_to_all": "all_to_all", "send_recv": "point_to_point",
    "sendrecv": "point_to_point", "p2p": "point_to_point",
}  # fmt: skip
#: Below this size vLLM takes its own all-reduce; from it on, its tables hold NCCL's.
CUSTOM_BYTES = 8 * 2**20
EDGES = (65_536, 1_048_576, 16_777_216)


def read(table: Table, given: Given) -> Read:
    """Return collectives by GPU, stack and operation. Sizes are bytes, or elements where the column says so."""
    found = Read()
    if "network" in table and "gpu" not in table:
        columns = {**table.columns, "gpu": table.texts("network"), "stack": np.full(len(table), "vidur")}
        table = Table(table.where, columns, table.lines)
    if "devices_per_node" in table:
        inside = table.counts("devices_per_node") == table.counts("num_gpus", "num_workers")
        table = kept(table, found, inside, "crosses nodes: the network's bandwidth is not stated")

    def make(rows: Table, gpu: Gpu, stack: str) -> None:
        if "nvlink_bandwidth" not in gpu.values:
            found.skip(rows, len(rows), f"{gpu.name} has no nvlink_bandwidth")
            return
        rows = kept(rows, found, rows.counts("num_gpus", "num_workers") > 1, "one GPU exchanges nothing")
        if "bytes" not in rows:
            rows = kept(rows, found, _element(rows) > 0, "its dtype is not modelled")
        kernels = rows.texts("kernel_source", default="")
        for (word, kernel), keep in rows.groups(rows.texts("op_name", "op", default="all_reduce"), kernels):
            operation = OPERATIONS.get(word.lower())
            if operation is None:
                found.skip(rows, int(keep.sum()), f"operation {word!r} is not modelled")
                continue
            label = f"{stack} eager" if "eager" in kernel.lower() else stack
            part = rows.where_true(keep)
            own = (_sizes(part) < CUSTOM_BYTES) & ("custom" in kernel.lower())
            for chosen, kind in ((own, "custom_all_reduce"), (~own, operation)):
                if chosen.any():
                    found.points.append(_points(part.where_true(chosen), gpu, label, kind))

    if len(table):
        by_gpu_and_stack(table, given, found, make)
    return found


def _sizes(rows: Table) -> Array:
    if "bytes" in rows:
        return rows.numbers("bytes", above=True)
    return _element(rows) * rows.numbers("message_size_elems_or_bytes", "message_size", above=True)


def _element(rows: Table) -> Array:
    """Bytes of an element of each row; 0 where its dtype is not known."""
    words = {"float": "fp32", "float32": "fp32"}
    texts = rows.texts(*DTYPE_COLUMNS, default="half").tolist()
    sizes = {text: ELEMENTS.get(words.get(text.lower()) or dtype_of(text) or "", 0.0) for text in set(texts)}
    return np.array([sizes[text] for text in texts])


def _points(rows: Table, gpu: Gpu, stack: str, operation: str) -> Points:
    size, gpus = _sizes(rows), rows.counts("num_gpus", "num_workers")
    share = {"all_reduce": 2.0, "custom_all_reduce": 2.0}.get(operation, 1.0) * (gpus - 1) / gpus
    if operation == "point_to_point":
        share = np.ones(len(rows))
    regimes = {
        **{f"{n:.0f} GPUs": gpus == n for n in sorted(set(gpus.tolist()))},
        **bands(size, "bytes", EDGES),
    }
    return Points(
        kind="collective",
        operator=operation,
        gpu=gpu,
        stack=stack,
        where=rows.where,
        work=collective(size, share),
        seconds=rows.seconds(),
        keys=np.array([f"{value:.0f}" for value in size]),
        bound_s=share * size / gpu.get("nvlink_bandwidth"),
        lines=rows.lines,
        regimes={operation: np.ones(len(rows), dtype=bool), **regimes},
        hardware={"tp": gpus},
        split=SPLIT,
    )
