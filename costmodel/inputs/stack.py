"""Software stacks: what an engine adds to the operators of a step, and to a request, fitted to whole measurements."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path

from ..data import HARDWARE, Reader, load_toml, locate, resource_names
from ..errors import InputError, nearest
from ..operators.catalogue import HOST_LAYERS, HOST_SEQUENCES, KINDS, LARGE_MESSAGES
from ..units import Dimension
from .efficiency import Efficiency, OperatorFit
from .hardware import Gpu, gpu_names

FOLDER = "stacks"
#: The fit for a GPU that a stack was not fitted on: to all of its measurements together.
ANY = "any"
#: Errors of TTFT where none was measured, and of a stack where carrying it was not: means over the packaged stacks.
FIRST_TOKEN, ELSEWHERE = 0.4, 0.25
#: Error of TPOT on a model and GPU that the stacks of docs/validation/accuracy.md were not fitted to.
ANOTHER_MODEL = 0.15
#: What was measured of a stack: whole steps, or means over requests of a closed loop.
MEASURES = ("prefill", "decode", "ttft", "tpot")
#: Decode steps are what TPOT is made of; prefill steps are a part of TTFT only.
_LIKE = {"decode": "tpot", "tpot": "decode"}
#: Parameters of operators that a stack overlaps (``launch_share``), and the parts of peak rates that they reach.
_LAUNCHES = ("latency", "pass_latency", "step_latency")
_SHARES = ("compute_share", "bandwidth_share", "quantise_share")


@dataclass(frozen=True)
class Parameters:
    """What a stack adds. Times in seconds; factors multiply the time of kernels measured one by one.

    ``kernel_factor``: of all kernels, ``narrow_factor``: of 8-bit products besides. ``launch_share``: part of the
    fixed latencies of kernels that is left where they follow each other. ``layer_latency``: idle GPU between the
    kernels of a layer; ``layer_floor``: least time of the host for a layer; ``sequence_latency``: of the host for a
    sampled sequence. ``large_message``: size from which on an all-reduce is slower, by ``large_message_rate`` bytes
    a second. ``request_latency``: constant of TTFT.
    """

    kernel_factor: float = 1.0
    narrow_factor: float = 1.0
    launch_share: float = 1.0
    layer_latency: float = 0.0
    layer_floor: float = 0.0
    sequence_latency: float = 0.0
    large_message: float = 0.0
    large_message_rate: float = 0.0
    request_latency: float = 0.0


#: Largest factor and share of launches that a file may state, ranges of other parameters, and the largest log error.
_MOST = 1e3
_PHYSICAL = {"second": (1e-12, 600.0), "byte": (1.0, 1e13), "byte/second": (1e3, 1e15)}
_LARGEST_LOG = 10.0
DIMENSIONS: dict[str, Dimension] = {
    **dict.fromkeys(("kernel_factor", "narrow_factor", "launch_share"), "1"),
    **dict.fromkeys(("layer_latency", "layer_floor", "sequence_latency", "request_latency"), "second"),
    "large_message": "byte",
    "large_message_rate": "byte/second",
}


@dataclass(frozen=True)
class Measured:
    """Mean sizes of log errors, |ln(predicted / measured)|: over the points a fit saw, over those it did not, on other
    GPUs, and on other versions of the engine; None where none was measured.
    """

    fitted_log: float | None = None
    points: int = 0
    held_out_log: float | None = None
    held_out_points: int = 0
    carried_log: float | None = None
    versions_log: float | None = None


@dataclass(frozen=True)
class StackFit:
    """A stack on one GPU (or ``any``): its parameters, errors by measure, and the configurations that it saw.

    ``elsewhere``: it stands for another version of its engine. ``lent``: it saw no TTFT, and its ``request_latency`` is
    that of the engine's other fits.
    """

    stack: str
    gpu: str
    parameters: Parameters
    errors: Mapping[str, Measured] = field(hash=False)
    fitted_on: tuple[str, ...]
    source: str
    elsewhere: bool = False
    lent: bool = False

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models that the fit was made of."""
        words = [key.split() for key in self.fitted_on]
        return tuple(dict.fromkeys(w[1 if self.gpu == ANY and len(w) > 3 else 0] for w in words if w))

    def tried(self, measure: str) -> bool:
        """Say whether the error of a measure was measured, where the fit did not see it."""
        found = self.errors.get(measure, Measured())
        carried = found.carried_log if self.gpu == ANY else None
        return (found.held_out_log, carried) != (None, None)

    def saw(self, model: str) -> bool:
        """Say whether the fit was made of a model of this name, whatever its layout."""
        return model.rpartition("/")[2] in self.models

    def error(self, measure: str | None = None, seen: bool = True) -> float:
        """The error of a measure to expect (None: the worst of a step): held out, or that of carrying it so far.

        ``seen``: of a model that the fit was made of. A fraction: the factor of the mean log error, less 1.
        """
        if measure != "ttft" and measure not in self.errors:
            measure = _LIKE.get(measure or "")
            measure = measure if measure in self.errors else None
        names = [measure] if measure else [name for name in self.errors if name != "ttft"]
        logs = [self._error(self.errors.get(name, Measured()), name) for name in names]
        logs += [] if seen else [ANOTHER_MODEL]
        return math.expm1(max(logs, default=ELSEWHERE))

    def _error(self, found: Measured, name: str) -> float:
        unknown = FIRST_TOKEN if name == "ttft" else ELSEWHERE
        known = [found.held_out_log]
        if self.gpu == ANY:
            known.append(unknown if found.carried_log is None else found.carried_log)
        if self.elsewhere:
            known += [found.carried_log, unknown if found.versions_log is None else found.versions_log]
        given = [value for value in known if value is not None]
        return max(given) if given else unknown


