"""Fitting a stack to whole runs: what kernels lose or gain in a step, what the host adds, and a constant of TTFT."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import InputError
from ..formulas import whole
from ..inputs.stack import ANY, Parameters, Stack, StackFit
from ..operators.catalogue import KINDS
from ..serving.closed_loop import Loop, closed_loop
from ..serving.instance import InstanceKind
from ..serving.operators import load_time
from ..serving.step import step_loads
from ..serving.work import CUSTOM_BYTES, Chunk
from .predict import Instances
from .runs import Shape, Whole, used

#: Log errors below this count by their square, above it by their size.
SOFT = 0.05
#: What is fitted to closed loops, and to steps: name, start, range, and how far from its prior costs as much as an
#: error of one part in a hundred (None: nothing is known beforehand). Launches that are hidden and a wait of each layer
#: can hardly be told apart in one model: what the kernels alone would give is preferred.
LOOPS = {
    "narrow_factor": (1.0, 0.89, 1.6, None),
    "launch_share": (1.0, 0.0, 3.0, 0.5),
    "layer_latency": (5e-6, 0.0, 3e-4, 5e-5),
    "request_latency": (0.05, 0.0, 0.6, None),
}
STEPS = {
    "kernel_factor": (1.1, 1.0, 3.0, None),
    "layer_floor": (4e-4, 0.0, 3e-3, None),
    "sequence_latency": (3e-4, 0.0, 1e-2, None),
    "request_latency": (0.02, 0.0, 0.6, None),
    "large_message_rate": (5e10, 1e9, 1e12, None),
}
PRIORS = {"launch_share": 1.0, "layer_latency": 0.0}
#: Messages up to this size keep the fast path of an all-reduce in the steps that were measured.
LARGE_MESSAGE = 32.0 * 2**20
#: Parameters below this part of where a fit starts are nothing.
_NOTHING = 1e-3
_STARTS = (1.0, 0.7, 1.4)


@dataclass(frozen=True)
class _Part:
    """Seconds of a step: 16-bit and 8-bit kernels, each without their launches and what launches add."""

    wide: float
    wide_launch: float
    narrow: float
    narrow_launch: float
    layers: int
    sampled: float
    messages: tuple[tuple[float, float], ...]

    def seconds(self, p: Parameters) -> Any:
        """The step's time under the parameters of a stack."""
        kernels = self.wide + p.launch_share * self.wide_launch
        kernels += p.narrow_factor * (self.narrow + p.launch_share * self.narrow_launch)
        time = p.kernel_factor * kernels + p.sequence_latency * self.sampled
        time += whole.host_layers_time(self.layers, p.layer_latency)
        if p.large_message_rate:
            rate = p.large_message, p.large_message_rate
            time += sum(runs * whole.large_message_time(size, *rate) for size, runs in self.messages)
        return whole.host_bound_time(time, self.layers, p.layer_floor, self.sampled, p.sequence_latency)


def _part(instances: Instances, run: Whole, chunks: tuple[Chunk, ...], batch: int, context: float) -> _Part:
    kinds = [instances.of(run.setting, bare, run.software) for bare in (None, _NO_LAUNCHES)]
    whole_, bare = (_by_width(kind, chunks, batch, context) for kind in kinds)
    kind = kinds[0]
    tokens = batch + sum(chunk.tokens for chunk in chunks)
    size = tokens * kind.model.hidden * kind.activation_bytes_each
    runs = sum(layer.count * len(layer.blocks) for layer in kind.model.layers) if kind.tp > 1 else 0
    return _Part(
        bare[0], whole_[0] - bare[0], bare[1], whole_[1] - bare[1], kind.model.layer_count, batch + len(chunks),
        ((size, runs),) if size >= CUSTOM_BYTES else (),
    )  # fmt: skip


def _by_width(
    kind: InstanceKind, chunks: tuple[Chunk, ...], batch: int, context: float
) -> tuple[float, float]:
    wide = narrow = 0.0
    for load in step_loads(kind, chunks, len(chunks), batch, context):
        time = load.runs * float(load_time(kind, load))
        if load.kind in KINDS and KINDS[load.kind].eight_bit:
            narrow += time
        else:
            wide += time
    return wide, narrow


def alone(fit: StackFit) -> Stack:
    """Return a stack that has this fit for every GPU."""
    return Stack(f"{fit.stack} {fit.parameters}", "", "", "", "", {ANY: fit})


_NO_LAUNCHES = alone(StackFit("no launches", ANY, Parameters(launch_share=0.0), {}, (), ""))


Errors = Callable[[Parameters], list[float]]


