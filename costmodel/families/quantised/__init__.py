"""Quantised checkpoints: what each ``quant_method`` of a ``quantization_config`` stores in which format."""

from __future__ import annotations

from collections.abc import Callable

from ...errors import unknown
from ..config import Config, shown
from .base import Quantisation
from .compressed import compressed_tensors
from .methods import awq, bitsandbytes, fbgemm_fp8, fp8, gptq, mxfp4
from .modelopt import modelopt

#: quant_method -> its reader.
METHODS: dict[str, Callable[[Config, Config], Quantisation | None]] = {
    "awq": awq,
    "bitsandbytes": bitsandbytes,
    "compressed-tensors": compressed_tensors,
    "fbgemm_fp8": fbgemm_fp8,
    "fp8": fp8,
    "gptq": gptq,
    "modelopt": modelopt,
    "mxfp4": mxfp4,
}
#: Names of the kernels that engines write into configurations of the same storage.
SAME = {"awq_marlin": "awq", "gptq_marlin": "gptq", "modelopt_fp4": "modelopt", "modelopt_mixed": "modelopt"}


def read_quantisation(config: Config) -> Quantisation | None:
    """Return what a configuration says of its quantised modules; problems are recorded in ``config``."""
    field = "compression_config" if config.null("quantization_config") else "quantization_config"
    data = config.data[field]
    if not isinstance(data, dict):
        config.problems.append(f"{config.inside}{field} is {shown(data)}; expected an object")
        return None
    quant = Config(data, config.where, config.name, inside=f"{config.inside}{field}")
    quant.problems.clear()  # numbers that are not finite: found already
    method = _method(quant)
    found = METHODS[method](quant, config) if method else None
    config.problems += quant.problems
    config.notes += [f"{quant.inside}{note}" for note in quant.notes]
    return found


def _method(quant: Config) -> str | None:
    """Return the method; where a file names none, that which its other fields belong to."""
    named = quant.data.get("quant_method")
    if isinstance(named, str) and (named in METHODS or named in SAME):
        return SAME.get(named, named)
    if named is not None:
        known = ", ".join(METHODS)
        said = unknown(f"{quant.inside}quant_method", str(named), METHODS, remedy=f"(known: {known})")
        quant.problems.append(said)
        return None
    if "quant_algo" in quant.data or "quantization" in quant.data:
        return "modelopt"
    if "load_in_4bit" in quant.data or "load_in_8bit" in quant.data:
        return "bitsandbytes"
    if "config_groups" in quant.data:
        return "compressed-tensors"
    quant.problems.append(f"{quant.inside}quant_method is missing; expected one of {', '.join(METHODS)}")
    return None
