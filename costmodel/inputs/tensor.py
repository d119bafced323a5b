"""A weight tensor as the cost model sees it: its shape, who may split it, who may quantise it."""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["matrix", "router", "table", "vector"]


class Tensor(NamedTuple):
    """``copies`` equal tensors of ``rows`` outputs and ``cols`` inputs (vectors: one column).

    ``module`` is its name within the layer of a checkpoint. Only a ``kind`` of "matrix" is ever quantised.
    Tensor parallelism divides ``parts`` equal pieces along ``axis`` (0: rows, 1: columns); with more GPUs
    than parts they repeat, so a tensor of one part is whole on every GPU. Of several ``copies`` (experts)
    one token uses ``used``. Engines hold tensors with the same ``packed`` name as one.
    """

    module: str
    rows: int
    cols: int = 1
    kind: Kind = "matrix"
    parts: int = 1
    axis: int = 0
    copies: int = 1
    used: int = 1
    packed: str = ""

    @property
    def size(self) -> int:
        """Elements of all copies."""
        return self.rows * self.cols * self.copies

    @property
    def active_size(self) -> int:
        """Elements that one token uses."""
        return self.rows * self.cols * self.used

    def on_gpu(self, tp: int, ep: int = 1) -> Tensor:
        """Return what one GPU holds: split ``tp`` ways, experts first spread over ``ep`` of these GPUs."""
        if self.copies > 1 and ep > 1:
            return self._replace(copies=-(-self.copies // ep)).on_gpu(max(1, tp // ep))
        held = max(1, self.parts // tp)
        if self.axis:
            return self._replace(cols=self.cols * held // self.parts)
        return self._replace(rows=self.rows * held // self.parts)


def vector(module: str, size: int, parts: int = 1, copies: int = 1, used: int = 1) -> Tensor:
    """Return biases or the weights of a norm."""
    return Tensor(module, size, kind="vector", parts=parts, copies=copies, used=used)


def total_size(tensors: tuple[Tensor, ...]) -> int:
    """Elements of all tensors."""
    return sum(tensor.size for tensor in tensors)


def active_size(tensors: tuple[Tensor, ...]) -> int:
    """Elements of all tensors that one token uses."""
    return sum(tensor.active_size for tensor in tensors)
