"""KV cache of a model: bytes of a sequence, on one GPU and in all, by kind of layer and cache layout."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from ..dtypes import CACHE_BYTES
from ..errors import InputError, unknown
from ..formulas import kv as book
from ..inputs.model import Attention, LatentAttention, Mixer, Model, Recurrent
from ..ops import ceil
from .parallelism import Parallelism, check_tp

#: Layouts that only latent attention has, by the name of vLLM's --kv-cache-dtype.
LATENT_LAYOUTS = {"fp8_ds_mla": book.kv_bytes_latent_fp8, "nvfp4_ds_mla": book.kv_bytes_latent_nvfp4}


@dataclass(frozen=True)
class KvRow:
    """``count`` layers that cache alike.

    ``kind`` is MHA, GQA, MQA, MLA (with DSA: sparse), shared (the cache of another layer) or the name of a
    recurrent mixer; ``window`` None: the layers grow with the sequence. Bytes are those of one layer: a
    token, the constant state of a sequence, the whole sequence, the sequence on one GPU.
    """

    count: int
    kind: str
    window: int | None
    bytes_per_token: int
    state_bytes: int
    kv_bytes: int
    kv_bytes_per_gpu: int


@dataclass(frozen=True)
class KvBytes:
    """KV bytes of one sequence of ``tokens`` tokens, each stored once, unless the name says per GPU.

    Beyond the largest window, ``kv_bytes`` = ``kv_bytes_per_token`` x tokens + ``fixed_bytes_per_sequence``:
    a slope (layers without a window) and a constant (full windows and recurrent states). ``replication`` is
    how many copies of each cached byte the GPUs that hold a sequence have together.
    """

    tokens: int
    kv_dtype: str
    tp: int
    kv_bytes_per_token: int
    kv_bytes_per_token_all_layers: int
    fixed_bytes_per_sequence: int
    kv_bytes: int
    kv_bytes_per_gpu: int
    replication: float
    rows: tuple[KvRow, ...]


def kv_bytes(
    model: Model, tokens: int, kv_dtype: str, tp: int = 1, *, layout: Parallelism | None = None
) -> KvBytes:
    """Return the KV bytes of a sequence of ``tokens`` tokens under tensor parallelism of ``tp``.

    KV heads are spread over the GPUs and repeated once there are more GPUs than heads; a latent (MLA) is
    whole on every GPU. With a ``layout`` its attention groups count, and bytes per GPU are those of all
    layers: pass the model of one pipeline stage for those of that stage. Raises InputError for tokens that
    are no count, an unknown dtype or layout of the cache, or a TP degree that does not divide the model.
    """
    if not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 0:
        raise InputError(f"tokens is {tokens!r}; expected a whole number of at least 0")
    check_tp(model, tp, layout)
    check_cache(model, kv_dtype)
    spread = layout.attention_tp if layout else tp
    state = state_dtype_bytes(model)
    rows = tuple(_row(mixer, count, tokens, kv_dtype, spread, state) for mixer, count in model.mixers)
    grows = sum(row.count * row.bytes_per_token for row in rows)
    stored = spread * sum(count * bytes_per_gpu(mixer, kv_dtype, spread) for mixer, count in model.mixers)
    windows = sum(row.count * row.bytes_per_token * (row.window or 0) for row in rows)
    return KvBytes(
        tokens=tokens,
        kv_dtype=kv_dtype,
        tp=tp,
        kv_bytes_per_token=sum(row.count * row.bytes_per_token for row in rows if row.window is None),
        kv_bytes_per_token_all_layers=grows,
        fixed_bytes_per_sequence=windows + sum(row.count * row.state_bytes for row in rows),
        kv_bytes=sum(row.count * row.kv_bytes for row in rows),
        kv_bytes_per_gpu=sum(row.count * row.kv_bytes_per_gpu for row in rows),
        replication=stored / grows if grows else 1.0,
        rows=rows,
    )


@dataclass(frozen=True)
class SequenceBytes:
    """Bytes of a sequence of any length on one GPU: what :func:`kv_bytes` sums, prepared for many lengths.

    ``grows`` holds bytes of a token and the window of each kind of layer that caches; ``constant`` the states.
    """

    grows: tuple[tuple[int, float], ...]
    constant: int

    @property
    def linear(self) -> bool:
        """True where no layer forgets: each token takes as much as the one before it."""
        return all(window == math.inf for _, window in self.grows)

    @property
    def most_per_token(self) -> int:
        """Most bytes that one more token takes."""
        return sum(each for each, _ in self.grows)

    def function(self) -> Callable[[int], int]:
        """Return ``of`` in its shortest form, for those who ask often."""
        if not self.linear:
            return self.of
        each, constant = int(self.most_per_token), self.constant
        return lambda tokens: constant + each * tokens

    def of(self, tokens: int) -> int:
        """Bytes of a sequence of ``tokens`` tokens."""
        return self.constant + sum(int(each * min(tokens, window)) for each, window in self.grows)


def sequence_bytes(model: Model, kv_dtype: str, tp: int = 1) -> SequenceBytes:
    """Return the bytes of sequences on one of ``tp`` GPUs (one: all of them, each stored once)."""
    conv = state_dtype_bytes(model)
    grows: dict[float, int] = {}
    constant = 0
    for mixer, count in model.mixers:
        window = math.inf if mixer.window is None else mixer.window
        grows[window] = grows.get(window, 0) + count * bytes_per_gpu(mixer, kv_dtype, tp)
        constant += count * state_bytes_per_gpu(mixer, conv, tp)
    return SequenceBytes(tuple((each, window) for window, each in grows.items() if each), constant)


def check_cache(model: Model, kv_dtype: str) -> None:
    """Check a dtype or layout of the cache. Raises InputError for one that the model cannot have."""
    if kv_dtype in CACHE_BYTES:
        return
    if kv_dtype not in LATENT_LAYOUTS:
        known = (*CACHE_BYTES, *LATENT_LAYOUTS)
        raise InputError(unknown("KV dtype", kv_dtype, known, remedy=f"(known: {', '.join(known)})"))
    if not all(isinstance(mixer, LatentAttention) for mixer, _ in model.mixers):
        raise InputError(
            f"--kv-dtype {kv_dtype} is a layout of latent attention (MLA); {model.name} has other"
        )


def state_dtype_bytes(model: Model) -> float:
    """Bytes of an element of a convolution's state: the dtype of activations."""
    return CACHE_BYTES.get(model.wide_dtype or "bf16", 2)


