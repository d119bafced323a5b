"""An instance kind: a model on some GPUs, as a pool of a deployment runs it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ..dtypes import CACHE_BYTES, cache_dtype, dtype_bytes
from ..errors import InputError
from ..inputs.efficiency import Efficiency, OperatorFit, efficiency_for
from ..inputs.formats import WeightFormat
from ..inputs.hardware import Gpu
from ..inputs.model import Experts, Layer, Model
from ..inputs.parameters import Storage, loaded_dtype, storage_of
from ..inputs.stack import Stack, StackFit, packaged_stack, with_stack
from ..memory.kv import check_cache
from ..memory.parallelism import Parallelism, check_tp
from ..operators.catalogue import KINDS

#: Largest variation of expert loads: a few experts take nearly everything.
MOST_SKEW = 10.0
WIDE = ("bf16", "fp16", "fp32")


@dataclass(frozen=True, eq=False)
class InstanceKind:
    """A model, the GPU it runs on, its parallelism, dtypes and the operator efficiencies used.

    Compared by identity: the pools of a deployment that run the same kind share one object.

    ``weight_dtype`` is the format that the checkpoint states, or the dtype it is loaded in. Products run in
    the dtype that the format of their weights says (:meth:`format_of`); activations, attention, router and
    head are two bytes wide (fp32 models: four). ``expert_skew``: variation of how often experts are chosen.
    """

    model: Model
    gpu: Gpu
    parallelism: Parallelism
    weight_dtype: str
    kv_dtype: str
    efficiency: Efficiency
    stack: StackFit | None = None
    expert_skew: float = 0.0

    @property
    def tp(self) -> int:
        """Tensor-parallel degree."""
        return self.parallelism.tp

    @property
    def gpus(self) -> int:
        """GPUs of one instance."""
        return self.parallelism.gpus

    @cached_property
    def storage(self) -> Storage:
        """In which formats the weights are held."""
        return storage_of(self.model, self.weight_dtype)

    def format_of(self, layer: Layer, module: str) -> WeightFormat | None:
        """Format of a module's weights, a matrix of ``layer``; None: as wide as activations."""
        return layer.format_of.get(module) if self.storage.as_stored else self.storage.requested

    @cached_property
    def kv_bytes_each(self) -> float:
        """Bytes of one cached element, where all of them are alike (not in layouts of latents)."""
        return CACHE_BYTES[self.kv_dtype]

    @cached_property
    def activation_dtype(self) -> str:
        """Dtype of activations, and of attention, router and head."""
        if self.weight_dtype in WIDE:
            return self.weight_dtype
        return self.model.wide_dtype or "bf16"

    @cached_property
    def product_dtype(self) -> str:
        """Dtype of the products of narrow weights; without such products, that of activations."""
        if not self.storage.as_stored:
            found = self.storage.requested.product_dtype if self.storage.requested else None
            return found or self.activation_dtype
        named = [fmt.product_dtype for layer in self.model.layers for _, fmt in layer.formats]
        named += [self.storage.head.product_dtype] if self.storage.head else []
        return next((dtype for dtype in named if dtype), self.activation_dtype)

    @cached_property
    def activation_bytes_each(self) -> float:
        """Bytes of one activation element, and of one weight of a router or a wide head."""
        return dtype_bytes(self.activation_dtype)

    @cached_property
    def product_peak(self) -> float:
        """Peak rate of the products of narrow weights, flop/s."""
        return self.gpu.peak_flop_per_s(self.product_dtype)

    @cached_property
    def activation_peak(self) -> float:
        """Peak rate of arithmetic in the activations' dtype, flop/s."""
        return self.gpu.peak_flop_per_s(self.activation_dtype)

    @cached_property
    def memory_peak(self) -> float:
        """Peak HBM bandwidth, byte/s."""
        return self.gpu.memory_bytes_per_s

    def notes(self) -> tuple[str, ...]:
        """What the GPU's file leaves open and step times take for granted, one sentence each."""
        said = []
        if "l2_cache" not in self.gpu.values:
            said.append(f"{self.gpu.name} states no L2 cache: no operator is taken to find its input there")
        blocks = (block for layer in self.model.layers for block in layer.blocks)
        if any(isinstance(block, Experts) for block in blocks):
            said.append(
                f"experts are chosen unevenly, with a variation of {self.expert_skew:g}"
                if self.expert_skew
                else "every expert is chosen as often as any other"
            )
            if self.parallelism.ep > 1:
                said += [
                    "GPUs that share out experts are equally loaded but for that variation, the busiest with one "
                    "routed token at least: what chance adds on some is not counted",
                    "every GPU has all tokens of the step and moves the rows of all their experts; an all-reduce "
                    "follows, as without --ep",
                ]
        if self.tp > 1 and self.gpu.tp_link == "pcie_bandwidth":
            said.append(
                "no NVLink: collectives cross PCIe, at the share of it that they reach of NVLink elsewhere"
            )
        if self.stack is not None and self.stack.gpu != self.gpu.name:
            said.append(f"stack {self.stack.stack}: fitted on other GPUs than {self.gpu.name}")
        return tuple(said)

    def label(self) -> str:
        """Short name for reports: GPU and degrees of parallelism."""
        return self.gpu.name if self.tp == 1 else f"{self.gpu.name} {self.parallelism.label()}"


