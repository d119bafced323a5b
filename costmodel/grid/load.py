"""What points have in common for all strategies: ideals, copies and offered work, as :class:`.ClosedForm` has them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ..formulas import transfer
from ..serving.deployment import Deployment
from ..serving.handover import Handover
from ..serving.instance import InstanceKind
from ..serving.memory import KvPool
from .points import Prompts, Requests, Rows
from .prompts import PromptTable
from .stations import Offered
from .waits import Queues

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


class Mixes(NamedTuple):
    """What follows from lengths alone, a row a mix: seconds alone, decode steps, their mean context, and the tokens
    that a sequence holds; ``sends``: the share of the requests of each typical prompt whose KV is copied at all.
    """

    ideal_prefill: Array
    ideal_decode: Array
    gaps: Array
    context: Array
    held: Array
    sends: Array


def mixes_of(prompts: dict[InstanceKind, PromptTable], requests: Requests, deployment: Deployment) -> Mixes:
    """Return what follows from lengths alone."""
    import numpy as np

    isl, outputs = np.broadcast_arrays(requests.isl, requests.outputs)
    gaps, middle = outputs - 1, isl + outputs / 2
    prefill, decode = np.full(isl.shape, np.inf), np.zeros(isl.shape)
    for table in prompts.values():
        own = table.alone[requests.of], gaps * table.steps.decode_of_one(middle)
        better = own[0] + own[1] < prefill + decode
        prefill, decode = np.where(better, own[0], prefill), np.where(better, own[1], decode)
    total = gaps.sum(-1)
    weighted = (gaps * middle).sum(-1) / np.where(total > 0, total, 1.0)
    sends = ((outputs > 1) | (deployment.settings.first_token != "prefill")).astype(float)
    return Mixes(
        prefill.mean(-1),
        decode.mean(-1),
        gaps.mean(-1),
        np.where(total > 0, weighted, isl.mean(-1)),
        (isl + outputs).mean(-1),
        sends.mean(-1, keepdims=True) if requests.prompts.uncached.shape[1] == 1 else sends,
    )


class Copies:
    """Copies of typical prompts: bytes and descriptors a mix, seconds a point."""

    def __init__(self, path: Handover, prompts: Prompts, alone: Array) -> None:
        import numpy as np

        self.path, self.alone = path, alone
        blocks = path.block_rule.function(prompts.uncached, path.connector.block_tokens)
        _, first, place = np.unique(blocks.ravel(), return_index=True, return_inverse=True)
        place = place.reshape(blocks.shape)
        lengths = prompts.uncached.ravel()[first].astype(int).tolist()  # one of as many blocks
        copies = [(path.wire_bytes(tokens), path.descriptors(tokens)) for tokens in lengths]
        table = np.array(copies).reshape(-1, 2)
        self.bytes, self.descriptors = table[:, 0][place], table[:, 1][place]

    def seconds(self, prompt: Array, nics: Array, control_s: Array) -> tuple[Array, Array]:
        """Return each typical copy's time on a free link, and that of its hand-over beyond what prefill hides."""
        import numpy as np

        path, connector = self.path, self.path.connector
        ports, place = np.unique(nics, return_inverse=True)
        rates = np.array([replace(path, nics=int(count)).bandwidth_bytes_per_s for count in ports])[place]
        wire = path.time_factor * transfer.wire_time.function(
            self.bytes[prompt], rates[:, None], path.latency_s, connector.per_descriptor_s or 0.0,
            self.descriptors[prompt], connector.bandwidth_share,
        )  # fmt: skip
        exposed = wire
        if path.overlap != "serial":
            layers = path.source.model.layer_count
            exposed = transfer.exposed_layerwise.function(wire, self.alone[prompt], layers)
        return wire, control_s[:, None] + exposed


class Load:
    """Some points: what they offer to pools."""

    def __init__(self, deployment: Deployment, rows: Rows, mixes: Mixes) -> None:
        import numpy as np

        self.deployment, self.rows, self.mixes = deployment, rows, mixes
        self.turns = deployment.settings.routing == "round-robin"
        self.gaps, self.context = mixes.gaps[rows.mix], mixes.context[rows.mix]
        self.strata = mixes.sends.shape[1]
        self.every = np.full(len(rows.mix), self.strata)

    def queues(self, share: Array, servers: Array) -> Queues:
        """Arrivals of a share of all requests at servers; of each of them where they take turns."""
        import numpy as np

        mean, scv = 1 / self.rows.rate, self.rows.cv**2
        thin = share < 1
        gap, scv = np.where(thin, mean / share, mean), np.where(thin, share * scv + 1 - share, scv)
        if self.turns:
            return Queues(gap * servers, scv / servers, np.ones(len(servers)))
        return Queues(gap, scv, servers)

    def offered(self, pool: KvPool, instances: Array, local: Array) -> Offered:
        """What reaches instances that compute the ``local`` shortest prompts and decode everything."""
        import numpy as np

        rows, held = self.rows, np.maximum(1, np.rint(self.mixes.held))[self.rows.mix]
        fitting = pool.pool_bytes / _held_bytes(pool, held)
        most = np.maximum(1.0, np.minimum(fitting, rows.max_seqs))
        prompts = rows.rate * (local / self.strata)
        tokens = rows.rate * self.gaps / instances
        return Offered(rows.prompt, local, instances, prompts, tokens, self.context, most, rows.token_budget)


def _held_bytes(pool: KvPool, tokens: Array) -> Array:
    """KV bytes per GPU of sequences."""
    import numpy as np

    grows = (np.floor(each * np.minimum(tokens, window)) for each, window in pool.sequence.grows)
    found: Array = pool.sequence.constant + sum(grows, np.zeros(tokens.shape))
    return found