def _log_errors(instances: Instances, run: Whole) -> Errors:
    """Return a function of parameters: log errors of a run's measures, TTFT where it is used."""
    if isinstance(run.what, Shape):
        part = _part(instances, run, run.what.chunks, run.what.batch, run.what.context)

        def step(p: Parameters) -> list[float]:
            time = part.seconds(p)
            return [
                float(np.log((time + (p.request_latency if measure == "prefill" else 0.0)) / measured))
                for measure, measured in run.seconds.items()
            ]

        return step
    loop = run.what
    assert isinstance(loop, Loop)
    clients = loop.concurrency
    decode = _part(instances, run, (), clients, clients * loop.context)
    prompt = _part(instances, run, (Chunk(loop.isl),), 0, 0.0)

    def requests(p: Parameters) -> list[float]:
        seen = closed_loop(loop, decode.seconds(p), prompt.seconds(p), p.request_latency)
        found = {"tpot": np.log(seen.tpot / run.seconds["tpot"])} if "tpot" in run.seconds else {}
        if "ttft" in run.seconds and used(run, "ttft"):
            found["ttft"] = 0.5 * np.log(seen.ttft / run.seconds["ttft"])
        return [float(value) for value in found.values()]

    return requests


class _Problem:
    """The log errors of runs of one kind as a function of the parameters that are fitted to it."""

    def __init__(self, runs: Sequence[Whole], instances: Instances) -> None:
        self.terms = [_log_errors(instances, run) for run in runs]
        steps = isinstance(runs[0].what, Shape)
        self.known = STEPS if steps else LOOPS
        self.base = Parameters(large_message=LARGE_MESSAGE) if steps else Parameters()
        self.names = list(self.known)
        self.units = np.array([self.known[name][0] for name in self.names])
        self.low, self.high = (
            np.array([self.known[name][side] for name in self.names]) / self.units for side in (1, 2)
        )
        self.weight = 0.01 * len(runs) ** 0.5

    def parameters(self, x: Any) -> Parameters:
        """The parameters of a point, each in its unit; next to nothing is nothing."""
        values = np.where((self.low == 0) & (x < _NOTHING), 0.0, x * self.units)
        return replace(self.base, **dict(zip(self.names, values.tolist())))

    def errors(self, p: Parameters) -> Any:
        """Log errors, and how far parameters are from what is preferred."""
        found = [error for term in self.terms for error in term(p)]
        for name in self.names:
            width = self.known[name][3]
            if width is not None:
                found.append(self.weight * (getattr(p, name) - PRIORS[name]) / width)
        return np.array(found)

    def residual(self, x: Any) -> Any:
        """``errors`` of a point."""
        return self.errors(replace(self.base, **dict(zip(self.names, (x * self.units).tolist()))))


def at_edges(p: Parameters) -> list[str]:
    """Return the parameters of a fit that ended at an edge of their range, but for those that are nothing."""
    known = {**LOOPS, **STEPS}
    return [
        name
        for name, (_, low, high, _) in known.items()
        for value in (getattr(p, name),)
        if value != getattr(Parameters(), name) and (value <= low * 1.002 or value >= high * 0.998)
    ]


def fit_stack(runs: Sequence[Whole], instances: Instances | None = None) -> Parameters:
    """Return the parameters of a stack that fit runs of one kind: steps, or closed loops.

    TTFT of closed loops counts by half, and of few clients only: with more, prompts queue, and how is not
    stated. A parameter that the runs say nothing of is that of no stack. Raises InputError where there is nothing to
    fit, or scipy is missing.
    """
    if not runs:
        raise InputError("there is no run to fit a stack to")
    try:
        from scipy.optimize import least_squares
    except ImportError:
        raise InputError("fitting needs scipy: pip install 'llm-costmodel[calibrate]'") from None
    made = _Problem(runs, instances or Instances())
    bounds, best = (made.low, made.high), None
    for factor in _STARTS:
        start = np.clip(np.full(len(made.names), factor), made.low * 1.001 + 1e-6, made.high * 0.999)
        tried: Any = least_squares(
            made.residual, start, bounds=bounds, loss="soft_l1", f_scale=SOFT, diff_step=1e-4
        )
        if best is None or tried.cost < best.cost:
            best = tried
    assert best is not None
    return _told(made, made.parameters(best.x))


def _cost(errors: Any) -> float:
    """The soft-L1 cost of log errors, as the fit counts it."""
    return float(SOFT**2 * np.sum(np.sqrt(1 + (errors / SOFT) ** 2) - 1))


def _told(made: _Problem, found: Parameters) -> Parameters:
    """Return parameters without those that the runs say nothing of: taking them out costs nothing."""
    plain, least = Parameters(), _cost(made.errors(found))
    for name in made.names:
        bare = replace(found, **{name: getattr(plain, name)})
        if name == "large_message_rate":
            bare = replace(bare, large_message=0.0)
        if _cost(made.errors(bare)) <= least * (1 + _NOTHING) + 1e-12:
            found = bare
    return found
