"""Formats of stored weights: how many bits a weight takes, which weights share a scale, who multiplies them."""

from __future__ import annotations

from dataclasses import dataclass

from .tensor import Tensor

SCALAR_BYTES = 4


@dataclass(frozen=True)
class WeightFormat:
    """How a checkpoint stores a matrix.

    ``block`` (rows, columns) shares one scale; 0 stands for the whole dimension, so (1, 0) is a scale a row
    and (0, 0) one for the matrix; None: no scales. ``zero_bits``: a zero point beside each scale;
    ``scalars``: single fp32 numbers beside a matrix (global scales, scales of its input);
    ``column_bytes``: of an index of groups, an entry a column. ``product_dtype`` is that of the matrix
    product; None: weights are widened to the activations' dtype first ("weight only"). An engine may hold
    the scales more than once (``scales_held``) and round a GPU's share of a width up (``width_multiple``).
    """

    name: str
    bits: int
    block: tuple[int, int] | None = None
    scale_bytes: int = 0
    zero_bits: int = 0
    product_dtype: str | None = None
    scalars: int = 0
    column_bytes: int = 0
    scales_held: int = 1
    width_multiple: int = 1

    @property
    def bytes_each(self) -> float:
        """Bytes of a weight with its share of a scale, where scales belong to small blocks."""
        rows, cols = self.block or (0, 0)
        beside = (self.scale_bytes + self.zero_bits / 8) / (rows * cols) if rows and cols else 0.0
        return self.bits / 8 + beside

    def scales(self, tensor: Tensor) -> int:
        """Number of scales of a tensor, scalars included: a block, whole or not, has one."""
        return (self._blocks(tensor) + self.scalars) * tensor.copies

    def bytes_of(self, tensor: Tensor) -> float:
        """Bytes of a tensor: weights, scales, zero points and index."""
        beside = self._blocks(tensor) * (self.scale_bytes + self.zero_bits / 8)
        beside += self.scalars * SCALAR_BYTES + self.column_bytes * tensor.cols
        return tensor.size * self.bits / 8 + beside * tensor.copies

    def _blocks(self, tensor: Tensor) -> int:
        """Blocks of one copy of a tensor."""
        if self.block is None:
            return 0
        rows = -(-tensor.rows // (self.block[0] or tensor.rows))
        cols = -(-tensor.cols // (self.block[1] or tensor.cols))
        return rows * cols


#: Formats that an engine makes of a 16-bit checkpoint on request (``--dtype``): no scales worth counting.
ON_REQUEST = {
    "fp8": WeightFormat("fp8", 8, product_dtype="fp8"),
    "int8": WeightFormat("int8", 8, product_dtype="int8"),
}
