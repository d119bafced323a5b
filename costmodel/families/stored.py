"""In which formats a checkpoint stores its weights: the ``torch_dtype`` and ``quantization_config`` fields."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..inputs.formats import WeightFormat
from ..inputs.tensor import Tensor
from .config import Config, shown
from .quantised import read_quantisation
from .quantised.base import Rule

STORED_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


@dataclass(frozen=True)
class Stored:
    """The name of the checkpoint's format, the dtype of all it leaves wide, and the format of each module.

    ``kv_dtype``: what the checkpoint says of its KV cache; None: nothing. ``head``: the format of a head of the
    model's own; None: wide.
    """

    weight_dtype: str | None
    wide_dtype: str | None
    rule: Rule | None = None
    kv_dtype: str | None = None
    head: WeightFormat | None = None

    def formats(self, index: int, tensors: Iterable[Tensor]) -> tuple[tuple[str, WeightFormat], ...]:
        """Return the modules of layer ``index`` that are not wide, with their formats."""
        if self.rule is None:
            return ()
        found = {t.module: self.rule(index, t.module) for t in tensors if t.kind == "matrix"}
        return tuple((module, fmt) for module, fmt in found.items() if fmt is not None)


def read_storage(config: Config) -> Stored:
    """Return how the checkpoint stores its weights; problems are recorded in ``config``."""
    wide = _wide_dtype(config)
    if config.null("quantization_config") and config.null("compression_config"):
        mlx = config.data.get("quantization")
        config.check(
            not isinstance(mlx, dict) or "bits" not in mlx,
            f"quantization is {shown(mlx)}, as MLX writes it; its formats are not modelled: expected a "
            "quantization_config with a quant_method",
        )
        return Stored(wide, wide)
    found = read_quantisation(config)
    if found is None:
        return Stored(wide, wide)
    return Stored(found.label, wide, found.rule, found.kv_dtype, found.head)


def _wide_dtype(config: Config) -> str | None:
    known = tuple(STORED_DTYPES)
    fields = ("torch_dtype", "dtype")
    named = [value for value in (config.text(field, known) for field in fields) if value]
    config.check(len(set(named)) < 2, f"torch_dtype and dtype differ: {' and '.join(named)}", *fields)
    if not named:
        config.notes.append(
            "torch_dtype absent: the dtype of the checkpoint is not known; engines load 16 bits unless told otherwise"
        )
        return None
    return STORED_DTYPES[named[0]]
