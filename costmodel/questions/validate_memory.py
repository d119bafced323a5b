"""One row of an engine's start-up log against what is predicted for its model, GPU, layout and settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from ..data import Sourced
from ..dtypes import CACHE_BYTES
from ..errors import CostmodelError, InputError, shorten, unknown
from ..families import packaged_name, read_model
from ..inputs.hardware import Gpu, gpu_named
from ..inputs.model import Model
from ..memory.capacity import Fit, fit
from ..memory.kv import LATENT_LAYOUTS
from ..memory.parallelism import Parallelism
from ..memory.settings import EngineSettings
from .capacity import used_dtype
from .inputs import kv_dtype_of

GIB = 2**30
LARGEST = 1e12
T = TypeVar("T")

DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "half": "fp16", "float": "fp32"}
#: Values of the column "quantization" that say nothing, and one that an engine makes while loading.
UNQUANTISED, ON_REQUEST = ("", "none"), ("fp8",)


@dataclass(frozen=True)
class MemoryRow:
    """A measured row: logged and predicted figures (bytes, tokens), errors as fractions by regime.

    ``incomplete`` says what the row leaves open that its prediction needs: then only its weights enter the
    summaries. ``skipped`` says why a row could not be compared at all; then nothing else is known of it.
    """

    model: str
    gpu: str
    stack: str
    tp: int
    pp: int
    split: str
    logged: dict[str, float] = field(default_factory=dict)
    predicted: dict[str, float] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    source: str = ""
    incomplete: str | None = None
    skipped: str | None = None


def compare_row(line: Mapping[str, str]) -> MemoryRow:
    """Return a row with its prediction, or with the reason why there is none. Raises nothing."""
    row = MemoryRow(
        line["model"], line["gpu"], f"{line['engine']} {line['engine_version']}".strip(), 0, 0, "held_out",
        source=line.get("source", ""), incomplete=_incomplete(line),
    )  # fmt: skip
    try:
        return _compared(row, line)
    except CostmodelError as error:
        return replace(row, skipped=str(error).split("\n")[0])


def _compared(row: MemoryRow, line: Mapping[str, str]) -> MemoryRow:
    logged = _logged(line)
    if not logged:
        raise InputError("states neither weights, activation, pool nor tokens")
    model = _model(line["model"])
    gpu = _gpu(line)
    layout = Parallelism(tp=_stated(line, "tp", int), pp=_stated(line, "pp", int))
    dtype = _dtype(model, line)
    kv_dtype = _cache_dtype(line)
    settings = EngineSettings(
        engine=line["engine"],
        version=line["engine_version"].strip().split(" ")[0] or None,
        memory_share=_stated(line, "gpu_memory_utilization", float),
        max_num_seqs=_optional(line, "max_num_seqs", int),
        max_num_batched_tokens=_optional(line, "max_num_batched_tokens", int),
    )
    stored = used_dtype(model, kv_dtype_of(model, kv_dtype, dtype), settings, asked=kv_dtype, gpu=gpu)
    length = _optional(line, "max_model_len", int) or model.max_context or 8192
    held = fit(model, gpu, layout, kv_dtype=stored, dtype=dtype, max_model_len=length, settings=settings)
    predicted = _predicted(held, logged)
    errors = {
        regime: predicted[figure] / logged[figure] - 1
        for figure, regime in REGIMES.items()
        if figure in logged and figure in predicted
    }
    return replace(
        row,
        model=model.name,
        gpu=gpu.name,
        tp=layout.tp,
        pp=layout.pp,
        split="fitted" if model.name in _fitted(held) else "held_out",
        logged=logged,
        predicted={figure: predicted[figure] for figure in predicted if figure in logged},
        errors=errors,
    )


def _incomplete(line: Mapping[str, str]) -> str | None:
    """What a row leaves open: its engine's version, or figures that are only roughly given."""
    version = line["engine_version"].strip()
    if not version:
        return "the engine's version is not stated: its defaults stand in"
    if "(" in version and not version.startswith("RHAII"):
        return f"the engine's version is uncertain: {version}"
    if any("~" in (value or "") for value in line.values()):
        return "figures marked as approximate"
    return None


REGIMES = {
    "weights_bytes": "weights",
    "activation_bytes": "activation",
    "kv_pool_bytes": "kv_pool",
    "kv_cache_tokens": "kv_tokens",
    "kv_cache_blocks": "blocks",
    "max_concurrency": "concurrency",
    "non_torch_bytes": "non_torch",
}


