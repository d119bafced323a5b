"""What fits: KV tokens, blocks, concurrency and lengths of an instance, as its engine would report them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from ..errors import DoesNotFitError, InputError
from ..inputs.hardware import Gpu
from ..inputs.model import LatentAttention, Model
from ..inputs.parameters import loaded_dtype, storage_of
from .kv import check_cache
from .pages import Plan, plan_pages
from .parallelism import Parallelism, check_tp
from .pool import GIB, Pool, given_pool, stage_pool
from .settings import EngineSettings, Resolved, resolve
from .slots import Slots, plan_slots
from .stages import pipeline_stages

MOST_TOKENS = 10**9
T = TypeVar("T")


@dataclass(frozen=True)
class StageFit:
    """What one stage holds: its pool, how it is cut, and the blocks or pages in it."""

    pool: Pool
    plan: Plan | Slots
    units: int

    def concurrency(self, tokens: int) -> float:
        """Sequences of ``tokens`` tokens that fit in this stage."""
        return self.plan.concurrency(self.units, tokens)


@dataclass(frozen=True)
class Fit:
    """What an instance holds. ``worst`` is the stage that limits it.

    ``blocks`` and ``tokens`` are the engine's own figures (None: it reports none); ``concurrency`` is how
    many sequences of ``max_model_len`` tokens fit, ``longest`` the longest single sequence (None: any). With several
    attention groups they are those of one group, as each logs its own.
    """

    model: Model
    layout: Parallelism
    kv_dtype: str
    setting: Resolved
    stages: tuple[StageFit, ...]
    worst: StageFit
    max_model_len: int
    blocks: int | None
    block_tokens: int
    tokens: int
    concurrency: float
    longest: int | None

    def sequences(self, tokens: int) -> int:
        """Sequences of ``tokens`` tokens that all groups hold at once, whatever the batch limit."""
        return int(_concurrency(self.stages, tokens)) * self.layout.dp_attention


def fit(
    model: Model,
    gpu: Gpu | Sequence[Gpu] | None,
    layout: Parallelism,
    *,
    kv_dtype: str,
    dtype: str | None = None,
    max_model_len: int,
    settings: EngineSettings | None = None,
    split: Sequence[int] | None = None,
) -> Fit:
    """Return what fits on the GPUs of ``layout``; without a ``gpu``, in the pool that the settings state.

    Several GPUs stand for one pipeline stage each; the first of them decides the engine's defaults.

    Raises DoesNotFitError, with the bytes missing, where a stage has nothing left for KV; InputError for a
    layout that does not divide the model, an unknown dtype, engine or version.
    """
    check_tp(model, layout.tp, layout)
    check_cache(model, kv_dtype)
    gpus = () if gpu is None else (gpu,) if isinstance(gpu, Gpu) else tuple(gpu)
    setting = resolve(
        settings or EngineSettings(), gpus[0] if gpus else None, layout, towers=bool(model.loaded_extras)
    )
    allowed = setting.engine.kv_dtypes
    if kv_dtype not in allowed:
        raise InputError(f"--kv-dtype {kv_dtype}: {setting.engine.title} has {', '.join(allowed)}")
    stages = pipeline_stages(model, layout.pp, split)
    if setting.asked.pools:
        given = _one_each("--kv-pool", setting.asked.pools, layout)
        pools = [given_pool(stage, size) for stage, size in zip(stages, given)]
    elif not gpus:
        raise InputError("what fits depends on the GPU: pass --hardware, or the pool with --kv-pool")
    else:
        storage = storage_of(model, dtype or loaded_dtype(model))
        boards = _one_each("--hardware", gpus, layout)
        pools = [stage_pool(stage, storage, layout, board, setting) for stage, board in zip(stages, boards)]
        _check_room(model, boards, layout, setting, pools)
    fits = [_stage_fit(model, pool, kv_dtype, layout, setting) for pool in pools]
    worst = min(fits, key=lambda each: (each.concurrency(max_model_len), each.units))
    return _answer(model, layout, kv_dtype, setting, fits, worst, max_model_len)


def _one_each(option: str, given: Sequence[T], layout: Parallelism) -> tuple[T, ...]:
    """Return one for each stage: the same for all, or as many as there are stages."""
    if len(given) == 1:
        return tuple(given) * layout.pp
    if len(given) != layout.pp:
        raise InputError(
            f"{option} was given {len(given)} times; expected once, or once for each of {layout.pp} stages"
        )
    return tuple(given)


def _check_room(
    model: Model, gpus: Sequence[Gpu], layout: Parallelism, setting: Resolved, pools: Sequence[Pool]
) -> None:
    least = min(pools, key=lambda pool: pool.pool_bytes)
    if least.pool_bytes > 0:
        return
    held, kept, gpu = least.weights.total_bytes, least.kept_bytes, gpus[least.stage.index]
    where = f" (stage {least.stage.index + 1} of {layout.pp})" if layout.pp > 1 else ""
    beside = f" and {kept / GIB:.2f} GiB that {setting.engine.title} keeps" if kept else ""
    missing = held + kept - least.budget_bytes
    raise DoesNotFitError(
        f"{model.name} does not fit on {gpu.name} {layout.label()}{where}: {held / GIB:.2f} GiB of "
        f"weights{beside} are {missing / GIB:.2f} GiB ({missing:.0f} bytes) more than the "
        f"{least.budget_bytes / GIB:.2f} GiB that {setting.engine.title} plans with, each GPU; raise --tp or "
        "--pp, take a larger GPU, or a checkpoint or --dtype of fewer bits"
    )


def _stage_fit(model: Model, pool: Pool, kv_dtype: str, layout: Parallelism, setting: Resolved) -> StageFit:
    page = _block_tokens(model, kv_dtype, setting)
    plan: Plan | Slots
    if setting.engine.budget == "share_of_total":
        steps = setting.max_num_batched_tokens
        plan = plan_pages(model, pool.stage, kv_dtype, layout.attention_tp, page, steps, setting.rules)
        return StageFit(pool, plan, plan.blocks(pool.pool_bytes) if plan.block_bytes else MOST_TOKENS)
    plan = plan_slots(pool, kv_dtype, layout, page, setting)
    return StageFit(pool, plan, plan.blocks(plan.pool_bytes) if plan.block_bytes else MOST_TOKENS)


def _block_tokens(model: Model, kv_dtype: str, setting: Resolved) -> int:
    """Tokens of a block: sparse attention's indexer needs 64, and so do vLLM's narrow latents on Hopper."""
    if setting.asked.block_tokens or setting.engine.budget == "share_of_free":
        return setting.block_tokens
    latents = [mixer for mixer, _ in model.mixers if isinstance(mixer, LatentAttention)]
    sparse = any(mixer.top_k is not None for mixer in latents)
    narrow = bool(latents) and kv_dtype not in ("bf16", "fp16", "fp32")
    paged = setting.engine.budget == "share_of_total"
    return 64 if sparse or (narrow and paged) else setting.block_tokens


def _answer(
    model: Model,
    layout: Parallelism,
    kv_dtype: str,
    setting: Resolved,
    fits: Sequence[StageFit],
    worst: StageFit,
    max_model_len: int,
) -> Fit:
    least = min(fits, key=lambda each: each.units)
    plan, blocks = least.plan, least.units
    if blocks < 1:
        raise DoesNotFitError(
            f"{model.name}: {least.pool.pool_bytes / GIB:.3f} GiB are left for KV, less than one block of "
            f"{plan.block_tokens} tokens in every layer"
        )
    unpaged = setting.block_tokens == 1 and setting.engine.budget == "static_pool"
    return Fit(
        model=model,
        layout=layout,
        kv_dtype=kv_dtype,
        setting=setting,
        stages=tuple(fits),
        worst=worst,
        max_model_len=max_model_len,
        blocks=None if unpaged or not plan.block_bytes else blocks,
        block_tokens=plan.block_tokens,
        tokens=plan.tokens(blocks, max_model_len) if plan.block_bytes else 0,
        concurrency=_concurrency(fits, max_model_len),
        longest=_longest(fits),
    )


def _concurrency(stages: Sequence[StageFit], tokens: int) -> float:
    """Sequences that every stage holds: one may have fewer pages, another more states."""
    return min(each.concurrency(tokens) for each in stages)


def _longest(stages: Sequence[StageFit]) -> int | None:
    """Longest sequence that fits, by bisection on whole tokens; None where any length does."""
    if _concurrency(stages, MOST_TOKENS) >= 1:
        return None
    low, high = 0, MOST_TOKENS
    while low < high:
        middle = (low + high + 1) // 2
        if _concurrency(stages, middle) >= 1:
            low = middle
        else:
            high = middle - 1
    return low
