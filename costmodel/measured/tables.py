"""Which table is which: each kind of measurements by the columns that it needs."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from pathlib import Path
from typing import NamedTuple

from ..errors import InputError
from . import attention, collective, dims, gemm, layer_ops, mla, moe
from .points import Given, Read
from .table import Table, read_table


class TableKind(NamedTuple):
    """A kind of table: the kinds of validation it serves, the columns it has, its reader, and columns it has not."""

    kinds: tuple[str, ...]
    columns: tuple[str, ...]
    read: Callable[[Table, Given], Read]
    never: tuple[str, ...] = ()

    def holds(self, columns: Container[object]) -> bool:
        """Say whether a table with these columns is of this kind."""
        return all(name in columns for name in self.columns) and not any(n in columns for n in self.never)


#: In this order: the first whose columns are all there is meant.
TABLES = (
    TableKind(("mixed_attention",), ("prefill_chunk", "n_decode"), attention.read_mixed),
    TableKind(("chunked_attention",), ("prefill_chunk",), attention.read_chunked),
    TableKind(("generation_attention",), ("n_decode", "kv_decode"), attention.read_generation),
    TableKind(("generation_attention",), ("batch_size", "kv_len", "num_heads"), attention.read_generation),
    TableKind(("mla",), ("num_heads", "batch_size", "isl", "step"), mla.read, never=attention.KV_HEADS),
    TableKind(("context_attention",), ("batch_size", "isl", "num_heads"), attention.read_context),
    TableKind(("moe",), ("num_tokens", "hidden_size", "inter_size", "topk", "num_experts"), moe.read),
    TableKind(("gemm",), gemm.COLUMNS, gemm.read),
    TableKind(("layer_ops", "elementwise"), ("model", "tp", "layer"), layer_ops.read),
    TableKind(("layer_ops", "elementwise"), ("model", "tp", "num_tokens"), layer_ops.read),
    TableKind(("collective",), ("num_gpus", "message_size"), collective.read),
    TableKind(("collective",), ("num_gpus", "message_size_elems_or_bytes"), collective.read),
    TableKind(("collective",), ("num_gpus", "bytes"), collective.read),
    TableKind(("collective",), ("num_workers", "bytes"), collective.read),
)
OPERATOR_KINDS = tuple(dict.fromkeys(kind for table in TABLES for kind in table.kinds))
_SUFFIXES = (".csv", ".csv.gz")


def kind_of(table: Table) -> TableKind | None:
    """Return which kind a table is by its columns, None where it is none."""
    return next((kind for kind in TABLES if kind.holds(table)), None)


def files_of(paths: Iterable[str | Path]) -> list[tuple[Path, bool]]:
    """Return files, and whether each was named itself; a folder stands for every table of measurements below it.

    Raises InputError for a folder without tables.
    """
    found: list[tuple[Path, bool]] = []
    for given in paths:
        path = Path(given)
        if not path.is_dir():
            found.append((path, True))
            continue
        tables = (file for file in path.rglob("*") if file.name.endswith(_SUFFIXES))
        inside = sorted(file for file in tables if file.name != dims.BESIDE)
        if not inside:
            raise InputError("holds no .csv or .csv.gz file", where=str(path))
        found += [(file, False) for file in inside]
    return found


def read_points(path: Path, given: Given) -> Read | None:
    """Return the points of a file, None where its columns are of no kind of operator."""
    table = read_table(path)
    kind = kind_of(table)
    return None if kind is None else kind.read(table, given)
