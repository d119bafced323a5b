"""The inverse question: the fewest GPUs that hold so many sequences of a length at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from math import ceil

from ..errors import DoesNotFitError
from ..inputs.hardware import Gpu
from ..inputs.model import Experts, LatentAttention, Model
from .capacity import Fit, fit
from .parallelism import Parallelism, divides
from .settings import EngineSettings

#: GPUs that share NVLink in common servers: tensor parallelism beyond them is not tried.
NODE = 8
STAGES = (1, 2, 4, 8)


@dataclass(frozen=True)
class Layouts:
    """One way to hold them: ``instances`` of ``tp`` x ``pp`` GPUs, each with ``sequences`` at once.

    ``held`` of them fit in all.
    """

    gpus: int
    instances: int
    tp: int
    pp: int
    ep: int
    dp_attention: int
    sequences: int
    held: int


def layouts_for(
    model: Model,
    gpu: Gpu,
    users: int,
    tokens: int,
    *,
    kv_dtype: str,
    dtype: str | None = None,
    settings: EngineSettings | None = None,
    fixed: Mapping[str, int] | None = None,
) -> tuple[Layouts, ...]:
    """Return layouts that hold ``users`` sequences of ``tokens``, fewest GPUs first, then fewest stages.

    Tried are up to 8 tensor-parallel GPUs and 1, 2, 4 or 8 stages; where an expert's width cannot be split,
    whole experts are shared out, and models of latents or experts are also tried with one attention group a
    GPU. ``fixed`` degrees (tp, pp, ep, dp_attention) are kept. Empty where no layout holds a single such
    sequence. More sequences than the engine's limit of a step take more instances.
    """
    found = []
    for layout in _candidates(model, dict(fixed or {})):
        try:
            held = fit(
                model, gpu, layout, kv_dtype=kv_dtype, dtype=dtype, max_model_len=tokens, settings=settings
            )
        except DoesNotFitError:
            continue
        sequences = at_once(held, tokens)
        if sequences:
            many = ceil(users / sequences)
            found.append(
                Layouts(
                    many * layout.gpus,
                    many,
                    layout.tp,
                    layout.pp,
                    layout.ep,
                    layout.dp_attention,
                    sequences,
                    many * sequences,
                )
            )
    return tuple(sorted(found, key=lambda each: (each.gpus, each.pp, each.tp)))


def at_once(held: Fit, tokens: int) -> int:
    """Sequences of ``tokens`` that an instance runs at once: those that fit, at most the engine's limit."""
    fits, most = held.sequences(tokens), held.setting.max_num_seqs * held.layout.dp_attention
    return min(fits, most) if most else fits


def _candidates(model: Model, fixed: dict[str, int]) -> Iterator[Parallelism]:
    stages = (fixed["pp"],) if "pp" in fixed else [pp for pp in STAGES if pp <= model.layer_count]
    degrees = (fixed["tp"],) if "tp" in fixed else range(1, NODE + 1)
    for tp in degrees:
        shares = (fixed["ep"],) if "ep" in fixed else (1, tp)
        for groups in dict.fromkeys(_groups(model, tp, fixed)):
            for pp in stages:
                spread = [Parallelism(tp, pp, ep, groups) for ep in dict.fromkeys(shares) if tp % ep == 0]
                yield from islice((layout for layout in spread if divides(model, layout)), 1)


def _groups(model: Model, tp: int, fixed: dict[str, int]) -> tuple[int, ...]:
    """Attention groups to try: one, or, as engines offer for latents and experts, one a GPU, too."""
    if "dp_attention" in fixed:
        return (fixed["dp_attention"],) if tp % fixed["dp_attention"] == 0 else ()
    blocks = [block for layer in model.layers for block in layer.blocks]
    return (1, tp) if any(isinstance(block, LatentAttention | Experts) for block in blocks) else (1,)