def cached_bytes_each(mixer: LatentAttention, kv_dtype: str) -> float:
    """Mean bytes of a cached element of a latent under this dtype or layout."""
    return latent_bytes(mixer, kv_dtype) / (mixer.kv_rank + mixer.rope_dim)


@lru_cache(maxsize=1024)
def latent_bytes(mixer: LatentAttention, kv_dtype: str) -> int:
    """Bytes of the latent and rotary key of a token in one layer, without an indexer's key."""
    if kv_dtype in LATENT_LAYOUTS:
        return int(LATENT_LAYOUTS[kv_dtype](mixer.kv_rank, mixer.rope_dim))
    return int(ceil(book.kv_bytes_latent(mixer.kv_rank, mixer.rope_dim, CACHE_BYTES[kv_dtype])))


def bytes_per_token(mixer: Mixer, kv_dtype: str) -> int:
    """KV bytes of a token in one layer, stored once."""
    return bytes_per_gpu(mixer, kv_dtype, 1)


def bytes_per_gpu(mixer: Mixer, kv_dtype: str, tp: int) -> int:
    """KV bytes of a token in one layer on one of ``tp`` GPUs."""
    if isinstance(mixer, Recurrent) or (isinstance(mixer, Attention) and not mixer.own_kv):
        return 0
    if isinstance(mixer, LatentAttention):
        indexer = book.kv_bytes_indexer(mixer.indexer.dim) if mixer.indexer else 0
        return latent_bytes(mixer, kv_dtype) + int(indexer)
    local = int(book.kv_heads_per_gpu(mixer.kv_heads, tp))
    width = (mixer.head_dim + mixer.value_dim) / 2
    return int(ceil(book.kv_bytes_attention(local, width, CACHE_BYTES[kv_dtype])))


def state_bytes_per_gpu(mixer: Mixer, conv_dtype_bytes: float, tp: int) -> int:
    """Bytes of the constant state of a sequence in one layer on one of ``tp`` GPUs."""
    if not isinstance(mixer, Recurrent):
        return 0
    each = CACHE_BYTES[mixer.state_dtype] if mixer.state_dtype else conv_dtype_bytes
    whole = book.state_bytes(mixer.state_elements, each, mixer.conv_elements, conv_dtype_bytes)
    return int(ceil(whole * max(1, mixer.heads // tp) / mixer.heads))


def _row(mixer: Mixer, count: int, tokens: int, kv_dtype: str, tp: int, conv: float) -> KvRow:
    window = math.inf if mixer.window is None else mixer.window
    held, local = bytes_per_token(mixer, kv_dtype), bytes_per_gpu(mixer, kv_dtype, tp)
    state = state_bytes_per_gpu(mixer, conv, 1)
    return KvRow(
        count=count,
        kind=kind_of(mixer),
        window=mixer.window,
        bytes_per_token=held,
        state_bytes=state,
        kv_bytes=int(book.kv_bytes_held(tokens, window, held)) + state,
        kv_bytes_per_gpu=int(book.kv_bytes_held(tokens, window, local))
        + state_bytes_per_gpu(mixer, conv, tp),
    )


def kind_of(mixer: Mixer) -> str:
    """Name of the kind of cache a mixer has."""
    if isinstance(mixer, Recurrent):
        return mixer.kind
    if isinstance(mixer, LatentAttention):
        return "MLA" if mixer.top_k is None else "MLA, sparse (DSA)"
    if not mixer.own_kv:
        return "shared KV"
    if mixer.kv_heads == mixer.heads:
        return "MHA"
    return "MQA" if mixer.kv_heads == 1 else "GQA"
