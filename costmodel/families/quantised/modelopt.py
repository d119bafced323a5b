"""NVIDIA's Model Optimizer: one algorithm for all matrices that no list leaves out, or one a module.

Its fields lie in ``config.json`` or in an ``hf_quant_config.json`` that was copied into it. Source: vLLM
0.33 (modelopt.py) and nvidia-modelopt 0.47.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from ...errors import unknown
from ...inputs.formats import WeightFormat
from ..config import Config, shown
from .base import (
    HEAD_NAMES,
    NVFP4,
    NVFP4_WEIGHT_ONLY,
    WIDENED,
    Quantisation,
    is_head,
    kv_scheme,
    strings,
    usable,
)
from .matching import Matcher
from .methods import FP8_CHANNEL

MIXED = "MIXED_PRECISION"
ALGORITHMS: dict[str, WeightFormat] = {
    "FP8": WeightFormat("fp8", 8, (0, 0), scale_bytes=4, product_dtype="fp8", scalars=1),
    "FP8_PER_CHANNEL_PER_TOKEN": FP8_CHANNEL,
    "FP8_PB_WO": WeightFormat("fp8", 8, (128, 128), scale_bytes=4, product_dtype="fp8"),
    "NVFP4": NVFP4,
    "W4A16_NVFP4": NVFP4_WEIGHT_ONLY,
    "MXFP8": WeightFormat("fp8", 8, (1, 32), scale_bytes=1),
}


def modelopt(quant: Config, config: Config) -> Quantisation | None:
    """Read ``quant_algo``, ``ignore`` or ``exclude_modules`` (names, wildcards) and the KV cache's scheme.

    A head of the model's own is quantised like all else unless the list names it.
    """
    inner = quant.data.get("quantization")
    if isinstance(inner, Mapping):
        quant.data = {**quant.data, **inner}
    field = "ignore" if not quant.null("ignore") else "exclude_modules"
    listed = strings(quant, field)
    ignored = Matcher(listed, "glob", config.model_type)
    kv_dtype = kv_scheme(quant, "kv_cache_scheme") or kv_scheme(quant, "kv_cache_quant_algo")
    if str(quant.data.get("quant_algo")).upper() == MIXED:
        return _mixed(quant, config, ignored, listed, kv_dtype)
    each = _algorithm(quant, "quant_algo", [MIXED])
    if each is None:
        return None
    if each == NVFP4 and _weights_only(quant):
        each = NVFP4_WEIGHT_ONLY
    if each.name == "nvfp4":
        config.notes.append(WIDENED.format("nvfp4"))
    head = None if _names_head(listed) else each
    return Quantisation(each.name, lambda i, module: None if ignored(i, module) else each, kv_dtype, head)


def _names_head(entries: Sequence[str]) -> bool:
    """Whether a list leaves out the head: an entry is part of its name, or a wildcard for it."""
    return any(
        is_head(entry) or any(entry in name or fnmatchcase(name, entry) for name in HEAD_NAMES)
        for entry in entries
    )


def _weights_only(quant: Config) -> bool:
    groups = quant.data.get("config_groups")
    if not isinstance(groups, Mapping) or not groups:
        return False
    return all(isinstance(one, Mapping) and one.get("input_activations") is None for one in groups.values())


def _algorithm(quant: Config, field: str, others: list[str]) -> WeightFormat | None:
    named = str(quant.data.get(field)).upper()
    if named not in ALGORITHMS:
        known = [*ALGORITHMS, *others]
        said = unknown(
            quant.inside + field, str(quant.data.get(field)), known, remedy=f"(known: {', '.join(known)})"
        )
        quant.problems.append(said)
        return None
    found = ALGORITHMS[named]
    size = quant.data.get("group_size")
    expected = found.block[1] if found.block else 0
    quant.check(
        found.bits == 8 or size in (None, expected),
        f"{quant.inside}group_size is {shown(size)}; {named} has groups of {expected}",
    )
    return found


def _mixed(
    quant: Config, config: Config, ignored: Matcher, listed: Sequence[str], kv_dtype: str | None
) -> Quantisation | None:
    """``quantized_layers`` gives the algorithm of each module or of all inside one; all others stay wide."""
    layers = quant.data.get("quantized_layers")
    if (
        not isinstance(layers, Mapping)
        or not layers
        or not all(isinstance(one, Mapping) for one in layers.values())
    ):
        quant.problems.append(
            f"{quant.inside}quantized_layers is {shown(layers)}; expected an object of objects"
        )
        return None
    names: dict[WeightFormat, list[str]] = {}
    for name, own in layers.items():
        inner = Config(own, quant.where, quant.name, inside=f"{quant.inside}quantized_layers.{name}")
        fmt = _algorithm(inner, "quant_algo", [])
        quant.problems += inner.problems
        if fmt and usable(quant, "quantized_layers", name):
            names.setdefault(fmt, []).append(name)
    if not names:
        return None
    matchers = [(fmt, Matcher(own, "dotted", config.model_type)) for fmt, own in names.items()]

    def rule(index: int, module: str) -> WeightFormat | None:
        if ignored(index, module):
            return None
        return next((fmt for fmt, matcher in matchers if matcher(index, module)), None)

    narrowest = min(names, key=lambda fmt: fmt.bits)
    if narrowest.name == "nvfp4":
        config.notes.append(WIDENED.format("nvfp4"))
    heads = [fmt for fmt, own in names.items() if not _names_head(listed) and any(map(is_head, own))]
    return Quantisation(narrowest.name, rule, kv_dtype, heads[0] if heads else None)
