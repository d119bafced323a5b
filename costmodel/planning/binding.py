"""What binds a plan: what breaks with one instance of each role fewer."""

from __future__ import annotations

from collections.abc import Iterator

from ..serving.deployment import Topology
from .closed import Closed
from .headroom import Headroom
from .results import Binding
from .search import Held
from .sizing import without
from .space import Layout
from .trials import Trial, Trials

#: Share of what memory and seats allow from which decodes are held up by them.
_FULL = 0.9
#: Requests preempted from which memory binds.
_PREEMPTED = 0.01


def binding(held: Held, closed: Closed, trials: Trials, spare: int = 0) -> tuple[Binding, ...]:
    """Return a row for each role: a replay with one instance fewer, the spares down besides."""
    return tuple(_row(held, role, closed, trials, spare) for role in _roles(held))


def lowered(held: Held, trials: Trials, spare: int = 0) -> Iterator[Topology]:
    """Yield what holds with one instance of a role fewer, where anything does."""
    for role in _roles(held):
        fewer = _fewer(held.sized.topology, role, spare)
        if fewer is not None and _weakest(held.sized.layout, fewer, trials, spare)[1].met:
            yield fewer


def _roles(held: Held) -> tuple[str, ...]:
    return ("prefill", "decode") if held.sized.topology.decode else ("shared",)


def at_more(held: Held, room: Headroom) -> Binding:
    """Return the row of a higher rate: what is missed first beyond the headroom."""
    assert room.factor is not None
    cause = f"{room.short or 'more'} instances"
    return Binding(
        "rate", str(held.sized.topology), None, room.slo, cause, f"beyond {room.factor:.2f} x the rate"
    )


def _fewer(topology: Topology, role: str, spare: int) -> Topology | None:
    """One instance of a role fewer; None where no more than the spares would be left of it."""
    x, y = topology.prefill, topology.decode
    left = (y if role == "decode" else x) - 1
    if left <= spare:
        return None
    return Topology(x, left) if role == "decode" else Topology(left, y)


def _weakest(layout: Layout, topology: Topology, trials: Trials, spare: int) -> tuple[Topology, Trial]:
    """The first way of losing the spares in which a plan misses, and its replay; one that holds where none does."""
    ways = dict.fromkeys((*without(topology, spare), topology))
    found = ((t, trials.of(layout, t, whole=True)) for t in ways)
    first = last = next(found)
    while last[1].met and (following := next(found, None)):
        last = following
    return first if last[1].met else last


def _row(held: Held, role: str, closed: Closed, trials: Trials, spare: int) -> Binding:
    layout, topology = held.sized.layout, held.sized.topology
    fewer = _fewer(topology, role, spare)
    if fewer is None:
        return Binding(role, str(topology), None, None, "none", "the role has no instance to lose")
    left, trial = _weakest(layout, fewer, trials, spare)
    cause = _cause(layout, left, closed, trial)
    if trial.reason is not None:
        return Binding(role, str(left), None, "stability", cause, _unstable(layout, trial))
    return Binding(role, str(left), trial.attained, None if trial.met else trial.slo, cause)


def _unstable(layout: Layout, trial: Trial) -> str | None:
    """The reason of a trial; where prompts run beside decodes, also that a replay may say otherwise for a time."""
    mixed = layout.strategy.name == "chunked" or (
        layout.strategy.name == "deflected" and trial.short == "decode"
    )
    if not mixed or trial.short is None:
        return trial.reason
    return f"{trial.reason}, at a full batch: a replay may hold until one fills"


def _cause(layout: Layout, topology: Topology, closed: Closed, trial: Trial) -> str:
    """Say what the late requests had too little of: KV memory, seats, or time of the GPUs."""
    if trial.met:
        return "nothing: it holds with one fewer, too"
    crowding = closed.means(layout, topology).crowding
    if (trial.preempted_share or 0.0) > _PREEMPTED or crowding > _FULL:
        deployment = layout.at(topology)
        form = closed.form(layout, topology)
        seats = deployment.settings.max_seqs
        return "KV memory" if deployment.decode_pool.sequences(form.held) < seats else "seats (--max-seqs)"
    return f"{trial.short} instances" if trial.short else "instances"
