"""The packaged workloads, and the reader of workload files."""

from __future__ import annotations

from pathlib import Path

from ..data import Reader, load_toml, locate, resource_names
from ..errors import InputError
from ..inputs.workload import Arrivals, Lengths, Slo, Workload

_PACKAGE, _FOLDER = "costmodel", "workloads"


def workload_names() -> tuple[str, ...]:
    """Return the names of the packaged workloads."""
    return resource_names(_PACKAGE, _FOLDER)


def load_workload(name_or_path: str | Path) -> Workload:
    """Return a packaged workload (names are not case-sensitive) or that of a TOML file.

    A file that does not say how it was ``chosen`` is its user's own. Raises InputError with every problem of
    the file.
    """
    text = str(name_or_path)
    folded = text.lower() if text.lower() in workload_names() else name_or_path
    source = locate(folded, _PACKAGE, _FOLDER, "workload")
    reader = Reader(load_toml(source), str(source))
    reader.keys(("name", "arrivals", "prompt", "output"), ("title", "chosen", "slo"))
    arrivals = reader.sub("arrivals")
    arrivals.keys(("rate",), ("cv", "on_share", "on_period"))
    rate = arrivals.quantity("rate", "1/second")
    cv = arrivals.number("cv", low=0.0) if "cv" in arrivals.table else 1.0
    share = arrivals.number("on_share", low=0.0, high=1.0) if "on_share" in arrivals.table else 1.0
    period = arrivals.quantity("on_period", "second") if "on_period" in arrivals.table else 0.0
    prompt = reader.sub("prompt")
    prompt.keys(("median", "sigma"), ("low", "high", "cached"))
    output = reader.sub("output")
    output.keys(("median", "sigma"), ("low", "high"))
    slo = reader.sub("slo") if "slo" in reader.table else None
    if slo is not None:
        slo.keys((), ("ttft", "tpot", "attainment"))
    values = [_lengths_values(prompt), _lengths_values(output)]
    limits = _slo_values(slo)
    name, chosen = reader.text("name"), reader.text("chosen") or f"given by the user in {source}"
    cached = prompt.whole("cached") if "cached" in prompt.table else 0
    reader.close()
    try:
        return Workload(
            name=name,
            arrivals=Arrivals(rate, cv, share, period),
            uncached=Lengths(*values[0]),
            cached_tokens=cached,
            output=Lengths(*values[1]),
            slo=Slo(*limits),
            chosen=chosen,
        )
    except InputError as error:
        raise InputError(error.problems, where=str(source)) from None


def _lengths_values(reader: Reader) -> tuple[float, float, int, int]:
    low = reader.whole("low", low=1) if "low" in reader.table else 1
    high = reader.whole("high", low=1) if "high" in reader.table else 32768
    return reader.number("median", low=1.0), reader.number("sigma", low=0.0), low, high


def _slo_values(reader: Reader | None) -> tuple[float | None, float | None, float]:
    if reader is None:
        return None, None, 0.9
    ttft = reader.quantity("ttft", "second") if "ttft" in reader.table else None
    tpot = reader.quantity("tpot", "second") if "tpot" in reader.table else None
    share = reader.number("attainment", low=0.0, high=1.0) if "attainment" in reader.table else 0.9
    return ttft, tpot, share
