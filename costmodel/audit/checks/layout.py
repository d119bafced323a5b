"""Degrees of parallelism against the GPUs that a report states."""

from __future__ import annotations

from collections.abc import Iterator

from ...records.machine import Machine
from ..case import Case
from ..finding import INCONSISTENT, SUSPICIOUS, Finding
from ..runs import Run, named

GPUS = "gpus_contradict"


def check_layout(case: Case) -> Iterator[Finding]:
    """An instance cannot span more GPUs than there are, on either side."""
    for run in case.runs:
        machine = case.subject(run).machine
        if machine.counted is None or not machine.per_prefill:
            continue
        for what, needed, stated in _spans(machine):
            if needed > stated:
                said = f"{what} takes {needed} GPUs by its degrees of parallelism, and {stated} are stated"
                told = f"TP x pipeline stages = {needed} against {stated} GPUs"
                yield Finding(GPUS, INCONSISTENT, named(run.figures), said, told)
        yield from _instances(run, machine)


def _instances(run: Run, machine: Machine) -> Iterator[Finding]:
    """Several instances may share GPUs (attention in data parallel), or the hardware may be that of one of them."""
    number = run.number("instances")
    if (
        not number
        or machine.counted is None
        or not machine.per_prefill
        or machine.per_prefill > machine.counted
    ):
        return
    needed = int(number) * machine.per_prefill
    if needed > machine.counted:
        said = (
            f"{number:g} instances take {needed} GPUs, and {machine.counted} are stated: those of one instance, "
            "or instances that share them"
        )
        told = f"{number:g} x {machine.per_prefill} = {needed} against {machine.counted} GPUs"
        yield Finding(GPUS, SUSPICIOUS, named(run.figures), said, told)


def _spans(machine: Machine) -> Iterator[tuple[str, int, int]]:
    """What an instance of each side needs, and the GPUs that its words count."""
    if machine.decoding is None:
        for role, needed in (("an instance", machine.per_prefill), ("a decode instance", machine.per_decode)):
            if needed and (role == "an instance" or needed != machine.per_prefill):
                yield role, needed, machine.counted or needed
        return
    yield "a prefill instance", machine.per_prefill or 0, machine.counted or machine.per_prefill or 0
    own = machine.decoding
    yield "a decode instance", own.per_decode or 0, own.counted or own.per_decode or 0
