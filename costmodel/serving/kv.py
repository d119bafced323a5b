"""KV cache of a model: bytes of a sequence, on one GPU and in all, and the TP degrees a model allows."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..dtypes import dtype_bytes
from ..errors import InputError
from ..formulas import kv as book
from ..inputs.model import Attention, Dense, FeedForward, LatentAttention, Mixer, Model

MOST_TP = 1024


@dataclass(frozen=True)
class KvRow:
    """``count`` layers that cache alike.

    ``kind`` is MHA, GQA, MQA or MLA; ``window`` None: the layers grow with the sequence. Bytes are those of
    one layer: a token, the whole sequence, the sequence on one GPU.
    """

    count: int
    kind: str
    window: int | None
    bytes_per_token: int
    kv_bytes: int
    kv_bytes_per_gpu: int


@dataclass(frozen=True)
class KvBytes:
    """KV bytes of one sequence of ``tokens`` tokens, each stored once, unless the name says per GPU.

    Beyond the largest window, ``kv_bytes`` = ``kv_bytes_per_token`` x tokens + ``fixed_bytes_per_sequence``:
    a slope (layers without a window) and a constant (windows that are full). ``replication`` is how many
    copies of each byte the ``tp`` GPUs hold together.
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


def kv_bytes(model: Model, tokens: int, kv_dtype: str, tp: int = 1) -> KvBytes:
    """Return the KV bytes of a sequence of ``tokens`` tokens under tensor parallelism of ``tp``.

    KV heads are spread over the GPUs and repeated once there are more GPUs than heads; a latent (MLA) is
    whole on every GPU. Raises InputError for tokens that are no count, an unknown dtype or a TP degree that
    does not divide the model.
    """
    if not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 0:
        raise InputError(f"tokens is {tokens!r}; expected a whole number of at least 0")
    check_tp(model, tp)
    each = dtype_bytes(kv_dtype)
    rows = tuple(_row(mixer, count, tokens, each, tp) for mixer, count in model.mixers)
    stored_once = sum(row.count * row.bytes_per_token for row in rows)
    stored = tp * sum(count * bytes_per_gpu(mixer, each, tp) for mixer, count in model.mixers)
    return KvBytes(
        tokens=tokens,
        kv_dtype=kv_dtype,
        tp=tp,
        kv_bytes_per_token=sum(row.count * row.bytes_per_token for row in rows if row.window is None),
        kv_bytes_per_token_all_layers=stored_once,
        fixed_bytes_per_sequence=sum(row.count * row.bytes_per_token * (row.window or 0) for row in rows),
        kv_bytes=sum(row.count * row.kv_bytes for row in rows),
        kv_bytes_per_gpu=sum(row.count * row.kv_bytes_per_gpu for row in rows),
        replication=stored / stored_once,
        rows=rows,
    )


def bytes_per_token(mixer: Mixer, kv_dtype_bytes: int) -> int:
    """KV bytes of a token in one layer, stored once."""
    if isinstance(mixer, LatentAttention):
        return int(book.kv_bytes_latent(mixer.kv_rank, mixer.rope_dim, kv_dtype_bytes))
    return int(book.kv_bytes_attention(mixer.kv_heads, mixer.head_dim, kv_dtype_bytes))


def bytes_per_gpu(mixer: Mixer, kv_dtype_bytes: int, tp: int) -> int:
    """KV bytes of a token in one layer on one of ``tp`` GPUs."""
    if isinstance(mixer, LatentAttention):
        return bytes_per_token(mixer, kv_dtype_bytes)
    local = int(book.kv_heads_per_gpu(mixer.kv_heads, tp))
    return int(book.kv_bytes_attention(local, mixer.head_dim, kv_dtype_bytes))


def _row(mixer: Mixer, count: int, tokens: int, each: int, tp: int) -> KvRow:
    window = math.inf if mixer.window is None else mixer.window
    per_token = bytes_per_token(mixer, each)
    return KvRow(
        count=count,
        kind=_kind(mixer),
        window=mixer.window,
        bytes_per_token=per_token,
        kv_bytes=int(book.kv_bytes_held(tokens, window, per_token)),
        kv_bytes_per_gpu=int(book.kv_bytes_held(tokens, window, bytes_per_gpu(mixer, each, tp))),
    )


def _kind(mixer: Mixer) -> str:
    if isinstance(mixer, LatentAttention):
        return "MLA"
    if mixer.kv_heads == mixer.heads:
        return "MHA"
    return "MQA" if mixer.kv_heads == 1 else "GQA"


def check_tp(model: Model, tp: int) -> None:
    """Check that ``tp`` GPUs can share every layer.

    TP must divide the query heads and the widths of feed-forward blocks and experts; KV heads must divide
    TP or be divided by it. Raises InputError naming what is not divisible and the degrees that are allowed.
    """
    if not isinstance(tp, int) or isinstance(tp, bool) or tp < 1:
        raise InputError(f"TP is {tp!r}; expected a whole number of at least 1")
    obstacles = _obstacles(model, tp)
    if obstacles:
        allowed = ", ".join(str(degree) for degree in allowed_tp(model))
        raise InputError(
            f"TP{tp} does not divide {model.name}: {'; '.join(obstacles)}; allowed TP: {allowed}"
        )


def allowed_tp(model: Model) -> tuple[int, ...]:
    """Return every TP degree up to 1,024 that the model allows."""
    most = min(MOST_TP, *(layer.mixer.heads for layer in model.layers))
    return tuple(degree for degree in range(1, most + 1) if not _obstacles(model, degree))


def _obstacles(model: Model, tp: int) -> list[str]:
    found: dict[str, None] = {}
    for layer in model.layers:
        if layer.mixer.heads % tp:
            found[f"{layer.mixer.heads:,} query heads"] = None
        if isinstance(layer.mixer, Attention) and _splits_kv(layer.mixer, tp):
            found[f"{layer.mixer.kv_heads:,} KV heads (neither divides the other)"] = None
        for what, width in _widths(layer.ffn):
            if width % tp:
                found[f"{what} of width {width:,}"] = None
    return list(found)


def _splits_kv(mixer: Attention, tp: int) -> bool:
    return mixer.kv_heads % tp != 0 and tp % mixer.kv_heads != 0


def _widths(ffn: FeedForward) -> tuple[tuple[str, int], ...]:
    if isinstance(ffn, Dense):
        return (("feed-forward block", ffn.width),)
    return ("expert", ffn.width), ("shared experts", ffn.shared_width)
