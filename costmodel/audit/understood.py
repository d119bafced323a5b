"""How the words of a report were read, in one line of a run: a misreading is to be noticed, not to be worked out."""

from __future__ import annotations

from collections.abc import Iterator

from ..records import Figure
from ..records.machine import Machine
from . import words
from .case import Case
from .runs import Run
from .subject import Subject, Unknown
from .wires import wire_of


def understood(case: Case) -> tuple[str, ...]:
    """Return how models, GPUs, degrees, dtypes and links were read, each reading once."""
    said = dict.fromkeys(text for run in case.runs for text in case.subject(run).said)
    read = dict.fromkeys(text for run in case.runs for text in _read(case, run))
    return (*said, *read)


def _read(case: Case, run: Run) -> Iterator[str]:
    subject = case.subject(run)
    gpus = _gpus(subject.machine)
    if gpus:
        yield gpus
    yield from _dtypes(subject)
    links = {
        str(figure.conditions.get("link")): figure for figure in run.figures if "link" in figure.conditions
    }
    for figure in links.values() or run.figures[:1]:
        yield from _link(case, run, figure)


def _gpus(machine: Machine) -> str:
    """GPUs in all, or of each side, and those of an instance."""
    if machine.decoding is not None:
        sides = (("prefill", machine, machine.per_prefill), ("decode", machine.decoding, machine.per_decode))
        return "; ".join(f"{role} on {each or '?'} x {_name(side)}" for role, side, each in sides)
    if machine.gpu is None and machine.gpus is None:
        return ""
    number = f"{machine.gpus} x " if machine.gpus else ""
    told = f"{number}{_name(machine)}{' in all' if number else ', their number not stated'}"
    if machine.per_prefill and machine.per_prefill == machine.per_decode:
        return f"{told}, {machine.per_prefill} of an instance"
    own = ((machine.per_prefill, "prefill"), (machine.per_decode, "decode"))
    return ", ".join([told, *(f"{each} of a {role} instance" for each, role in own if each)])


def _name(machine: Machine) -> str:
    return machine.gpu.name if machine.gpu else "a GPU that is not packaged"


def _dtypes(subject: Subject) -> Iterator[str]:
    """Dtypes that bounds count with, stated or the checkpoint's, and a peak that stands in for another."""
    try:
        kind = subject.kind()
    except Unknown:
        if subject.stated_dtype:
            yield f"weights in {subject.stated_dtype}"
        return
    own = "" if subject.stated_dtype else " (the checkpoint's)"
    yield f"weights in {kind.weight_dtype}{own}, KV in {kind.kv_dtype}"
    missing = f"peak_{kind.activation_dtype}"
    if missing not in subject.gpu.values and missing in kind.gpu.values:
        yield f"{kind.gpu.name} states no {missing}: activations count at its peak_{kind.product_dtype}"


def _link(case: Case, run: Run, figure: Figure) -> Iterator[str]:
    stated = figure.conditions.get("link") or run.conditions.get("link")
    try:
        wire = wire_of(run, case.subject(run, figure), figure)
    except Unknown as why:
        if stated:
            yield f"link {stated!r}: {why}"
        return
    named = f"link {stated!r}" if stated else "link"
    rate = words.rate(wire.bytes_per_s)
    made = "" if wire.said == rate else f"{wire.said} = "
    yield f"{named}: {made}{rate}{'' if wire.sure else ' at least'}"
