"""In which formats a checkpoint stores its weights: the ``torch_dtype`` and ``quantization_config`` fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..inputs.formats import WeightFormat
from ..inputs.tensor import Tensor
from .config import Config, shown

STORED_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
LARGEST_BLOCK = 65_536

Rule = Callable[[int, str], WeightFormat | None]


@dataclass(frozen=True)
class Stored:
    """The name of the checkpoint's format, the dtype of all it leaves wide, and the format of each module."""

    weight_dtype: str | None
    wide_dtype: str | None
    rule: Rule | None = None

    def formats(self, index: int, tensors: Iterable[Tensor]) -> tuple[tuple[str, WeightFormat], ...]:
        """Return the modules of layer ``index`` that are not wide, with their formats."""
        if self.rule is None:
            return ()
        found = {t.module: self.rule(index, t.module) for t in tensors if t.kind == "matrix"}
        return tuple((module, fmt) for module, fmt in found.items() if fmt is not None)


def read_storage(config: Config) -> Stored:
    """Return how the checkpoint stores its weights; problems are recorded in ``config``."""
    wide = _wide_dtype(config)
    if config.null("quantization_config"):
        return Stored(wide, wide)
    block = _fp8_block(config)
    fp8 = WeightFormat("fp8", 8, block, scale_bytes=4, product_dtype="fp8")
    return Stored("fp8", wide, lambda index, module: fp8)


def _wide_dtype(config: Config) -> str | None:
    known = tuple(STORED_DTYPES)
    fields = ("torch_dtype", "dtype")
    named = [value for value in (config.text(field, known) for field in fields) if value]
    config.check(len(set(named)) < 2, f"torch_dtype and dtype differ: {' and '.join(named)}", *fields)
    if not named:
        config.notes.append("torch_dtype absent: the dtype of the weights is not known")
        return None
    return STORED_DTYPES[named[0]]


def _fp8_block(config: Config) -> tuple[int, int] | None:
    """Check a ``quantization_config`` and return its block; only fp8 in blocks is known."""
    quantised = config.data["quantization_config"]
    if not isinstance(quantised, dict):
        config.problems.append(f"quantization_config is {shown(quantised)}; expected an object")
        return None
    block = quantised.get("weight_block_size")
    if isinstance(block, list) and len(block) == 2 and all(_is_block_side(side) for side in block):
        return block[0], block[1]
    config.problems.append(
        f"quantization_config.weight_block_size is {shown(block)}; expected two whole numbers"
    )
    return None


def _is_block_side(side: object) -> bool:
    return type(side) is int and 0 < side <= LARGEST_BLOCK
