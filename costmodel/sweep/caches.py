"""Sweeps of KV bytes, and of what fits."""

from __future__ import annotations

from typing import Any

from ..memory.settings import EngineSettings
from ..questions.kv import KvAnswer, ask_kv
from .axes import AxisKind
from .kinds import DTYPE, ENGINE, EP, HARDWARE, KV_DTYPE, MODEL, MOST_GPUS, TP
from .pointwise import Pointwise

OF_A_SEQUENCE = (
    "kv_bytes_per_token",
    "kv_bytes",
    "kv_bytes_per_token_per_gpu",
    "kv_bytes_per_gpu",
    "replication",
)
OF_A_POOL = ("kv_pool_bytes", "kv_cache_tokens", "max_concurrency", "largest_batch")


def _ask(*, engine: str | None = None, memory_share: float | None = None, **given: Any) -> KvAnswer:
    setting = EngineSettings(engine=engine or "vllm", memory_share=memory_share)
    return ask_kv(given.pop("model"), given.pop("tokens"), engine=setting, **given)


def _read(answer: KvAnswer, name: str) -> float | None:
    """A figure; none of a pool where no GPU was named or nothing fits."""
    if name in OF_A_SEQUENCE:
        return float(getattr(answer, name))
    return None if answer.capacity is None else float(getattr(answer.capacity, name))


def _refused(answer: KvAnswer) -> str:
    """Why there is no pool where one was asked for; the bytes of the sequence stand."""
    return (
        "; ".join(text.replace("\n", " ") for text in answer.does_not_fit) if answer.capacity is None else ""
    )


QUESTION = Pointwise(
    name="kv",
    outer=(
        MODEL, HARDWARE, TP, AxisKind("--pp", "pp", "Pipeline stages.", "count", 1, MOST_GPUS), EP,
        DTYPE, KV_DTYPE, ENGINE,
    ),
    inner=(
        AxisKind("--gpu-memory-utilization", "memory_share", "Share of memory the engine plans with.", "1", 1e-9, 1),
        AxisKind("--tokens", "tokens", "Tokens of the sequence.", "token", 1),
    ),
    figures=(*OF_A_SEQUENCE, *OF_A_POOL),
    needed={"MODEL": "model", "--tokens": "tokens"},
    ask=_ask,
    read=_read,
    refused=_refused,
)  # fmt: skip
