"""Measured efficiencies of one (GPU, software stack): a few parameters per operator kind, and errors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from ..data import HARDWARE, Reader, load_toml, locate, resource_names
from ..errors import InputError
from ..operators.catalogue import FORMS, KINDS, PARAMETERS, UNMEASURED
from .hardware import Gpu, gpu_names, load_gpu

FOLDER = "efficiency"
#: Between GPU and stack in the name of a packaged file.
SEPARATOR = "--"
#: Generations of which each is the successor of the one before: data-centre boards, and the others.
LINES = (("ampere", "hopper", "blackwell"), ("ampere-ga10x", "ada", "blackwell-gb20x"))

_ABOUT = ("form", "source", "points", "held_out_points", "split", "fitted_mape", "held_out_mape")
_REMARKS = ("held_out_bias", "fitted_on", "carried_mape", "carried_to", "stack", "borrowed", "note")


#: Factor on the error of a borrowed fit where carrying it that way was not measured: the geometric mean over the 58
#: packaged fits that were tried on another GPU of their line (docs/validation/operators.md).
BORROWED = 2.8
#: Mean sizes of held-out errors to the edge of a band that holds for four points in five: 1.6 would do where errors
#: are normal, real ones have longer tails. What it covers of them stands in docs/validation/accuracy.md.
COVER = 1.75
#: Least factor on the error of a borrowed fit, where carrying it cost less than that once.
WIDER = 1.5


@dataclass(frozen=True)
class OperatorFit:
    """A fit of one operator kind. ``parameters`` are shares, seconds, bytes or rows; errors are fractions.

    ``fitted_on``: the shapes or models that the fit saw. ``carried_mape``: its error on ``carried_to``, another
    GPU. ``stack`` is given where it is not the file's; ``borrowed`` says from which GPU a fit is taken,
    ``given`` that the user passed it. ``factor``: on the time of the form, where a stack runs the kernel.
    """

    kind: str
    form: str
    parameters: Mapping[str, float] = field(hash=False)
    source: str
    points: int
    held_out_points: int
    split: str
    fitted_mape: float
    held_out_mape: float
    held_out_bias: float | None = None
    fitted_on: tuple[str, ...] = ()
    carried_mape: float | None = None
    carried_to: str | None = None
    stack: str | None = None
    borrowed: str | None = None
    note: str | None = None
    given: bool = False
    factor: float = 1.0

    @property
    def error(self) -> float:
        """The error to expect, a fraction: held out, or for a borrowed fit that of carrying it over."""
        if self.borrowed is None:
            return self.held_out_mape
        carried = self.held_out_mape * BORROWED if self.carried_mape is None else self.carried_mape
        return max(WIDER * self.held_out_mape, carried)


@dataclass(frozen=True)
class Efficiency:
    """The fits of one GPU and stack; ``borrowed_from``: the GPU of which they stand for another."""

    gpu: str
    stack: str
    date: str
    operators: Mapping[str, OperatorFit] = field(hash=False)
    borrowed_from: str | None = None


def efficiency_names() -> tuple[str, ...]:
    """Return the names of the packaged files: GPU--stack."""
    return resource_names(HARDWARE, FOLDER)


def load_efficiency(name_or_path: str | Path) -> Efficiency:
    """Return a packaged file of efficiencies, or that of a path. Raises InputError with all its problems."""
    source = locate(name_or_path, HARDWARE, FOLDER, "efficiency")
    reader = Reader(load_toml(source), str(source))
    reader.keys(("gpu", "stack", "date", "operators"))
    operators = reader.sub("operators")
    operators.keys((), KINDS)
    fits = {kind: _fit(kind, operators.sub(kind)) for kind in KINDS if kind in operators.table}
    if "operators" in reader.table and not operators.table:
        reader.note("[operators] holds no operator")
    found = Efficiency(reader.text("gpu"), reader.text("stack"), reader.text("date"), fits)
    reader.close()
    return found


@lru_cache(maxsize=64)
def packaged(name: str) -> Efficiency:
    """Return efficiencies by name or path, read once."""
    return load_efficiency(name)


def files_of(gpu: str) -> tuple[str, ...]:
    """Return the packaged files that were measured on a GPU."""
    return tuple(name for name in efficiency_names() if name.partition(SEPARATOR)[0] == gpu)


def efficiency_for(gpu: Gpu, efficiency: Efficiency | str | Path | None = None) -> Efficiency:
    """Return the efficiencies that stand for ``gpu``, complete: what was not measured on it is borrowed and says so.

    ``efficiency``: those to use first; None: the ones that the GPU's file names. Then come others that were measured
    on the GPU, then those of the nearest GPUs by generation.

    Raises InputError for a GPU of a generation of which nothing was measured, naming what can be passed.
    """
    first = gpu.efficiency if efficiency is None else efficiency
    nearest = [name for other in _lenders(gpu) for name in other]
    if first is None and not nearest:
        raise InputError(
            f"no operator of {gpu.name}, or of a GPU of a generation near it, was measured, so there are no step "
            f"times for it; to borrow the efficiencies of another GPU, pass --efficiency NAME|FILE (packaged: "
            f"{', '.join(efficiency_names())})"
        )
    base = first if isinstance(first, Efficiency) else load_efficiency(nearest[0] if first is None else first)
    chosen = [] if first is None else [base]
    own = [gpu.efficiency] if gpu.efficiency else []
    mine, others = ([packaged(name) for name in names] for names in (
        dict.fromkeys([*own, *files_of(gpu.name)]), dict.fromkeys([*files_of(base.gpu), *nearest]),
    ))  # fmt: skip
    fits: dict[str, OperatorFit] = {}
    for file in (*chosen, *mine, base, *others):
        passed = efficiency is not None and file is base
        for kind, fit in file.operators.items():
            if kind not in fits:
                known = replace(fit, stack=fit.stack or file.stack, given=passed or fit.given)
                fits[kind] = _lent(known, file.gpu, gpu)
        if len(fits) == len(KINDS):
            break
    fits |= _unmeasured(fits)
    return replace(base, operators=fits, borrowed_from=None if base.gpu == gpu.name else base.gpu)


def _unmeasured(fits: Mapping[str, OperatorFit]) -> dict[str, OperatorFit]:
    """Return what stands in for kernels that were not measured anywhere, where attention was."""
    if not {"attention_prefill", "attention_decode"} <= fits.keys():
        return {}
    error = max(fits[kind].error for kind in ("attention_prefill", "attention_decode"))
    source = (
        "no measurement: compute share and latency of prefill attention, bandwidth share of decode attention"
    )
    return {
        UNMEASURED: OperatorFit(
            UNMEASURED, "plain", {}, source, 0, 0, "none", error, error, borrowed="attention"
        )
    }


@lru_cache(maxsize=64)
def _packaged_gpu(name: str) -> Gpu:
    """Return a packaged GPU, read once."""
    return load_gpu(name)


def _lent(fit: OperatorFit, owner: str, gpu: Gpu) -> OperatorFit:
    """Return a fit as ``gpu`` uses it; an error of carrying it along its own line says nothing of another line."""
    if owner == gpu.name:
        return fit
    if owner in gpu_names() and same_line(_packaged_gpu(owner), gpu):
        return replace(fit, borrowed=fit.borrowed or owner)
    return replace(fit, borrowed=fit.borrowed or owner, carried_mape=None, carried_to=None)


@lru_cache(maxsize=64)
def _lenders(gpu: Gpu) -> tuple[tuple[str, ...], ...]:
    """Return the files of each other GPU that has some of its own, nearest generation first."""
    if not any(gpu.generation in line for line in LINES):
        return ()
    found = []
    for name in dict.fromkeys(name.partition(SEPARATOR)[0] for name in efficiency_names()):
        other = load_gpu(name)
        if name != gpu.name and other.efficiency in files_of(name):
            files = dict.fromkeys((other.efficiency, *files_of(name)))
            found.append((_distance(gpu, other), tuple(file for file in files if file)))
    return tuple(files for _, files in sorted(found))


def same_line(one: Gpu, other: Gpu) -> bool:
    """Say whether two GPUs belong to one line of generations."""
    return any(one.generation in line and other.generation in line for line in LINES)


def _distance(gpu: Gpu, other: Gpu) -> tuple[int, int, float]:
    """How far one GPU is from another: line, generations, and ratio of bandwidths."""
    places = [
        next((line, order.index(g.generation)) for line, order in enumerate(LINES) if g.generation in order)
        for g in (gpu, other)
    ]
    (line, age), (other_line, other_age) = places
    bandwidths = [g.values["memory_bandwidth"].value for g in (gpu, other) if "memory_bandwidth" in g.values]
    ratio = abs(math.log(bandwidths[0] / bandwidths[1])) if len(bandwidths) == 2 else math.inf
    return int(line != other_line), abs(age - other_age), ratio


def _fit(kind: str, reader: Reader) -> OperatorFit:
    form = reader.choice("form", KINDS[kind].forms)
    needed = (*FORMS[form].fitted, *FORMS[form].stated) if form in FORMS else ()
    known = () if form in FORMS else tuple(PARAMETERS)
    reader.keys((*_ABOUT, *needed), (*_REMARKS, *known))
    return OperatorFit(
        kind=kind,
        form=form,
        parameters={key: _parameter(reader, key) for key in needed if key in reader.table},
        source=reader.text("source"),
        points=reader.whole("points"),
        held_out_points=reader.whole("held_out_points"),
        split=reader.text("split"),
        fitted_mape=reader.fraction("fitted_mape") or 0.0,  # an absent one is refused by keys()
        held_out_mape=reader.fraction("held_out_mape") or 0.0,
        held_out_bias=reader.number("held_out_bias") if "held_out_bias" in reader.table else None,
        fitted_on=tuple(key.strip() for key in reader.text("fitted_on").split(",") if key.strip()),
        carried_mape=reader.fraction("carried_mape"),
        carried_to=reader.text("carried_to") or None,
        stack=reader.text("stack") or None,
        borrowed=reader.text("borrowed") or None,
        note=reader.text("note") or None,
    )


def _parameter(reader: Reader, key: str) -> float:
    known = PARAMETERS[key]
    if known.dimension == "token":
        return float(reader.whole(key))
    if known.dimension != "1":
        found = reader.quantity(key, known.dimension, positive=False)
        if found > known.high:
            reader.note(f"{reader.name(key)}: {reader.table[key]!r} is beyond what is physical")
        return found
    if known.choices:
        return float(reader.whole(key, low=1))
    return reader.number(key, low=known.low, high=known.high)
