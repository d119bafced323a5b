"""A start-up log beside results: what it says of the engine that served them, and where both contradict each other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..errors import InputError, shorten
from ..inputs.hardware import packaged_name
from ..records.record import Record, Stated
from . import startup, transfers

#: Forms of records that no engine of a start-up log served: reports of others, and copies.
_OTHERS = ("record", transfers.FORM, startup.FORM)
#: What must be the same in a result and in the start-up log beside it.
_SAME = (
    "model",
    "engine",
    "engine_version",
    "hardware",
    "tp",
    "pp",
    "kv_dtype",
    "max_num_batched_tokens",
    "max_num_seqs",
)
_POOL = ("kv_cache_tokens", "kv_cache_blocks", "kv_pool_bytes")
#: Relative difference up to which two sizes of a pool are the same.
_SAME_POOL = 0.01
#: What readers warn of that no longer holds once a condition is known.
_LACKING = {"engine_version": "no engine version", "model": "does not state the model"}
#: What to do about a start-up log of another engine.
CURE = "pass the start-up log of the engine that served these requests"


def merged(records: Sequence[Record]) -> tuple[Record, ...]:
    """Return records in their order, results with the conditions and the KV pool of the start-up log among them.

    What a result states itself counts first. Raises InputError for a log that contradicts a result, and for several
    logs beside results: whose engine is whose, nobody knows.
    """
    starts = [record for record in records if record.form == startup.FORM]
    served = [record for record in records if record.form not in _OTHERS]
    if not starts or not served:
        return tuple(records)
    if len(starts) > 1:
        problem = f"is one of {len(starts)} start-up logs beside results: pass one, with its results"
        raise InputError(problem, where=starts[0].where)
    return tuple(record if record.form in _OTHERS else _filled(record, starts[0]) for record in records)


def _filled(record: Record, start: Record) -> Record:
    problems = [*contradictions(start, record.conditions), *_other_pools(record, start)]
    if problems:
        raise InputError([*problems[:-1], f"{problems[-1]}: {CURE}"], where=record.where)
    stated = {**start.conditions, **record.conditions}
    if "model" in record.conditions and _served(start, str(record.conditions["model"])):
        stated["model"] = start.conditions.get("model", stated["model"])
    known = [text for name, text in _LACKING.items() if name in stated]
    own = {figure.metric for figure in record.figures}
    more = [figure for figure in start.figures if figure.metric in _POOL and figure.metric not in own]
    return replace(
        record,
        conditions=stated,
        figures=(*record.figures, *(replace(f, name=f"{start.name}, {f.name}") for f in more)),
        warnings=tuple(said for said in record.warnings if not any(text in said for text in known)),
    )


def _other_pools(record: Record, start: Record) -> list[str]:
    """Say which sizes of the KV pool are not those of the start-up log."""
    told = {figure.metric: figure for figure in start.figures if figure.metric in _POOL}
    return [
        f"has {figure.metric} {figure.text}, but {start.where} {other.text}"
        for figure in record.figures
        if (other := told.get(figure.metric))
        and not math.isclose(figure.value, other.value, rel_tol=_SAME_POOL)
    ]


def contradictions(start: Record, stated: Mapping[str, Stated]) -> list[str]:
    """Say in what a start-up log is of another engine than what served, as that is stated."""
    return [
        f"is of {name} {shorten(str(one))!r}, but {start.where} of {shorten(str(other))!r}"
        for name in _SAME
        if (one := stated.get(name)) is not None
        and (other := start.conditions.get(name)) is not None
        and not _same(name, str(one), str(other))
        and not (name == "model" and _served(start, str(one)))
    ]


def _same(name: str, one: str, other: str) -> bool:
    """Whether two texts mean the same: models by their last name, versions without v and build, GPUs where known."""
    if name == "hardware":
        known = packaged_name(one), packaged_name(other)
        return None in known or known[0] == known[1]
    return _plain(name, one) == _plain(name, other)


def _plain(name: str, text: str) -> str:
    if name == "model":
        return text.rstrip("/").rpartition("/")[2].lower()
    if name == "engine_version":
        return text.lower().removeprefix("v").partition("+")[0]
    return text.lower()


def _served(start: Record, name: str) -> bool:
    """Whether a name is the one under which the engine served its model."""
    return name in str(start.unread.get("served_model_name", "")).strip("[]'\"").replace("'", "").split(", ")
