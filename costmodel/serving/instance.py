"""An instance kind: a model on some GPUs, as a pool of a deployment runs it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..dtypes import cache_dtype, dtype_bytes
from ..errors import InputError
from ..inputs.efficiency import Efficiency, efficiency_for
from ..inputs.hardware import Gpu
from ..inputs.model import Model
from .kv import check_tp


@dataclass(frozen=True)
class Parallelism:
    """How an instance spreads a model over its GPUs. Only tensor parallelism is modelled so far."""

    tp: int = 1
    pp: int = 1
    ep: int = 1
    dp_attention: int = 1

    def __post_init__(self) -> None:
        problems = [
            f"{name} must be a whole number of at least 1, not {value!r}"
            for name, value in (("tp", self.tp), ("pp", self.pp), ("ep", self.ep), ("dp", self.dp_attention))
            if not isinstance(value, int) or isinstance(value, bool) or value < 1
        ]
        problems += [
            f"{option} {value} is not modelled yet; only --tp is"
            for option, value in (("--pp", self.pp), ("--ep", self.ep), ("--dp-attention", self.dp_attention))
            if isinstance(value, int) and value > 1
        ]
        if problems:
            raise InputError(problems)

    @property
    def gpus(self) -> int:
        """GPUs of one instance."""
        return self.tp * self.pp


@dataclass(frozen=True, eq=False)
class InstanceKind:
    """A model, the GPU it runs on, its parallelism, dtypes and the operator efficiencies used.

    Compared by identity: the pools of a deployment that run the same kind share one object.

    ``weight_dtype`` is also the dtype of matrix products, but for router and head, which 8-bit checkpoints
    keep at two bytes; activations are two bytes wide, and attention, router and head run in their dtype
    (fp32 models: everything in fp32).
    """

    model: Model
    gpu: Gpu
    parallelism: Parallelism
    weight_dtype: str
    kv_dtype: str
    efficiency: Efficiency

    @property
    def tp(self) -> int:
        """Tensor-parallel degree."""
        return self.parallelism.tp

    @property
    def gpus(self) -> int:
        """GPUs of one instance."""
        return self.parallelism.gpus

    @cached_property
    def weight_bytes_each(self) -> float:
        """Bytes of one weight."""
        return dtype_bytes(self.weight_dtype)

    @cached_property
    def kv_bytes_each(self) -> float:
        """Bytes of one cached element."""
        return dtype_bytes(self.kv_dtype)

    @cached_property
    def activation_dtype(self) -> str:
        """Dtype of activations, and of attention, router and head."""
        return self.weight_dtype if self.weight_dtype in ("bf16", "fp16", "fp32") else "bf16"

    @cached_property
    def activation_bytes_each(self) -> float:
        """Bytes of one activation element, and of one weight of router and head."""
        return dtype_bytes(self.activation_dtype)

    @cached_property
    def product_peak(self) -> float:
        """Peak rate of matrix products in the weights' dtype, flop/s."""
        return self.gpu.peak_flop_per_s(self.weight_dtype)

    @cached_property
    def activation_peak(self) -> float:
        """Peak rate of arithmetic in the activations' dtype, flop/s."""
        return self.gpu.peak_flop_per_s(self.activation_dtype)

    @cached_property
    def memory_peak(self) -> float:
        """Peak HBM bandwidth, byte/s."""
        return self.gpu.memory_bytes_per_s

    def label(self) -> str:
        """Short name for reports: GPU and degree of tensor parallelism."""
        return self.gpu.name if self.tp == 1 else f"{self.gpu.name} TP{self.tp}"


def make_instance(
    model: Model,
    gpu: Gpu,
    parallelism: Parallelism | None = None,
    *,
    dtype: str | None = None,
    kv_dtype: str | None = None,
    efficiency: Efficiency | None = None,
) -> InstanceKind:
    """Return a checked instance kind.

    Raises InputError for a TP that does not divide the model, a dtype the GPU has no peak for, or a model
    whose configuration states no dtype while none is passed.
    """
    layout = parallelism or Parallelism()
    weight_dtype = model.weight_dtype if dtype is None else dtype
    if weight_dtype is None:
        raise InputError(
            f"{model.name}: its configuration states no dtype; pass --dtype, such as --dtype bf16"
        )
    dtype_bytes(weight_dtype)
    stored_dtype = cache_dtype(weight_dtype) if kv_dtype is None else kv_dtype
    dtype_bytes(stored_dtype)
    check_tp(model, layout.tp)
    kind = InstanceKind(model, gpu, layout, weight_dtype, stored_dtype, efficiency or efficiency_for(gpu))
    _ = kind.product_peak, kind.activation_peak
    return kind
