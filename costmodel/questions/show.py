"""What is known: models, hardware, links, tiers of KV, workloads, formulas ..., every value with its source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..answer import About
from ..errors import InputError, unknown
from ..families import packaged_models, read_model
from ..formulas import BOOK, formula_named
from ..inputs.efficiency import Efficiency, efficiency_for
from ..inputs.hardware import Gpu, gpu_names, load_gpu
from ..inputs.link import Connector, Link, connector_names, link_names, load_connector, load_link
from ..inputs.stack import stack_names
from ..inputs.tier import Tier, load_tier, tier_names
from ..memory.engine_file import engine_names
from ..memory.parallelism import Parallelism
from ..operators.catalogue import UNMEASURED
from ..units import format_si
from .explain import FormulaEntry, formula_entry
from .show_engine import engine_entry, engine_row, family_entry, family_names, family_row
from .show_model import SCHEMA, model_entry, model_row
from .show_record import record_entry, record_names, record_row
from .show_stack import stack_entry, stack_row
from .show_words import (
    condition_entry,
    condition_names,
    condition_row,
    metric_entry,
    metric_names,
    metric_row,
)

_OWN_SOURCES = About(sources=("each entry states its own: costmodel show KIND NAME",))


@dataclass(frozen=True)
class Listing:
    """What there is of a kind: one entry each, all with the same keys (SI units in the key)."""

    schema: str
    kind: str
    entries: tuple[dict[str, object], ...]
    about: About


@dataclass(frozen=True)
class Value:
    """A figure in SI (``unit`` is named), the text it was read from, and its source."""

    name: str
    value: float
    unit: str
    text: str
    source: str


@dataclass(frozen=True)
class EfficiencyEntry:
    """Fit of one operator kind; errors are fractions; ``borrowed`` says from which kind or GPU."""

    kind: str
    form: str
    stack: str
    parameters: dict[str, float]
    points: int
    held_out_points: int
    fitted_mape: float | None
    held_out_mape: float | None
    held_out_bias: float | None
    error: float
    carried_mape: float | None
    carried_to: str | None
    borrowed: str | None
    note: str | None
    source: str


@dataclass(frozen=True)
class HardwareEntry:
    """A GPU: values, what is absent and why, and the efficiencies that stand for it (None, (): none measured)."""

    schema: str
    name: str
    title: str
    generation: str
    values: tuple[Value, ...]
    absent: dict[str, str]
    efficiency_stack: str | None
    efficiency_date: str | None
    borrowed_from: str | None
    efficiencies: tuple[EfficiencyEntry, ...]
    about: About


@dataclass(frozen=True)
class PathEntry:
    """A link, a connector or a tier of KV: values, what is absent and why; ``properties`` are its words and counts."""

    schema: str
    kind: str
    name: str
    title: str
    properties: dict[str, object]
    values: tuple[Value, ...]
    absent: dict[str, str]
    about: About


@dataclass(frozen=True)
class WorkloadEntry:
    """A workload; lengths in tokens (log-normal), ``sigma`` of their logarithm."""

    schema: str
    name: str
    rate_per_s: float
    properties: dict[str, object]
    uncached_tokens: dict[str, float] | None
    cached_tokens: int
    output_tokens: dict[str, float] | None
    slo_ttft_s: float | None
    slo_tpot_s: float | None
    attainment: float
    chosen: str
    about: About


def ask_show(
    kind: str,
    name: str | None = None,
    *,
    layout: Parallelism | None = None,
    assume_family: str | None = None,
) -> object:
    """Return the listing of a kind, or one of it by name (or path).

    ``layout`` says over which GPUs the parameters of a model are spread. Raises InputError for unknown ones.
    """
    if kind not in KINDS:
        raise InputError(unknown("kind", kind, KINDS, remedy=f"(one of {', '.join(KINDS)})"))
    names, row, entry = KINDS[kind]
    if layout is not None or assume_family is not None:
        if kind != "models" or name is None:
            raise InputError("--tp, --pp, --ep, --dp-attention and --assume-family are about one model")
        return model_entry(read_model(name, assume_family=assume_family), layout)
    if name is not None:
        return entry(name)
    return Listing(SCHEMA, kind, tuple(row(each) for each in names()), _OWN_SOURCES)


def _gpu_row(name: str) -> dict[str, object]:
    gpu = load_gpu(name)
    bandwidth, peak = gpu.values.get("memory_bandwidth"), gpu.values.get("peak_bf16")
    return {
        "name": gpu.name,
        "title": gpu.title,
        "memory": gpu.values["memory"].text,
        "memory_bytes_per_s": bandwidth and bandwidth.value,
        "peak_bf16_flop_per_s": peak and peak.value,
        "efficiencies_of": fits.gpu if (fits := _efficiency(gpu)) else None,
    }


def _gpu_entry(name: str) -> HardwareEntry:
    gpu = load_gpu(name)
    fits = _efficiency(gpu)
    if fits is None:
        why = "no operator of it, or of a GPU of a generation near it, was measured: step times need --efficiency"
        warnings: tuple[str, ...] = (why,)
    elif fits.borrowed_from:
        warnings = (f"most efficiencies are those of {fits.gpu}: the column borrowed says which",)
    else:
        warnings = ()
    return HardwareEntry(
        schema=SCHEMA,
        name=gpu.name,
        title=gpu.title,
        generation=gpu.generation,
        values=_values(gpu, _units("hardware")),
        absent=dict(gpu.absent),
        efficiency_stack=fits.stack if fits else None,
        efficiency_date=fits.date if fits else None,
        borrowed_from=fits.borrowed_from if fits else None,
        efficiencies=_fits(fits) if fits else (),
        about=About(("bandwidths are of one direction",), _sources(gpu), warnings=warnings),
    )


def _efficiency(gpu: Gpu) -> Efficiency | None:
    try:
        return efficiency_for(gpu)
    except InputError:
        return None


def _fits(fits: Efficiency) -> tuple[EfficiencyEntry, ...]:
    return tuple(
        EfficiencyEntry(
            kind=fit.kind,
            form=fit.form,
            stack=fit.stack or fits.stack,
            parameters=dict(fit.parameters),
            points=fit.points,
            held_out_points=fit.held_out_points,
            fitted_mape=fit.fitted_mape,
            held_out_mape=fit.held_out_mape,
            held_out_bias=fit.held_out_bias,
            error=fit.error,
            carried_mape=fit.carried_mape,
            carried_to=fit.carried_to,
            borrowed=fit.borrowed,
            note=fit.note,
            source=fit.source,
        )
        for fit in fits.operators.values()
        if fit.kind != UNMEASURED
    )


def _link_row(name: str) -> dict[str, object]:
    link = load_link(name)
    return {
        "name": link.name,
        "title": link.title,
        "bandwidth_bytes_per_s": link.bandwidth_bytes_per_s,
        "per": link.per,
        "sustained_bytes_per_s": link.sustained_bytes_per_s,
        "latency_s": link.latency_s,
    }


def _link_entry(name: str) -> PathEntry:
    link = load_link(name)
    return _path(link, "link", {"kind": link.kind, "per": link.per})


def _connector_row(name: str) -> dict[str, object]:
    found = load_connector(name)
    share = found.values.get("bandwidth_share")
    latency = found.values.get("latency")
    return {
        "name": found.name,
        "title": found.title,
        "block_tokens": found.block_tokens,
        "bandwidth_share": share and share.value,
        "latency_s": latency and latency.value,
        "held_out_mape": found.held_out_mape,
    }


def _connector_entry(name: str) -> PathEntry:
    found = load_connector(name)
    keys = ("block_tokens", "block_rule", "fitted_mape", "held_out_mape")
    return _path(found, "connector", {key: getattr(found, key) for key in keys})


def _tier_row(name: str) -> dict[str, object]:
    tier = load_tier(name)
    read, write = tier.used("read"), tier.used("write")
    return {
        "name": tier.name,
        "title": tier.title,
        "read_bytes_per_s": read and read.value,
        "write_bytes_per_s": write and write.value,
        "both_ways_bytes_per_s": tier.value("both_ways"),
        "per": tier.per,
        "chunk_tokens": tier.chunk_tokens,
    }


def _tier_entry(name: str) -> PathEntry:
    tier = load_tier(name)
    properties: dict[str, object] = {
        key: getattr(tier, key) for key in ("kind", "per", "wire", "shared", "on_link", "per_rank", "piece")
    }
    properties |= {
        f"copies of {format_si(piece.size_bytes, 'byte', binary=True)}": format_si(
            piece.bytes_per_s, "byte/second"
        )
        for piece in tier.pieces
    }
    return _path(tier, "tier", properties)


def _path(found: Link | Connector | Tier, kind: str, properties: dict[str, object]) -> PathEntry:
    about = About(("bandwidths are of one direction",), _sources(found))
    values = _values(found, _units(kind))
    return PathEntry(SCHEMA, kind, found.name, found.title, properties, values, dict(found.absent), about)


def _units(kind: str) -> Mapping[str, str]:
    from ..inputs.hardware import SCHEMA as hardware
    from ..inputs.link import CONNECTOR_SCHEMA, LINK_SCHEMA
    from ..inputs.tier import SCHEMA as tier

    return {"hardware": hardware, "link": LINK_SCHEMA, "connector": CONNECTOR_SCHEMA, "tier": tier}[kind]


def _values(found: Gpu | Link | Connector | Tier, units: Mapping[str, str]) -> tuple[Value, ...]:
    return tuple(Value(k, v.value, units[k], v.text, v.source) for k, v in found.values.items())


def _sources(found: Gpu | Link | Connector | Tier) -> tuple[str, ...]:
    pieces = [piece.source for piece in found.pieces] if isinstance(found, Tier) else []
    return tuple(dict.fromkeys([*(value.source for value in found.values.values()), *pieces]))


def _workload_names() -> tuple[str, ...]:
    from ..workloads import workload_names

    return workload_names()


def _workload_row(name: str) -> dict[str, object]:
    entry = _workload_entry(name)
    prompt, output = entry.uncached_tokens or {}, entry.output_tokens or {}
    return {
        "name": entry.name,
        "rate_per_s": entry.rate_per_s,
        "prompt_median_tokens": prompt.get("median"),
        "output_median_tokens": output.get("median"),
        "slo_ttft_s": entry.slo_ttft_s,
        "slo_tpot_s": entry.slo_tpot_s,
    }


def _workload_entry(name: str) -> WorkloadEntry:
    from ..workloads import load_workload

    found = load_workload(name)
    arrivals = {key: value for key, value in asdict(found.arrivals).items() if key != "rate"}
    return WorkloadEntry(
        schema=SCHEMA,
        name=found.name,
        rate_per_s=found.rate,
        properties=arrivals,
        uncached_tokens=asdict(found.uncached) if found.uncached else None,
        cached_tokens=found.cached_tokens,
        output_tokens=asdict(found.output) if found.output else None,
        slo_ttft_s=found.slo.ttft_s,
        slo_tpot_s=found.slo.tpot_s,
        attainment=found.slo.attainment,
        chosen=found.chosen,
        about=About(sources=(found.chosen,)),
    )


def _formula_row(name: str) -> dict[str, object]:
    made = formula_named(name)
    first = (made.__doc__ or "").strip().split("\n", 1)[0]
    return {"name": name, "topic": made.__module__.rsplit(".", 1)[-1], "unit": made.unit, "meaning": first}


def _formula_entry(name: str) -> FormulaEntry:
    return formula_entry(formula_named(name), traced=False, schema=SCHEMA)


_Kind = tuple[Callable[[], Any], Callable[[str], dict[str, object]], Callable[[str], object]]

#: kind: (names, one row of the listing, one entry in full)
KINDS: dict[str, _Kind] = {
    "models": (packaged_models, model_row, model_entry),
    "hardware": (gpu_names, _gpu_row, _gpu_entry),
    "links": (link_names, _link_row, _link_entry),
    "connectors": (connector_names, _connector_row, _connector_entry),
    "tiers": (tier_names, _tier_row, _tier_entry),
    "workloads": (_workload_names, _workload_row, _workload_entry),
    "engines": (engine_names, engine_row, engine_entry),
    "stacks": (stack_names, stack_row, stack_entry),
    "families": (family_names, family_row, family_entry),
    "records": (record_names, record_row, record_entry),
    "conditions": (condition_names, condition_row, condition_entry),
    "metrics": (metric_names, metric_row, metric_entry),
    "formulas": (lambda: tuple(BOOK), _formula_row, _formula_entry),
}
