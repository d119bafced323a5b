"""What binds a plan: what breaks with one instance of each role fewer."""

from __future__ import annotations

from ..serving.deployment import Topology
from .closed import Closed
from .headroom import Headroom
from .results import Binding
from .search import Held
from .space import Layout
from .trials import Trial, Trials

#: Share of what memory and seats allow from which decodes are held up by them.
_FULL = 0.9
#: Requests preempted from which memory binds.
_PREEMPTED = 0.01


def binding(held: Held, closed: Closed, trials: Trials, spare: int = 0) -> tuple[Binding, ...]:
    """Return a row for each role: a replay with one instance fewer, the spares down besides."""
    layout, topology = held.sized.layout, held.sized.topology
    roles = ("prefill", "decode") if topology.decode else ("shared",)
    return tuple(_row(layout, topology, role, closed, trials, 1 + spare) for role in roles)


def at_more(held: Held, room: Headroom) -> Binding:
    """Return the row of a higher rate: what is missed first beyond the headroom."""
    assert room.factor is not None
    cause = f"{room.short or 'more'} instances"
    return Binding(
        "rate", str(held.sized.topology), None, room.slo, cause, f"beyond {room.factor:.2f} x the rate"
    )


def _row(layout: Layout, topology: Topology, role: str, closed: Closed, trials: Trials, lost: int) -> Binding:
    fewer = (
        Topology(topology.prefill, topology.decode - lost)
        if role == "decode"
        else Topology(topology.prefill - lost, topology.decode)
    )
    if fewer.prefill < 1 or (topology.decode and fewer.decode < 1):
        return Binding(role, str(topology), None, None, "none", "the role has no instance to lose")
    trial = trials.of(layout, fewer, whole=True)
    if trial.reason is not None:
        return Binding(
            role, str(fewer), None, "stability", _cause(layout, fewer, closed, trial), trial.reason
        )
    slo = None if trial.met else trial.slo
    return Binding(role, str(fewer), trial.attained, slo, _cause(layout, fewer, closed, trial))


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
