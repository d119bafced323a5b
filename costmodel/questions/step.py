"""How long a step takes, operator by operator, and what cutting a prompt into chunks costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..answer import About
from ..errors import InputError, unknown
from ..formulas import chunking
from ..formulas.gemm import TILES
from ..formulas.prefill import query_tiles
from ..inputs.efficiency import Efficiency
from ..inputs.hardware import Gpu
from ..inputs.model import LatentAttention, Model, Recurrent
from ..inputs.stack import Stack
from ..memory.kv import bytes_per_gpu
from ..operators.catalogue import FORMS
from ..serving.band import told_of
from ..serving.instance import FitUsed, InstanceKind, fits_used
from ..serving.step import Operator, StepTimes, analyse_step
from ..serving.work import Chunk, local_kv_heads
from .inputs import as_instance, check_whole, context_warnings, model_source

SCHEMA = "costmodel.step/1"
MOST_CHUNKS = 20_000
PHASES = ("prefill", "decode", "mixed")


@dataclass(frozen=True)
class ChunkedPrefill:
    """A prompt cut into ``chunks`` chunks, alone: its time in all, and over that of one step (``ratio``).

    ``reread_bytes``: earlier KV read back, per GPU. Fills are work computed over useful work, at least 1:
    rows of GEMM tiles, and waves of attention tiles on the SMs, both of a full chunk.
    """

    chunk: int
    chunks: int
    time_s: float
    ratio: float
    reread_bytes: float
    tile_fill: float
    sm_fill: float


@dataclass(frozen=True)
class StepAnswer:
    """A step on one GPU of an instance; ``low_s`` .. ``high_s`` from held-out errors, ``bound_s`` physics.

    ``context`` is tokens per running sequence. ``stall_s``: what the chunk of a mixed step adds to the
    ``decode_alone_s`` of the same batch. ``chunked``: the price of chunking the whole prompt.
    """

    schema: str
    model: str
    hardware: str
    phase: str
    tp: int
    ep: int
    dtype: str
    kv_dtype: str
    tokens: int
    cached: int
    batch: int
    context: int
    time_s: float
    low_s: float
    high_s: float
    bound_s: float
    band: dict[str, float]
    flop: float
    bytes: float
    mfu: float
    mbu: float
    operators: tuple[Operator, ...]
    decode_alone_s: float | None
    stall_s: float | None
    chunked: tuple[ChunkedPrefill, ...]
    efficiencies: tuple[FitUsed, ...]
    about: About


@dataclass(frozen=True)
class _Shape:
    """What a step holds: a chunk (or none), whether it ends its prompt, and the running decodes."""

    chunks: tuple[Chunk, ...]
    last: int
    batch: int
    context: int


def ask_step(
    model: Model | str,
    hardware: Gpu | str | Path,
    phase: str,
    *,
    isl: int | None = None,
    cached: int | None = None,
    batch: int | None = None,
    context: int | None = None,
    chunk: Sequence[int] = (),
    tp: int = 1,
    ep: int = 1,
    dtype: str | None = None,
    kv_dtype: str | None = None,
    efficiency: Efficiency | str | Path | None = None,
    stack: Stack | str | Path | None = None,
    expert_skew: float = 0.0,
) -> StepAnswer:
    """Return the time of a step.

    ``prefill``: ``isl`` prompt tokens, ``cached`` of them in the cache, in one step; each ``chunk`` adds
    the price of cutting the prompt. ``decode``: ``batch`` sequences of ``context`` tokens each. ``mixed``:
    both, with one ``chunk`` over ``cached`` tokens (it ends the prompt where ``isl`` says so).

    Raises InputError for values that are missing, wrong or mean nothing in that phase.
    """
    kind = as_instance(
        model, hardware, tp=tp, ep=ep, dtype=dtype, kv_dtype=kv_dtype, efficiency=efficiency, stack=stack,
        expert_skew=expert_skew,
    )  # fmt: skip
    shape = _shape(phase, isl, cached, batch, context, chunk)
    total = shape.batch * shape.context
    step = analyse_step(kind, shape.chunks, last=shape.last, batch=shape.batch, context=total)
    times = StepTimes(kind)
    alone = times.decode(shape.batch, total) if phase == "mixed" else None
    prompt = shape.chunks[0] if shape.chunks else Chunk(0)
    cut = tuple(_chunked(times, prompt, size) for size in chunk) if phase == "prefill" else ()
    longest = max(shape.context, prompt.prefix + prompt.tokens)
    used = fits_used(kind, sorted({operator.kind for operator in step.operators}))
    return StepAnswer(
        schema=SCHEMA,
        model=kind.model.name,
        hardware=kind.gpu.name,
        phase=phase,
        tp=kind.tp,
        ep=kind.parallelism.ep,
        dtype=kind.weight_dtype,
        kv_dtype=kind.kv_dtype,
        tokens=prompt.tokens,
        cached=prompt.prefix,
        batch=shape.batch,
        context=shape.context,
        time_s=step.time_s,
        low_s=step.low_s,
        high_s=step.high_s,
        bound_s=step.bound_s,
        band=step.band,
        flop=step.flop,
        bytes=step.bytes,
        mfu=step.mfu,
        mbu=step.mbu,
        operators=step.operators,
        decode_alone_s=alone,
        stall_s=None if alone is None else step.time_s - alone,
        chunked=cut,
        efficiencies=used,
        about=_about(kind, used, phase, prompt, longest),
    )


def _shape(
    phase: str,
    isl: int | None,
    cached: int | None,
    batch: int | None,
    context: int | None,
    chunk: Sequence[int],
) -> _Shape:
    """Check the options of a phase and return the step they describe."""
    if phase not in PHASES:
        raise InputError(unknown("phase", phase, PHASES, remedy=f"(one of {', '.join(PHASES)})"))
    given = {
        "--isl": isl,
        "--cached": cached,
        "--batch": batch,
        "--context": context,
        "--chunk": chunk or None,
    }
    needed, allowed = {
        "prefill": (("--isl",), ("--cached", "--chunk")),
        "decode": (("--context",), ("--batch",)),
        "mixed": (("--context", "--chunk"), ("--isl", "--cached", "--batch")),
    }[phase]
    problems = [f"a {phase} step needs {name}" for name in needed if given[name] is None]
    problems += [
        f"{name} means nothing in a {phase} step"
        for name, value in given.items()
        if value is not None and name not in needed + allowed
    ]
    if phase == "mixed" and len(chunk) > 1:
        problems.append("a mixed step takes one --chunk; a prefill step takes several and prices each")
    if problems:
        raise InputError(problems)
    prefix, running = cached or 0, 1 if batch is None else batch
    for name, value in (*given.items(), *(("--chunk", size) for size in chunk)):
        if value is not None and value is not chunk:
            check_whole(name, value, 0 if name == "--cached" else 1)
    if phase == "decode":
        return _Shape((), 0, running, context or 0)
    if isl is not None and prefix >= isl:
        raise InputError(f"--cached {prefix} leaves nothing of --isl {isl}, which includes it")
    if phase == "prefill":
        return _Shape((Chunk((isl or 0) - prefix, prefix),), 1, 0, 0)
    if isl is not None and prefix + chunk[0] > isl:
        raise InputError(f"--cached {prefix} and --chunk {chunk[0]} exceed --isl {isl}")
    return _Shape((Chunk(chunk[0], prefix),), int(isl == prefix + chunk[0]), running, context or 0)


def _chunked(times: StepTimes, prompt: Chunk, size: int) -> ChunkedPrefill:
    """Return the price of computing a prompt in chunks of ``size`` tokens, alone on its instance."""
    kind, end = times.kind, prompt.prefix + prompt.tokens
    count = int(chunking.chunk_count(prompt.tokens, size))
    if count > MOST_CHUNKS:
        raise InputError(
            f"--chunk {size} makes {count:,} chunks of the prompt; at most {MOST_CHUNKS:,} are priced"
        )
    cuts = [Chunk(min(size, end - start), start) for start in range(prompt.prefix, end, size)]
    total = sum(times.step((cut,), int(cut is cuts[-1]), 0, 0.0) for cut in cuts)
    full = cuts[0]
    return ChunkedPrefill(
        chunk=size,
        chunks=len(cuts),
        time_s=total,
        ratio=total / times.prefill(prompt.tokens, prompt.prefix),
        reread_bytes=_reread(kind, prompt, cuts),
        tile_fill=float(chunking.tile_fill(full.tokens, TILES[0][0])),
        sm_fill=_sm_fill(kind, full.tokens),
    )


def _sm_fill(kind: InstanceKind, tokens: int) -> float:
    """Whole waves of attention tiles over the SMs, where the fit's kernel has tiles; the emptiest of the layers."""
    found = [1.0]
    for mixer, _ in kind.model.mixers:
        if not isinstance(mixer, Recurrent):
            latent = isinstance(mixer, LatentAttention)
            form = FORMS[kind.efficiency.operators["mla_prefill" if latent else "attention_prefill"].form]
            if "tile_rows" in form.constants:
                heads = mixer.heads // kind.tp
                kv_heads = heads if isinstance(mixer, LatentAttention) else local_kv_heads(mixer, kind.tp)
                tiles = query_tiles(tokens, heads, kv_heads, **form.constants)
                found.append(float(chunking.sm_fill(tiles, kind.gpu.sm_count)))
    return max(found)


