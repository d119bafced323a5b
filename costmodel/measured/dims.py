"""Sizes of the models that tables name: from the table itself, a file beside it, or a packaged model."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..data import HARDWARE, package_files
from ..errors import InputError
from ..families import packaged_name, read_model
from ..inputs.model import Attention, Dense
from .points import Read, kept
from .table import Array, Table, read_table

BESIDE = "model_dims.csv"
#: Folder of the packaged tables, which name models that are not packaged.
MEASUREMENTS = "measurements"
COLUMNS = ("n_head", "n_kv_head", "n_embd", "n_expanded_embd", "vocab_size", "use_gated_mlp")


class Dims(NamedTuple):
    """Sizes of a dense model, whole; ``matrices`` of its feed-forward block (3 gated, 2 not)."""

    heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    width: int
    matrices: int
    vocab: int

    def heads_on(self, tp: int) -> int:
        """Query heads of a GPU."""
        return self.heads // tp

    def kv_heads_on(self, tp: int) -> int:
        """KV heads of a GPU: replicated once TP exceeds their number."""
        return max(1, self.kv_heads // tp)

    def splits(self, tp: int) -> bool:
        """Whether ``tp`` GPUs get equal parts, KV heads whole or replicated."""
        shared = self.kv_heads % tp == 0 or tp % self.kv_heads == 0
        return self.heads % tp == 0 and self.width % tp == 0 and shared


def sized(rows: Table, read: Read) -> tuple[Table, Mapping[str, Dims]]:
    """Return the rows of models whose sizes are known and split over their TP, and the sizes; others are left out."""
    known: dict[str, Dims] = {}
    models = rows.texts("model")
    for model in sorted(set(models.tolist())):
        try:
            known[model] = dims_of(model, rows)
        except InputError as error:
            rows = kept(rows, read, rows.texts("model") != model, str(error))
    names, degrees = rows.texts("model").tolist(), tensor_parallel(rows).tolist()
    even = {(name, tp): known[name].splits(int(tp)) for name, tp in set(zip(names, degrees))}
    whole = np.array([even[pair] for pair in zip(names, degrees)], dtype=bool)
    return kept(rows, read, whole, "its TP does not split the model into equal parts"), known


def tensor_parallel(rows: Table) -> Array:
    """Return the TP of each row, 1 where no column says it."""
    return rows.counts("tp") if "tp" in rows else np.ones(len(rows))


def dims_of(model: str, table: Table) -> Dims:
    """Return the sizes of a model: stated beside the table, else beside the packaged tables, else by a packaged model.

    Raises InputError where none is known, or the model is not a dense one with one kind of attention.
    """
    for folder in (Path(table.where).parent, Path(str(package_files(HARDWARE))) / MEASUREMENTS):
        stated = _beside(folder / BESIDE).get(model.lower())
        if stated:
            return stated
    return _packaged(model)


def _beside(path: Path) -> dict[str, Dims]:
    try:
        changed = path.stat().st_mtime_ns
    except OSError:
        return {}
    return _stated(path, changed)


@lru_cache(maxsize=64)
def _stated(path: Path, changed: int) -> dict[str, Dims]:
    """Sizes that a file states, read once until it changes."""
    table = read_table(path)
    heads, kv_heads, hidden, width, vocab = (table.counts(name) for name in COLUMNS[:5])
    gated = table.texts(COLUMNS[5])
    return {
        name.lower(): Dims(
            int(heads[i]), int(kv_heads[i]), int(hidden[i] / heads[i]), int(hidden[i]), int(width[i]),
            3 if gated[i].lower() == "true" else 2, int(vocab[i]),
        )
        for i, name in enumerate(table.texts("model"))
    }  # fmt: skip


@lru_cache(maxsize=64)
def _packaged(name: str) -> Dims:
    known = packaged_name(name.strip())
    if known is None:
        raise InputError(f"the sizes of {name!r} are not known: no packaged model and no {BESIDE} says them")
    model = read_model(known)
    blocks = [block for layer in model.layers for block in layer.blocks]
    mixers = {block for block in blocks if isinstance(block, Attention)}
    dense = {(block.width, block.matrices) for block in blocks if isinstance(block, Dense)}
    if len(mixers) != 1 or len(dense) != 1 or len(blocks) != 2 * len(model.layers):
        raise InputError(f"{name} is not a dense model of equal layers")
    (mixer,), ((width, matrices),) = mixers, dense
    return Dims(mixer.heads, mixer.kv_heads, mixer.head_dim, model.hidden, width, matrices, model.vocab)
