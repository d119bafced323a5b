"""What a user may set of an engine; whatever is left out is the engine's own default for the GPU."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from ..inputs.hardware import Gpu
from .engine import Engine, Entry, Version, parse_version
from .engine_file import load_engine
from .parallelism import Parallelism


@dataclass(frozen=True)
class EngineSettings:
    """EngineSettings of an engine; None: its default.

    ``memory_share`` is --gpu-memory-utilization (vLLM), --mem-fraction-static (SGLang) or
    free_gpu_memory_fraction (TensorRT-LLM). Bytes replace what the engine's data would say: of the peak of
    activations, of memory outside torch, of the pools (one for all stages, or one each).
    """

    engine: str = "vllm"
    version: str | None = None
    memory_share: float | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    block_tokens: int | None = None
    activation_bytes: float | None = None
    non_torch_bytes: float | None = None
    pool_bytes: float | tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        share = self.memory_share
        if share is not None and not 0 < share <= 1:
            raise InputError(f"memory share {share!r}: expected a share of the memory above 0 and at most 1")
        for name in ("max_num_seqs", "max_num_batched_tokens", "block_tokens"):
            count = getattr(self, name)
            whole = isinstance(count, int) and not isinstance(count, bool)
            if count is not None and not (whole and count >= 1):
                raise InputError(f"{name} {count!r}: expected a whole number of at least 1")
        sizes = [("activation_bytes", self.activation_bytes), ("non_torch_bytes", self.non_torch_bytes)]
        for name, size in (*sizes, *(("pool_bytes", each) for each in self.pools)):
            if size is not None and not 0 <= size < math.inf:
                raise InputError(f"{name} {size!r}: expected bytes, at least 0")

    @property
    def pools(self) -> tuple[float, ...]:
        """The pools given: none, one for all stages, or one each."""
        given = self.pool_bytes
        return given if isinstance(given, tuple) else () if given is None else (given,)


@dataclass(frozen=True)
class Resolved:
    """An engine at a version on a GPU, all settings filled in; ``chosen`` says which are its defaults."""

    engine: Engine
    version: Version
    rules: Mapping[str, Any]
    memory_share: float
    max_num_seqs: int
    max_num_batched_tokens: int
    block_tokens: int
    defaults: tuple[str, ...]
    sources: tuple[str, ...]
    asked: EngineSettings

    @property
    def version_text(self) -> str:
        """The version as it was asked for, or the engine's default one."""
        return self.asked.version or self.engine.default_version


def resolve(
    settings: EngineSettings, gpu: Gpu | None, layout: Parallelism, *, towers: bool = False
) -> Resolved:
    """Fill in an engine's defaults (``gpu`` None: those of a small one).

    ``towers``: the model has vision or audio towers. Raises InputError for an unknown engine or version.
    """
    engine = load_engine(settings.engine)
    version = parse_version(settings.version or engine.default_version)
    if version > parse_version(engine.newest_version):
        raise InputError(
            f"--engine-version {settings.version}: rules are known up to {engine.title} {engine.newest_version}"
        )
    if engine.budget == "static_pool" and settings.activation_bytes is not None:
        raise InputError(f"--activation: {engine.title}'s budget does not subtract activations")
    rules = engine.rules(version)
    batch = engine.batch(version, gpu.name if gpu else "", gpu.memory_bytes if gpu else 0.0)
    values = rules.values
    share = settings.memory_share
    defaults = []
    if share is None:
        chunk = settings.max_num_batched_tokens
        share = _default_share(engine, values, batch, gpu, layout, towers, chunk) if gpu else 1.0
        if gpu:
            defaults.append(f"{_share_name(engine)} {share:g}")
    seqs, tokens = _batch(settings, batch, defaults)
    if settings.max_num_seqs and seqs > tokens:
        raise InputError(
            f"--max-num-seqs {seqs:,} exceeds the {tokens:,} tokens of a step: raise --max-num-batched-tokens, too"
        )
    return Resolved(
        engine=engine,
        version=version,
        rules=values,
        memory_share=share,
        max_num_seqs=seqs,
        max_num_batched_tokens=tokens,
        block_tokens=settings.block_tokens or engine.block_tokens,
        defaults=tuple(defaults),
        sources=tuple(dict.fromkeys((rules.source, batch.source))),
        asked=settings,
    )


def _batch(settings: EngineSettings, batch: Entry, defaults: list[str]) -> tuple[int, int]:
    values = batch.values
    seqs = settings.max_num_seqs or int(values.get("max_num_seqs", 0))
    tokens = settings.max_num_batched_tokens or int(
        values.get("max_num_batched_tokens", values.get("chunked_prefill_size", 0))
    )
    if not settings.max_num_seqs:
        seqs = min(seqs, tokens)  # vLLM: a step has no more sequences than tokens
    if seqs and not settings.max_num_seqs:
        defaults.append(f"at most {seqs:,} sequences a step")
    if not settings.max_num_batched_tokens:
        defaults.append(f"at most {tokens:,} tokens a step")
    return seqs, tokens


def _share_name(engine: Engine) -> str:
    return {
        "share_of_total": "gpu_memory_utilization",
        "static_pool": "mem_fraction_static",
        "share_of_free": "free_gpu_memory_fraction",
    }[engine.budget]


def _default_share(
    engine: Engine,
    rules: Mapping[str, Any],
    batch: Entry,
    gpu: Gpu,
    layout: Parallelism,
    towers: bool,
    chunk: int | None,
) -> float:
    """The engine's default share; SGLang derives it from what it sets aside for steps and graphs.

    A tower takes a twentieth more; SGLang scales that by its size, which is left out.
    """
    if engine.budget != "static_pool":
        return float(rules["memory_share"])
    mib = 2.0**20
    graphs = batch.values["cuda_graph_max_bs" if layout.tp < 4 else "cuda_graph_max_bs_tp4"]
    reserve = rules["reserve"] + layout.gpus * rules["reserve_per_gpu"]
    reserve += rules["chunk_multiple"] * max(2048, chunk or batch.values["chunked_prefill_size"]) * mib
    reserve += rules["graph_multiple"] * graphs * mib
    if layout.dp_attention > 1:
        each = rules["group_reserve"]
        each += rules["large_group_reserve"] if graphs > rules["large_batch"] else 0.0
        reserve += layout.dp_attention * graphs * each
    if gpu.memory_bytes > 60 * 2**30:
        reserve = max(reserve, rules["least_reserve"])
    share = round(1 - reserve / gpu.memory_bytes, 3) * (rules["tower_factor"] if towers else 1.0)
    if share <= 0:
        raise InputError(f"{engine.title} sets more aside than {gpu.name} has; pass --mem-fraction-static")
    return float(share)
