"""How many bytes the KV cache of a sequence takes, and what fits on the GPUs of an instance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..answer import About
from ..errors import DoesNotFitError, InputError
from ..formulas.kv import kv_bytes_latent_expanded
from ..inputs.hardware import Gpu
from ..inputs.model import LatentAttention, Model
from ..memory.fewest import Layouts
from ..memory.kv import LATENT_LAYOUTS, KvRow, bytes_per_token, check_cache, kv_bytes, state_dtype_bytes
from ..memory.parallelism import Parallelism
from ..memory.settings import EngineSettings
from ..memory.stages import pipeline_stages
from .capacity import Capacity, capacity_of, fewest_of, used_dtype
from .inputs import as_gpu, as_model, check_whole, context_warnings, kv_dtype_of, model_source

UNROUNDED = "rounding to blocks: pass --hardware for an engine's"
SCHEMA = "costmodel.kv/1"
#: Asks for all engines side by side.
EVERY, ENGINES = "all", ("vllm", "sglang", "trtllm")


@dataclass(frozen=True)
class StageRow:
    """One pipeline stage: its layers, and on each of its GPUs the bytes of a token and of the sequence."""

    stage: int
    layers: int
    kv_bytes_per_token_per_gpu: float
    kv_bytes_per_gpu: int


@dataclass(frozen=True)
class KvAnswer:
    """KV bytes of one sequence (see :class:`costmodel.memory.kv.KvBytes`), layers by kind, and what fits.

    Bytes per GPU are those of the largest pipeline stage; ``kv_bytes_unwindowed`` what an engine holds
    that keeps windowed layers in full; ``kv_bytes_per_token_expanded`` what latent attention would take if
    every head's keys and values were cached (null for other models). ``does_not_fit`` says of each engine
    asked that has no room for any KV how many bytes are missing. ``fewest`` answers ``users``.
    """

    schema: str
    model: str
    tokens: int
    tp: int
    pp: int
    ep: int
    dp_attention: int
    kv_dtype: str
    kv_bytes_per_token: int
    kv_bytes_per_token_all_layers: int
    fixed_bytes_per_sequence: int
    kv_bytes: int
    kv_bytes_per_token_per_gpu: float
    kv_bytes_per_gpu: int
    kv_bytes_unwindowed: int
    kv_bytes_per_token_expanded: int | None
    kv_bytes_per_token_expanded_reason: str | None
    replication: float
    layers: tuple[KvRow, ...]
    stages: tuple[StageRow, ...]
    capacity: Capacity | None
    capacity_reason: str | None
    engines: tuple[Capacity, ...]
    does_not_fit: tuple[str, ...]
    users: int | None
    fewest: tuple[Layouts, ...] | None
    fewest_reason: str | None
    about: About

    @property
    def answered(self) -> bool:
        """Whether what was asked fits: the users in some layout, or one such sequence on these GPUs."""
        if self.users is not None:
            return bool(self.fewest)
        pools = self.engines or ((self.capacity,) if self.capacity else ())
        return any(pool.largest_batch for pool in pools) if pools else not self.does_not_fit


def ask_kv(
    model: Model | str,
    tokens: int,
    *,
    tp: int | None = None,
    pp: int | None = None,
    ep: int | None = None,
    dp_attention: int | None = None,
    pp_layers: Sequence[int] | None = None,
    dtype: str | None = None,
    kv_dtype: str | None = None,
    hardware: Gpu | str | Path | Sequence[Gpu | str | Path] | None = None,
    engine: EngineSettings | None = None,
    max_model_len: int | None = None,
    users: int | None = None,
) -> KvAnswer:
    """Return the KV bytes of a sequence of ``tokens`` tokens; with ``hardware``, how many of them fit.

    Several GPUs are those of one pipeline stage each. ``engine`` (default: vLLM) says whose rules and
    overheads size the pool; with its ``pool_bytes`` no hardware is needed. ``max_model_len`` (default:
    ``tokens``) is the length its log counts sequences by.
    An engine of "all" sizes the pool of each that has room, side by side in ``engines``; ``capacity`` is then
    the first of them.
    ``users`` asks for the fewest GPUs that hold so many sequences of ``tokens`` at once; degrees passed, 1
    too, are kept. Without ``users`` a degree not passed is 1.

    Raises InputError for bad input.
    """
    found = as_model(model)
    check_whole("--tokens", tokens)
    stated = {"tp": tp, "pp": pp, "ep": ep, "dp_attention": dp_attention}
    fixed = {name: degree for name, degree in stated.items() if degree is not None}
    layout = Parallelism(**fixed)
    setting = engine or EngineSettings()
    gpus = _boards(hardware)
    asked = _Asked(
        found, tokens, layout, dtype, kv_dtype_of(found, kv_dtype, dtype), kv_dtype, gpus, pp_layers
    )
    chosen = _chosen(setting)
    stored = asked.stored(chosen[0])
    check_cache(found, stored)
    size = kv_bytes(found, tokens, stored, layout.tp, layout=layout)
    stages = _stages(found, tokens, stored, layout, pp_layers)
    fewest: tuple[Layouts, ...] | None = None
    pools = _Pools()
    if users is not None:
        _check_beside_users(users, gpus, setting, max_model_len, pp_layers)
        fewest, about = fewest_of(found, gpus[0], users, tokens, stored, dtype, setting, fixed)
    else:
        if gpus or setting.pools:
            pools = _sized(asked, chosen, _length(tokens, max_model_len))
        about = pools.about
    capacity = pools.engines[0] if pools.engines else None
    expanded = _expanded(found)
    return KvAnswer(
        schema=SCHEMA,
        model=found.name,
        tokens=tokens,
        tp=layout.tp,
        pp=layout.pp,
        ep=layout.ep,
        dp_attention=layout.dp_attention,
        kv_dtype=stored,
        kv_bytes_per_token=size.kv_bytes_per_token,
        kv_bytes_per_token_all_layers=size.kv_bytes_per_token_all_layers,
        fixed_bytes_per_sequence=size.fixed_bytes_per_sequence,
        kv_bytes=size.kv_bytes,
        kv_bytes_per_token_per_gpu=max(stage.kv_bytes_per_token_per_gpu for stage in stages),
        kv_bytes_per_gpu=max(stage.kv_bytes_per_gpu for stage in stages),
        kv_bytes_unwindowed=_unwindowed(found, tokens, stored),
        kv_bytes_per_token_expanded=expanded,
        kv_bytes_per_token_expanded_reason=None if expanded else "the model has no latent attention (MLA)",
        replication=size.replication,
        layers=size.rows,
        stages=stages,
        capacity=capacity,
        capacity_reason=None if capacity else "; ".join(pools.refusals) or _why_none(users),
        engines=pools.engines if len(chosen) > 1 else (),
        does_not_fit=pools.refusals,
        users=users,
        fewest=fewest,
        fewest_reason=None if users else "no --users were given",
        about=About(
            assumptions=(*_assumptions(found, kv_dtype, stored, layout), *about.assumptions),
            sources=(model_source(found), *about.sources),
            not_modelled=about.not_modelled or (() if pools.refusals else (UNROUNDED,)),
            warnings=(*context_warnings(found, tokens), *about.warnings),
        ),
    )


@dataclass(frozen=True)
class _Asked:
    """What is asked of every engine: the model, its length and layout, dtypes and GPUs."""

    model: Model
    tokens: int
    layout: Parallelism
    dtype: str | None
    named: str
    kv_dtype: str | None
    gpus: tuple[Gpu, ...]
    split: Sequence[int] | None

    def stored(self, setting: EngineSettings) -> str:
        """Dtype or layout in which an engine keeps the cache."""
        gpu = self.gpus[0] if self.gpus else None
        return used_dtype(self.model, self.named, setting, asked=self.kv_dtype, gpu=gpu)


@dataclass(frozen=True)
class _Pools:
    """The pool of each engine that has room, why the others have none, and what the figures rest on."""

    engines: tuple[Capacity, ...] = ()
    refusals: tuple[str, ...] = ()
    about: About = field(default_factory=About)


def _length(tokens: int, max_model_len: int | None) -> int:
    """The length that logs count sequences by, at least that of the sequence asked."""
    length = tokens if max_model_len is None else max_model_len
    check_whole("--max-model-len", length)
    if length < tokens:
        raise InputError(f"--max-model-len {length:,}: engines refuse sequences of {tokens:,} tokens then")
    return length


def _chosen(setting: EngineSettings) -> list[EngineSettings]:
    """The engine asked for, or all of them."""
    if setting.engine != EVERY:
        return [setting]
    if setting.version:
        raise InputError("--engine-version belongs to one engine: pass --engine by name")
    return [replace(setting, engine=name) for name in ENGINES]


def _check_beside_users(
    users: int,
    gpus: Sequence[Gpu],
    setting: EngineSettings,
    max_model_len: int | None,
    split: Sequence[int] | None,
) -> None:
    """Refuse what --users cannot take into account."""
    check_whole("--users", users)
    refused = {
        "--users asks for the fewest GPUs: pass --hardware": not gpus,
        "--users compares layouts of one GPU: pass --hardware once": len(gpus) > 1,
        "--users compares layouts under one engine: pass --engine by name": setting.engine == EVERY,
        "--max-model-len: no effect beside --users, which counts sequences of --tokens": max_model_len,
        "--pp-layers: no effect beside --users, which splits layers evenly": split,
        "--kv-pool: no effect beside --users, which sizes the pool of each layout": setting.pools,
    }
    problems = [text for text, applies in refused.items() if applies]
    if problems:
        raise InputError(problems)


def _sized(asked: _Asked, chosen: Sequence[EngineSettings], length: int) -> _Pools:
    """Size the pool of each engine. Where one has room, those that have none are warned of."""
    found: list[Capacity] = []
    parts: list[About] = []
    refusals: list[str] = []
    for setting in chosen:
        stored = asked.stored(setting)
        try:
            capacity, about = capacity_of(
                asked.model, asked.gpus, asked.layout, asked.tokens, length, stored, asked.dtype, setting,
                split=asked.split,
            )  # fmt: skip
        except DoesNotFitError as error:
            refusals.append(str(error))
            continue
        found.append(capacity)
        parts.append(about)
    if found:
        parts.append(About(warnings=tuple(refusals)))
    return _Pools(tuple(found), tuple(refusals), _together(parts))


def _together(parts: Sequence[About]) -> About:
    """What several engines' answers rest on, each line once."""
    return About(
        *(
            tuple(dict.fromkeys(line for part in parts for line in getattr(part, name)))
            for name in ("assumptions", "sources", "not_modelled", "warnings")
        )
    )