def default_cache_dtype(model: Model, weight_dtype: str) -> str:
    """Dtype of the cache where none is asked for: the checkpoint's own choice, or that of what is not quantised."""
    if weight_dtype == model.weight_dtype and model.kv_dtype:
        return model.kv_dtype
    if weight_dtype == model.weight_dtype and model.wide_dtype:
        return model.wide_dtype
    return cache_dtype(weight_dtype)


def make_instance(
    model: Model,
    gpu: Gpu,
    parallelism: Parallelism | None = None,
    *,
    dtype: str | None = None,
    kv_dtype: str | None = None,
    efficiency: Efficiency | str | Path | None = None,
    stack: Stack | str | Path | None = None,
    expert_skew: float = 0.0,
) -> InstanceKind:
    """Return a checked instance kind.

    ``dtype`` None: that in which engines load the checkpoint. ``efficiency``: fits to use before the packaged ones.
    ``stack``: what an engine adds to its operators; None: nothing, they run one after the other without gaps.
    ``expert_skew``: standard deviation of the loads of experts over their mean, 0 where all are chosen alike.

    Raises InputError for a layout that does not divide the model or has no step times, or a dtype the GPU has no
    peak for.
    """
    layout = parallelism or Parallelism()
    if expert_skew and not model.has_experts:
        raise InputError(f"--expert-skew {expert_skew:g}: {model.name} has no experts")
    if not 0 <= expert_skew <= MOST_SKEW:
        raise InputError(f"--expert-skew {expert_skew:g} does not lie in 0 .. {MOST_SKEW:g}")
    weight_dtype = loaded_dtype(model) if dtype is None else dtype
    storage_of(model, weight_dtype)
    stored_dtype = default_cache_dtype(model, weight_dtype) if kv_dtype is None else kv_dtype
    check_cache(model, stored_dtype)
    if layout.pp > 1 or layout.dp_attention > 1:
        raise InputError(
            f"{layout.label()}: step times are modelled for tensor and expert parallelism; pass --tp and --ep alone"
        )
    check_tp(model, layout.tp, layout)
    fits = efficiency_for(gpu, efficiency)
    engine = None
    if stack is not None:
        engine = (stack if isinstance(stack, Stack) else packaged_stack(str(stack))).on(gpu)
        fits = with_stack(fits, engine)
    kind = InstanceKind(model, gpu, layout, weight_dtype, stored_dtype, fits, engine, expert_skew)
    _ = kind.product_peak, kind.activation_peak
    return kind


def fit_of(kind: InstanceKind, operator: str) -> OperatorFit:
    """Return the fit of an operator kind. Raises InputError when the efficiency file has none."""
    try:
        return kind.efficiency.operators[operator]
    except KeyError:
        known = ", ".join(sorted(kind.efficiency.operators))
        eight_bit = operator in KINDS and KINDS[operator].eight_bit
        why = f", which {kind.weight_dtype} weights need: pass --dtype bf16" if eight_bit else ""
        raise InputError(
            f"no fit for {operator!r} on {kind.gpu.name}{why}: {kind.efficiency.gpu}, {kind.efficiency.stack} has "
            f"{known}, and no GPU of a near generation was measured that could lend it"
        ) from None


@dataclass(frozen=True)
class FitUsed:
    """An efficiency behind an answer. ``basis``: given (by the user), calibrated (on this GPU) or borrowed.

    ``held_out_mape`` and ``error``, the one that bands count with, are fractions; ``borrowed``: from which GPU.
    """

    hardware: str
    kind: str
    form: str
    stack: str
    basis: str
    held_out_mape: float
    error: float
    borrowed: str | None
    source: str


def fits_used(kind: InstanceKind, names: Iterable[str]) -> tuple[FitUsed, ...]:
    """Return the fits of these operator kinds. Raises InputError where one has none."""
    return tuple(_used(kind, fit_of(kind, name)) for name in names)


def _used(kind: InstanceKind, fit: OperatorFit) -> FitUsed:
    basis = "borrowed" if fit.borrowed else "given" if fit.given else "calibrated"
    stack = fit.stack or kind.efficiency.stack
    return FitUsed(
        kind.gpu.name,
        fit.kind,
        fit.form,
        stack,
        basis,
        fit.held_out_mape,
        fit.error,
        fit.borrowed,
        fit.source,
    )
