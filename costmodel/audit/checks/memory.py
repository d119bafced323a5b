"""What GPUs hold: weights, the KV pool, a batch and the clients of a closed loop against the memory of one instance."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...errors import InputError
from ...inputs.parameters import weight_bytes
from ...memory.kv import kv_bytes
from ...records import Figure
from ...units import format_si
from ..case import Case
from ..finding import HOLDS, IMPOSSIBLE, INCONSISTENT, SUSPICIOUS, Finding, not_computable
from ..runs import Run, named
from ..subject import NARROW, Subject, Unknown

WEIGHTS, POOL, BATCH, CLIENTS = "weights_fit", "kv_pool_fits", "batch_fits", "clients_fit"
#: Dtypes of 8 and 4 bits: what an engine may have loaded where none is stated.
_LOADED = (*NARROW, "int4")
_ELSEWHERE = re.compile(r"(?i)offload|swap|stream(ed|ing) weights|from (cpu|disk|ssd)")


@dataclass(frozen=True)
class Room:
    """The GPUs of one instance: how many, and the bytes of one (as engines see them, where that is known)."""

    gpus: int
    each: float

    @property
    def size(self) -> float:
        """Bytes of all of them."""
        return self.gpus * self.each

    @property
    def told(self) -> str:
        """In words."""
        return f"{self.gpus} x {_gib(self.each)}"


def room_of(subject: Subject) -> Room:
    """Return the room of an instance (one that decodes, where GPUs of each side are named), else of all GPUs.

    Raises Unknown.
    """
    machine, gpu = subject.decoding.machine, subject.decoding.gpu
    own = [count for count in (machine.per_prefill, machine.per_decode) if count]
    gpus = max(own) if own else machine.gpus
    if gpus is None:
        raise Unknown("the number of GPUs is not stated")
    try:
        return Room(gpus, gpu.memory_bytes)
    except InputError as error:
        raise Unknown(str(error)) from None


def check_weights(case: Case) -> Iterator[Finding]:
    """Weights against the memory of the stated GPUs, once for each model on each machine."""
    about: dict[tuple[str, str | None, str, int], list[tuple[Subject, Run]]] = {}
    for subject, run in ((side, each) for each in case.runs for side in case.subject(each).sides):
        try:
            key = (subject.model.name, subject.stated_dtype, subject.gpu.name, room_of(subject).gpus)
            _ = subject.weight_bytes
        except Unknown:
            continue
        if not _elsewhere(run):
            about.setdefault(key, []).append((subject, run))
    for alike in about.values():
        figures = dict.fromkeys(figure.name for _, run in alike for figure in run.figures)
        yield _weights(alike[0][0], tuple(figures))


def _elsewhere(run: Run) -> bool:
    """Whether weights or KV are stated to be kept in another memory besides."""
    keys = ("engine", "engine_flags", "engine_changes", "scenario", "strategy", "connector")
    return bool(_ELSEWHERE.search(" ".join(run.text(key) for key in keys)))


def _weights(subject: Subject, of: tuple[str, ...]) -> Finding:
    room, size = room_of(subject), subject.weight_bytes
    told = f"{subject.model.name}: {_gib(size)} against {room.told} = {_gib(room.size)}"
    if size <= room.size:
        return Finding(WEIGHTS, HOLDS, of, f"weights take {size / room.size:.0%} of the memory", told)
    if subject.machine.presumed:
        reason = f"the number of GPUs is not stated, and one does not hold {_gib(size)}"
        return not_computable(WEIGHTS, of, f"weights of {subject.model.name}", reason)
    narrow = next((d for d in _LOADED if (b := _narrow(subject, d)) and b <= room.size), None)
    if narrow and subject.stated_dtype is None:
        said = f"weights fit in {narrow} and not in the checkpoint's dtype: which was loaded is not stated"
        return Finding(WEIGHTS, INCONSISTENT, of, said, told)
    return Finding(WEIGHTS, IMPOSSIBLE, of, "weights do not fit on the stated GPUs", told)


def _narrow(subject: Subject, dtype: str) -> float | None:
    try:
        return float(weight_bytes(subject.model, dtype))
    except InputError:
        return None


def check_pool(case: Case) -> Iterator[Finding]:
    """A KV pool in bytes, tokens or blocks, with the weights, against the memory of an instance."""
    for run, figure in case.each("kv_pool_bytes", "kv_cache_tokens", "kv_cache_blocks"):
        size = figure.text if figure.metric == "kv_pool_bytes" else f"{figure.value:,.0f}"
        try:
            yield _pool(case.subject(run, figure), run, figure, f"{figure.metric} {size}")
        except Unknown as why:
            yield not_computable(POOL, (figure.name,), f"{figure.metric} {size}", str(why))


def _pool(subject: Subject, run: Run, figure: Figure, what: str) -> Finding:
    room, of = room_of(subject), (figure.name,)
    held, counted, otherwise = _held(subject, run, figure, room)
    left = room.size - subject.weight_bytes
    told = f"{counted} against {room.told}, of which weights leave {_gib(max(left, 0.0))}"
    if held <= left:
        return Finding(POOL, HOLDS, of, f"{what} is {held / room.size:.0%} of the memory", told)
    than = "the whole memory" if held > room.size else "what the weights leave"
    said = f"{what} needs {_gib(held)}, more than {than} of {room.told}{otherwise}"
    would = next((word for word, other in narrower(subject) if _fits(other, run, figure, room)), None)
    if would:
        return Finding(POOL, INCONSISTENT, of, f"{said}; with {would}, not stated, it would fit", told)
    return Finding(POOL, IMPOSSIBLE, of, said, told)


def narrower(subject: Subject) -> Iterator[tuple[str, Subject]]:
    """Yield the same with a narrower cache and narrower weights, where a report states neither, the likeliest first."""
    stated = {"kv_dtype", "kv_bytes_per_token"} & subject.conditions.keys()
    narrow = None if stated else replace(subject, conditions={**subject.conditions, "kv_dtype": "fp8"})
    if narrow is not None:
        yield "an fp8 cache", narrow
    for dtype in _LOADED if subject.stated_dtype is None else ():
        yield f"{dtype} weights", replace(subject, conditions={**subject.conditions, "dtype": dtype})
        if narrow is not None:
            both = replace(narrow, conditions={**narrow.conditions, "dtype": dtype})
            yield f"{dtype} weights and an fp8 cache", both


def _fits(subject: Subject, run: Run, figure: Figure, room: Room) -> bool:
    """Whether a pool fits beside the weights."""
    try:
        return _held(subject, run, figure, room)[0] <= room.size - subject.weight_bytes
    except Unknown:
        return False


def _held(subject: Subject, run: Run, figure: Figure, room: Room) -> tuple[float, str, str]:
    """Bytes of a pool on all GPUs of an instance, how they are counted, and what else its number may be."""
    if figure.metric == "kv_pool_bytes":
        gpus = room.gpus if of_one_gpu(figure) else 1
        return figure.value * gpus, f"{gpus} x {_gib(figure.value)}" if gpus > 1 else _gib(figure.value), ""
    each = token_bytes(subject)
    if figure.metric == "kv_cache_tokens":
        held = figure.value * each
        return held, f"{figure.value:,.0f} tokens x {each:,.0f} B = {_gib(held)}", ""
    size = run.number("block_size", figure)
    if size is None:
        raise Unknown("the tokens of a block are not stated")
    held = figure.value * size * each
    counted = f"{figure.value:,.0f} x {size:g} tokens x {each:,.0f} B = {_gib(held)}"
    return held, counted, f"; read as tokens it is {_gib(figure.value * each)}"


def of_one_gpu(figure: Figure) -> bool:
    """Whether a figure of memory is stated to be that of one GPU, as logs of engines print it."""
    return figure.per_gpu or "of one gpu" in (figure.note or "").lower()


def token_bytes(subject: Subject) -> float:
    """Return the bytes of a token in the pool of an instance, in all, with what a stated TP stores several times.

    Raises Unknown where tokens alone do not say: layers with windows or states take their own part of a pool.
    """
    stated = subject.conditions.get("kv_bytes_per_token")
    if isinstance(stated, int | float):
        return float(stated)
    tp = subject.conditions.get("decode_tp") or subject.conditions.get("tp")
    try:
        found = kv_bytes(subject.model, 1, subject.kv_dtype, int(tp) if isinstance(tp, int | float) else 1)
    except InputError as error:
        raise Unknown(str(error)) from None
    if found.kv_bytes_per_token != found.kv_bytes_per_token_all_layers or found.fixed_bytes_per_sequence:
        raise Unknown(
            f"{subject.model.name} has layers with windows or states: its pool is not tokens x bytes"
        )
    return found.kv_bytes_per_token * found.replication


def check_batch(case: Case) -> Iterator[Finding]:
    """Sequences of a step with their prompts, beside the weights, against the memory of an instance."""
    for run in case.runs:
        batch, tokens = run.number("batch"), run.number("input_tokens")
        figures = [
            f for f in run.figures if {"batch", "input_tokens"} <= {*f.conditions, *case.record.conditions}
        ]
        if not batch or not tokens or not figures or _elsewhere(run) or _shared(run):
            continue
        subject = case.subject(run)
        try:
            room, each = room_of(subject), subject.kv_bytes(int(tokens))
            left = room.size - subject.weight_bytes
        except Unknown:
            continue
        told = (
            f"{batch:g} x {_gib(each)} = {_gib(batch * each)} against {_gib(max(left, 0.0))} of {room.told}"
        )
        if left > 0 and batch * each > left:
            said = f"a batch of {batch:g} prompts of {tokens:,.0f} tokens does not fit beside the weights"
            would = _would(subject, room, batch, int(tokens))
            said += f"; with {would}, not stated, it would" if would else ""
            yield Finding(BATCH, INCONSISTENT if would else IMPOSSIBLE, named(figures), said, told)
        elif left > 0:
            said = f"a batch of {batch:g} prompts of {tokens:,.0f} tokens fits beside the weights"
            yield Finding(BATCH, HOLDS, named(figures), said, told)


def _would(subject: Subject, room: Room, batch: float, tokens: int) -> str | None:
    """Which narrower dtypes would let a batch fit."""
    for what, other in narrower(subject):
        try:
            if batch * other.kv_bytes(tokens) <= room.size - other.weight_bytes:
                return what
        except Unknown:
            continue
    return None


def _shared(run: Run) -> bool:
    """Whether sequences are stated to share cached prompts, which are held once."""
    return bool(run.number("cached_tokens") or run.number("cached_share") or "hit" in run.text("cache_state"))


def check_clients(case: Case) -> Iterator[Finding]:
    """Clients of a closed loop against the sequences that all instances hold: the rest wait to be admitted."""
    for run in case.runs:
        clients, tokens = run.number("concurrency"), run.number("input_tokens")
        figures = run.all("ttft", "e2e")
        if not clients or not tokens or not figures or _elsewhere(run) or _shared(run):
            continue
        try:
            most, told = _admitted(case.subject(run), int(tokens))
        except Unknown:
            continue
        if 0 < most < clients:
            said = f"at most {most:,} of {clients:g} clients are admitted at a time: TTFT has a wait for room"
            yield Finding(
                CLIENTS, SUSPICIOUS, named(figures), said, f"{told} = {most:,} against {clients:g} clients"
            )


def _admitted(subject: Subject, tokens: int) -> tuple[int, str]:
    """Prompts that the decoding instances hold at most, and how that is counted."""
    room, machine = room_of(subject), subject.machine
    instances = machine.decode or max(1, (machine.gpus or room.gpus) // room.gpus)
    left, each = room.size - subject.weight_bytes, subject.kv_bytes(tokens)
    if each <= 0:
        raise Unknown("sequences take no KV")
    told = f"{instances} x ({room.told} - {_gib(subject.weight_bytes)}) / {_gib(each)}"
    return int(instances * (left // each)), told


def _gib(size: float) -> str:
    return format_si(size, "byte", 4, binary=True)
