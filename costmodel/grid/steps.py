"""Step times of one instance kind for arrays: those of :class:`~costmodel.serving.step.StepTimes`, point by point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..formulas.whole import host_bound_time
from ..serving.mixing import chunk_loads, decode_loads, mixes, mixing_loads
from ..serving.operators import load_time
from ..serving.step import StepTimes
from ..serving.work import Chunk, Load, head_loads, token_loads
from ..specialise_arrays import ArraySpecialised

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

#: Octaves of tokens above 64 for which a table is laid, and the tokens to which it reaches.
_OCTAVES = 11
_REACH = 1 << (6 + _OCTAVES)
#: Whole numbers of tokens whose times are kept.
_KEPT = 1 << 18


class ArraySteps:
    """Times of many steps at once, in seconds. Tokens and batches may be means; batches below 1 are shares of one."""

    def __init__(self, times: StepTimes) -> None:
        import numpy as np

        kind, factors = times.kind, times.factors
        self.kind, self._host = kind, times.host

        def time(loads: Sequence[Load]) -> Any:
            return sum(load.runs * load_time(kind, load) * factors.get(load.kind, 1.0) for load in loads)

        self._token = ArraySpecialised(lambda n: time(token_loads(kind, n, 0)))
        self._head = ArraySpecialised(lambda n: time(head_loads(kind, n)))
        self._chunk = ArraySpecialised(lambda n, prefix: time(chunk_loads(kind, Chunk(n, prefix))))
        self._decode = ArraySpecialised(lambda batch, context: time(decode_loads(kind, batch, context)))
        self._mixed = ArraySpecialised(
            lambda n, prefix, batch, context: time(mixing_loads(kind, (Chunk(n, prefix),), batch, context))
        )
        self.mixes = mixes(kind)
        self._smooth = self._at_whole()
        self._heads = self._of_rows(256)
        self._at = np.full(_KEPT, np.nan)

    def _at_whole(self) -> Array:
        """Times at whole numbers of tokens: straight between those up to 64 and, above, 32 points an octave."""
        import numpy as np

        above = (np.arange(32, 64)[None, :] * 2.0 ** np.arange(1, _OCTAVES + 2)[:, None]).ravel()
        knots = np.concatenate([np.arange(1.0, 64), above])
        times = np.append(0.0, self._token(knots))
        found: Array = np.interp(np.arange(_REACH + 2.0), np.append(0.0, knots), times)
        return found

    def _of_rows(self, most: int) -> Array:
        """Times of the head for 0, 1, .. ``most`` sampled rows."""
        import numpy as np

        return np.concatenate([[0.0], self._head(np.arange(1.0, most + 1))])

    def host(self, kernels_s: Array, sampled: Array) -> Array:
        """Times of steps whose operators take ``kernels_s``: longer where the host launches more slowly."""
        host = self._host
        if not host.layer_floor:
            return kernels_s
        found: Array = host_bound_time.function(
            kernels_s, host.layers, host.layer_floor, sampled, host.sequence_latency
        )
        return found

    @property
    def waits_for_host(self) -> bool:
        """True where steps may wait for the host at all."""
        return bool(self._host.layer_floor)

    def _head_of(self, sampled: Array) -> Array:
        import numpy as np

        rows = np.maximum(1, np.rint(sampled)).astype(np.intp)
        most = int(rows.max(initial=0))
        if most >= len(self._heads):
            self._heads = self._of_rows(2 * most)
        found: Array = self._heads[rows]
        return found

    def _whole(self, tokens: Array) -> Array:
        """Everything but attention and the head for whole numbers of tokens, each computed once."""
        import numpy as np

        place = tokens.astype(np.intp)
        if place.max(initial=0) >= _KEPT:
            return self._token(tokens)
        missing = place[np.isnan(self._at[place])]
        if len(missing):
            fresh = np.unique(missing)
            self._at[fresh] = self._token(fresh)
        found: Array = self._at[place]
        return found

    def tokens(self, tokens: Array, sampled: Array) -> Array:
        """Everything but attention for mean numbers of tokens, at least 1, of which ``sampled`` rows need the head.

        Straight between whole numbers, and above 64 tokens between 32 points an octave.
        """
        import numpy as np

        low = np.minimum(tokens, _REACH).astype(np.intp)
        below = self._smooth[low]
        found: Array = below + (tokens - low) * (self._smooth[low + 1] - below)
        if tokens.max(initial=0) > _REACH:
            found = np.where(tokens > _REACH, self._far(tokens), found)
        return found + self._head_of(sampled)

    def _far(self, tokens: Array) -> Array:
        """Everything but attention and the head between 32 points an octave, beyond the table."""
        import numpy as np

        stride = np.ldexp(1.0, np.frexp(tokens)[1] - 6)
        low = np.maximum(1.0, np.floor(tokens / stride) * stride)
        below = self._token(low)
        found: Array = below + (tokens - low) / stride * (self._token(low + stride) - below)
        return found

    def chunks(self, tokens: Array, prefix: Array) -> Array:
        """Attention of chunks over their prefixes and themselves."""
        return self._chunk(tokens, prefix)

    def prompts(self, tokens: Array, prefix: Array, count: int = 1) -> Array:
        """``count`` equal prompts alone in one step: ``tokens`` uncached each over ``prefix`` cached."""
        import numpy as np

        rows = np.full(1, float(count))
        time = self._whole(count * tokens) + self._head(rows) + count * self.chunks(tokens, prefix)
        return self.host(time, rows)

    def decodes(self, batch: Array, each: Array) -> Array:
        """Steps of mean batches of at least 1 decode over ``each`` cached tokens."""
        return self.host(self.tokens(batch, batch) + self._decode(batch, batch * each), batch)

    def decode_of_one(self, context: Array) -> Array:
        """Steps of one decode over ``context`` cached tokens."""
        import numpy as np

        one = np.ones(1)
        return self.host(self._token(one) + self._head(one) + self._decode(one, context), one)

    def riding(self, chunk: tuple[Array, Array], chunk_s: Array, batch: Array, each: Array) -> Array:
        """What mean batches of decodes add to the attention of a chunk that takes ``chunk_s`` alone."""
        import numpy as np

        whole = np.maximum(batch, 1.0)
        if self.mixes:
            added = self._mixed(*chunk, whole, whole * each) - chunk_s
        else:
            added = self._decode(whole, whole * each)
        found: Array = np.minimum(batch, 1.0) * added
        return found
