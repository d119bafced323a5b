"""Tables of attention kernels: whole prompts, decodes, a chunk over a prefix, and chunks with decodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..inputs.hardware import Gpu
from ..operators.work import Heads, Work, attention_decode, attention_mixed, attention_prefill
from .dims import dims_of, sized, tensor_parallel
from .points import BYTES, Given, Points, Read, as_keys, bands, by_gpu_and_stack, dtype_of, kept, labels
from .table import Array, Mask, Table, Texts

LAYOUTS = "every second (heads, KV heads) layout held out"
MODELS = "every second model held out"
WIDE = 2.0
#: What a column of dtypes says where it leaves them to the engine.
UNSAID = ("", "auto")
#: What the column of KV heads is called.
KV_HEADS = ("num_key_value_heads", "num_kv_heads")
#: Width of a head that a layout need not mention.
USUAL_DIM = 128


class _Layout(NamedTuple):
    """Heads of the GPU, and what rows are split by."""

    heads: Heads
    keys: Texts
    split: str


def read_context(table: Table, given: Given) -> Read:
    """Return whole prompts: batch_size prompts of isl tokens, causal, nothing cached."""
    return _read(table, given, _context)


def read_chunked(table: Table, given: Given) -> Read:
    """Return chunks of a prompt over what is cached of it."""
    return _read(table, given, _chunked)


def read_generation(table: Table, given: Given) -> Read:
    """Return decodes: a batch over equal contexts."""
    return _read(table, given, _generation)


def read_mixed(table: Table, given: Given) -> Read:
    """Return kernel calls with one chunk and some decodes."""
    return _read(table, given, _mixed)


def _read(table: Table, given: Given, make: Callable[[Table, Gpu, str], Points]) -> Read:
    found = Read()

    def each(rows: Table, gpu: Gpu, stack: str) -> None:
        if "num_heads" not in rows:
            rows, _ = sized(rows, found)
        rows = _usual(rows, found)
        if len(rows):
            found.points.append(make(rows, gpu, stack))

    by_gpu_and_stack(table, given, found, each)
    return found


def _usual(rows: Table, read: Read) -> Table:
    """Rows of the kernels that the forms describe: 16-bit, no window, query heads spread evenly over KV heads."""
    for column in ("attn_dtype", "kv_cache_dtype"):
        words = rows.texts(column, default="").tolist()
        wide = np.array(
            [word in UNSAID or BYTES.get(dtype_of(word) or "") == WIDE for word in words], dtype=bool
        )
        rows = kept(rows, read, wide, f"{column}: only 16 bits are modelled")
    if "window_size" in rows:
        rows = kept(
            rows, read, rows.numbers("window_size", low=-1) <= 0, "attention with a window was not fitted"
        )
    for column in ("n_decode", "prefill_chunk"):
        if column in rows:
            rows = kept(rows, read, rows.counts(column, low=0) > 0, f"{column} is 0: another kernel's call")
    h = _layout(rows).heads
    return kept(
        rows, read, np.asarray(h.heads % h.kv_heads == 0), "KV heads are no divisor of the query heads"
    )


def _layout(rows: Table) -> _Layout:
    if "num_heads" in rows:
        heads, kv_heads = rows.counts("num_heads"), rows.counts(*KV_HEADS)
        dim = rows.counts("head_dim", "head_size")
        keys = labels(heads, kv_heads)
        keys = np.where(dim == USUAL_DIM, keys, np.char.add(np.char.add(keys, "/"), labels(dim)))
        return _Layout(Heads(heads, kv_heads, dim, dim, WIDE, WIDE), keys, LAYOUTS)
    models = rows.texts("model")
    pairs = list(zip(models.tolist(), tensor_parallel(rows).astype(int).tolist()))
    sizes = {(m, t): dims_of(m, rows) for m, t in set(pairs)}
    found = [(sizes[p].heads_on(p[1]), sizes[p].kv_heads_on(p[1]), sizes[p].head_dim) for p in pairs]
    heads, kv_heads, dim = np.array(found, dtype=np.float64).reshape(-1, 3).T
    return _Layout(Heads(heads, kv_heads, dim, dim, WIDE, WIDE), as_keys(models), MODELS)


def _bound(gpu: Gpu, h: Heads, pairs: Array, queries: Array, cached: Array) -> Array:
    """Scores and sums of every pair at peak; queries, results, keys and values once at peak bandwidth."""
    flop = 2 * 2 * h.heads * h.qk_dim * pairs
    size = WIDE * h.qk_dim * 2 * (h.heads * queries + h.kv_heads * cached)
    return np.asarray(np.maximum(flop / gpu.peak_flop_per_s("bf16"), size / gpu.memory_bytes_per_s))


def _points(
    kind: str, operator: str, rows: Table, at: tuple[Gpu, str], layout: _Layout, done: Work, bound: Array,
    regimes: dict[str, Mask],
) -> Points:  # fmt: skip
    return Points(
        kind=kind,
        operator=operator,
        gpu=at[0],
        stack=at[1],
        where=rows.where,
        work=done,
        seconds=rows.seconds(),
        keys=layout.keys,
        bound_s=bound,
        lines=rows.lines,
        regimes=regimes,
        split=layout.split,
    )


def _context(rows: Table, gpu: Gpu, stack: str) -> Points:
    at = _layout(rows)
    h = at.heads
    batch, isl = rows.counts("batch_size", "batch"), rows.counts("isl", "seq_len")
    prefix = rows.counts("step", low=0) if "step" in rows else np.zeros(len(rows))
    # Engines' tables time the call that also writes the prompt's keys and values to the cache.
    done = attention_prefill(h, batch, isl, prefix, cache_writes=1)
    bound = _bound(gpu, h, batch * isl * (prefix + (isl + 1) / 2), batch * isl, batch * (prefix + isl))
    regimes = {
        **bands(isl, "isl", (1, 64, 512, 2048)),
        "isl > 1,024, batch <= 4": (isl > 1024) & (batch <= 4),
    }
    return _points("context_attention", "attention_prefill", rows, (gpu, stack), at, done, bound, regimes)


def _chunked(rows: Table, gpu: Gpu, stack: str) -> Points:
    at = _layout(rows)
    h = at.heads
    chunk, prefix = rows.counts("prefill_chunk", "chunk"), rows.counts("kv_prefill", "prefix", low=0)
    done = attention_prefill(h, 1.0, chunk, prefix, cache_writes=0)
    bound = _bound(gpu, h, chunk * (prefix + (chunk + 1) / 2), chunk, prefix + chunk)
    regimes = {**bands(chunk, "chunk", (128, 512)), **bands(prefix, "prefix", (0, 512, 4096))}
    return _points("chunked_attention", "attention_prefill", rows, (gpu, stack), at, done, bound, regimes)


def _generation(rows: Table, gpu: Gpu, stack: str) -> Points:
    at = _layout(rows)
    h = at.heads
    batch = rows.counts("batch_size", "n_decode", "batch")
    # Where a table says what was cached, the new token comes on top.
    each = rows.counts("kv_len") if "kv_len" in rows else rows.counts("kv_decode", low=0) + 1
    done = attention_decode(h, batch, batch * each)
    bound = _bound(gpu, h, batch * each, batch, batch * each)
    size = 4 * batch * each * h.kv_heads * h.qk_dim / 1e6
    regimes = {
        **bands(batch, "batch", (1, 16, 128)),
        **bands(size, "KV MB", (1, 50)),
        "a KV head a query head": h.kv_heads == h.heads,
        "KV heads >= 8, shared": (h.kv_heads >= 8) & (h.kv_heads < h.heads),
        "KV heads < 8, shared": (h.kv_heads < 8) & (h.kv_heads < h.heads),
    }
    return _points("generation_attention", "attention_decode", rows, (gpu, stack), at, done, bound, regimes)


def _mixed(rows: Table, gpu: Gpu, stack: str) -> Points:
    at = _layout(rows)
    h = at.heads
    chunk, prefix = rows.counts("prefill_chunk", "chunk"), rows.counts("kv_prefill", "prefix", low=0)
    batch, each = rows.counts("n_decode", "batch"), rows.counts("kv_decode", low=0)
    prompt = attention_prefill(h, 1.0, chunk, prefix, cache_writes=0)
    done = attention_mixed(prompt, attention_decode(h, batch, batch * each))
    pairs = chunk * (prefix + (chunk + 1) / 2) + batch * (each + 1)
    bound = _bound(gpu, h, pairs, chunk + batch, prefix + chunk + batch * (each + 1))
    regimes = {
        **bands(chunk, "chunk", (64, 512)),
        **bands(batch, "decodes", (1, 8, 32)),
        **bands(each, "KV of a decode", (256, 2048)),
    }
    return _points("mixed_attention", "attention_mixed", rows, (gpu, stack), at, done, bound, regimes)
