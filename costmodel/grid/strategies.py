"""Mean delays of each strategy at many points: :class:`costmodel.evaluate.closed.ClosedForm`, point by point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..formulas.waiting import mg1_wait
from ..serving.deployment import Deployment
from ..serving.instance import InstanceKind
from .classes import distinct
from .load import Copies, Load
from .points import Rows
from .prompts import PromptTable
from .sharing import of_shortest
from .stations import MixedStation, Station, decode_station, nothing, whole_line, whole_station
from .waits import Moments, moments

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


class Remote(NamedTuple):
    """Prefill pools and copies, a column each as in the scalar code."""

    utilisation: Array
    wait: Array
    service: Array
    link_utilisation: Array
    link: Array
    copy: Array
    sent: Array


class Outcome(NamedTuple):
    """A strategy: utilisation of each pool in the order of ``roles``, share of local prompts, decoding instances and
    what is remote.
    """

    roles: tuple[str, ...]
    loads: tuple[Array, ...]
    here: Array
    station: Station
    remote: Remote


class Strategies:
    """Strategies over some points of one deployment."""

    def __init__(self, prompts: dict[InstanceKind, PromptTable], copies: Copies, load: Load) -> None:
        self.prompts, self.copies, self.load = prompts, copies, load
        self.deployment: Deployment = load.deployment

    def pooled(self, *, whole: bool) -> Outcome:
        """Every instance does everything: prompts run whole, or in chunks beside decodes."""
        import numpy as np

        load, deployment, rows = self.load, self.deployment, self.load.rows
        instances = rows.prefill + rows.decode
        members = {deployment.prefill: (deployment.prefill_pool, rows.prefill)}
        if deployment.decode == deployment.prefill:
            members = {deployment.decode: (deployment.decode_pool, instances)}
        else:
            members[deployment.decode] = deployment.decode_pool, rows.decode
        queues = load.queues(np.ones(len(instances)), instances)
        found, worst = nothing(len(instances)), np.zeros(len(instances))
        for kind, (pool, count) in members.items():
            offered = load.offered(pool, instances, load.every)
            if whole:
                one = whole_station(self.prompts[kind], offered, queues)
            else:
                one = MixedStation(self.prompts[kind], offered).found(queues)
            worst = np.maximum(worst, one.utilisation)
            found = Station(*(sum_ + count / instances * value for sum_, value in zip(found, one)))
        none = np.zeros(len(instances))
        return Outcome(("shared",), (worst,), none + 1, found, Remote(*[none] * 7))

    def split(self, local: Array) -> Outcome:
        """Prefill and decode instances; the ``local`` shortest prompts of each point stay on the decode side."""
        import numpy as np

        load, rows = self.load, self.load.rows
        remote = self._remote(local)
        prompts = self.prompts[self.deployment.decode]
        offered = load.offered(self.deployment.decode_pool, rows.decode, local)
        station = nothing(len(local))
        alone, mixed = np.flatnonzero(local == 0), np.flatnonzero(local > 0)
        if len(alone):
            station.put(alone, decode_station(prompts.steps, offered.of(alone)))
        if len(mixed):
            queues = load.queues(np.where(local > 0, local / load.strata, 1.0), rows.decode)
            station.put(mixed, MixedStation(prompts, offered.of(mixed)).found(queues.of(mixed)))
        loads = (remote.utilisation, station.utilisation, remote.link_utilisation)
        return Outcome(("prefill", "decode", "link"), loads, local / load.strata, station, remote)

    def _remote(self, local: Array) -> Remote:
        """The prefill pools and the links when the ``local`` shortest prompts stay away."""
        import numpy as np

        found = Remote(*(np.zeros(len(local)) for _ in Remote._fields))
        sent = np.flatnonzero(local < self.load.strata)
        if len(sent):
            for column, values in zip(found, self._sent(sent, local[sent])):
                column[sent] = values
        return found

    def _sent(self, at: Array, local: Array) -> Remote:
        import numpy as np

        load, prompts = self.load, self.prompts[self.deployment.prefill]
        rows = load.rows.of(at)
        lanes = np.minimum(rows.prefill, rows.decode)
        wire, hand, share = self._copied(rows, local)
        copies = rows.rate * share
        queues = Load(self.deployment, rows, load.mixes).queues(1 - local / load.strata, rows.prefill)
        line = whole_line(prompts, rows.prompt, rows.token_budget, local, queues, others=True)
        use = line.utilisation
        link_use = copies * wire.mean / lanes
        wait, behind = np.where(use < 1, line.wait, np.inf), np.where(use < 1, line.behind, 0.0)
        # One queue for each port, as in the scalar code: a copy needs two given ports at once.
        port = copies / lanes
        queued = (port > 0) & (link_use < 1)
        safe = np.where(queued, port, 0.0)
        link = np.where(queued, mg1_wait.function(safe, wire.mean, wire.scv), 0.0)
        return Remote(use, wait, line.service + behind, link_use, link, hand, copies / rows.rate)

    def _copied(self, rows: Rows, local: Array) -> tuple[Moments, Array, Array]:
        """Moments of a copy on a free link, its mean hand-over, and the share of all requests that are copied."""
        sends = self.load.mixes.sends
        lengths = rows.prompt if (sends == 1).all() else rows.mix
        first, place = distinct(lengths, local, rows.nics, rows.control_s)
        copied = of_shortest(local[first], self.load.strata, others=True) * sends[rows.mix[first]]
        wires, hand = self.copies.seconds(rows.prompt[first], rows.nics[first], rows.control_s[first])
        wire = moments(wires, copied)
        return (
            Moments(wire.mean[place], wire.scv[place]),
            moments(hand, copied).mean[place],
            copied.mean(-1)[place],
        )
