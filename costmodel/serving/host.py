"""Steps that wait for the host: stacks without CUDA graphs launch every kernel from it."""

from __future__ import annotations

from ..formulas.whole import host_bound_time
from ..operators.catalogue import HOST_LAYERS, HOST_SEQUENCES
from .instance import InstanceKind


class HostBound:
    """The least time of steps of an instance kind; ``factors`` by operator kind, as for step times."""

    def __init__(self, kind: InstanceKind, factors: dict[str, float]) -> None:
        own = kind.stack.parameters if kind.stack else None
        self.layers = kind.model.layer_count
        self.layer_floor = own.layer_floor * factors.get(HOST_LAYERS, 1.0) if own else 0.0
        self.sequence_latency = own.sequence_latency * factors.get(HOST_SEQUENCES, 1.0) if own else 0.0

    def time(self, kernels_s: float, sampled: float) -> float:
        """Return the time of a step of ``sampled`` tokens whose operators take ``kernels_s``."""
        if not self.layer_floor:
            return kernels_s
        given = kernels_s, self.layers, self.layer_floor, sampled, self.sequence_latency
        return float(host_bound_time.function(*given))

    def excess(self, kernels_s: float, sampled: float) -> float:
        """Return how much longer than its operators such a step takes."""
        return self.time(kernels_s, sampled) - kernels_s