def _boards(hardware: Gpu | str | Path | Sequence[Gpu | str | Path] | None) -> tuple[Gpu, ...]:
    """Return the GPUs: one for all stages, or one each."""
    if hardware is None:
        return ()
    if isinstance(hardware, Gpu | str | Path):
        return (as_gpu(hardware),)
    return tuple(as_gpu(each) for each in hardware)


def _why_none(users: int | None) -> str:
    return "no --hardware (or --kv-pool) was given" if users is None else "--users asks for layouts instead"


def _stages(
    model: Model, tokens: int, kv_dtype: str, layout: Parallelism, split: Sequence[int] | None
) -> tuple[StageRow, ...]:
    if split is not None and layout.pp == 1:
        raise InputError("--pp-layers splits pipeline stages: pass --pp, too")
    rows = []
    for stage in pipeline_stages(model, layout.pp, split):
        one, two, all_of = (
            kv_bytes(stage.model, count, kv_dtype, layout.tp, layout=_flat(layout)).kv_bytes_per_gpu
            for count in (10**8, 10**8 + 1, tokens)
        )
        rows.append(StageRow(stage.index + 1, stage.model.layer_count, two - one, all_of))
    return tuple(rows)


def _flat(layout: Parallelism) -> Parallelism:
    """The layout within one stage."""
    return Parallelism(layout.tp, 1, layout.ep, layout.dp_attention)


