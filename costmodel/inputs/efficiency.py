"""Measured efficiencies of one (GPU, software stack): a few parameters per operator kind, and errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..data import HARDWARE, Reader, load_toml, locate, resource_names
from ..errors import InputError
from .hardware import Gpu

FOLDER = "efficiency"

KINDS = (
    "gemm",
    "gemm_fp8",
    "attention_prefill",
    "attention_decode",
    "mla_prefill",
    "mla_decode",
    "moe",
    "moe_fp8",
    "elementwise",
    "all_reduce",
)

FORMS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    # form: (parameters it needs, parameters it may have)
    "tile_roofline": (("compute_share", "bandwidth_share", "latency"), ("tile_rows",)),
    "additive": (("compute_share", "bandwidth_share", "latency"), ("tile_rows",)),
    "decode_attention": (("bandwidth_share", "latency", "per_sequence_head"), ()),
    "latent_decode": (("compute_share", "bandwidth_share", "latency", "per_sequence"), ()),
    "streaming": (("bandwidth_share", "latency"), ()),
    "all_reduce": (("bandwidth_share", "latency", "half_size"), ()),
}
PARAMETERS = tuple(sorted({key for needed, optional in FORMS.values() for key in (*needed, *optional)}))

_ABOUT = ("form", "source", "points", "held_out_points", "split", "fitted_mape", "held_out_mape")
_REMARKS = ("held_out_bias", "stack", "borrowed", "note")


@dataclass(frozen=True)
class OperatorFit:
    """A fit of one operator kind. ``parameters`` are shares, seconds, bytes or rows; errors are fractions.

    ``stack`` is given where it is not the file's; ``borrowed`` says from which kind or GPU a fit is taken.
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
    stack: str | None = None
    borrowed: str | None = None
    note: str | None = None


@dataclass(frozen=True)
class Efficiency:
    """The fits of one GPU and stack; ``borrowed_from`` repeats ``gpu`` where they stand for another GPU."""

    gpu: str
    stack: str
    date: str
    operators: Mapping[str, OperatorFit] = field(hash=False)
    borrowed_from: str | None = None


def efficiency_names() -> tuple[str, ...]:
    """Return the names of the packaged efficiency files."""
    return resource_names(HARDWARE, FOLDER)


def load_efficiency(name_or_path: str | Path) -> Efficiency:
    """Return the efficiencies of a packaged name or a path. Raises InputError with all their problems."""
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


def efficiency_for(gpu: Gpu) -> Efficiency:
    """Return the efficiencies that stand for ``gpu``, saying so when they were measured on another.

    Raises InputError for a GPU of which no operator was measured, naming those that can be borrowed.
    """
    if gpu.efficiency is None:
        raise InputError(
            f"no operator of {gpu.name} was measured, so there are no step times for it; to borrow the "
            f"efficiencies of another GPU, pass --efficiency NAME|FILE (packaged: {', '.join(efficiency_names())})"
        )
    return stand_in(gpu.efficiency, gpu)


def stand_in(efficiency: Efficiency | str | Path, gpu: Gpu) -> Efficiency:
    """Return efficiencies (or those of a name or path) for ``gpu``, marked where another was measured."""
    found = efficiency if isinstance(efficiency, Efficiency) else load_efficiency(efficiency)
    return found if found.gpu == gpu.name else replace(found, borrowed_from=found.gpu)


def _fit(kind: str, reader: Reader) -> OperatorFit:
    form = reader.choice("form", tuple(FORMS))
    required, optional = FORMS.get(form, ((), PARAMETERS))
    reader.keys((*_ABOUT, *required), (*_REMARKS, *optional))
    present = [key for key in (*required, *optional) if key in reader.table]
    return OperatorFit(
        kind=kind,
        form=form,
        parameters={key: _parameter(reader, key) for key in present},
        source=reader.text("source"),
        points=reader.whole("points"),
        held_out_points=reader.whole("held_out_points"),
        split=reader.text("split"),
        fitted_mape=reader.fraction("fitted_mape") or 0.0,  # an absent one is refused by keys()
        held_out_mape=reader.fraction("held_out_mape") or 0.0,
        held_out_bias=reader.number("held_out_bias") if "held_out_bias" in reader.table else None,
        stack=reader.text("stack") or None,
        borrowed=reader.text("borrowed") or None,
        note=reader.text("note") or None,
    )


def _parameter(reader: Reader, key: str) -> float:
    if key in ("compute_share", "bandwidth_share"):
        return reader.number(key, low=0, high=1, above=True)
    if key == "tile_rows":
        return float(reader.whole(key, low=1))
    if key == "half_size":
        return reader.quantity(key, "byte", positive=False)
    return reader.quantity(key, "second", positive=False)
