"""Figures of single steps and copies: a prompt alone, decodes of a fixed batch, the KV of a prompt over a link."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..audit.runs import Run
from ..audit.subject import Unknown
from ..decision.bands import COPY
from ..errors import InputError
from ..formulas import transfer
from ..inputs.efficiency import COVER
from ..records import Figure, Stated
from ..serving.band import edges, moves, spread
from ..serving.bound import step_bound
from ..serving.handover import Handover
from ..serving.instance import InstanceKind
from ..serving.step import seconds_by_kind
from ..serving.work import Chunk
from .ran import Ran
from .replays import Banded, front_end

PROMPT, DECODE, COPIED = ("ttft", "prefill_time"), ("tpot", "itl", "decode_step_time"), ("kv_transfer_time",)
#: Figures that one step has whatever the load, and those that it has where the batch is fixed.
ALWAYS, OF_A_BATCH = ("decode_step_time",), (*PROMPT, *DECODE)
#: The part of a prediction that is no operator.
_REQUEST = "request"
_FIXED = re.compile(r"fixed batch|static batch|\bbatch of\b")


def of_a_step(run: Run, figure: Figure, *, loaded: bool, split: bool) -> bool:
    """Say whether a figure is of one step or copy. ``loaded``: its run has a load; ``split``: and copies under it."""
    if figure.metric in COPIED:
        return not (loaded and split)
    if figure.metric in ALWAYS:
        return True
    fixed = run.number("batch", figure) is not None or bool(_FIXED.search(run.text("scenario")))
    return figure.metric in OF_A_BATCH and (
        fixed or (not loaded and figure.metric in ("prefill_time", "ttft"))
    )


class Steps:
    """Single steps of what ran, at what a run states (and the user gives) of their batch and lengths."""

    def __init__(self, run: Run, ran: Ran, given: Mapping[str, Stated]) -> None:
        self.run, self.ran = Run(run.record, {**run.conditions, **given}, run.figures), ran

    def predicted(self, figure: Figure) -> Banded:
        """Return what is predicted of a figure. Raises Unknown where it needs what is not stated."""
        try:
            if figure.metric in COPIED:
                return self._copy(figure)
            return self._prompt(figure) if figure.metric in PROMPT else self._decode(figure)
        except InputError as error:
            raise Unknown(str(error)) from None

    def _count(self, figure: Figure, key: str, what: str) -> int:
        value = self.run.number(key, figure)
        if value is None or value < 1:
            raise Unknown(f"{what} not stated as a number")
        return int(value)

    def _batch(self, figure: Figure) -> int:
        """Sequences of the step: those stated, or a client each."""
        return int(self.run.number("batch", figure) or self.run.number("concurrency", figure) or 1)

    def _prompt(self, figure: Figure) -> Banded:
        tokens = self._count(figure, "input_tokens", "prompt tokens are")
        share = self.run.number("cached_share", figure) or 0.0
        cached = int(min(self.run.number("cached_tokens", figure) or share * tokens, tokens - 1))
        batch = self._batch(figure)
        chunks = (Chunk(tokens - cached, cached),) * batch
        stack = self.ran.deployment.prefill.stack
        constant = stack.parameters.request_latency if stack and figure.metric == "ttft" else 0.0
        front = front_end(self.ran) if figure.metric == "ttft" else 0.0
        return _step(self.ran.deployment.prefill, chunks, 0, 0.0, "prefill", constant, front)

    def _decode(self, figure: Figure) -> Banded:
        tokens = self._count(
            figure, "input_tokens", "prompt tokens, which a decode step reads the cache of, are"
        )
        batch = self._batch(figure)
        context = batch * (tokens + (self.run.number("output_tokens", figure) or 0.0) / 2)
        return _step(self.ran.deployment.decode, (), batch, context, "decode")

    def _copy(self, figure: Figure) -> Banded:
        path = self.ran.deployment.path
        if self.ran.strategy.pooled:
            raise Unknown(
                "a copy has two ends, and no link is known: pass --strategy disaggregated and --link"
            )
        payload, tokens = self.run.number("payload", figure), self.run.number("input_tokens", figure)
        if payload:
            best, bound = _of_bytes(path, payload, self.run.number("descriptors", figure))
        elif tokens:
            best, bound = path.wire_s(int(tokens)), path.bound_s(int(tokens))
        else:
            raise Unknown("neither the bytes nor the tokens of the copy are stated")
        error = path.connector.held_out_mape
        if error is None:
            return Banded(best, bound=bound, reason=f"{path.connector.name} states no error of its {COPY}")
        factor = spread(best, [best * (1 + COVER * error)])
        return Banded(best, max(best / factor, bound), best * factor, bound)


def _of_bytes(path: Handover, payload: float, descriptors: float | None) -> tuple[float, float]:
    """Seconds of a copy of so many bytes, and the least. Raises Unknown where descriptors count and are not stated."""
    each = path.connector.per_descriptor_s or 0.0
    if each and descriptors is None:
        raise Unknown(
            f"{path.connector.name} takes time for every descriptor, and their number is not stated"
        )
    bandwidth = path.bandwidth_bytes_per_s
    best = transfer.wire_time(
        payload, bandwidth, path.latency_s, each, descriptors or 0.0, path.connector.bandwidth_share
    )
    return path.time_factor * float(best), float(transfer.transfer_bound(payload, bandwidth))


def _step(
    kind: InstanceKind,
    chunks: tuple[Chunk, ...],
    batch: int,
    context: float,
    measure: str,
    constant: float = 0.0,
    front: float = 0.0,
) -> Banded:
    """A step with its band; ``constant`` seconds are added; ``front`` more are possible."""
    ending = len(chunks)
    parts = seconds_by_kind(kind, chunks, ending, batch, context)
    off = edges(kind, parts, measure)
    parts |= {_REQUEST: constant} if constant else {}
    best = sum(parts.values())
    factor = spread(best, [best + width for width in moves(parts, off)])
    bound = step_bound(kind, chunks, ending, batch, context).time_s
    return Banded(best, max(best / factor, bound), best * factor, bound, front_end=front)
