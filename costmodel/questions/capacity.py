"""What fits on the GPUs of an instance, with the arithmetic and the log lines of its engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..answer import About
from ..inputs.hardware import Gpu
from ..inputs.model import LatentAttention, Model
from ..memory.capacity import Fit, fit
from ..memory.engine import parse_version
from ..memory.engine_file import load_engine
from ..memory.fewest import Layouts, at_once, layouts_for
from ..memory.kv import kind_of
from ..memory.logs import log_lines
from ..memory.pages import Plan
from ..memory.parallelism import Parallelism
from ..memory.pool import Factor
from ..memory.settings import EngineSettings, Resolved, resolve
from ..memory.weights import gpu_parameters

TOKENS_MEAN = {
    "group": "whole blocks of one group of layers, times the tokens of a block",
    "concurrency": "max_concurrency x max_model_len",
    "pool": "tokens of the layers that grow, in the smallest pool",
    "blocks": "blocks of the pool, times the tokens of a block",
}


@dataclass(frozen=True)
class StageCapacity:
    """Memory of each GPU of one pipeline stage."""

    stage: int
    hardware: str | None
    layers: int
    parameters: int
    weights_bytes: float | None
    activation_bytes: float | None
    non_torch_bytes: float | None
    kv_pool_bytes: float


@dataclass(frozen=True)
class Capacity:
    """What an instance holds, bytes per GPU of the stage that limits it (``limiting_stage``).

    ``max_concurrency`` counts sequences of ``max_model_len`` as the engine plans for them;
    ``longest_context_tokens`` is the longest sequence that fits and that the model is made for,
    ``longest_held_tokens`` the longest that fits;
    ``largest_batch`` those of the tokens asked, at most as many as it runs at once. What
    ``kv_cache_tokens`` counts differs between engines and versions: ``kv_cache_tokens_mean`` says.
    """

    engine: str
    engine_version: str
    hardware: str
    gpus: int
    memory_bytes: float | None
    memory_share: float
    budget_bytes: float
    weights_bytes: float | None
    activation_bytes: float | None
    non_torch_bytes: float | None
    cuda_graph_bytes: float | None
    cuda_graphs_subtracted: bool
    missing_reason: str | None
    kv_pool_bytes: float
    kv_pool_low_bytes: float | None
    kv_pool_high_bytes: float | None
    block_tokens: int
    kv_cache_blocks: int | None
    kv_cache_tokens: int
    kv_cache_tokens_mean: str
    max_model_len: int
    max_concurrency: float
    longest_context_tokens: int | None
    longest_held_tokens: int | None
    longest_reason: str | None
    largest_batch: int
    block_bytes: float
    layer_groups: int
    sequence_reserved_bytes: float | None
    limiting_stage: int
    stages: tuple[StageCapacity, ...]
    factors: tuple[Factor, ...]
    log_lines: tuple[str, ...]


def used_dtype(
    model: Model, kv_dtype: str, engine: EngineSettings, *, asked: str | None, gpu: Gpu | None = None
) -> str:
    """Return the layout of the cache that an engine makes of a dtype.

    In fp8 the latents of sparse attention (DSA) keep their rotary key wide and have scales: ``fp8_ds_mla``,
    in vLLM and SGLang; not on Blackwell since vLLM 0.18.1. vLLM 0.11 took that layout unless told otherwise.
    Sources: vLLM wheels 0.11.0 to 0.33.0, flashmla_sparse.py and config.py; SGLang 0.5.9, pull request 11309.
    """
    sparse = any(isinstance(mixer, LatentAttention) and mixer.top_k is not None for mixer, _ in model.mixers)
    known = load_engine(engine.engine)
    if not sparse or known.name not in ("vllm", "sglang"):
        return kv_dtype
    version = parse_version(engine.version or known.default_version)
    if known.name == "vllm" and version < (0, 12) and asked in (None, "auto", "fp8"):
        return "fp8_ds_mla"
    blackwell = gpu is not None and gpu.generation.lower() == "blackwell"
    plain = known.name == "vllm" and version >= (0, 18, 1) and blackwell
    return "fp8_ds_mla" if kv_dtype == "fp8" and not plain else kv_dtype


def capacity_of(
    model: Model,
    gpus: Sequence[Gpu],
    layout: Parallelism,
    tokens: int,
    max_model_len: int,
    kv_dtype: str,
    dtype: str | None,
    engine: EngineSettings,
    *,
    split: Sequence[int] | None = None,
) -> tuple[Capacity, About]:
    """Return what fits and what the figures rest on. Raises DoesNotFitError with the bytes missing."""
    held = fit(
        model,
        gpus or None,
        layout,
        kv_dtype=kv_dtype,
        dtype=dtype,
        max_model_len=max_model_len,
        settings=engine,
        split=split,
    )
    return _capacity(held, gpus, tokens), _about(held, gpus, tokens)


def fewest_of(
    model: Model,
    gpu: Gpu,
    users: int,
    tokens: int,
    kv_dtype: str,
    dtype: str | None,
    engine: EngineSettings,
    fixed: Mapping[str, int],
) -> tuple[tuple[Layouts, ...], About]:
    """Return the layouts that hold ``users`` sequences of ``tokens``, fewest GPUs first, and their ground."""
    found = layouts_for(
        model, gpu, users, tokens, kv_dtype=kv_dtype, dtype=dtype, settings=engine, fixed=fixed
    )
    setting = resolve(engine, gpu, Parallelism(), towers=bool(model.loaded_extras))
    limit = f", at most {setting.max_num_seqs:,} at once" if setting.max_num_seqs else ""
    said = (
        f"{users:,} sequences of {tokens:,} tokens, all held in GPU memory; several instances share them",
        f"{setting.engine.title} {setting.version_text}{limit}",
        "tried: up to 8 tensor-parallel GPUs, 1, 2, 4 or 8 stages, whole experts where widths do not split, "
        "latents and experts also with one attention group a GPU",
    )
    left_out = ("other processes on the GPU", "whether the links between stages are fast enough")
    return found, About(
        said, setting.sources, left_out, () if found else ("no layout tried holds one such sequence",)
    )


def _capacity(held: Fit, gpus: Sequence[Gpu], tokens: int) -> Capacity:
    setting, pool, plan = held.setting, held.worst.pool, held.worst.plan
    gpu = gpus[pool.stage.index % len(gpus)] if gpus else None
    known = gpu is not None and not setting.asked.pools
    limits = [each for each in (held.longest, held.model.max_context) if each is not None]
    parts = known and setting.engine.budget != "static_pool"
    paged = isinstance(plan, Plan)
    reserved = plan.sequence_blocks(tokens) * plan.block_bytes if paged else None
    return Capacity(
        engine=setting.engine.name,
        engine_version=setting.version_text,
        hardware=f"{gpu.name} {held.layout.label()}" if gpu else held.layout.label(),
        gpus=held.layout.gpus,
        memory_bytes=gpu.memory_bytes if gpu else None,
        memory_share=setting.memory_share,
        budget_bytes=pool.budget_bytes,
        weights_bytes=pool.weights.total_bytes if known else None,
        activation_bytes=pool.overheads.activation_bytes if parts else None,
        non_torch_bytes=pool.overheads.non_torch_bytes if parts else None,
        cuda_graph_bytes=pool.overheads.graph_bytes if parts and setting.engine.tables["graphs"] else None,
        cuda_graphs_subtracted=pool.graphs_subtracted,
        missing_reason=_missing(known, parts, setting),
        kv_pool_bytes=pool.pool_bytes,
        kv_pool_low_bytes=pool.pool_bytes - pool.off_bytes if parts else None,
        kv_pool_high_bytes=pool.pool_bytes + pool.off_bytes if parts else None,
        block_tokens=held.block_tokens,
        kv_cache_blocks=held.blocks,
        kv_cache_tokens=held.tokens,
        kv_cache_tokens_mean=TOKENS_MEAN[str(setting.rules["kv_tokens"])],
        max_model_len=held.max_model_len,
        max_concurrency=held.concurrency,
        longest_context_tokens=min(limits) if limits else None,
        longest_held_tokens=held.longest,
        longest_reason=None
        if held.longest is not None
        else "no layer grows beyond its window: any length fits",
        largest_batch=at_once(held, tokens),
        block_bytes=plan.block_bytes,
        layer_groups=len(plan.groups) if isinstance(plan, Plan) else 1,
        sequence_reserved_bytes=reserved,
        limiting_stage=pool.stage.index + 1,
        stages=tuple(_stage(held, gpus, each, known, parts) for each in range(len(held.stages))),
        factors=pool.factors,
        log_lines=log_lines(held, weights_known=known),
    )


def _missing(known: bool, parts: bool, setting: Resolved) -> str | None:
    if not known:
        return "the pool was given: weights and overheads were not looked at"
    if not parts:
        return (
            f"{setting.engine.title} keeps activations and graphs outside its share; their size is not known"
        )
    return None


def _stage(held: Fit, gpus: Sequence[Gpu], place: int, known: bool, parts: bool) -> StageCapacity:
    pool = held.stages[place].pool
    return StageCapacity(
        stage=place + 1,
        hardware=gpus[place % len(gpus)].name if gpus else None,
        layers=pool.stage.model.layer_count,
        parameters=gpu_parameters(pool.stage, held.layout),
        weights_bytes=pool.weights.total_bytes if known else None,
        activation_bytes=pool.overheads.activation_bytes if parts else None,
        non_torch_bytes=pool.overheads.non_torch_bytes if parts else None,
        kv_pool_bytes=pool.pool_bytes,
    )


def _about(held: Fit, gpus: Sequence[Gpu], tokens: int) -> About:
    setting, pool = held.setting, held.worst.pool
    said = [f"{setting.engine.title} {setting.version_text} on {held.layout.label()}"]
    if setting.defaults:
        said.append("its defaults: " + ", ".join(setting.defaults))
    if held.max_model_len == tokens:
        said.append(f"max_model_len = the {tokens:,} tokens asked")
    if held.layout.dp_attention > 1:
        said.append("blocks, tokens and max_concurrency are those of one attention group, as it logs them")
        within = "within each group" if setting.rules.get("dense_in_groups") else "over all GPUs"
        said.append(f"dense blocks and shared experts split {within}, experts over all GPUs")
    sources = []
    for gpu in dict.fromkeys(gpus):
        key = "memory_visible" if gpu.memory_kind == "visible" else "memory"
        sources.append(f"{gpu.name} {key}, {gpu.values[key].text}: {gpu.values[key].source}")
        if gpu.memory_kind == "nominal":
            said.append(f"{gpu.name}: nominal memory, of which an engine sees 1 to 8 % less")
    sources += [*setting.sources, *pool.overheads.sources]
    said += _outside(held, gpus)
    left_out = ("other processes on the GPU", "speculative decoding, LoRA and prefix-cache copies of states")
    return About(tuple(said), tuple(dict.fromkeys(sources)), left_out, _warnings(held, tokens))


def _outside(held: Fit, gpus: Sequence[Gpu]) -> list[str]:
    """What lies outside the start-up logs that the engine's file was compared with."""
    entry = held.setting.engine.latest("validated", held.setting.version)
    if not gpus or held.setting.asked.pools:
        return []
    if entry is None:
        return [
            f"nothing of {held.setting.engine.title}'s memory was compared with enough logs to state an error"
        ]
    layout, range_of = held.layout, entry.values
    beyond = [gpu.name for gpu in dict.fromkeys(gpus) if gpu.name not in range_of["gpu"]]
    beyond += [f"TP{layout.tp}"] if layout.tp > range_of["tp"] else []
    beyond += [f"PP{layout.pp}"] if layout.pp > range_of["pp"] else []
    beyond += ["expert parallelism"] if layout.ep > 1 else []
    beyond += ["data-parallel attention"] if layout.dp_attention > 1 else []
    kinds = {kind_of(mixer) for mixer, _ in held.model.mixers}
    beyond += sorted(kinds - set(range_of["kinds"]))
    worst = f"KV tokens within {range_of['worst_kv_tokens']:.1%} of its logs at worst".replace("%", " %")
    if not beyond:
        return [f"{worst} (costmodel validate memory)"]
    return [f"{worst} (costmodel validate memory), but none of them has {', '.join(beyond)}"]


def _warnings(held: Fit, tokens: int) -> tuple[str, ...]:
    found = list(held.worst.pool.overheads.notes)
    if held.longest is not None and held.longest < held.max_model_len:
        refuses = held.setting.engine.name == "vllm"
        found.append(
            f"one sequence of {held.max_model_len:,} tokens does not fit: the longest is {held.longest:,} tokens; "
            + (
                "vLLM refuses to start with that max_model_len"
                if refuses
                else "the engine rejects longer requests"
            )
        )
    plan = held.worst.plan
    if isinstance(plan, Plan) and len(plan.groups) > 1:
        reserved = plan.sequence_blocks(tokens) * plan.block_bytes
        least = plan.sequence_blocks(1) * plan.block_bytes
        if least > reserved / 2:
            found.append(
                f"even the shortest sequence takes {plan.sequence_blocks(1)} blocks of {plan.block_tokens} "
                f"tokens: at most {held.worst.units // plan.sequence_blocks(1):,} sequences whatever their length"
            )
    return tuple(found)
