"""Methods whose whole checkpoint has one format: fp8, fbgemm_fp8, gptq, awq, mxfp4, bitsandbytes.

Which tensors each stores is that of vLLM 0.33 (model_executor/layers/quantization/*.py) and transformers
5.24 (quantizers/*.py).
"""

from __future__ import annotations

import re

from ...inputs.formats import WeightFormat
from ..config import Config, shown
from .base import (
    MXFP4,
    MXFP4_LINEAR,
    WIDENED,
    Quantisation,
    block_sides,
    group_size,
    refuse_head,
    strings,
    usable,
)
from .matching import Matcher, module_names

FP8_CHANNEL = WeightFormat("fp8", 8, (1, 0), scale_bytes=4, product_dtype="fp8")


def fp8(quant: Config, config: Config) -> Quantisation | None:
    """Blocks of ``weight_block_size`` or, without it, a scale a matrix; static activations add one scale.

    ``ignored_layers`` wins over ``modules_to_not_convert``. DeepSeek-V4 (and ``store_dtype``) keeps its
    experts in mxfp4 nevertheless. MiniMax writes bare names such as ``gate``.
    """
    quant.text("fmt", ("e4m3", "float8_e4m3fn"))
    static = quant.text("activation_scheme", ("dynamic", "static")) == "static"
    block = (0, 0) if quant.null("weight_block_size") else block_sides(quant, "weight_block_size")
    each = WeightFormat("fp8", 8, block, 4, product_dtype="fp8", scalars=1 if static else 0)
    skipped = strings(quant, "ignored_layers") or strings(quant, "modules_to_not_convert")
    ignored = Matcher(skipped, "dotted", config.model_type)
    if not _fp4_experts(quant, config):
        return Quantisation("fp8", lambda index, module: None if ignored(index, module) else each)
    config.notes.append(WIDENED.format("mxfp4"))

    def rule(index: int, module: str) -> WeightFormat | None:
        if ignored(index, module):
            return None
        return MXFP4_LINEAR if ".experts." in module else each

    return Quantisation("mxfp4", rule)


def _fp4_experts(quant: Config, config: Config) -> bool:
    if config.model_type == "deepseek_v4":
        quant.check(
            quant.null("moe_quant_algo"),
            f"{quant.inside}moe_quant_algo is {shown(quant.data.get('moe_quant_algo'))}; not modelled",
        )
        return (config.text("expert_dtype", ("fp4", "fp8")) or "fp4") == "fp4"
    return quant.text("store_dtype", ("fp8", "mxfp4")) == "mxfp4"


def fbgemm_fp8(quant: Config, config: Config) -> Quantisation | None:
    """A scale a row; inputs are quantised while running."""
    ignored = Matcher(strings(quant, "modules_to_not_convert"), "dotted", config.model_type)
    return Quantisation("fp8", lambda index, module: None if ignored(index, module) else FP8_CHANNEL)


def gptq(quant: Config, config: Config) -> Quantisation | None:
    """Groups of a row with a 16-bit scale, a zero point (symmetric or not) and the group of each column."""
    refuse_head(quant)
    quant.flag("desc_act", False)
    quant.flag("sym", True)
    each = _gptq_format(_bits(quant, "bits", (4, 8)), group_size(quant, "group_size"))
    allowed = _in_block(quant)
    overrides = _overrides(quant, each, config.model_type)
    names = config.model_type

    def rule(index: int, module: str) -> WeightFormat | None:
        if allowed and not allowed.intersection(module_names(names, module)):
            return None
        return next((fmt for matcher, fmt in overrides if matcher(index, module)), each)

    return Quantisation(each.name, rule)


def _gptq_format(bits: int, group: int) -> WeightFormat:
    return WeightFormat(f"int{bits}", bits, (1, group), scale_bytes=2, zero_bits=bits, column_bytes=4)


