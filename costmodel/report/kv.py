"""The page of ``costmodel kv``."""

from __future__ import annotations

from ..questions.kv import KvAnswer
from .page import Block, Heading, Page, facts, table

SIZES = {
    "kv_bytes_per_token": "a token, layers that grow",
    "kv_bytes_per_token_all_layers": "a token, all layers",
    "fixed_bytes_per_sequence": "a sequence, full windows",
    "kv_bytes": "this sequence",
    "kv_bytes_per_gpu": "this sequence, on each GPU",
}
LAYERS = {
    "count": "layers",
    "kind": "kind",
    "window": "window",
    "bytes_per_token": "a token and layer",
    "kv_bytes": "a layer",
    "kv_bytes_per_gpu": "a layer and GPU",
}
CAPACITY = {
    "memory_bytes": "memory",
    "weights_bytes": "weights",
    "reserve_bytes": "activations and buffers",
    "kv_pool_bytes": "left for KV",
    "kv_cache_tokens": "tokens that fit",
    "max_concurrency": "sequences of this length that fit",
}


def page(answer: KvAnswer, detail: bool) -> Page:
    """Return the page of an answer."""
    title = f"KV cache of {answer.model}: {answer.tokens:,} tokens, {answer.kv_dtype}, TP{answer.tp}"
    blocks: list[Block] = [facts(answer, SIZES), table(answer.layers, LAYERS)]
    if answer.capacity:
        blocks += [
            Heading(f"{answer.capacity.hardware}, each GPU"),
            facts(answer.capacity, CAPACITY, binary=True),
        ]
    return Page(title, tuple(blocks), answer.about)
