"""compressed-tensors: groups of modules, each with a scheme for its weights and one for its inputs.

Source: compressed-tensors 0.20 (quant_scheme.py, quant_args.py, config/base.py) and vLLM 0.33
(compressed_tensors.py): an ignored module is wide; else the first target that names it decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ...errors import unknown
from ...inputs.formats import WeightFormat
from ..config import Config, shown
from .base import (
    HEAD_NAMES,
    MXFP4_LINEAR,
    NVFP4,
    NVFP4_WEIGHT_ONLY,
    WIDENED,
    Quantisation,
    block_sides,
    group_size,
    is_head,
    kv_scheme,
    strings,
)
from .matching import Matcher, by_pattern

#: format -> (type, bits) of the weights that it stores.
FORMATS: dict[str, tuple[tuple[str, int], ...]] = {
    "pack-quantized": (("int", 4), ("int", 8)),
    "int-quantized": (("int", 8),),
    "float-quantized": (("float", 8),),
    "naive-quantized": (("int", 8), ("float", 8)),
    "nvfp4-pack-quantized": (("float", 4),),
    "mxfp4-pack-quantized": (("float", 4),),
    "mxfp8-quantized": (("float", 8),),
}
STRATEGIES = ("tensor", "channel", "group", "block", "tensor_group")


def compressed_tensors(quant: Config, config: Config) -> Quantisation | None:
    """Read ``config_groups`` (each may have a ``format`` of its own), ``ignore`` and ``kv_cache_scheme``."""
    groups = quant.data.get("config_groups")
    if (
        not isinstance(groups, dict)
        or not groups
        or not all(isinstance(one, dict) for one in groups.values())
    ):
        quant.problems.append(
            f"{quant.inside}config_groups is {shown(groups)}; expected an object of objects"
        )
        return None
    _refuse_sparsity(quant)
    entries: list[tuple[str, WeightFormat]] = []
    for name, group in groups.items():
        inner = Config(group, quant.where, quant.name, inside=f"{quant.inside}config_groups.{name}")
        fmt = _group_format(inner, quant.data.get("format"))
        entries += [(target, fmt) for target in _targets(inner)]
        quant.problems += inner.problems
    listed = strings(quant, "ignore")
    ignored = Matcher(listed, "exact", config.model_type)
    kv_dtype = kv_scheme(quant, "kv_cache_scheme")
    if quant.problems or not entries:
        return None
    named = [entry for entry in entries if entry[0] != "Linear"]
    classes = [fmt for target, fmt in entries if target == "Linear"]
    first = by_pattern([target for target, _ in named], "exact", config.model_type)

    def rule(index: int, module: str) -> WeightFormat | None:
        if ignored(index, module):
            return None
        place = first(index, module)
        return named[place][1] if place is not None else (classes[0] if classes else None)

    head = _head(named, listed)
    if classes and head is None:
        _note_head(quant, config, listed)
    for label in sorted({fmt.name for _, fmt in entries if fmt.bits == 4 and fmt.name != "int4"}):
        config.notes.append(WIDENED.format(label))
    return Quantisation(min((fmt for _, fmt in entries), key=lambda fmt: fmt.bits).name, rule, kv_dtype, head)


def _head(named: Sequence[tuple[str, WeightFormat]], ignored: Sequence[str]) -> WeightFormat | None:
    """Format of the head: that of the first target that names it. ``Linear`` is not the class of vLLM's head."""
    if any(map(_names_head, ignored)):
        return None
    return next((fmt for target, fmt in named if _names_head(target)), None)


def _names_head(entry: str) -> bool:
    if not entry.startswith("re:"):
        return is_head(entry)
    return any(re.match(entry[3:], name) for name in HEAD_NAMES)


def _note_head(quant: Config, config: Config, ignored: Sequence[str]) -> None:
    """Say that a head of the model's own which is not left out is counted wide all the same."""
    if config.data.get("tie_word_embeddings") is not True and not any(map(_names_head, ignored)):
        config.notes.append(
            f"{quant.inside}ignore does not name lm_head: it is counted unquantised all the same, as targets "
            "of the class Linear do not reach the head of vLLM 0.33"
        )


def _refuse_sparsity(quant: Config) -> None:
    sparsity = quant.data.get("sparsity_config")
    stored = sparsity.get("format", "dense") if isinstance(sparsity, Mapping) else sparsity
    quant.check(
        stored in (None, "dense"),
        f"{quant.inside}sparsity_config has the format {shown(stored)}; sparse weights are not modelled",
    )


