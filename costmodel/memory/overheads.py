"""What an engine keeps besides weights and KV: peak activation, memory outside torch, CUDA graphs.

Coefficients are data of the engine, keyed by its version, the GPU and the layout; the shape of the model
enters through the formulas of the book alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..formulas import memory as book
from ..inputs.hardware import Gpu
from ..inputs.model import Dense, Experts, Model
from ..inputs.parameters import Storage
from .engine import Engine, dotted
from .engine_file import load_engine
from .parallelism import Parallelism
from .settings import Resolved
from .stages import Stage

#: Whose logs stand in for engines without measured overheads.
STAND_IN = "vllm"


@dataclass(frozen=True)
class Overheads:
    """Bytes of one GPU of a stage; ``notes`` say what stands in for what, ``sources`` who measured."""

    activation_bytes: float
    non_torch_bytes: float
    graph_bytes: float
    notes: tuple[str, ...]
    sources: tuple[str, ...]


def overheads(stage: Stage, storage: Storage, layout: Parallelism, gpu: Gpu, setting: Resolved) -> Overheads:
    """Return the overheads of a stage on a GPU. Raises nothing: the nearest measurement is used and named."""
    notes: list[str] = []
    sources: list[str] = []
    engine, version = setting.engine, setting.version
    if not engine.tables["activation"]:
        engine = load_engine(STAND_IN)
        version = engine.tables["activation"][-1].since
        notes.append(
            f"no start-up log of {setting.engine.title} with its parts was found: activations and memory "
            f"outside torch as of {engine.title} {dotted(version)}; --activation and --non-torch replace them"
        )
    found = engine.latest("activation", version)
    assert found is not None  # every packaged engine or its stand-in has one from its first version on
    activation = setting.asked.activation_bytes
    if activation is None:
        activation = activation_bytes(stage, storage, layout, found.values, setting)
        sources.append(found.source)
    return Overheads(
        activation_bytes=activation,
        non_torch_bytes=_non_torch(engine, version, layout, gpu, setting, notes, sources),
        graph_bytes=_graphs(engine, version, gpu, setting, notes, sources),
        notes=tuple(notes),
        sources=tuple(dict.fromkeys(sources)),
    )


def activation_bytes(
    stage: Stage, storage: Storage, layout: Parallelism, values: Mapping[str, Any], setting: Resolved
) -> float:
    """Return the peak of activations of a stage: while sampling on the last, inside a layer elsewhere."""
    model, tokens = stage.model, setting.max_num_batched_tokens
    wide = storage.wide_bytes / 2
    width = _widest(model) / layout.tp
    inside = float(
        book.forward_peak(
            tokens,
            model.hidden,
            values["layer_hidden_bytes"] * wide,
            width,
            values["layer_width_bytes"] * wide,
        )
    )
    peak = inside
    if stage.last:
        sampling = book.sampler_peak(
            setting.max_num_seqs,
            model.vocab,
            values["sampler_bytes"] + storage.wide_bytes - 2,  # one of the copies of the logits is that wide
            tokens,
            model.hidden,
            values["token_hidden_bytes"] * wide,
            values["fixed"],
        )
        peak = max(inside, float(sampling) + _workspace(stage, storage, layout, values, tokens))
    if layout.pp > 1:
        peak += values["stage_hidden_bytes"] * wide * tokens * model.hidden
    return peak + (values["towers"] if stage.first and model.loaded_extras else 0.0)


def _widest(model: Model) -> float:
    """Feed-forward elements of a token in the widest block of the stage."""
    widths = [0.0]
    for layer in model.layers:
        for block in layer.feed_forwards:
            widths.append(block.width if isinstance(block, Dense) else block.shared_width)
    return max(widths)


def _workspace(
    stage: Stage, storage: Storage, layout: Parallelism, values: Mapping[str, Any], tokens: int
) -> float:
    """Workspace of the fused experts' kernel; kernels of 4-bit floats on Hopper have none of their own."""
    if not values["experts_workspace"]:
        return 0.0
    found = [0.0]
    for layer in stage.model.layers:
        for block in layer.feed_forwards:
            if not isinstance(block, Experts):
                continue
            module = f"{block.module}.experts.up_proj"
            stored = layer.format_of.get(module) if storage.as_stored else storage.requested
            if stored and stored.name in ("mxfp4", "nvfp4"):
                continue
            width = block.width / max(1, layout.tp // layout.ep)
            inner = block.latent or stage.model.hidden
            shape = (tokens, block.top_k, width, inner, storage.wide_bytes)
            found.append(float(book.experts_workspace(*shape)))
    return max(found)


def _non_torch(
    engine: Engine,
    version: tuple[int, ...],
    layout: Parallelism,
    gpu: Gpu,
    setting: Resolved,
    notes: list[str],
    sources: list[str],
) -> float:
    if setting.asked.non_torch_bytes is not None:
        return setting.asked.non_torch_bytes
    picked = engine.nearest("non_torch", version, tp=layout.tp, pp=layout.pp, gpu=gpu.name)
    assert picked is not None
    entry, exact = picked
    sources.append(entry.source)
    if not exact:
        measured = Parallelism(tp=entry.values["tp"], pp=entry.values["pp"]).label()
        notes.append(f"memory outside torch as measured on {entry.values['gpu']} at {measured}")
    return float(entry.values["value"])


def _graphs(
    engine: Engine,
    version: tuple[int, ...],
    gpu: Gpu,
    setting: Resolved,
    notes: list[str],
    sources: list[str],
) -> float:
    picked = engine.nearest("graphs", version, max_num_seqs=setting.max_num_seqs, gpu=gpu.name)
    if picked is None:
        return 0.0
    entry, exact = picked
    sources.append(entry.source)
    if not exact and setting.rules.get("graphs_subtracted"):
        notes.append(
            f"CUDA graphs as on {entry.values['gpu']} with {entry.values['max_num_seqs']:,} sequences"
        )
    return float(entry.values["value"])
