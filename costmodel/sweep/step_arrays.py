"""Step times of thousands of steps at once: those of :mod:`costmodel.serving.step`, as arrays.

What all tokens of a step share depends on their number alone: it is computed once for each number and looked up.
Attention, states and the bound are traced once and repeated over arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InputError
from ..formulas.whole import host_bound_time
from ..repeated import Repeated, repeated
from ..serving.bound import step_bound
from ..serving.host import HostBound
from ..serving.instance import InstanceKind
from ..serving.mixing import mixes, mixing_loads
from ..serving.operators import load_time
from ..serving.work import Chunk, Load, head_loads, token_loads
from ..specialise_arrays import ArraySpecialised

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


#: phase -> whether its steps hold a chunk, and decodes.
PHASES = {"prefill": (True, False), "decode": (False, True), "mixed": (True, True)}
#: Numbers whose values are kept in a table; of larger ones each block computes its own.
MOST_KEPT = 2**18


class Kept:
    """A function of a whole number, each value computed once; of zero it is 0."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        import numpy as np

        self.function = ArraySpecialised(function)
        self.known: Array = np.zeros(1)
        self.most = MOST_KEPT

    def __call__(self, numbers: Array) -> Array:
        """Return the values of an array of whole numbers."""
        import numpy as np

        most = int(numbers.max(initial=0))
        if len(self.known) <= most < self.most:
            self._grow(max(most + 1, min(2 * len(self.known), self.most)))
        if most < len(self.known):
            found: Array = self.known[numbers]
            return found
        each, place = np.unique(numbers, return_inverse=True)
        values, some = np.zeros(len(each)), each > 0
        values[some] = self.function(each[some])
        return values[place]

    def _grow(self, size: int) -> None:
        """Lay the table up to a size; none any more where one of its numbers, asked or not, has no value."""
        import numpy as np

        try:
            more = self.function(np.arange(len(self.known), size))
            self.known = np.concatenate([self.known, more])
        except InputError:
            self.most = 0


class Shapes(NamedTuple):
    """Steps: a chunk of ``tokens`` over ``prefix`` cached ones, which ends its prompt where ``last`` is 1, and decodes.

    There are ``batch`` of these, of ``context`` cached tokens each. Arrays of whole numbers; all zeros: none.
    """

    tokens: Array
    prefix: Array
    last: Array
    batch: Array
    context: Array

    def of(self, part: Any) -> Shapes:
        """Some of the steps."""
        return Shapes(*(column[part] for column in self))


class StepArrays:
    """Times and bounds of many steps of one instance kind, in seconds."""

    def __init__(self, kind: InstanceKind) -> None:
        self.kind = kind
        self.host = HostBound(kind, {})
        self._together = mixes(kind)
        self._tokens = Kept(lambda n: self._time(token_loads(kind, n, 0)))
        self._heads = Kept(lambda n: self._time(head_loads(kind, n)))
        self._attention = {
            phase: ArraySpecialised(self._attends(chunked, decodes))
            for phase, (chunked, decodes) in PHASES.items()
        }
        self._bound = {phase: ArraySpecialised(self._bounded(*what)) for phase, what in PHASES.items()}

    def _time(self, loads: Sequence[Load]) -> Any:
        return sum(load.runs * load_time(self.kind, load) for load in loads)

    def _attends(self, chunked: bool, decodes: bool) -> Callable[..., Any]:
        """Attention and states of a step, as a function of the numbers that such steps have."""

        def time(*numbers: Any) -> Any:
            chunks, batch, context = _read(numbers, chunked, decodes)
            return self._time(mixing_loads(self.kind, chunks, batch, context))

        return time

    def _bounded(self, chunked: bool, decodes: bool) -> Callable[..., Any]:
        """The bound of a step, as a function of the numbers that such steps have and of how many prompts end."""

        def bound(last: Any, *numbers: Any) -> Any:
            chunks, batch, context = _read(numbers, chunked, decodes)
            return step_bound(self.kind, chunks, last, batch, context).time_s

        return bound

    def figures(self, phase: str, shapes: Shapes) -> tuple[Array, Array]:
        """Return times and physical bounds of steps of a phase. Raises InputError where a kernel was not measured."""
        import numpy as np

        chunked, decodes = PHASES[phase]
        columns = [shapes.tokens, shapes.prefix] if chunked else []
        columns += [shapes.batch, shapes.batch * shapes.context] if decodes else []
        numbers = [repeated(column) for column in columns]
        sampled = shapes.batch + shapes.last
        kernels = self._tokens(shapes.tokens + shapes.batch)
        kernels += self._heads(sampled)
        kernels += self._attended(phase, numbers)
        bound = self._bound[phase](repeated(shapes.last) if chunked else 0.0, *numbers)
        bound = bound if len(bound) == len(kernels) else np.repeat(bound, len(kernels))
        return self._waiting(kernels, sampled), bound

    def _attended(self, phase: str, numbers: Sequence[Array | Repeated]) -> Array:
        """Attention and states; of chunks and decodes apart where no kernel takes both."""
        if phase != "mixed" or self._together:
            return self._attention[phase](*numbers)
        return self._attention["decode"](*numbers[2:]) + self._attention["prefill"](*numbers[:2])

    def _waiting(self, kernels: Array, sampled: Array) -> Array:
        """Times of steps with what the host makes the GPU wait for."""
        host = self.host
        if not host.layer_floor:
            return kernels
        given = kernels, host.layers, host.layer_floor, sampled, host.sequence_latency
        found: Array = host_bound_time.function(*given)
        return found


def _read(numbers: Sequence[Any], chunked: bool, decodes: bool) -> tuple[tuple[Chunk, ...], Any, Any]:
    """Chunks, batch and context of a step of these numbers."""
    chunks = (Chunk(*numbers[:2]),) if chunked else ()
    return (chunks, *numbers[-2:]) if decodes else (chunks, 0, 0)