def _targets(group: Config) -> list[str]:
    """Return what a group applies to: Linear (all matrices), names or expressions."""
    targets = strings(group, "targets")
    if not targets and not group.problems:
        group.problems.append(f'{group.inside}targets is missing; expected a list such as ["Linear"]')
    for target in targets:
        group.check(
            target in ("Linear", "lm_head") or target.startswith("re:") or "." in target,
            f"{group.inside}targets names {shown(target)}; expected Linear, the name of a module or re:...",
        )
    return targets


def _group_format(group: Config, outer: object) -> WeightFormat:
    stored = group.data.get("format") or outer
    fallback = WeightFormat("fp8", 8)
    if not isinstance(stored, str) or stored not in FORMATS:
        known = ", ".join(FORMATS)
        said = f"{group.inside}format of the weights"
        group.problems.append(unknown(said, str(stored), FORMATS, remedy=f"(known: {known})"))
        return fallback
    weights = group.data.get("weights")
    if not isinstance(weights, dict):
        group.problems.append(f"{group.inside}weights is {shown(weights)}; expected an object")
        return fallback
    inner = Config(weights, group.where, group.name, inside=f"{group.inside}weights")
    kind = (str(weights.get("type", "int")), weights.get("num_bits"))
    if kind not in FORMATS[stored]:
        expected = " or ".join(f"{bits} bits of type {name}" for name, bits in FORMATS[stored])
        inner.problems.append(
            f"{inner.inside}num_bits and type are {kind[1]} and {kind[0]}; {stored} stores {expected}"
        )
        group.problems += inner.problems
        return fallback
    inputs, static = _inputs(group)
    found = _scheme(inner, stored, inputs, static)
    group.problems += inner.problems
    group.check(
        inputs is None or found.name not in ("fp8", "int8", "int4") or inputs == _inputs_of(stored, kind),
        f"{group.inside}input_activations has {inputs and inputs[1]} bits of type {inputs and inputs[0]}; "
        f"not modelled beside {stored} weights of {kind[1]} bits of type {kind[0]}",
    )
    return found


def _inputs_of(stored: str, kind: tuple[str, object]) -> tuple[str, object]:
    """Return what inputs may be quantised to: as the weights, or fp8 beside packed ones (W4AFP8)."""
    return ("float", 8) if stored == "pack-quantized" else kind


def _inputs(group: Config) -> tuple[tuple[str, object] | None, bool]:
    """Return type and bits of the inputs' scheme (None: they stay wide) and whether a scale is stored for them."""
    inputs = group.data.get("input_activations")
    if inputs is None:
        return None, False
    if not isinstance(inputs, dict):
        group.problems.append(
            f"{group.inside}input_activations is {shown(inputs)}; expected an object or null"
        )
        return None, False
    return (str(inputs.get("type", "int")), inputs.get("num_bits")), inputs.get("dynamic") in (None, False)


def _scheme(weights: Config, stored: str, inputs: tuple[str, object] | None, static: bool) -> WeightFormat:
    if stored == "nvfp4-pack-quantized":
        return NVFP4 if inputs else NVFP4_WEIGHT_ONLY
    if stored == "mxfp4-pack-quantized":
        return MXFP4_LINEAR
    if stored == "mxfp8-quantized":
        return WeightFormat("fp8", 8, (1, 32), scale_bytes=1)
    kind, bits = weights.data.get("type", "int"), 4 if weights.data["num_bits"] == 4 else 8
    label = "fp8" if kind == "float" else f"int{bits}"
    block = _block(weights)
    scalars = 1 if static and inputs else 0
    if stored == "pack-quantized":
        zero = 0 if weights.data.get("symmetric", True) else bits
        index = 4 if weights.data.get("actorder") in ("group", "dynamic", True) else 0
        product = "fp8" if inputs else None
        return WeightFormat(label, bits, block, 2, zero_bits=zero, product_dtype=product, column_bytes=index)
    return WeightFormat(label, bits, block, 4, product_dtype=label if inputs else None, scalars=scalars)


def _block(weights: Config) -> tuple[int, int]:
    """Return the block that a strategy gives a scale; absent: groups where a size is stated, else a tensor."""
    strategy = weights.text("strategy", STRATEGIES)
    if strategy is None:
        strategy = "tensor" if weights.null("group_size") else "group"
    if strategy == "block":
        return block_sides(weights, "block_structure")
    if strategy in ("group", "tensor_group"):
        return 1, group_size(weights, "group_size")
    return (1, 0) if strategy == "channel" else (0, 0)
