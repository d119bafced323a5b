"""The inverse question: the fewest GPUs that hold so many sequences of a length at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from ..errors import DoesNotFitError
from ..inputs.hardware import Gpu
from ..inputs.model import Model
from .capacity import Fit, fit
from .parallelism import Parallelism, allowed_tp
from .settings import EngineSettings

#: GPUs that share NVLink in common servers: tensor parallelism beyond them is not tried.
NODE = 8
MOST_STAGES = 8


@dataclass(frozen=True)
class Layouts:
    """One way to hold them: ``instances`` of ``tp`` x ``pp`` GPUs, each with ``sequences`` at once."""

    gpus: int
    instances: int
    tp: int
    pp: int
    sequences: int


def layouts_for(
    model: Model,
    gpu: Gpu,
    users: int,
    tokens: int,
    *,
    kv_dtype: str,
    dtype: str | None = None,
    settings: EngineSettings | None = None,
    node: int = NODE,
) -> tuple[Layouts, ...]:
    """Return every layout of up to ``node`` x 8 GPUs an instance that holds ``users`` sequences of ``tokens``.

    Fewest GPUs first, then fewest stages; empty where no layout holds a single such sequence. A batch larger
    than the engine's limit of sequences takes more instances.
    """
    found = []
    for layout in _candidates(model, node):
        try:
            held = fit(
                model, gpu, layout, kv_dtype=kv_dtype, dtype=dtype, max_model_len=tokens, settings=settings
            )
        except DoesNotFitError:
            continue
        sequences = _at_once(held, tokens)
        if sequences:
            instances = ceil(users / sequences)
            found.append(Layouts(instances * layout.gpus, instances, layout.tp, layout.pp, sequences))
    return tuple(sorted(found, key=lambda each: (each.gpus, each.pp, each.tp)))


def _at_once(held: Fit, tokens: int) -> int:
    return min(held.sequences(tokens), held.setting.max_num_seqs or held.sequences(tokens))


def _candidates(model: Model, node: int) -> Iterator[Parallelism]:
    for tp in (degree for degree in allowed_tp(model) if degree <= node):
        for pp in range(1, min(MOST_STAGES, model.layer_count) + 1):
            yield Parallelism(tp=tp, pp=pp)
