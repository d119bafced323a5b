"""Measured runs of one operator on one GPU and stack, and what a reader of tables needs to make them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..inputs.hardware import Gpu, gpu_named, packaged_name
from ..operators.work import Work
from .table import Array, Mask, Table, Texts

#: Which dtype a table's word means.
DTYPES = {
    "bfloat16": "bf16", "bf16": "bf16", "float16": "fp16", "fp16": "fp16", "half": "fp16", "fp8": "fp8",
    "fp8_block": "fp8", "fp8_e4m3": "fp8", "float8_e4m3fn": "fp8", "e4m3": "fp8", "int8": "int8", "w8a8": "int8",
}  # fmt: skip
BYTES = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0}


def dtype_of(word: str) -> str | None:
    """Return the dtype that a table's word means, None where it is none of those modelled."""
    return DTYPES.get(word.lower().removeprefix("torch."))


@dataclass(frozen=True)
class Beside:
    """Another operator that a measured time includes, and how often it runs."""

    operator: str
    runs: Any
    work: Work
    dtype: str


@dataclass(frozen=True, eq=False)
class Points:
    """Measured runs of one operator on one GPU and stack: arrays of one length.

    ``keys``: what splits them into fitted and held out (shape, head layout, model, size). ``bound_s``: what no
    hardware can beat, counted from the columns and not by the book. ``hardware``: quantities of each row that the
    GPU does not tell. ``dtype``: of the arithmetic. ``beside``: other operators that the times include, of which
    ``joint`` is fitted together with this one. ``forms``: those to try, where not all of the kind make sense.
    ``only_compared``: runs that no fit sees, as their kernel is another one's.
    ``stated``: what a file of the fit should say besides its parameters.
    """

    kind: str
    operator: str
    gpu: Gpu
    stack: str
    where: str
    work: Work
    seconds: Array
    keys: Texts
    bound_s: Array
    lines: Any
    dtype: str = "bf16"
    regimes: Mapping[str, Mask] = field(default_factory=dict)
    hardware: Mapping[str, Any] = field(default_factory=dict)
    beside: tuple[Beside, ...] = ()
    joint: str | None = None
    only_compared: bool = False
    forms: tuple[str, ...] = ()
    stated: Mapping[str, float] = field(default_factory=dict)
    split: str = ""

    def __len__(self) -> int:
        return len(self.seconds)


@dataclass(frozen=True)
class Skipped:
    """Rows of a table that were not compared, and why."""

    where: str
    rows: int
    why: str


@dataclass
class Read:
    """What was read of a table: points, and rows left out with the reason."""

    points: list[Points] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    def skip(self, table: Table, rows: int, why: str) -> None:
        """Note rows that are left out."""
        if rows:
            self.skipped.append(Skipped(table.where, rows, why))

    def extend(self, other: Read) -> None:
        """Take in what another table gave."""
        self.points += other.points
        self.skipped += other.skipped


@dataclass(frozen=True)
class Given:
    """What the user says of a table that its columns do not: the GPU, the stack."""

    gpu: Gpu | None = None
    stack: str | None = None


_IN_NAME = re.compile(r"(vllm|sglang|trtllm|tensorrt[-_]?llm)[-_]?v?(\d+(?:\.\d+)*)", re.IGNORECASE)
#: The stack of a table that names none.
NOT_STATED = "not stated"
_GPU_COLUMNS = ("gpu", "system", "hardware", "device", "accelerator")
_STACK_COLUMNS = (("framework", "version"), ("engine", "engine_version"), ("backend", "version"))
#: What no prediction goes without, of a GPU.
NEEDED = ("peak_bf16", "memory_bandwidth")


