"""Parameters: how many, how many a token uses, and how many bytes they take.

Counts are exact for a checkpoint that stores the model alone; what a repository stores beside it (MTP
layers, vision towers, fp8 scales) is in ``Model.extras``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..dtypes import dtype_bytes
from ..errors import InputError
from .formats import ON_REQUEST, WeightFormat
from .model import Block, Layer, Model
from .tensor import Tensor, active_size, total_size
from .weights import HEAD, block_tensors, embedding_tensors, head_tensors, layer_tensors

UNQUANTISED_BYTES = 2


@dataclass(frozen=True)
class Parameters:
    """Parameter counts of a model.

    ``total_parameters`` is the main model; ``extras`` what a checkpoint may hold beside it, by name.
    ``active_parameters`` are all but the input embedding and the experts that one token does not use: top_k
    experts of each layer, learned positions and the head (once, tied or not); ``active_core`` leaves the
    head out, too, and ``active_with_embedding`` counts both. ``embedding_parameters`` are the lookups: input
    embedding and learned positions. ``weight_bytes`` is None, with the reason, where the configuration
    states no dtype.
    """

    total_parameters: int
    extras: dict[str, int]
    active_parameters: int
    active_core: int
    active_with_embedding: int
    embedding_parameters: int
    head_parameters: int
    weight_bytes: int | None
    weight_bytes_reason: str | None = None


def block_parameters(block: Block, hidden: int, *, active: bool = False) -> int:
    """Parameters of one block; ``active``: those one token uses (all of a router)."""
    tensors = block_tensors(block, hidden)
    return active_size(tensors) if active else total_size(tensors)


def layer_parameters(layer: Layer, hidden: int, *, active: bool = False) -> int:
    """Parameters of one of the layers that ``layer`` stands for."""
    tensors = layer_tensors(layer, hidden)
    return active_size(tensors) if active else total_size(tensors)


def stored_scales(layers: Iterable[Layer], hidden: int) -> int:
    """Scales beside the weights of these layers.

    DeepSeek-V3 with its MTP layer: 41,540,496, the published total less the weights.
    """
    return sum(
        layer.count * layer.format_of[tensor.module].scales(tensor)
        for layer in layers
        for tensor in layer_tensors(layer, hidden)
        if tensor.kind == "matrix" and tensor.module in layer.format_of
    )


def total_parameters(model: Model) -> int:
    """Parameters of the main model; tied embeddings count once."""
    layers = sum(layer.count * layer_parameters(layer, model.hidden) for layer in model.layers)
    return layers + total_size(embedding_tensors(model)) + total_size(head_tensors(model))


def count_parameters(model: Model) -> Parameters:
    """Count the parameters of a model. Raises nothing: an unknown dtype leaves ``weight_bytes`` None."""
    active = sum(layer.count * layer_parameters(layer, model.hidden, active=True) for layer in model.layers)
    table = model.vocab * model.hidden
    core = active + model.position_parameters - model.idle_parameters + model.final_norm_parameters
    return Parameters(
        total_parameters=total_parameters(model),
        extras=dict(model.extras),
        active_parameters=core + table,
        active_core=core,
        active_with_embedding=core + table * (1 if model.tied_embeddings else 2),
        embedding_parameters=table + model.position_parameters,
        head_parameters=table,
        weight_bytes=weight_bytes(model) if model.weight_dtype else None,
        weight_bytes_reason=None if model.weight_dtype else "its configuration states no dtype",
    )


@dataclass(frozen=True)
class Storage:
    """In which format an engine holds each tensor of a model, and how many bytes an unquantised element has."""

    wide_bytes: int
    requested: WeightFormat | None
    as_stored: bool
    head: WeightFormat | None = None

    def format_of(self, layer: Layer, tensor: Tensor) -> WeightFormat | None:
        """Return the format of a tensor of a layer; None: wide."""
        if tensor.kind != "matrix":
            return None
        return layer.format_of.get(tensor.module) if self.as_stored else self.requested

    def bytes_of(self, layer: Layer, tensor: Tensor) -> float:
        """Return the bytes of a tensor of a layer."""
        held = self.format_of(layer, tensor)
        return tensor.size * self.wide_bytes if held is None else held.bytes_of(tensor)

    def end_bytes(self, tensor: Tensor) -> float:
        """Return the bytes of a tensor before or behind the layers."""
        narrow = self.end_format(tensor)
        return tensor.size * self.wide_bytes if narrow is None else narrow.bytes_of(tensor)

    def end_format(self, tensor: Tensor) -> WeightFormat | None:
        """Return the format of a tensor before or behind the layers: None, wide, unless a quantised head."""
        return self.head if tensor.module == HEAD else None


def storage_of(model: Model, dtype: str | None = None) -> Storage:
    """Return how the weights of a model lie in memory: as its checkpoint stores them, or in ``dtype``.

    A one-byte ``dtype`` narrows the matrices of mixers, feed-forward blocks and experts; norms, biases,
    embeddings, head and router stay at two bytes. Raises InputError for an unknown dtype, or where none is
    stated and none is passed.
    """
    chosen = dtype or model.weight_dtype
    if not chosen:
        raise InputError(_no_dtype(model))
    if chosen == model.weight_dtype:
        wide = int(dtype_bytes(model.wide_dtype or (chosen if dtype_bytes(chosen) >= 2 else "bf16")))
        return Storage(wide, None, True, model.head_format)
    if dtype_bytes(chosen) >= UNQUANTISED_BYTES:
        return Storage(int(dtype_bytes(chosen)), None, False)
    if chosen not in ON_REQUEST:
        raise InputError(
            f"--dtype {chosen}: no engine makes such weights of this checkpoint while loading it; expected "
            f"bf16, fp16, fp32, {', '.join(ON_REQUEST)}, or a checkpoint that stores {chosen}"
        )
    return Storage(UNQUANTISED_BYTES, ON_REQUEST[chosen], False)


def loaded_dtype(model: Model) -> str:
    """Format in which engines load a checkpoint unless told otherwise: its own, or bf16 for float32 or none.

    Source: vLLM 0.33, config/model.py: an unstated dtype counts as float32, and "auto" narrows float32 to
    bf16. (SGLang narrows it to fp16, of as many bytes.)
    """
    return "bf16" if model.weight_dtype in (None, "fp32") else str(model.weight_dtype)


def weight_bytes(model: Model, dtype: str | None = None) -> int:
    """Bytes of the main model's weights, scales included, in ``dtype`` (default: that of the checkpoint).

    Source for what stays wide in fp8: DeepSeek-V3's README_WEIGHTS.md; the number of its scales is that of
    exactly these matrices. (Its router bias is stored in fp32: 30 kB more, left out.)

    Raises InputError for an unknown dtype, or where none is stated and none is passed.
    """
    storage = storage_of(model, dtype)
    return round(sum(size for _, size in _stored_bytes(model, storage)))


def weight_bytes_by_format(model: Model, dtype: str | None = None) -> dict[str, int]:
    """Bytes of the main model's weights by the format that holds them, scales with the weights they scale.

    Together they are :func:`weight_bytes`, to the rounding of each to whole bytes; it raises the same errors.
    """
    storage = storage_of(model, dtype)
    wide = f"{8 * storage.wide_bytes}-bit floats"
    found: dict[str, float] = {}
    for held, size in _stored_bytes(model, storage):
        name = held.name if held else wide
        found[name] = found.get(name, 0.0) + size
    return {name: round(size) for name, size in found.items()}


def _stored_bytes(model: Model, storage: Storage) -> Iterator[tuple[WeightFormat | None, float]]:
    """Yield the format (None: wide) and the bytes of every tensor of the main model, all layers at once."""
    for layer in model.layers:
        for tensor in layer_tensors(layer, model.hidden):
            yield storage.format_of(layer, tensor), layer.count * storage.bytes_of(layer, tensor)
    for tensor in (*embedding_tensors(model), *head_tensors(model)):
        yield storage.end_format(tensor), storage.end_bytes(tensor)


def _no_dtype(model: Model) -> str:
    return f"{model.name}: its configuration states no dtype; pass --dtype, such as --dtype bf16"