def _reread(kind: InstanceKind, prompt: Chunk, cuts: Sequence[Chunk]) -> float:
    """KV bytes per GPU that the chunks read back and one unchunked step would not."""
    size = cuts[0].tokens
    found = 0.0
    for mixer, count in kind.model.mixers:
        each = count * bytes_per_gpu(mixer, kind.kv_dtype, kind.tp)
        if mixer.window is None:
            own = float(chunking.chunk_kv_reread(prompt.tokens, size, each))
            found += own + each * prompt.prefix * (len(cuts) - 1)
        else:
            seen = [min(cut.prefix, mixer.window - 1) for cut in cuts]
            found += each * sum(seen[1:])
    return found


def _about(kind: InstanceKind, used: Sequence[FitUsed], phase: str, prompt: Chunk, longest: int) -> About:
    gpu = kind.gpu
    keys = [f"peak_{kind.product_dtype}", f"peak_{kind.activation_dtype}", "memory_bandwidth"]
    keys += [gpu.tp_link] if kind.tp > 1 else []
    figures = [f"{gpu.name} {k}, {gpu.values[k].text}: {gpu.values[k].source}" for k in dict.fromkeys(keys)]
    said = [
        "one GPU of the instance; operators one after the other" + ("" if kind.stack else ", without gaps")
    ]
    said.append("shares of operators are of the data-sheet peaks below, not of sustained rates")
    if phase != "decode":
        said.append("cold cache" if not prompt.prefix else f"{prompt.prefix:,} prompt tokens cached")
    if phase != "prefill":
        said.append("the sequences of the batch are equally long")
    if phase == "mixed":
        apart = "" if any(fit.kind == "attention_mixed" for fit in used) else " but attention"
        said.append(f"chunk and decodes share every operator{apart}")
    stack = kind.stack
    if stack is None:
        left_out = ["host and scheduler time between steps (--stack)", "sampling"]
    else:
        left_out = ["what comes before and after steps"]
        said.append(told_of(kind))
        figures.append(f"stack {stack.stack}: {stack.source}")
    warnings = [
        f"{fit.kind}: borrowed from {fit.borrowed}, {fit.stack}; counted with an error of {fit.error:.0%}"
        for fit in used
        if fit.borrowed
    ]
    return About(
        assumptions=(*said, *kind.notes(), *kind.model.notes),
        sources=(model_source(kind.model), *figures, *(f"{fit.kind}: {fit.source}" for fit in used)),
        not_modelled=(*left_out, "whether the KV of the step fits"),
        warnings=(*warnings, *context_warnings(kind.model, longest)),
    )