def _logged(line: Mapping[str, str]) -> dict[str, float]:
    columns = {
        "weights_bytes": ("weights_gib", GIB),
        "activation_bytes": ("activation_gib", GIB),
        "kv_pool_bytes": ("kv_cache_gib", GIB),
        "kv_cache_tokens": ("kv_cache_tokens", 1),
        "kv_cache_blocks": ("kv_cache_blocks", 1),
        "max_concurrency": ("max_concurrency", 1),
        "non_torch_bytes": ("non_torch_gib", GIB),
    }
    found = {}
    for figure, (column, unit) in columns.items():
        value = _optional(line, column, float)
        if value:
            found[figure] = value * unit
    return found


def _predicted(held: Fit, logged: Mapping[str, float]) -> dict[str, float]:
    """Figures of the stage that limits; weights and activation of the stage nearest to what was logged."""
    pools = [each.pool for each in held.stages]
    found: dict[str, float] = {
        "kv_cache_tokens": float(held.tokens),
        "max_concurrency": held.concurrency,
    }
    if held.blocks is not None:
        found["kv_cache_blocks"] = float(held.blocks)
    if "weights_bytes" in logged:
        sizes = [pool.weights.total_bytes for pool in pools]
        nearest = min(range(len(pools)), key=lambda place: abs(sizes[place] - logged["weights_bytes"]))
        found["weights_bytes"] = sizes[nearest]
    if held.setting.engine.budget != "static_pool":
        peaks = [pool.overheads.activation_bytes for pool in pools]
        wanted = logged.get("activation_bytes", max(peaks))
        found["activation_bytes"] = min(peaks, key=lambda peak: abs(peak - wanted))
        found["non_torch_bytes"] = held.worst.pool.overheads.non_torch_bytes
    wanted = logged.get("kv_pool_bytes", 0.0)
    found["kv_pool_bytes"] = min((pool.pool_bytes for pool in pools), key=lambda size: abs(size - wanted))
    return found


def _fitted(held: Fit) -> tuple[str, ...]:
    entry = held.setting.engine.latest("activation", held.setting.version)
    return tuple(entry.values["fitted_on"]) if entry else ()


def _model(name: str) -> Model:
    """Return the packaged model of that name; a name without an organisation must be the only one."""
    known = packaged_name(name.strip())
    if known is None:
        raise InputError(f"no packaged model is called {name!r}")
    return read_model(known)


def _gpu(line: Mapping[str, str]) -> Gpu:
    """Return the GPU, with the memory that the row says the engine saw."""
    gpu = gpu_named(line["gpu"])
    total = _optional(line, "total_memory_gib", float)
    if not total:
        return gpu
    seen = Sourced(total * GIB, f"{total:g} GiB", "the measured row")
    return replace(gpu, values={**gpu.values, "memory_visible": seen})


def _dtype(model: Model, line: Mapping[str, str]) -> str | None:
    """Return the dtype in which the row's checkpoint was loaded, where it is not its own."""
    quantised = _text(line, "quantization")
    if quantised in ON_REQUEST and not model.quantised:
        return quantised
    if quantised not in UNQUANTISED and not model.quantised:
        raise InputError(f"the row's checkpoint is quantised ({quantised}), the packaged one is not")
    stated = _text(line, "dtype").removeprefix("torch.")
    if stated not in ("", "auto", *DTYPES):
        raise InputError(unknown("dtype", stated, DTYPES))
    named = DTYPES.get(stated)
    return named if named and not model.quantised and named != model.wide_dtype else None


def _cache_dtype(line: Mapping[str, str]) -> str | None:
    """Return the dtype of the cache where the row names one: fp8_e4m3 is fp8; a remark may follow it."""
    stated = _text(line, "kv_cache_dtype").split(" ")[0]
    if stated in ("", "auto"):
        return None
    named = DTYPES.get(stated, stated.split("_e")[0])
    if named not in CACHE_BYTES and named not in LATENT_LAYOUTS:
        raise InputError(unknown("KV dtype", stated, (*CACHE_BYTES, *LATENT_LAYOUTS)))
    return named


def _text(line: Mapping[str, str], column: str) -> str:
    return (line.get(column) or "").strip().lower()


def _optional(line: Mapping[str, str], column: str, kind: Callable[[str], T]) -> T | None:
    text = _text(line, column).lstrip("~").replace(",", "")
    if not text:
        return None
    try:
        value = kind(text)
        usable = 0 < float(str(value)) < LARGEST
    except (ValueError, OverflowError):
        usable = False
    if not usable:
        raise InputError(f"{column} is {shorten(text)!r}; expected a number above 0")
    return value


def _stated(line: Mapping[str, str], column: str, kind: Callable[[str], T]) -> T:
    value = _optional(line, column, kind)
    if value is None:
        raise InputError(f"{column} is not stated")
    return value
