"""KV memory of an instance: what its engine leaves for KV on a GPU, and what a sequence takes of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..memory.capacity import fit
from ..memory.kv import SequenceBytes, sequence_bytes
from ..memory.settings import EngineSettings
from .instance import InstanceKind

GIB = 2**30


@dataclass(frozen=True)
class KvPool:
    """Bytes per GPU for weights and KV, and the bytes per GPU that a sequence of N tokens holds.

    ``kept_bytes`` is what the engine sets aside besides; ``engine`` names it and its version, ``notes`` what
    stands in for what in its data.
    """

    kind: InstanceKind
    weights_bytes: float
    pool_bytes: float
    kept_bytes: float
    memory_share: float
    engine: str = ""
    notes: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    @cached_property
    def sequence(self) -> SequenceBytes:
        """Bytes per GPU of sequences of any length."""
        return sequence_bytes(self.kind.model, self.kind.kv_dtype, self.kind.tp)

    def held_bytes(self, tokens: int) -> int:
        """KV bytes per GPU of a sequence of ``tokens``."""
        return self.sequence.of(tokens)

    def sequences(self, tokens: float) -> float:
        """How many sequences of ``tokens`` fit."""
        return self.pool_bytes / self.held_bytes(max(1, round(tokens)))


def kv_pool(kind: InstanceKind, engine: EngineSettings | None = None) -> KvPool:
    """Return the KV pool of an instance of this kind, as an engine (default: vLLM) sizes it.

    Raises DoesNotFitError, with the bytes missing, when the weights and what the engine keeps leave nothing.
    """
    found = fit(
        kind.model,
        kind.gpu,
        kind.parallelism,
        kv_dtype=kind.kv_dtype,
        dtype=kind.weight_dtype,
        max_model_len=1,
        settings=engine,
    )
    pool, setting = found.worst.pool, found.setting
    return KvPool(
        kind,
        pool.weights.total_bytes,
        pool.pool_bytes,
        pool.kept_bytes,
        setting.memory_share,
        f"{setting.engine.title} {setting.version_text}",
        pool.overheads.notes,
        (*setting.sources, *pool.overheads.sources),
    )