def _in_block(quant: Config) -> set[str]:
    """Return the only modules of a layer that are quantised: a list of names or of lists of them."""
    value = quant.data.get("modules_in_block_to_quantize")
    if value is None:
        return set()
    parts = value if isinstance(value, list) else []
    flat = [name for part in parts for name in (part if isinstance(part, list) else [part])]
    if flat and all(isinstance(name, str) for name in flat):
        return set(flat)
    field = f"{quant.inside}modules_in_block_to_quantize"
    quant.problems.append(f"{field} is {shown(value)}; expected a list of names of modules")
    return set()


def _overrides(
    quant: Config, each: WeightFormat, model_type: str
) -> list[tuple[Matcher, WeightFormat | None]]:
    """GPTQModel's ``dynamic``: expressions that leave modules wide ("-:") or give them bits and group size."""
    value = quant.data.get("dynamic")
    if value is None:
        return []
    if not isinstance(value, dict) or not all(isinstance(own, dict) for own in value.values()):
        quant.problems.append(f"{quant.inside}dynamic is {shown(value)}; expected an object of objects")
        return []
    found: list[tuple[Matcher, WeightFormat | None]] = []
    for key, own in value.items():
        entry = "re:" + re.sub(r"^[-+]:", "", key)
        if not usable(quant, "dynamic", entry):
            continue
        fmt = None
        if not key.startswith("-:"):
            inner = Config(
                {"bits": each.bits, **own}, quant.where, quant.name, inside=f"{quant.inside}dynamic"
            )
            group = group_size(inner, "group_size") if "group_size" in own else (each.block or (1, 0))[1]
            fmt = _gptq_format(_bits(inner, "bits", (4, 8)), group)
            quant.problems += inner.problems
        found.append((Matcher([entry], "dotted", model_type), fmt))
    return found


def awq(quant: Config, config: Config) -> Quantisation | None:
    """Groups of a row with a 16-bit scale and a 4-bit zero point; a listed name may be part of a module's."""
    refuse_head(quant)
    for ours, theirs in (("bits", "w_bit"), ("group_size", "q_group_size")):
        if quant.absent(ours) and not quant.absent(theirs):
            quant.data = {**quant.data, ours: quant.data[theirs]}
    bits = _bits(quant, "bits", (4,))
    zero = bits if quant.flag("zero_point", True) else 0
    each = WeightFormat("int4", bits, (1, group_size(quant, "group_size")), scale_bytes=2, zero_bits=zero)
    ignored = Matcher(strings(quant, "modules_to_not_convert"), "substring", config.model_type)
    return Quantisation("int4", lambda index, module: None if ignored(index, module) else each)


def mxfp4(quant: Config, config: Config) -> Quantisation | None:
    """gpt-oss: only routed experts are mxfp4, whatever the list names."""
    strings(quant, "modules_to_not_convert")
    config.notes.append(WIDENED.format("mxfp4"))
    return Quantisation("mxfp4", lambda index, module: MXFP4 if ".experts." in module else None)


def bitsandbytes(quant: Config, config: Config) -> Quantisation | None:
    """nf4: an fp32 scale for 64 weights, itself in 8 bits with double quantisation; int8: one a row.

    The scales of the scales (one for 16,384 weights) are left out.
    """
    ignored = Matcher(strings(quant, "llm_int8_skip_modules"), "components", config.model_type)
    four = quant.data.get("load_in_4bit") is True
    quant.check(
        four != (quant.data.get("load_in_8bit") is True),
        f"{quant.inside}load_in_4bit and load_in_8bit: expected that one of them is true",
    )
    each = WeightFormat("int8", 8, (1, 0), scale_bytes=4)
    if four:
        quant.text("bnb_4bit_quant_type", ("nf4", "fp4"))
        double = quant.data.get("bnb_4bit_use_double_quant") is True
        each = WeightFormat("int4", 4, (1, 64), scale_bytes=1 if double else 4)
    return Quantisation(each.name, lambda index, module: None if ignored(index, module) else each)


def _bits(quant: Config, field: str, known: tuple[int, ...]) -> int:
    value = quant.data.get(field)
    if type(value) is int and value in known:
        return value
    expected = " or ".join(str(bits) for bits in known)
    said = "is missing" if field not in quant.data else f"is {shown(value)}"
    quant.problems.append(f"{quant.inside}{field} {said}; expected {expected}")
    return known[0]
