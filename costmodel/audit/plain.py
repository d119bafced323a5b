"""A model of which only its size is known: as a report states it, by the model's name, or in a dtype made elsewhere."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..inputs.hardware import Gpu
from ..records import Stated

_ACTIVE = re.compile(r"(?i)(?<![a-z0-9])A(\d+(?:\.\d+)?)B(?![a-z0-9])")
_SIZE = re.compile(r"(?i)(?<![a-z0-9.])(\d+(?:\.\d+)?)B(?![a-z0-9])")
#: Words of names whose size is that of all experts, of which a token multiplies a part.
_EXPERTS = re.compile(
    r"(?i)moe|\d+x\d|\d+E\b|mixtral|grok|deepseek(?!.*distill)|kimi|glm-[4-9]|minimax|ling|gpt-oss"
)
FOUR_BITS = frozenset(
    ["fp4", "nvfp4", "mxfp4", "int4", "awq", "gptq", "w4a16", "w4a4", "w4a8", "q4", "awq-4bit", "4bit"]
)
_FAST = frozenset(["fp4", "nvfp4", "mxfp4", "w4a4"])


@dataclass(frozen=True)
class Plain:
    """Parameters that a token multiplies, bytes of each, the dtype of their products and where the size is from."""

    parameters: float
    bytes_each: float
    product: str
    source: str

    def product_of(self, gpu: Gpu) -> str:
        """Dtype of the products on a GPU: of 16 bits where it has no peak of the narrower one."""
        return self.product if f"peak_{self.product}" in gpu.values else "bf16"


def plain_of(conditions: Mapping[str, Stated], dtype: str | None) -> Plain | None:
    """Return the model by its stated size, else by the size in its name; None where neither says one."""
    for key in ("active_parameters", "parameters"):
        stated = conditions.get(key)
        if isinstance(stated, int | float) and stated > 0:
            return sized(float(stated), dtype, "as stated")
    name = str(conditions.get("model", ""))
    active = _ACTIVE.search(name)
    size = active or (None if _EXPERTS.search(name) else _SIZE.search(name))
    return sized(float(size[1]) * 1e9, dtype, "by its name") if size else None


def sized(parameters: float, dtype: str | None, source: str) -> Plain:
    """Return so many parameters in a dtype; two bytes each where none is stated."""
    word = str(dtype or "").lower()
    each = 0.5 if word in FOUR_BITS else 1.0 if "8" in word else 2.0
    narrow = "fp8" if word == "w4a8" else word
    product = "fp4" if word in _FAST else narrow if narrow in ("fp8", "int8") else "bf16"
    return Plain(parameters, each, product, source)
