"""Sizes of the models that tables name: from the table itself, a file beside it, or a packaged model."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ..errors import InputError
from ..families import packaged_models, read_model
from ..inputs.model import Attention, Dense
from .table import Table, read_table

BESIDE = "model_dims.csv"
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


def dims_of(model: str, table: Table) -> Dims:
    """Return the sizes of a model: stated beside the table, else those of the packaged model.

    Raises InputError where neither is known, or the model is not a dense one with one kind of attention.
    """
    stated = _beside(table.where).get(model.lower())
    return stated or _packaged(model)


@lru_cache(maxsize=64)
def _beside(where: str) -> dict[str, Dims]:
    path = Path(where).parent / BESIDE
    if not path.is_file():
        return {}
    table = read_table(path)
    heads, kv_heads, hidden, width, vocab = (table.counts(name) for name in COLUMNS[:5])
    gated = table.texts("use_gated_mlp")
    return {
        name.lower(): Dims(
            int(heads[i]), int(kv_heads[i]), int(hidden[i] / heads[i]), int(hidden[i]), int(width[i]),
            3 if gated[i].lower() == "true" else 2, int(vocab[i]),
        )
        for i, name in enumerate(table.texts("model"))
    }  # fmt: skip


@lru_cache(maxsize=64)
def _packaged(name: str) -> Dims:
    wanted = name.strip().lower()
    matches = [
        known for known in packaged_models() if wanted in (known.lower(), known.lower().split("/")[-1])
    ]
    if len(matches) != 1:
        raise InputError(f"the sizes of {name!r} are not known: no packaged model and no {BESIDE} says them")
    model = read_model(matches[0])
    blocks = [block for layer in model.layers for block in layer.blocks]
    mixers = {block for block in blocks if isinstance(block, Attention)}
    dense = {(block.width, block.matrices) for block in blocks if isinstance(block, Dense)}
    if len(mixers) != 1 or len(dense) != 1 or len(blocks) != 2 * len(model.layers):
        raise InputError(f"{name} is not a dense model of equal layers")
    (mixer,), ((width, matrices),) = mixers, dense
    return Dims(mixer.heads, mixer.kv_heads, mixer.head_dim, model.hidden, width, matrices, model.vocab)
