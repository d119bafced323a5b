"""What every quantisation method answers, and fields that several methods share."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from ...inputs.formats import WeightFormat
from ..config import Config, shown

#: Format of a module of a layer; None: wide.
Rule = Callable[[int, str], WeightFormat | None]

#: What checkpoints and engines call the head.
HEAD_NAMES = ("lm_head", "language_model.lm_head")

LARGEST_SIDE = 65_536
GROUP_SIZES = (16, 32, 64, 128, 256, 512, 1024)

NVFP4 = WeightFormat("nvfp4", 4, (1, 16), scale_bytes=1, scalars=2)
NVFP4_WEIGHT_ONLY = WeightFormat("nvfp4", 4, (1, 16), scale_bytes=1, scalars=1)
MXFP4_LINEAR = WeightFormat("mxfp4", 4, (1, 32), scale_bytes=1)
#: vLLM on Hopper (0.11 to 0.19, mxfp4.py, Triton) rearranges the scales of experts and keeps the stored ones.
MXFP4 = WeightFormat("mxfp4", 4, (1, 32), scale_bytes=1, scales_held=2, width_multiple=64)
WIDENED = (
    "{}: products are counted in the dtype of the activations, as engines widen such weights before Blackwell"
)


@dataclass(frozen=True)
class Quantisation:
    """``label`` names the checkpoint's format (the narrowest of several); ``kv_dtype`` that of its KV cache.

    ``head``: that of a head of its own; None: wide.
    """

    label: str
    rule: Rule
    kv_dtype: str | None = None
    head: WeightFormat | None = None


def is_head(entry: str) -> bool:
    """Whether an entry is the name of the head, whatever it lies in."""
    return entry in HEAD_NAMES or entry.endswith(".lm_head")


def strings(quant: Config, field: str) -> list[str]:
    """Return a list of names; absent or null: empty. Entries with ``re:`` must be regular expressions."""
    value = quant.data.get(field)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        quant.problems.append(f"{quant.inside}{field} is {shown(value)}; expected a list of names of modules")
        return []
    return [entry for entry in value if usable(quant, field, entry)]


def usable(quant: Config, field: str, entry: str) -> bool:
    """Return whether an entry is a name or a regular expression; record it where it is neither."""
    if not entry:
        quant.problems.append(f"{quant.inside}{field} holds an empty name")
        return False
    if entry.startswith("re:"):
        try:
            re.compile(entry[3:])
        except re.error as error:
            quant.problems.append(
                f"{quant.inside}{field} holds {shown(entry)}: no regular expression, {error}"
            )
            return False
    return True


def kv_scheme(quant: Config, field: str) -> str | None:
    """Return the dtype of the KV cache that a scheme or the name of an algorithm states; None: that of the model.

    Source: vLLM 0.33, attention.py and torch_utils.py.
    """
    value = quant.data.get(field)
    if value is None:
        return None
    if isinstance(value, dict) and value.get("type") == "float":
        bits = value.get("num_bits")
        value = "FP8" if bits == 8 else "NVFP4" if bits == 4 else value
    if isinstance(value, str) and value.upper() in ("FP8", "NVFP4"):
        return value.lower()
    quant.problems.append(
        f"{quant.inside}{field} is {shown(value)}; expected FP8 or NVFP4 (8 or 4 bits, float)"
    )
    return None


def group_size(quant: Config, field: str) -> int:
    """Return the weights of a row that share a scale; 0 (written as -1): the whole row."""
    value = quant.data.get(field)
    if value == -1:
        return 0
    if type(value) is int and value in GROUP_SIZES:
        return value
    sizes = ", ".join(str(size) for size in GROUP_SIZES)
    quant.problems.append(f"{quant.inside}{field} is {shown(value)}; expected -1 (a row) or one of {sizes}")
    return 0


def block_sides(quant: Config, field: str) -> tuple[int, int]:
    """Return the rows and columns of a block."""
    value = quant.data.get(field)
    sides = value if isinstance(value, list) else []
    if len(sides) == 2 and all(type(side) is int and 0 < side <= LARGEST_SIDE for side in sides):
        return sides[0], sides[1]
    quant.problems.append(f"{quant.inside}{field} is {shown(value)}; expected two whole numbers")
    return 1, 1


def refuse_head(quant: Config) -> None:
    """Refuse a quantised head: it is counted as wide as the embedding."""
    quant.check(
        not quant.data.get("lm_head"),
        f"{quant.inside}lm_head is {shown(quant.data.get('lm_head'))}; a quantised head is not modelled",
    )
