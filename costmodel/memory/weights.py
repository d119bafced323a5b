"""Bytes of weights that one GPU holds, as an engine allocates them: fused tensors, buffers, rounding."""

from __future__ import annotations

from dataclasses import dataclass

from ..inputs.model import LatentAttention, Layer
from ..inputs.parameters import Storage
from ..inputs.tensor import Tensor
from ..inputs.weights import block_tensors, embedding_tensors, head_tensors
from .parallelism import Parallelism, spread_tensors
from .stages import Stage

#: vLLM pads the vocabulary to a multiple of this (vocab_parallel_embedding.py).
VOCAB_MULTIPLE = 64
MIB = 2**20


@dataclass(frozen=True)
class GpuWeights:
    """Bytes of one GPU of a stage, by part; they add up to :attr:`total_bytes`.

    ``rotary_bytes`` are the engine's tables of sines and cosines, ``copies_bytes`` its 16-bit copies of
    quantised projections that latent attention absorbs, ``rounding_bytes`` what the allocator of torch adds.
    """

    layers_bytes: float
    ends_bytes: float
    towers_bytes: float
    rotary_bytes: float
    copies_bytes: float
    rounding_bytes: float

    @property
    def tensors_bytes(self) -> float:
        """The language model's own tensors, as a checkpoint would store this GPU's share."""
        return self.layers_bytes + self.ends_bytes

    @property
    def total_bytes(self) -> float:
        """All parts."""
        return (
            self.layers_bytes
            + self.ends_bytes
            + self.towers_bytes
            + self.rotary_bytes
            + self.copies_bytes
            + self.rounding_bytes
        )


def gpu_weights(
    stage: Stage,
    storage: Storage,
    layout: Parallelism,
    *,
    wide_copies: bool = False,
    dense_in_groups: bool = False,
) -> GpuWeights:
    """Return what one GPU of a stage holds under ``layout``.

    Tensor parallelism splits heads, widths and the vocabulary; norms, routers and the down-projections of
    latent attention are whole on every GPU. Each group of data-parallel attention has all of attention, the
    embedding and the head; dense blocks are split over all GPUs. ``wide_copies``: latent attention's
    absorbed projections are copied even where they are 16 bits wide; ``dense_in_groups``: dense blocks are
    split within each group only.
    """
    model = stage.model
    layers, copies, rounding = 0.0, 0.0, 0.0
    for layer in model.layers:
        allocations = _allocations(layer, storage, layout, model.hidden, dense_in_groups)
        layers += layer.count * sum(allocations)
        rounding += layer.count * sum(_rounding(size) for size in allocations)
        copies += layer.count * _absorbed_copies(layer, storage, layout, wide_copies)
    ends = [storage.end_bytes(_end(tensor, layout.attention_tp)) for tensor in _ends(stage)]
    towers = _towers(stage) * storage.wide_bytes / layout.tp
    return GpuWeights(
        layers_bytes=layers,
        ends_bytes=sum(ends),
        towers_bytes=towers,
        rotary_bytes=float(model.rotary_elements * storage.wide_bytes),
        copies_bytes=copies,
        rounding_bytes=rounding + sum(_rounding(size) for size in ends),
    )


def gpu_parameters(stage: Stage, layout: Parallelism) -> int:
    """Return how many parameters one GPU of a stage holds, replicated ones included, towers left out."""
    held = sum(
        layer.count * tensor.on_gpu(degree, layout.ep).size
        for layer in stage.model.layers
        for tensor, degree in spread_tensors(layer, layout, stage.model.hidden)
    )
    return held + sum(_end(tensor, layout.attention_tp).size for tensor in _ends(stage))


def _spread(layer: Layer, layout: Parallelism, hidden: int, in_groups: bool) -> list[tuple[Tensor, int]]:
    """Tensors with the number of GPUs that split them; ``in_groups``: only experts go beyond a group."""
    found = spread_tensors(layer, layout, hidden)
    if not in_groups:
        return found
    return [(t, degree if t.copies > 1 else min(degree, layout.attention_tp)) for t, degree in found]


def _allocations(
    layer: Layer, storage: Storage, layout: Parallelism, hidden: int, in_groups: bool
) -> list[float]:
    """Bytes of each tensor that an engine allocates: fused ones as one, scales apart."""
    packs: dict[str, float] = {}
    for index, (tensor, degree) in enumerate(_spread(layer, layout, hidden, in_groups)):
        local = tensor.on_gpu(degree, layout.ep)
        held = storage.format_of(layer, tensor)
        if held is not None and tensor.parts > 1:
            local = _rounded_up(local, held.width_multiple)
        weights = local.size * (storage.wide_bytes if held is None else held.bits / 8)
        name = tensor.packed or f"{tensor.module} {index}"
        packs[name] = packs.get(name, 0.0) + weights
        if held is not None:
            scales = (held.bytes_of(local) - weights) * held.scales_held
            packs[f"{name} scales"] = packs.get(f"{name} scales", 0.0) + scales
    return [size for size in packs.values() if size]


def _rounded_up(tensor: Tensor, multiple: int) -> Tensor:
    """The tensor with its split dimension rounded up, as kernels of 4-bit experts need it."""
    if tensor.axis:
        return tensor._replace(cols=-(-tensor.cols // multiple) * multiple)
    return tensor._replace(rows=-(-tensor.rows // multiple) * multiple)


def _rounding(size: float) -> float:
    """What torch's caching allocator adds to a tensor of ``size`` bytes.

    From 10 MiB on a tensor gets a segment of whole 2 MiB; up to 1 MiB left over is not split off. Smaller
    ones share segments in steps of 512 bytes. Source: pytorch 2.9, c10/cuda/CUDACachingAllocator.cpp.
    """
    if size >= 10 * MIB:
        left = -size % (2 * MIB)
        if left <= MIB:
            return left
    return -size % 512


def _absorbed_copies(layer: Layer, storage: Storage, layout: Parallelism, wide: bool) -> float:
    """16-bit copy of each quantised kv_b_proj for its absorbed form (vLLM, mla_attention.py); or of each."""
    found = 0.0
    for mixer in layer.mixers:
        if isinstance(mixer, LatentAttention):
            for tensor in block_tensors(mixer, 1):
                copied = wide or storage.format_of(layer, tensor) is not None
                if tensor.module == "self_attn.kv_b_proj" and copied:
                    found += tensor.on_gpu(layout.attention_tp).size * storage.wide_bytes
    return found


def _ends(stage: Stage) -> list[Tensor]:
    """Embedding on the first stage, head on the last; a tied head lies there, too, unless it is the first."""
    found: list[Tensor] = []
    if stage.first:
        found += embedding_tensors(stage.model)
    if stage.last:
        found += head_tensors(stage.model)
        if stage.model.tied_embeddings and not stage.first:
            found.append(embedding_tensors(stage.model)[0])
    return found


def _end(tensor: Tensor, tp: int) -> Tensor:
    """What lies on a GPU; the vocabulary is padded before it is split."""
    if tensor.kind == "table":
        padded = -(-tensor.rows // VOCAB_MULTIPLE) * VOCAB_MULTIPLE
        return tensor._replace(rows=-(-padded // tp))
    return tensor


def _towers(stage: Stage) -> int:
    """Parameters of vision and audio towers, which lie on the first stage."""
    if not stage.first:
        return 0
    return sum(count for name, count in stage.model.extras if name in stage.model.loaded_extras)
