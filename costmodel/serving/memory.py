"""KV memory of an instance: what is left on a GPU after the weights, and what a sequence takes of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..errors import DoesNotFitError
from ..inputs.parameters import weight_bytes
from ..memory.kv import kv_bytes
from .instance import InstanceKind

GIB = 2**30
#: Share of the visible memory that vLLM plans with by default (its `gpu_memory_utilization`).
MEMORY_SHARE = 0.9
#: Activations, CUDA context and communication buffers. vLLM 0.19 logs on an H100 give an activation peak
#: of 0.8-2.3 GiB and 0.25 GiB outside torch for 1-GPU models; kept round and stated until it is modelled.
RESERVE_BYTES = 3 * GIB


@dataclass(frozen=True)
class KvPool:
    """Bytes per GPU for weights and KV, and the bytes per GPU that a sequence of N tokens holds."""

    kind: InstanceKind
    weights_bytes: float
    pool_bytes: float
    reserve_bytes: float
    memory_share: float

    @cached_property
    def _slope(self) -> float | None:
        """Bytes per token where every layer grows for ever; None where windows bend the line."""
        one = kv_bytes(self.kind.model, 1, self.kind.kv_dtype, self.kind.tp)
        grows = one.kv_bytes_per_token == one.kv_bytes_per_token_all_layers
        return one.kv_bytes_per_gpu if grows else None

    def held_bytes(self, tokens: int) -> float:
        """KV bytes per GPU of a sequence of ``tokens``."""
        if self._slope is not None:
            return tokens * self._slope
        return kv_bytes(self.kind.model, tokens, self.kind.kv_dtype, self.kind.tp).kv_bytes_per_gpu

    def sequences(self, tokens: float) -> float:
        """How many sequences of ``tokens`` fit."""
        return self.pool_bytes / self.held_bytes(max(1, round(tokens)))


def kv_pool(
    kind: InstanceKind, *, memory_share: float = MEMORY_SHARE, reserve_bytes: float = RESERVE_BYTES
) -> KvPool:
    """Return the KV pool of an instance of this kind.

    Weights are spread evenly over the tensor-parallel GPUs. Raises DoesNotFitError, with the bytes missing,
    when the weights and the reserve leave nothing.
    """
    weights = weight_bytes(kind.model, kind.weight_dtype) / kind.gpus
    budget = kind.gpu.memory_bytes * memory_share
    pool = budget - weights - reserve_bytes
    if pool <= 0:
        raise DoesNotFitError(
            f"{kind.model.name} does not fit on {kind.label()}: {weights / GIB:.1f} GiB of "
            f"{kind.weight_dtype} weights a GPU and {reserve_bytes / GIB:.1f} GiB reserved exceed "
            f"{memory_share:.0%} of {kind.gpu.memory_bytes / GIB:.2f} GiB by {-pool / GIB:.1f} GiB "
            f"({-pool:.0f} bytes) a GPU; raise --tp, take a larger GPU, or pass a smaller --dtype"
        )
    return KvPool(kind, weights, pool, reserve_bytes, memory_share)