def stacks(table: Table, given: Given, default: str = NOT_STATED) -> Texts:
    """Return the stack of each row: as given, by its columns, by the file's name, else ``default``."""
    if given.stack:
        return np.full(len(table), given.stack)
    if "stack" in table:
        found = table.texts("stack")
        return np.where(found == "", default, found)
    for engine, version in _STACK_COLUMNS:
        if engine in table and version in table:
            return _joined(table.texts(engine), table.texts(version), default)
    if "nccl_version" in table:
        return _joined(np.full(len(table), "nccl"), table.texts("nccl_version"), default)
    if "vllm" in table:
        return _joined(np.full(len(table), "vllm"), table.texts("vllm"), default)
    if "version" in table and "kernel_source" in table:
        engines = [_engine_of(kernel) for kernel in table.texts("kernel_source")]
        return _joined(np.array(engines), table.texts("version"), default)
    found_name = _IN_NAME.search(Path(table.where).name)
    if found_name:
        engine, version = found_name[1].lower(), found_name[2]
        dotted = version if "." in version or len(version) < 3 else f"{version[0]}.{version[1:]}"
        return np.full(len(table), f"{engine}-{dotted}")
    return np.full(len(table), default)


def _engine_of(kernel: str) -> str:
    folded = kernel.lower()
    return next((name for name in ("vllm", "sglang", "trtllm") if name in folded), "kernel")


def _joined(engines: Texts, versions: Texts, default: str) -> Texts:
    named = ["-".join(part for part in pair if part) for pair in zip(np.char.lower(engines), versions)]
    return np.array([name or default for name in named])


def gpus(table: Table, given: Given) -> Texts:
    """Return the GPU column, else what the user said. Raises InputError where neither says."""
    for name in _GPU_COLUMNS:
        if name in table:
            return table.texts(name)
    if given.gpu is not None:
        return np.full(len(table), given.gpu.name)
    table.refuse("no column says the GPU (gpu or system); name it with --hardware")


def gpu_of(name: str, given: Given) -> Gpu:
    """Return the GPU of a cell; the user's, where that has the name or nothing packaged has."""
    if given.gpu is None:
        return gpu_named(name)
    if packaged_name(name) in (packaged_name(given.gpu.name), None):
        return given.gpu
    return gpu_named(name)


def by_gpu_and_stack(
    table: Table,
    given: Given,
    read: Read,
    make: Callable[[Table, Gpu, str], None],
    default: str = NOT_STATED,
) -> None:
    """Call ``make`` with the rows of each GPU and stack; rows of a GPU that is not known are left out."""
    table = table.in_order()
    for (name, stack), keep in table.groups(gpus(table, given), stacks(table, given, default)):
        try:
            gpu = gpu_of(name, given)
            for key in NEEDED:
                gpu.get(key)
        except InputError as error:
            read.skip(table, int(keep.sum()), str(error))
        else:
            make(table.where_true(keep), gpu, stack)


def kept(rows: Table, read: Read, keep: Mask, why: str) -> Table:
    """Return the rows that ``keep`` marks; the others are left out because of ``why``."""
    read.skip(rows, int((~keep).sum()), why)
    return rows if keep.all() else rows.where_true(keep)


def as_keys(names: Texts) -> Texts:
    """Return texts that a list with commas can hold."""
    return np.array([name.replace(",", ";") for name in names.tolist()], dtype=np.str_)


def labels(*columns: Array) -> Texts:
    """Return one text a row from whole numbers: 4096/1024."""
    return np.array(["/".join(f"{value:.0f}" for value in row) for row in zip(*columns)], dtype=np.str_)


def bands(values: Array, name: str, edges: Sequence[float]) -> dict[str, Mask]:
    """Return regimes by value: up to the first edge, between edges, above the last."""
    found: dict[str, Mask] = {}
    low = -np.inf
    for edge in edges:
        first = found == {}
        label = f"{name} <= {edge:,.0f}" if first else f"{name} {low + 1:,.0f}-{edge:,.0f}"
        found[label] = (values > low) & (values <= edge)
        low = edge
    found[f"{name} > {low:,.0f}"] = values > low
    return found
