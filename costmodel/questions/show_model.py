"""One model: its parameters in all and on a GPU, its weights and its KV, layers by kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..answer import About
from ..families import read_model
from ..inputs.model import Model
from ..inputs.parameters import count_parameters, loaded_dtype, storage_of, weight_bytes_by_format
from ..memory.kv import KvRow, kv_bytes
from ..memory.parallelism import Parallelism, allowed_tp, check_tp
from ..memory.stages import Stage, pipeline_stages
from ..memory.weights import gpu_parameters, gpu_weights
from ..serving.instance import default_cache_dtype

SCHEMA = "costmodel.show/1"


@dataclass(frozen=True)
class StageWeights:
    """What one GPU of a pipeline stage holds, as engines load it."""

    stage: int
    layers: int
    parameters: int
    weight_bytes: float


@dataclass(frozen=True)
class ModelEntry:
    """A model: parameters, bytes and its layers by kind of KV. ``extras`` stand beside the main model."""

    schema: str
    name: str
    model_type: str
    layer_count: int
    hidden: int
    vocab: int
    max_context: int | None
    total_parameters: int
    extras: dict[str, int]
    active_parameters: int
    active_core: int
    active_with_embedding: int
    embedding_parameters: int
    layout: str
    parameters_per_gpu: int
    weight_bytes_per_gpu: float
    stages: tuple[StageWeights, ...]
    weight_dtype: str | None
    weight_bytes: int | None
    weight_bytes_by_format: dict[str, int] | None
    weight_bytes_reason: str | None
    kv_dtype: str
    kv_bytes_per_token: int
    kv_bytes_per_token_all_layers: int
    fixed_bytes_per_sequence: int
    layers: tuple[KvRow, ...]
    allowed_tp: tuple[int, ...]
    notes: tuple[str, ...]
    about: About


def layout_of(degrees: Mapping[str, int | None]) -> Parallelism | None:
    """Return the layout of the degrees given; None where none is."""
    given = {name: degree for name, degree in degrees.items() if degree is not None}
    return Parallelism(**given) if given else None


def model_row(name: str) -> dict[str, object]:
    entry = model_entry(name)
    keys = (
        "name",
        "model_type",
        "total_parameters",
        "active_parameters",
        "kv_bytes_per_token",
        "kv_bytes_per_token_all_layers",
    )
    return {key: getattr(entry, key) for key in keys}


def model_entry(name: str | Model, layout: Parallelism | None = None) -> ModelEntry:
    model = read_model(name) if isinstance(name, str) else name
    counts = count_parameters(model)
    dtype = default_cache_dtype(model, loaded_dtype(model))
    kv = kv_bytes(model, 1, dtype)
    spread = layout or Parallelism()
    check_tp(model, spread.tp, spread)
    stages = tuple(_stage(model, stage, spread) for stage in pipeline_stages(model, spread.pp))
    said = ("active parameters: what one token is multiplied with, the head once and no input embedding",)
    return ModelEntry(
        schema=SCHEMA,
        name=model.name,
        model_type=model.model_type,
        layer_count=model.layer_count,
        hidden=model.hidden,
        vocab=model.vocab,
        max_context=model.max_context,
        total_parameters=counts.total_parameters,
        extras=counts.extras,
        active_parameters=counts.active_parameters,
        active_core=counts.active_core,
        active_with_embedding=counts.active_with_embedding,
        embedding_parameters=counts.embedding_parameters,
        layout=spread.label(),
        parameters_per_gpu=max(stage.parameters for stage in stages),
        weight_bytes_per_gpu=max(stage.weight_bytes for stage in stages),
        stages=stages,
        weight_dtype=model.weight_dtype,
        weight_bytes=counts.weight_bytes,
        weight_bytes_by_format=weight_bytes_by_format(model) if model.weight_dtype else None,
        weight_bytes_reason=counts.weight_bytes_reason,
        kv_dtype=dtype,
        kv_bytes_per_token=kv.kv_bytes_per_token,
        kv_bytes_per_token_all_layers=kv.kv_bytes_per_token_all_layers,
        fixed_bytes_per_sequence=kv.fixed_bytes_per_sequence,
        layers=kv.rows,
        allowed_tp=allowed_tp(model),
        notes=model.notes,
        about=About(
            (
                *said,
                f"KV in {dtype}",
            ),
            (model.source,),
            warnings=model.warnings,
        ),
    )


def _stage(model: Model, stage: Stage, layout: Parallelism) -> StageWeights:
    weights = gpu_weights(stage, storage_of(model, loaded_dtype(model)), layout)
    held = gpu_parameters(stage, layout)
    return StageWeights(stage.index + 1, stage.model.layer_count, held, weights.tensors_bytes)
