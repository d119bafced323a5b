"""Step times fitted to an engine's log, in the place of those that operators add up to."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from ..errors import InputError
from ..families import packaged_name
from ..inputs.step_times import StepFit, Steps
from .bound import step_bound
from .instance import InstanceKind
from .step import Factors
from .table import StepTable, _steps
from .work import Chunk


class AffineSteps(StepTable):
    """Steps whose times are affine in what they hold (:class:`~costmodel.inputs.step_times.Steps`), in seconds.

    Bytes and FLOPs are those of the instance kind, as for any of its steps.
    """

    def __init__(self, kind: InstanceKind, steps: Steps) -> None:
        super().__init__(kind)
        self.steps = steps
        self._work: dict[tuple[int, int], tuple[float, float]] = {}

    def with_steps(self, steps: Steps) -> AffineSteps:
        """Return other times of the same kind; what is known of bytes and FLOPs is shared."""
        other = copy(self)
        other.steps = steps
        return other

    def with_factors(self, factors: Factors) -> AffineSteps:
        """Return the same times: they are measured as a whole, and factors are of operators."""
        del factors
        return self

    def alone(self, tokens: int, prefix: int) -> tuple[float, float, float]:
        """One prompt in one step of its own: as :meth:`StepTable.alone`."""
        chunk = Chunk(tokens, prefix)
        found = self._work.get(chunk)
        if found is None:
            compute = step_bound(self.kind, (chunk,), 1, 0, 0).compute_s
            found = self._work[chunk] = self.token_bytes(tokens, 1), compute
        return self.step((chunk,), 1, 0, 0.0), *found

    def step(self, chunks: Sequence[Chunk], last: int, batch: int, context: float) -> float:
        """Time of a step of chunks and ``batch`` decodes over ``context`` tokens in all."""
        del last
        steps, time = self.steps, self.decode(batch, context)
        for tokens, prefix in chunks:
            time += tokens * (steps.prompt_token_s + steps.pair_s * (prefix + tokens / 2))
        return time

    def decode(self, batch: int, context: float) -> float:
        """Time of a step of ``batch`` decodes over ``context`` cached tokens in all."""
        steps = self.steps
        return steps.fixed_s + steps.sequence_s * batch + steps.cached_token_s * context

    def run(self, batch: int, context: float, count: int) -> float:
        """Time of ``count`` decode steps, the first of them over ``context`` tokens in all."""
        slope = self.steps.cached_token_s * batch
        return count * self.decode(batch, context) + slope * count * (count - 1) / 2

    def until(self, batch: int, context: float, count: int, seconds: float) -> tuple[int, float]:
        """Return the steps, at most ``count``, up to the first whose end is not before ``seconds``, and its end."""
        slope = self.steps.cached_token_s * batch
        steps = _steps(self.decode(batch, context), slope, seconds, count)
        return steps, self.run(batch, context, steps)


def affine_steps(kind: InstanceKind, fit: StepFit) -> AffineSteps:
    """Return the step times of a file for an instance. Raises InputError where they are another instance's."""
    own = {"model": kind.model.name, "gpu": kind.gpu.name, "tp": kind.tp}
    said = {"model": packaged_name(fit.model) or fit.model, "gpu": fit.gpu, "tp": fit.tp}
    wrong = [
        f"step times are of {name} {said[name]}, the instance has {own[name]}; fit a log of its own "
        "(costmodel calibrate), or describe the instance that was measured"
        for name in own
        if own[name] != said[name]
    ]
    if wrong:
        raise InputError(wrong)
    return AffineSteps(kind, fit.steps)


def fastest_steps(kind: InstanceKind) -> Steps:
    """Return what peak rates allow, in seconds: each weight that a token needs, each cached byte and FLOP once."""
    many = 10_000

    def bound(tokens: int, prefix: int, batch: int, context: int) -> tuple[float, float]:
        chunks = (Chunk(tokens, prefix),) if tokens else ()
        found = step_bound(kind, chunks, 0, batch, context)
        return found.compute_s, found.memory_s

    token = bound(1, 0, 0, 0)[0]
    return Steps(
        fixed_s=bound(0, 0, 1, 1)[1],
        sequence_s=token,
        cached_token_s=(bound(0, 0, 1, 2 * many)[1] - bound(0, 0, 1, many)[1]) / many,
        prompt_token_s=token,
        pair_s=max(0.0, (bound(1, 2 * many, 0, 0)[0] - bound(1, many, 0, 0)[0]) / many),
    )
