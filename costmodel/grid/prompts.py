"""Prefill times of typical prompts on one instance kind, for many mixes of lengths: alone, and in chunks.

What a prompt and a chunk size fix is computed once, when a point first asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from .classes import distinct
from .points import Prompts
from .steps import ArraySteps

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

#: Chunks whose attention is computed at once.
_SLAB = 1 << 20


class Cut(NamedTuple):
    """Chunks of one size of one mix of lengths, a row each: how many full ones each prompt is worth, the tokens of its
    last one where that is not full, the attention of all, running sums of it (the first 0), and the chunk over the
    mean prefix, with its attention.
    """

    chunks: Array
    rest: Array
    attention: Array
    sums: Array
    middle: Array
    middle_s: Array


class PromptTable:
    """Times of typical prompts; ``alone``: each in one step, a row a mix of lengths."""

    def __init__(self, steps: ArraySteps, typical: Prompts) -> None:
        self.steps, self.typical = steps, typical
        self.alone = steps.prompts(typical.uncached, typical.cached)
        self._keys = _empty(0, int)
        strata = typical.uncached.shape[1]
        none = _empty((0, strata))
        self._cuts = Cut(none, none, none, _empty((0, strata + 1)), _empty(0), _empty(0))

    def saved(self, tokens: Array, prompt: Array) -> Array:
        """Seconds that two prompts of so many tokens save by sharing a step."""
        import numpy as np

        prefix = np.rint(self.typical.cached.mean(-1))[prompt]
        both = self.steps.prompts(tokens, prefix, 2)
        found: Array = np.maximum(0.0, 2 * self.steps.prompts(tokens, prefix) - both)
        return found

    def cut(self, prompt: Array, size: Array) -> tuple[Cut, Array]:
        """Return what is known of chunks, and the row of each prompt and size in it."""
        import numpy as np

        keys = size.astype(np.int64) * len(self.alone) + prompt
        rows = np.searchsorted(self._keys, keys)
        missing = rows == len(self._keys)
        if len(self._keys):
            missing |= self._keys[np.minimum(rows, len(self._keys) - 1)] != keys
        if missing.any():
            self._learn(np.unique(keys[missing]))
            rows = np.searchsorted(self._keys, keys)
        return self._cuts, rows

    def _learn(self, keys: Array) -> None:
        """Compute chunks of more mixes and sizes."""
        import numpy as np

        size, prompt = np.divmod(keys, len(self.alone))
        size = size.astype(float)
        uncached, cached = self.typical.uncached[prompt], self.typical.cached[prompt]
        attention = self._attention(uncached, cached, size)
        sums = np.concatenate([np.zeros((len(keys), 1)), attention.cumsum(-1)], axis=1)
        middle = np.floor((cached + np.maximum(0.0, uncached - size[:, None]) / 2).mean(-1))
        each = size[:, None]
        fresh = Cut(
            uncached / each, uncached % each, attention, sums, middle, self.steps.chunks(size, middle)
        )
        self._keys = np.concatenate([self._keys, keys])
        order = np.argsort(self._keys, kind="stable")
        self._keys = self._keys[order]
        self._cuts = Cut(*(np.concatenate([old, new])[order] for old, new in zip(self._cuts, fresh)))

    def _attention(self, uncached: Array, cached: Array, size: Array) -> Array:
        """Attention of all chunks of each prompt: running sums over whole chunks, and the rest.

        Prompts over equally many cached tokens, in equal chunks, have the same whole chunks but for how many.
        """
        import numpy as np

        sizes = np.broadcast_to(size[:, None], uncached.shape).ravel()
        tokens, prefix = uncached.ravel(), cached.ravel()
        whole, rest = np.divmod(tokens, sizes)
        first, series = distinct(sizes, prefix)
        longest = np.zeros(len(first))
        np.maximum.at(longest, series, whole)
        found = np.empty(len(tokens))
        order = np.argsort(series, kind="stable")
        for begin, end in _slabs(longest):
            part = order[slice(*np.searchsorted(series[order], (begin, end)))]
            counts = longest[begin:end].astype(np.intp)
            starts = counts.cumsum() - counts
            place = np.arange(counts.sum()) - np.repeat(starts, counts)
            at = np.repeat(first[begin:end], counts)
            sums = self.steps.chunks(sizes[at], prefix[at] + place * sizes[at]).cumsum()
            sums = np.concatenate([[0.0], sums])
            own = starts[series[part] - begin]
            found[part] = sums[own + whole[part].astype(np.intp)] - sums[own]
        some = rest > 0
        found[some] += self.steps.chunks(rest[some], prefix[some] + whole[some] * sizes[some])
        return found.reshape(uncached.shape)


def _slabs(counts: Array) -> Iterator[tuple[int, int]]:
    """Cut a row of counts into stretches that each add up to little more than a slab."""
    import numpy as np

    ends, begin = counts.cumsum(), 0
    while begin < len(counts):
        before = ends[begin] - counts[begin]
        end = max(begin + 1, int(np.searchsorted(ends, before + _SLAB)))
        yield begin, end
        begin = end


def _empty(shape: Any, kind: Any = float) -> Array:
    import numpy as np

    return np.empty(shape, kind)