def _unwindowed(model: Model, tokens: int, kv_dtype: str) -> int:
    states = kv_bytes(model, 0, kv_dtype).kv_bytes
    return states + tokens * sum(bytes_per_token(mixer, kv_dtype) * count for mixer, count in model.mixers)


def _expanded(model: Model) -> int | None:
    latents = [(mixer, count) for mixer, count in model.mixers if isinstance(mixer, LatentAttention)]
    if not latents:
        return None
    each = state_dtype_bytes(model)
    return sum(
        count * int(kv_bytes_latent_expanded(m.heads, m.nope_dim, m.rope_dim, m.v_dim, each))
        for m, count in latents
    )


def _assumptions(model: Model, asked: str | None, stored: str, layout: Parallelism) -> tuple[str, ...]:
    said = []
    if asked is None:
        said.append(f"KV in {stored}{_why_stored(model, stored)}")
    elif stored != asked and stored in LATENT_LAYOUTS:
        said.append(
            f"--kv-dtype {asked} is kept as {stored}: scales beside the latent, its rotary key 16 bits wide"
        )
    if any(isinstance(mixer, LatentAttention) and mixer.indexer for mixer, _ in model.mixers):
        said.append(
            "of a token and layer, 132 B are the indexer's key, in fp8 whatever the dtype of the cache"
        )
    spread = layout.attention_tp
    if spread > 1 and any(isinstance(mixer, LatentAttention) for mixer, _ in model.mixers):
        said.append(f"the latent (MLA) is whole on each of the {spread} GPUs")
    if layout.dp_attention > 1:
        said.append(f"a sequence lives on one of {layout.dp_attention} groups of {spread} GPUs")
    return (*said, *model.notes)


def _why_stored(model: Model, stored: str) -> str:
    """Why the cache has this dtype, where none was asked for and the checkpoint says."""
    if model.kv_dtype and stored in (model.kv_dtype, "fp8_ds_mla"):
        return ", as the checkpoint says"
    if stored != model.wide_dtype:
        return ""
    return ", after the dtype of the weights" + (
        "" if model.weight_dtype == model.wide_dtype else " that are not quantised"
    )
