"""Where local and remote prefill cost the same: a number, its closed form, and where that form holds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ..answer import About
from ..decision.breakeven import UNKNOWNS, Root, Values, closed_form, numeric_root
from ..decision.operating import LONGEST, SHORTEST, operating_point, self_consistent
from ..decision.provenance import sources as deployment_sources
from ..errors import InputError
from ..formulas.threshold import remote_advantage
from ..inputs.flags import knobs
from ..inputs.workload import Workload
from ..memory.kv import kv_bytes
from ..memory.parallelism import check_tp
from ..quantities import QUANTITIES
from ..serving.scenario import Scenario
from ..serving.step import step_times
from ..serving.strategies import DEFLECTED
from .inputs import as_connector, as_link, as_model, check_whole, kv_dtype_of, model_source

SCHEMA = "costmodel.break-even/1"
#: Where each unknown is looked for, in the unit of its parameter.
RANGES: dict[str, tuple[float, float]] = {
    "tokens": (SHORTEST, LONGEST),
    "bandwidth": (1e5, 1e14),
    "batch": (1e-3, 65536.0),
    "chunk": (1.0, 1048576.0),
    "wait": (1e-6, 1e4),
}
#: What a value counts as where it is not given, and said so: terms that the inequality has no need of.
ABSENT: Values = {
    "prefill_fixed": 0.0,
    "piggyback": 0.0,
    "piggyback_fixed": 0.0,
    "decode_weight": 1.0,
    "queued_decode": 0.0,
    "wait": 0.0,
    "queued_prefill": 0.0,
    "control": 0.0,
    "latency": 0.0,
}
_AGREES = 1e-6


@dataclass(frozen=True)
class Value:
    """A parameter of the inequality: its value in SI and where it comes from."""

    name: str
    symbol: str
    unit: str
    value: float | None
    origin: str


@dataclass(frozen=True)
class BreakEven:
    """The break-even of one unknown, the others as they are; ``value``, ``at`` and the roots in ``unit``.

    ``value`` is the root of the closed form where it is the first crossing, else the crossing itself, which may
    be the end of a chunk. ``distance``: closed form less numeric root; ``continuous``: root with u / c chunks.
    ``selfish`` leaves out those whom the prompt delays. None with the ``..._reason`` beside it.
    """

    schema: str
    model: str
    unknown: str
    unit: str
    value: float | None
    reason: str | None
    at: float | None
    at_reason: str | None
    selfish: float | None
    system: float | None
    at_observed_load: float | None
    self_consistent: float | None
    self_consistent_reason: str | None
    closed_form: str | None
    closed_form_latex: str | None
    closed_form_value: float | None
    closed_form_reason: str | None
    regime: str
    valid_from: float | None
    valid_to: float | None
    numeric_root: float | None
    distance: float | None
    continuous: float | None
    continuous_distance: float | None
    continuous_reason: str | None
    parameters: tuple[Value, ...]
    settings: dict[str, str]
    about: About


@dataclass(frozen=True)
class _Known:
    """Values of the inequality with their origins, and what follows from a whole deployment."""

    values: Values
    origins: dict[str, str]
    at_load: bool
    consistent: float | None
    consistent_reason: str | None
    about: About


def ask_break_even(
    model: str,
    given: Mapping[str, float | None],
    *,
    solve: str = "tokens",
    scenario: Scenario | None = None,
    workload: Workload | None = None,
    path: Mapping[str, object] | None = None,
) -> BreakEven:
    """Return where ``solve`` makes local and remote prefill cost the same.

    Parameters
    ----------
    given: values of the inequality's parameters by name (None: not given).
    scenario, workload: fill in what is not given; both or none. Without them ``path`` (link, nics, connector,
        tp, kv_dtype) serves for the bytes of a token and the bandwidth.

    Raises InputError naming everything that is missing.
    """
    if solve not in UNKNOWNS:
        raise InputError(f"--solve must be one of {', '.join(UNKNOWNS)}, not {solve!r}")
    stated = {name: value for name, value in given.items() if value is not None}
    if scenario is not None and workload is not None:
        known = _from_deployment(scenario, workload, stated, solve)
    else:
        known = _as_given(model, stated, solve, path or {})
    return _answer(as_model(model).name, solve, known)


# --- values ------------------------------------------------------------------------------------------------


def _from_deployment(scenario: Scenario, workload: Workload, stated: Values, solve: str) -> _Known:
    deployment = scenario.deployment()
    deployment.need_split()
    times = step_times(deployment.kinds)
    point = operating_point(deployment, workload, times, overrides=stated)
    consistent, reason = None, f"only tokens have one, not {solve}"
    if solve == "tokens":
        consistent, reason = self_consistent(deployment, workload, times, stated)
    loads = {"wait", "batch", "queued_prefill", "queued_decode"}
    origins = {
        name: "given" if name in stated else point.note if name in loads else _ORIGINS[name]
        for name in point.values
    }
    about = About(
        (f"load: {point.note}", f"self-consistent: {reason}"), deployment_sources(deployment, workload)
    )
    unknown = reason if consistent is None else None
    return _Known(point.values, origins, point.observed, consistent, unknown, about)


_ORIGINS = {
    "uncached": "mean of the workload",
    "chunk": "token budget",
    "prefill_fixed": "steps of a quarter of a chunk and of a whole one",
    "prefill_per_token": "steps of a quarter of a chunk and of a whole one",
    "decode_step": "decode step at the running decodes and the workload's mean context",
    "piggyback": "mixed steps of a quarter of a chunk and of a whole one",
    "piggyback_fixed": "mixed steps of a quarter of a chunk and of a whole one",
    "decode_weight": "a second of stall counts as one of TTFT",
    "control": "hand-over",
    "latency": "connector or link",
    "kv_bytes_per_token": "wire bytes of the mean prompt over its tokens",
    "link_bytes_per_s": "link, ports and the connector's share",
}


def _as_given(model: str, stated: Values, solve: str, path: Mapping[str, object]) -> _Known:
    """Take the values as given; the model gives the bytes of a token, a link the bandwidth."""
    found = as_model(model)
    values, sources = dict(stated), []
    origins = dict.fromkeys(stated, "given")
    if "kv_bytes_per_token" not in values:
        dtype = kv_dtype_of(found, _text(path, "kv_dtype"))
        ranks = _count(path, "decode_tp", _count(path, "tp", 1))
        check_tp(found, ranks)
        held = kv_bytes(found, 1, dtype, ranks)
        values["kv_bytes_per_token"] = held.kv_bytes_per_token_all_layers * held.replication
        origins["kv_bytes_per_token"] = f"{found.name}, {dtype}"
        sources.append(model_source(found))
    link = _text(path, "link")
    if link is not None:
        wire, software = as_link(link), as_connector(str(path["connector"]))
        ports = _count(path, "nics", 1)
        check_whole("--nics", ports)
        rate = ports * wire.bandwidth_bytes_per_s * software.bandwidth_share
        for name, value in (("link_bytes_per_s", rate), ("latency", software.latency_s)):
            if name not in values:
                values[name] = value
                origins[name] = f"{ports} x {wire.name} by {software.name}"
        sources.append(f"{wire.name} bandwidth: {wire.values['bandwidth'].source}")
        sources += [f"{software.name} {key}: {value.source}" for key, value in software.values.items()]
    absent = {name: value for name, value in ABSENT.items() if name not in values}
    needed = [name for name in remote_advantage.parameters if name not in {*values, *absent}]
    missing = [OPTIONS[name] for name in needed if name != UNKNOWNS[solve][0]]
    if missing:
        raise InputError(
            f"--solve {solve} also needs {', '.join(missing)}; or pass --hardware, --link and a workload, from "
            "which they follow"
        )
    words = ", ".join(f"{OPTIONS[name]} {value:g}" for name, value in absent.items())
    about = About((f"not given, taken as: {words}",) if absent else (), tuple(sources or ("as given",)))
    origins |= dict.fromkeys(absent, "not given")
    reason = "all values were given: no load follows from them"
    return _Known({**values, **absent}, origins, True, None, reason, about)


#: The option that sets each parameter.
OPTIONS = {
    "uncached": "--uncached",
    "chunk": "--chunk",
    "prefill_fixed": "--prefill-fixed",
    "prefill_per_token": "--prefill-per-token",
    "decode_step": "--decode-step",
    "piggyback": "--piggyback",
    "piggyback_fixed": "--piggyback-fixed",
    "decode_weight": "--decode-weight",
    "batch": "--batch",
    "queued_decode": "--queued-decode",
    "wait": "--wait",
    "queued_prefill": "--queued-prefill",
    "control": "--control",
    "latency": "--latency",
    "kv_bytes_per_token": "--kv-bytes-per-token",
    "link_bytes_per_s": "--bandwidth",
}


def _text(path: Mapping[str, object], key: str) -> str | None:
    value = path.get(key)
    return None if value is None else str(value)


def _count(path: Mapping[str, object], key: str, absent: int) -> int:
    value = path.get(key)
    return value if isinstance(value, int) else absent


# --- the answer --------------------------------------------------------------------------------------------


def _root(solve: str, values: Values) -> Root:
    return numeric_root(solve, values, *RANGES[solve])


def _answer(model: str, solve: str, known: _Known) -> BreakEven:
    values = known.values
    parameter, unit = UNKNOWNS[solve]
    symbolic = closed_form(solve, values)
    smooth = closed_form(solve, values, continuous=True) if solve == "tokens" else None
    root = _root(solve, values)
    selfish = _root(solve, {**values, "queued_prefill": 0.0, "queued_decode": 0.0})
    form = symbolic.root
    first = form if _agree(form.value, root.value) else root
    at = values.get(parameter)
    return BreakEven(
        schema=SCHEMA,
        model=model,
        unknown=solve,
        unit=unit,
        value=first.value,
        reason=first.regime if first.value is None else None,
        at=at,
        at_reason=f"{OPTIONS[parameter]} is not given" if at is None else None,
        selfish=selfish.value,
        system=root.value,
        at_observed_load=root.value if known.at_load else None,
        self_consistent=known.consistent,
        self_consistent_reason=known.consistent_reason,
        closed_form=f"{parameter} = {symbolic.text}" if symbolic.text else None,
        closed_form_latex=f"{QUANTITIES[parameter].latex} = {symbolic.latex}" if symbolic.latex else None,
        closed_form_value=form.value,
        closed_form_reason=form.regime if form.value is None else None,
        regime=first.regime,
        valid_from=first.valid_from,
        valid_to=first.valid_to,
        numeric_root=root.value,
        distance=_less(form.value, root.value),
        continuous=smooth.root.value if smooth else None,
        continuous_distance=_less(smooth.root.value, first.value) if smooth else None,
        continuous_reason=_why_not(smooth.root if smooth else None, solve),
        parameters=_parameters(known, parameter),
        settings=_settings(solve, known, root, first),
        about=known.about,
    )


def _agree(form: float | None, root: float | None) -> bool:
    return form is not None and root is not None and abs(form - root) <= _AGREES * max(abs(root), 1e-12)


def _less(value: float | None, base: float | None) -> float | None:
    """Return the difference; 0 where it is rounding."""
    if value is None or base is None:
        return None
    return 0.0 if math.isclose(value, base, rel_tol=1e-9) else value - base


def _why_not(smooth: Root | None, solve: str) -> str | None:
    if smooth is None:
        return f"only for tokens: {solve} is solved {'so anyway' if solve == 'chunk' else 'at one prompt'}"
    return smooth.regime if smooth.value is None else None


def _parameters(known: _Known, unknown: str) -> tuple[Value, ...]:
    rows = []
    for name in remote_advantage.parameters:
        quantity = QUANTITIES[name]
        origin = "solved for" if name == unknown else known.origins[name]
        rows.append(Value(name, quantity.latex, quantity.unit, known.values.get(name), origin))
    return tuple(rows)


def _settings(solve: str, known: _Known, root: Root, first: Root) -> dict[str, str]:
    """What to paste into a router or an engine, under each project's own names."""
    chunk = first.value if solve == "chunk" else known.values["chunk"]
    tokens = known.consistent if known.consistent is not None else root.value
    return knobs(
        DEFLECTED.name,
        token_budget=None if chunk is None else max(1, round(chunk)),
        threshold_tokens=round(tokens) if solve == "tokens" and tokens is not None else None,
    )