@dataclass(frozen=True)
class Stack:
    """An engine at a version, by GPU."""

    name: str
    engine: str
    version: str
    date: str
    source: str
    fits: Mapping[str, StackFit] = field(hash=False)

    def on(self, gpu: Gpu) -> StackFit:
        """Return the fit of a GPU, else that for any. Raises InputError where there is neither."""
        found = self.fits.get(gpu.name) or self.fits.get(ANY)
        if found is None:
            known = ", ".join(self.fits)
            raise InputError(
                f"stack {self.name} was measured on {known} alone, and has no fit for other GPUs"
            )
        return found


def stack_names() -> tuple[str, ...]:
    """Return the names of the packaged stacks."""
    return resource_names(HARDWARE, FOLDER)


def load_stack(name_or_path: str | Path) -> Stack:
    """Return a packaged stack, or that of a TOML file. Raises InputError with all problems of the file."""
    source = locate(name_or_path, HARDWARE, FOLDER, "stack")
    reader = Reader(load_toml(source), str(source))
    reader.keys(("engine", "version", "date", "source", "fits"))
    fits = reader.sub("fits")
    name = str(name_or_path)
    for gpu in fits.table:
        match = nearest(gpu, (*gpu_names(), ANY))
        if match and gpu not in gpu_names() and gpu != ANY:
            fits.note(f"fits.{gpu}: unknown GPU; did you mean {match!r}?")
    found = {gpu: _fit(name, gpu, fits.sub(gpu), reader.text("source")) for gpu in fits.table}
    if "fits" in reader.table and not found:
        reader.note("[fits] holds no GPU, nor 'any'")
    stack = Stack(
        name, reader.text("engine"), reader.text("version"), reader.text("date"), reader.text("source"), found
    )
    reader.close()
    return stack


@lru_cache(maxsize=64)
def packaged_stack(name: str) -> Stack:
    """Return a stack by name or path, read once."""
    return load_stack(name)


