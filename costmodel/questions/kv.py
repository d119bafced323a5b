"""How many bytes the KV cache of a sequence takes, and how many sequences fit on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..answer import About
from ..dtypes import cache_dtype
from ..inputs.efficiency import Efficiency
from ..inputs.hardware import Gpu
from ..inputs.model import LatentAttention, Model
from ..memory.kv import KvRow, kv_bytes
from ..serving.memory import kv_pool
from .inputs import as_instance, as_model, check_whole, context_warnings, kv_dtype_of, model_source

SCHEMA = "costmodel.kv/1"


@dataclass(frozen=True)
class Capacity:
    """What is left for KV, bytes per GPU of an instance; ``max_concurrency`` sequences of the given length.

    ``kv_cache_tokens`` is the number of tokens of those sequences, whole sequences or not.
    """

    hardware: str
    memory_bytes: float
    memory_share: float
    weights_bytes: float
    reserve_bytes: float
    kv_pool_bytes: float
    kv_cache_tokens: int
    max_concurrency: float


@dataclass(frozen=True)
class KvAnswer:
    """KV bytes of one sequence (see :class:`costmodel.memory.kv.KvBytes`), layers by kind, and what fits."""

    schema: str
    model: str
    tokens: int
    tp: int
    kv_dtype: str
    kv_bytes_per_token: int
    kv_bytes_per_token_all_layers: int
    fixed_bytes_per_sequence: int
    kv_bytes: int
    kv_bytes_per_gpu: int
    replication: float
    layers: tuple[KvRow, ...]
    capacity: Capacity | None
    capacity_reason: str | None
    about: About


def ask_kv(
    model: Model | str,
    tokens: int,
    *,
    tp: int = 1,
    dtype: str | None = None,
    kv_dtype: str | None = None,
    hardware: Gpu | str | Path | None = None,
    efficiency: Efficiency | None = None,
) -> KvAnswer:
    """Return the KV bytes of a sequence of ``tokens`` tokens; with ``hardware``, how many of them fit.

    Raises InputError for bad input, NoAnswerError (with the bytes missing) where the weights do not fit.
    """
    found = as_model(model)
    check_whole("--tokens", tokens)
    stored = kv_dtype_of(found, cache_dtype(dtype) if kv_dtype is None and dtype is not None else kv_dtype)
    size = kv_bytes(found, tokens, stored, tp)
    capacity: Capacity | None = None
    sources: tuple[str, ...] = (model_source(found),)
    if hardware is not None:
        capacity, more = _capacity(found, tokens, hardware, tp, dtype, stored, efficiency)
        sources += more
    return KvAnswer(
        schema=SCHEMA,
        model=found.name,
        tokens=tokens,
        tp=tp,
        kv_dtype=stored,
        kv_bytes_per_token=size.kv_bytes_per_token,
        kv_bytes_per_token_all_layers=size.kv_bytes_per_token_all_layers,
        fixed_bytes_per_sequence=size.fixed_bytes_per_sequence,
        kv_bytes=size.kv_bytes,
        kv_bytes_per_gpu=size.kv_bytes_per_gpu,
        replication=size.replication,
        layers=size.rows,
        capacity=capacity,
        capacity_reason=None if capacity else "no --hardware was given",
        about=About(
            assumptions=_assumptions(found, kv_dtype, stored, tp, capacity),
            sources=sources,
            not_modelled=("rounding to blocks", "scales beside a quantised cache", "an engine's own layout"),
            warnings=context_warnings(found, tokens),
        ),
    )


def _capacity(
    model: Model,
    tokens: int,
    hardware: Gpu | str | Path,
    tp: int,
    dtype: str | None,
    kv_dtype: str,
    efficiency: Efficiency | None,
) -> tuple[Capacity, tuple[str, ...]]:
    kind = as_instance(model, hardware, tp=tp, dtype=dtype, kv_dtype=kv_dtype, efficiency=efficiency)
    pool = kv_pool(kind)
    fits = pool.sequences(tokens)
    key = "memory_visible" if kind.gpu.memory_kind == "visible" else "memory"
    memory = kind.gpu.values[key]
    capacity = Capacity(
        hardware=kind.label(),
        memory_bytes=memory.value,
        memory_share=pool.memory_share,
        weights_bytes=pool.weights_bytes,
        reserve_bytes=float(pool.reserve_bytes),
        kv_pool_bytes=pool.pool_bytes,
        kv_cache_tokens=int(fits * tokens),
        max_concurrency=fits,
    )
    return capacity, (f"{kind.gpu.name} {key}, {memory.text}: {memory.source}",)


def _assumptions(
    model: Model, asked: str | None, stored: str, tp: int, capacity: Capacity | None
) -> tuple[str, ...]:
    said = []
    if asked is None:
        said.append(f"KV in {stored}, after the dtype of the weights")
    if tp > 1 and any(isinstance(mixer, LatentAttention) for mixer, _ in model.mixers):
        said.append(f"the latent (MLA) is whole on each of the {tp} GPUs")
    if capacity:
        said.append(
            f"an engine plans with {capacity.memory_share:.0%} of the memory; "
            f"{capacity.reserve_bytes / 2**30:g} GiB a GPU for activations and buffers"
        )
        if any(mixer.window for mixer, _ in model.mixers):
            said.append("the tokens that fit are those of sequences of this length: windows bend the line")
    return (*said, *model.notes)
