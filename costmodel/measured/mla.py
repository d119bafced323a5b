"""Tables of MLA: the attention of prompts alone, or the whole module with its projections."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..families import packaged_name, read_model
from ..inputs.hardware import Gpu
from ..inputs.model import LatentAttention
from ..operators.catalogue import FP8_CACHE
from ..operators.work import Heads, Work, gemm, latent_absorbed, latent_prefill, module
from .points import BYTES, Beside, Given, Points, Read, bands, by_gpu_and_stack, dtype_of, labels
from .table import Array, Mask, Table

SPLIT = "every second number of heads held out"
#: Widths of DeepSeek-V2 and V3: hidden, ranks of queries and latents, parts of a head without and with rope, values.
HIDDEN, Q_RANK, KV_RANK, NOPE, ROPE, V = 7168, 1536, 512, 128, 64, 128
#: Kernels of vLLM that attend in the latent space, also for short prompts.
ABSORBED = ("flash_attn_mla", "flashmla", "triton_mla", "cutlass_mla")
WIDE = 2.0
_PHASES = {"context": "prefill", "prefill": "prefill", "generation": "decode", "decode": "decode"}


def read(table: Table, given: Given) -> Read:
    """Return prompts and decodes by GPU, stack and dtypes."""
    found = Read()

    def make(rows: Table, gpu: Gpu, stack: str) -> None:
        if "phase" in rows:
            rows = _of_known_widths(rows, found)
        if not len(rows):
            return
        if "phase" not in rows:
            found.points.append(_alone(rows, gpu, stack))
            return
        cache, products = (rows.texts(name, default="bfloat16") for name in ("kv_cache_dtype", "gemm_type"))
        for (phase, kv, word), keep in rows.groups(rows.texts("phase"), cache, products):
            way, product, count = _PHASES.get(phase.lower()), dtype_of(word), int(keep.sum())
            if way == "decode" and (rows.counts("isl")[keep] > 1).any():
                several = keep & (rows.counts("isl") > 1)
                found.skip(rows, int(several.sum()), "decodes of several tokens a sequence are not modelled")
                keep = keep & ~several
                count = int(keep.sum())
                if not count:
                    continue
            if way is None or dtype_of(kv) is None or product is None:
                found.skip(rows, count, f"phase {phase!r}, cache {kv!r}, products {word!r} are not modelled")
            elif f"peak_{product}" not in gpu.values:
                found.skip(rows, count, f"{gpu.name} has no peak for products in {word}")
            else:
                cache_bytes = BYTES[dtype_of(kv) or ""]
                part = rows.where_true(keep)
                found.points.append(_module(part, gpu, stack, product, way == "decode", cache_bytes))

    by_gpu_and_stack(table, given, found, make)
    return found


def _of_known_widths(rows: Table, found: Read) -> Table:
    """Rows of models whose module is as wide as that of DeepSeek-V3; without a column, all are taken to be."""
    models = rows.texts("model", default="")
    for model in sorted(set(models.tolist())):
        if model and not _same_widths(model):
            own = models == model
            why = (
                f"the module of {model} is not known to be as wide as that of DeepSeek-V3, which is modelled"
            )
            found.skip(rows, int(own.sum()), why)
            rows, models = rows.where_true(~own), models[~own]
    return rows


@lru_cache(maxsize=64)
def _same_widths(name: str) -> bool:
    known = packaged_name(name)
    if known is None:
        return False
    model = read_model(known)
    mixers = {mixer for mixer, _ in model.mixers if isinstance(mixer, LatentAttention)}
    widths = {(m.q_rank, m.kv_rank, m.nope_dim, m.rope_dim, m.v_dim) for m in mixers}
    return model.hidden == HIDDEN and widths == {(Q_RANK, KV_RANK, NOPE, ROPE, V)}


def _alone(rows: Table, gpu: Gpu, stack: str) -> Points:
    heads, batch, isl = rows.counts("num_heads"), rows.counts("batch_size"), rows.counts("isl")
    prefix = rows.counts("step", low=0)
    done = latent_prefill(Heads(heads, heads, NOPE + ROPE, V, WIDE, WIDE), isl, prefix, sequences=batch)
    pairs = batch * isl * (prefix + (isl + 1) / 2)
    least = WIDE * batch * heads * (NOPE + ROPE + V) * (2 * isl + prefix)
    bound = np.maximum(
        2 * heads * (NOPE + ROPE + V) * pairs / gpu.peak_flop_per_s("bf16"), least / gpu.memory_bytes_per_s
    )
    return Points(
        kind="mla",
        operator="mla_prefill",
        gpu=gpu,
        stack=stack,
        where=rows.where,
        work=done,
        seconds=rows.seconds(),
        keys=labels(heads),
        bound_s=bound,
        lines=rows.lines,
        regimes={
            "attention alone": np.ones(len(rows), dtype=bool),
            **bands(isl, "isl", (64, 512, 2048)),
            "16 heads, batch 1": (heads == 16) & (batch == 1),
        },
        forms=("prefill_fa2",),
        split=SPLIT,
    )


class _Shape(NamedTuple):
    """A call: heads, prompts or sequences, new tokens and cached ones of each."""

    heads: Array
    batch: Array
    new: Array
    cached: Array

    @property
    def tokens(self) -> Array:
        """New tokens in all."""
        return self.batch * self.new

    @property
    def context(self) -> Array:
        """Latents in all, new ones included."""
        return self.batch * (self.new + self.cached)

    @property
    def pairs(self) -> Array:
        """Query-key pairs in all."""
        return self.batch * self.new * (self.cached + (self.new + 1) / 2)


def _module(rows: Table, gpu: Gpu, stack: str, product: str, decode: bool, cache_bytes: float) -> Points:
    heads, batch, isl = rows.counts("num_heads"), rows.counts("batch_size"), rows.counts("isl")
    shape = _Shape(heads, batch, isl, rows.counts("step", low=0))
    kernels = np.char.lower(rows.texts("kernel_source", default=""))
    absorbed = np.full(len(rows), decode) | np.isin(kernels, ABSORBED)
    reach = shape.new[absorbed & (not decode)]
    every = np.ones(len(rows), dtype=bool)
    regimes = {
        **dict.fromkeys(_names(decode, product, cache_bytes), every),
        **(bands(shape.batch, "batch", (1, 127, 511)) if decode else bands(shape.new, "isl", (1, 128, 512, 2048))),
    }  # fmt: skip
    cache = "" if cache_bytes == WIDE else FP8_CACHE
    rest = Beside(f"mla_module_decode{cache}" if decode else "mla_module", 1.0, module(shape.tokens), "bf16")
    strange = bool(cache) and not decode  # prompts over an fp8 cache: another kernel up to 128 tokens
    return Points(
        kind="mla",
        operator=f"mla_decode{cache}" if decode else "mla_prefill",
        gpu=gpu,
        stack=stack,
        where=rows.where,
        work=_absorbed(shape, cache_bytes) if decode else _prompts(shape, absorbed, cache_bytes),
        seconds=rows.seconds(),
        keys=np.char.add(labels(shape.heads), " fp8 cache") if strange else labels(shape.heads),
        bound_s=_bound(shape, gpu, product, decode, cache_bytes),
        lines=rows.lines,
        regimes=regimes,
        beside=(*_products(shape, product, absorbed), rest),
        joint=rest.operator,
        forms=("latent_decode",) if decode else ("latent_prefill",),
        only_compared=strange,
        stated={"absorbed_tokens": float(reach.max()) if len(reach) else 0.0},
        split=SPLIT,
    )


def _names(decode: bool, product: str, cache_bytes: float) -> tuple[str, ...]:
    way = "decode" if decode else "prefill"
    products = "fp8" if BYTES[product] == 1 else "bf16"
    cache = "bf16" if cache_bytes == WIDE else "fp8"
    return way, f"{way}, {cache} cache", f"{way}, {cache} cache, {products} products"


def _absorbed(shape: _Shape, cache_bytes: float) -> Work:
    each = WIDE, cache_bytes
    return latent_absorbed(shape.heads, KV_RANK, ROPE, *each, shape.tokens, shape.context, shape.pairs)


def _prompts(shape: _Shape, absorbed: Mask, cache_bytes: float) -> Work:
    """Prompts of either way: expanded, or in the latent space."""
    heads = Heads(shape.heads, shape.heads, NOPE + ROPE, V, WIDE, WIDE)
    wide = latent_prefill(heads, shape.new, shape.cached, sequences=shape.batch)
    latent = _absorbed(shape, cache_bytes)
    return Work(
        np.where(absorbed, latent.flop, wide.flop),
        np.where(absorbed, latent.bytes_moved, wide.bytes_moved),
        wide.shape,
    )


def _products(shape: _Shape, product: str, absorbed: Mask) -> tuple[Beside, ...]:
    """The projections, in the dtype of the products; absorbed ones stay wide."""
    heads, tokens, each = shape.heads, shape.tokens, BYTES[product]
    kind = "gemm_fp8" if each == 1 else "gemm"
    narrow = [
        gemm(tokens, Q_RANK + KV_RANK + ROPE, HIDDEN, each, WIDE),
        gemm(tokens, heads * (NOPE + ROPE), Q_RANK, each, WIDE),
        gemm(tokens, HIDDEN, heads * V, each, WIDE),
    ]
    expand = gemm(shape.context, heads * (NOPE + V), KV_RANK, each, WIDE)
    absorb = gemm(tokens, heads * (NOPE + V), KV_RANK, WIDE, WIDE)
    return (
        *(Beside(kind, 1.0, work, product) for work in narrow),
        Beside(kind, np.where(absorbed, 0.0, 1.0), expand, product),
        Beside("gemm", np.where(absorbed, 1.0, 0.0), absorb, "bf16"),
    )


def _bound(shape: _Shape, gpu: Gpu, product: str, decode: bool, cache_bytes: float) -> Array:
    """Products of every new token at peak and their weights once; the cheaper way to attend; latents once."""
    heads, each = shape.heads, BYTES[product]
    weights = HIDDEN * (Q_RANK + KV_RANK + ROPE) + Q_RANK * heads * (NOPE + ROPE) + heads * V * HIDDEN
    latent = 2 * heads * (2 * KV_RANK + ROPE) * shape.pairs
    wide = 2 * heads * (NOPE + ROPE + V) * shape.pairs
    attending = latent if decode else np.minimum(latent, wide)
    compute = 2 * shape.tokens * weights / gpu.peak_flop_per_s(product)
    compute = compute + attending / gpu.peak_flop_per_s("bf16")
    latents = cache_bytes * shape.batch * shape.cached * (KV_RANK + ROPE)
    size = weights * each + latents + WIDE * 2 * shape.tokens * HIDDEN
    return np.asarray(np.maximum(compute, size / gpu.memory_bytes_per_s))
