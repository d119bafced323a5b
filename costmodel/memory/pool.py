"""The KV pool of one GPU of a stage: an engine's budget less weights and overheads, factor by factor."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..formulas import memory as book
from ..inputs.efficiency import COVER
from ..inputs.hardware import Gpu
from ..inputs.parameters import Storage
from .overheads import Overheads, overheads
from .parallelism import Parallelism
from .settings import Resolved
from .stages import Stage
from .weights import GpuWeights, gpu_weights

GIB = 2**30
#: Mean sizes of the errors of what an engine logs, over start-ups that the figures were not fitted to
#: (docs/validation/memory.md, on H100 alone): weights, peak activation, memory outside torch.
WEIGHTS_OFF, ACTIVATION_OFF, OUTSIDE_OFF = 0.0017, 0.0133, 0.038
NOTHING = Overheads(0.0, 0.0, 0.0, (), ())


@dataclass(frozen=True)
class Factor:
    """One line of the arithmetic: a name, its bytes (negative: subtracted) and where they come from."""

    name: str
    bytes: float
    how: str


@dataclass(frozen=True)
class Pool:
    """Memory of one GPU of a stage. ``pool_bytes`` may be negative: then nothing fits.

    ``budget_bytes`` is what the engine's share is of, times the share; ``graph_bytes`` lies outside the
    budget unless ``graphs_subtracted``.
    """

    stage: Stage
    budget_bytes: float
    weights: GpuWeights
    overheads: Overheads
    graphs_subtracted: bool
    pool_bytes: float
    factors: tuple[Factor, ...]

    @property
    def off_bytes(self) -> float:
        """How far the pool may be off, by what is subtracted from the budget: the edge of its band."""
        parts = (
            WEIGHTS_OFF * self.weights.total_bytes,
            ACTIVATION_OFF * self.overheads.activation_bytes,
            OUTSIDE_OFF * self.overheads.non_torch_bytes,
        )
        return COVER * math.hypot(*parts)

    @property
    def kept_bytes(self) -> float:
        """What the engine keeps of its budget beside weights and KV."""
        graphs = self.overheads.graph_bytes if self.graphs_subtracted else 0.0
        return self.overheads.activation_bytes + self.overheads.non_torch_bytes + graphs


def stage_pool(stage: Stage, storage: Storage, layout: Parallelism, gpu: Gpu, setting: Resolved) -> Pool:
    """Return the KV pool of one GPU of a stage, by the budget of its engine."""
    wide = bool(setting.rules.get("latent_wide_copies"))
    in_groups = bool(setting.rules.get("dense_in_groups"))
    weights = gpu_weights(stage, storage, layout, wide_copies=wide, dense_in_groups=in_groups)
    budget = setting.engine.budget
    # SGLang's activations live outside its budget, and no log of their size was found.
    apart = budget == "static_pool"
    extra = NOTHING if apart else overheads(stage, storage, layout, gpu, setting)
    total, share = gpu.memory_bytes, setting.memory_share
    subtracted = bool(setting.rules.get("graphs_subtracted"))
    if budget == "share_of_total":
        asked = total * share
        graphs = extra.graph_bytes if subtracted else 0.0
        pool = book.pool_share_of_total(
            total, share, weights.total_bytes, extra.activation_bytes, extra.non_torch_bytes, graphs
        )
        parts = (
            Factor("memory asked for", asked, f"{share:g} of {total / GIB:.2f} GiB that the engine sees"),
            *_weights(weights),
            Factor("peak activation", -extra.activation_bytes, _profiled(setting)),
            Factor("outside torch", -extra.non_torch_bytes, "context and communication buffers"),
            *_graphs(extra, subtracted),
        )
    elif budget == "static_pool":
        context = _context(layout, gpu, setting)
        asked = (total - context) * share
        pool = book.pool_static(total - context, share, weights.total_bytes)
        free = f"{share:g} of {(total - context) / GIB:.2f} GiB free before loading"
        parts = (Factor("weights and KV may take", asked, free), *_weights(weights))
    else:
        left = total - weights.total_bytes - extra.activation_bytes - extra.non_torch_bytes
        asked = total
        pool = book.pool_share_of_free(
            total, share, weights.total_bytes, extra.activation_bytes, extra.non_torch_bytes
        )
        parts = (
            Factor("memory", total, "that the engine sees"),
            *_weights(weights),
            Factor("peak activation", -extra.activation_bytes, _profiled(setting)),
            Factor("outside torch", -extra.non_torch_bytes, "context and communication buffers"),
            Factor("left unused", float(pool) - left, f"the engine takes {share:g} of what is free"),
        )
    return Pool(stage, asked, weights, extra, subtracted, float(pool), parts)


def given_pool(stage: Stage, pool_bytes: float) -> Pool:
    """Return a pool of so many bytes, whatever they were left by."""
    nothing = GpuWeights(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    factor = Factor("KV pool", pool_bytes, "as given")
    return Pool(stage, pool_bytes, nothing, NOTHING, False, pool_bytes, (factor,))


def _weights(weights: GpuWeights) -> tuple[Factor, ...]:
    named = (
        ("weights of the layers", weights.layers_bytes, "this GPU's share of each tensor, scales included"),
        ("embedding and head", weights.ends_bytes, "the vocabulary padded to 64"),
        ("vision and audio towers", weights.towers_bytes, "loaded beside the language model"),
        ("rotary tables", weights.rotary_bytes, "sines and cosines of every position of the configuration"),
        ("absorbed projections", weights.copies_bytes, "16-bit copies of kv_b_proj for latent attention"),
        ("rounding of tensors", weights.rounding_bytes, "torch's allocator: whole 2 MiB from 10 MiB on"),
    )
    return tuple(Factor(name, -size, how) for name, size, how in named if size)


def _graphs(extra: Overheads, subtracted: bool) -> tuple[Factor, ...]:
    if not subtracted:
        return ()
    return (Factor("CUDA graphs", -extra.graph_bytes, "estimated by the engine before the pool is sized"),)


def _profiled(setting: Resolved) -> str:
    if setting.asked.activation_bytes is not None:
        return "as given"
    return (
        f"profiling run of {setting.max_num_batched_tokens:,} tokens and {setting.max_num_seqs:,} sequences"
    )


def _context(layout: Parallelism, gpu: Gpu, setting: Resolved) -> float:
    if setting.asked.non_torch_bytes is not None:
        return setting.asked.non_torch_bytes
    picked = setting.engine.nearest("context", setting.version, tp=layout.tp, gpu=gpu.name)
    return float(picked[0].values["value"]) if picked else 0.0