def _fit(stack: str, gpu: str, reader: Reader, source: str) -> StackFit:
    reader.keys(("fitted_on", "errors"), (*DIMENSIONS, "lent"))
    given = {name: _parameter(reader, name) for name in DIMENSIONS if name in reader.table}
    if ("large_message" in given) != ("large_message_rate" in given):
        reader.note(f"{reader.name('large_message')} and large_message_rate go together")
    errors = reader.sub("errors")
    errors.keys((), MEASURES)
    return StackFit(
        stack=stack,
        gpu=gpu,
        parameters=Parameters(**given),
        errors={name: _measured(errors.sub(name)) for name in MEASURES if name in errors.table},
        fitted_on=tuple(key.strip() for key in reader.text("fitted_on").split(",") if key.strip()),
        source=source,
        lent=bool(reader.choice("lent", ("request_latency",))) if "lent" in reader.table else False,
    )


def _measured(reader: Reader) -> Measured:
    counts, shares = ("points", "held_out_points"), (
        "fitted_log", "held_out_log", "carried_log", "versions_log",
    )  # fmt: skip
    reader.keys((), (*counts, *shares))
    logs = {
        name: reader.number(name, low=0, high=_LARGEST_LOG) if name in reader.table else None
        for name in shares
    }
    return Measured(
        logs["fitted_log"],
        reader.whole("points"),
        logs["held_out_log"],
        reader.whole("held_out_points"),
        logs["carried_log"],
        logs["versions_log"],
    )


def _parameter(reader: Reader, name: str) -> float:
    dimension = DIMENSIONS[name]
    if name == "kernel_factor":  # forms move some bytes at the peak itself
        return reader.number(name, low=1.0, high=_MOST)
    if dimension == "1":
        return reader.number(name, low=0, high=_MOST, above=name != "launch_share")
    found = reader.quantity(name, dimension, positive=name == "large_message_rate")
    low, high = _PHYSICAL[dimension]
    if found and not math.isnan(found) and not low <= found <= high:  # NaN is noted already
        reader.note(f"{reader.name(name)}: {reader.table[name]!r} is beyond what is physical")
    return found


def with_stack(efficiency: Efficiency, fit: StackFit) -> Efficiency:
    """Return efficiencies as kernels have them in the steps of a stack, and the host's own kinds of operators.

    Raises InputError for a factor that would run a kernel faster than its peak.
    """
    fits = {kind: _scaled(found, fit) for kind, found in efficiency.operators.items()}
    return replace(efficiency, operators=fits | _host(fit))


def _scaled(found: OperatorFit, fit: StackFit) -> OperatorFit:
    """Return a fit as its kernel runs in the steps of a stack: a part of its launches is left, and all takes longer."""
    own, factor = fit.parameters, fit.parameters.kernel_factor
    if found.kind in KINDS and KINDS[found.kind].eight_bit:
        factor *= own.narrow_factor
    shares = [found.parameters[name] for name in _SHARES if name in found.parameters]
    if factor < max(shares, default=0.0):
        raise InputError(
            f"stack {fit.stack}: a factor of {factor:g} would run {found.kind} faster than its peak, of which it "
            f"reaches {max(shares):.4g} as it is; expected at least that"
        )
    launches = {
        name: found.parameters[name] * own.launch_share for name in _LAUNCHES if name in found.parameters
    }
    return replace(found, parameters={**found.parameters, **launches}, factor=factor)


def _host(fit: StackFit) -> dict[str, OperatorFit]:
    """Return the operators of the host: fits of the stack, with the error of its whole steps."""
    own = fit.parameters
    given = {
        HOST_LAYERS: ("layer_latency",),
        HOST_SEQUENCES: ("sequence_latency",),
        LARGE_MESSAGES: ("large_message", "large_message_rate"),
    }
    found, error = {}, fit.error()
    for kind, names in given.items():
        values = {name: getattr(own, name) for name in names}
        if values[names[-1]] > 0 or (kind == HOST_LAYERS and own.layer_floor > 0):
            points = sum(m.points for m in fit.errors.values())
            held = sum(m.held_out_points for m in fit.errors.values())
            found[kind] = OperatorFit(
                kind, kind, values, fit.source, points, held, "whole steps", error, error, stack=fit.stack,
                fitted_on=fit.fitted_on,
            )  # fmt: skip
    return found


assert {f.name for f in fields(Parameters)} == set(DIMENSIONS)
