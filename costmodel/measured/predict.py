"""Predicted times of measured runs under the fits of a GPU and stack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import InputError
from ..inputs.efficiency import OperatorFit
from ..inputs.hardware import Gpu
from ..operators.evaluate import Fitted, kernel_time
from ..operators.work import Work
from .points import Points
from .table import Array

Fits = Mapping[str, OperatorFit]

#: Quantities that forms ask for, by the key of a GPU's file.
_OF_GPU = {"sm_count": "sm_count", "nvlink_bandwidth": "link_bytes_per_s"}


def hardware_of(gpu: Gpu, dtype: str) -> dict[str, Any]:
    """Return what forms ask for of a GPU: peaks and L2, SMs and link if it has them."""
    found: dict[str, Any] = {
        "peak_flop_per_s": gpu.peak_flop_per_s(dtype),
        "memory_bytes_per_s": gpu.memory_bytes_per_s,
        "l2_bytes": gpu.l2_bytes,
    }
    return found | {name: gpu.get(key) for key, name in _OF_GPU.items() if key in gpu.values}


def fitted_of(fits: Fits, kind: str) -> Fitted:
    """Return form and parameters of a kind. Raises InputError where no fit is known."""
    if kind not in fits:
        raise InputError(f"no fit of {kind} is known, which the operator leans on: pass tables of it, too")
    return fits[kind].form, fits[kind].parameters


def time_of(
    work: Work, points: Points, dtype: str, form: str, parameters: Mapping[str, float], fits: Fits
) -> Array:
    """Return the time of an operator of each run under a form and its parameters, in seconds."""
    hardware = {**hardware_of(points.gpu, dtype), **points.hardware}
    try:
        found = kernel_time(form, parameters, work, hardware, lambda kind: fitted_of(fits, kind))
    except KeyError as error:
        raise InputError(f"{points.gpu.name} states no {error.args[0]}, which {form} needs") from None
    return np.asarray(np.broadcast_to(found, (len(points),)), dtype=np.float64)


def beside(points: Points, fits: Fits, without: str | None = None) -> Array:
    """Return the time of what a measured time includes besides its operator (and ``without``), in seconds."""
    total = np.zeros(len(points))
    for other in points.beside:
        if other.operator != without:
            fit = fitted_of(fits, other.operator)
            total = total + other.runs * time_of(other.work, points, other.dtype, *fit, fits)
    return total


def predicted(points: Points, fits: Fits) -> Array:
    """Return the predicted time of every run. Raises InputError where a fit is missing."""
    own = time_of(points.work, points, points.dtype, *fitted_of(fits, points.operator), fits)
    return own + beside(points, fits)
