"""Time of an operator: its load in the form of the book that the fit of its kind names."""

from __future__ import annotations

from functools import lru_cache

from ..errors import InputError
from ..formula import Formula
from ..formulas import operators as forms
from ..formulas import roofline
from ..inputs.efficiency import OperatorFit
from .instance import InstanceKind
from .work import Load

#: Operator kinds that run at the peak of the weights' dtype; all others run at that of the activations'.
EIGHT_BIT = ("gemm_fp8", "moe_fp8")

#: The formula of each form that an efficiency file may name.
FORMULAS: dict[str, Formula] = {
    "tile_roofline": forms.tile_roofline_time,
    "additive": forms.additive_time,
    "streaming": forms.streaming_time,
    "decode_attention": forms.decode_attention_time,
    "latent_decode": forms.latent_decode_time,
    "all_reduce": forms.all_reduce_time,
}


def fit_of(kind: InstanceKind, operator: str) -> OperatorFit:
    """Return the fit of an operator kind. Raises InputError when the efficiency file has none."""
    try:
        return kind.efficiency.operators[operator]
    except KeyError:
        known = ", ".join(sorted(kind.efficiency.operators))
        why = f", which {kind.weight_dtype} weights need: pass --dtype bf16" if operator in EIGHT_BIT else ""
        raise InputError(
            f"the efficiency file of {kind.efficiency.gpu} has no fit for {operator!r}{why} (it has: {known})"
        ) from None


def peak(kind: InstanceKind, operator: str) -> float:
    """Return the peak rate at which an operator kind runs, flop/s."""
    return kind.product_peak if operator in EIGHT_BIT else kind.activation_peak


@lru_cache(maxsize=1024)
def _prepared(kind: InstanceKind, operator: str) -> tuple[Formula, list[float], list[tuple[int, str]]]:
    """Return the formula of an operator kind, its arguments, and which of them each load fills in."""
    fit = fit_of(kind, operator)
    formula = FORMULAS[fit.form]
    arguments, from_load = [0.0] * len(formula.parameters), []
    for position, name in enumerate(formula.parameters):
        if name in Load._fields:
            from_load.append((position, name))
        elif name in fit.parameters:
            arguments[position] = fit.parameters[name]
        else:
            arguments[position] = _of_hardware(kind, operator, name)
    return formula, arguments, from_load


def _of_hardware(kind: InstanceKind, operator: str, name: str) -> float:
    if name == "peak_flop_per_s":
        return peak(kind, operator)
    if name == "memory_bytes_per_s":
        return kind.memory_peak
    return {"tp": float(kind.tp), "link_bytes_per_s": kind.gpu.get("nvlink_bandwidth")}[name]


def load_time(kind: InstanceKind, load: Load) -> float:
    """Return the time of one run of an operator, in seconds."""
    formula, prepared, from_load = _prepared(kind, load.kind)
    arguments = prepared.copy()
    for position, name in from_load:
        arguments[position] = getattr(load, name)
    return float(formula(*arguments))


def load_bound(kind: InstanceKind, load: Load) -> float:
    """Return the least time of one run of an operator on its own: its roofline, or its bytes on the link."""
    if load.kind == "all_reduce":
        return float(forms.all_reduce_bound(load.bytes_moved, kind.tp, kind.gpu.get("nvlink_bandwidth")))
    return float(roofline.roofline_time(load.flop, load.bytes_moved, peak(kind, load.kind), kind.memory_peak))
