"""KV pools counted in tokens (SGLang, TensorRT-LLM): pages of all layers that grow, states beside them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..formulas import kv as kv_book
from ..formulas import memory as book
from ..inputs.model import Attention
from .kv import kv_bytes
from .parallelism import Parallelism
from .pool import Pool
from .settings import Resolved


@dataclass(frozen=True)
class Slots:
    """How a stage's pool holds tokens: ``block_bytes`` of a page of ``block_tokens``, and recurrent states.

    ``states`` is how many sequences' states have room of their own (SGLang; None: no layer has a state, or
    they share the pool); ``state_bytes`` what a state takes of a shared pool (TensorRT-LLM).
    """

    block_bytes: float
    block_tokens: int
    pool_bytes: float
    states: int | None
    state_bytes: float

    def blocks(self, pool_bytes: float) -> int:
        """Pages of a pool; where no layer grows, none is needed."""
        return int(book.pool_blocks(pool_bytes, self.block_bytes)) if self.block_bytes else 0

    def sequence_blocks(self, tokens: int) -> int:
        """Pages of a sequence."""
        return int(kv_book.blocks_ceil(tokens, self.block_tokens)) if self.block_bytes else 0

    def concurrency(self, blocks: int, tokens: int) -> float:
        """Sequences of ``tokens`` tokens that fit: by pages and by states, the fewer; inf: nothing is kept."""
        limits = []
        needed = self.sequence_blocks(tokens)
        if needed:
            limits.append(blocks / needed)
        if self.state_bytes:
            limits.append(self.pool_bytes / (needed * self.block_bytes + self.state_bytes))
        if self.states is not None:
            limits.append(float(self.states))
        return min(limits, default=math.inf)

    def tokens(self, blocks: int, max_model_len: int) -> int:
        """The log's tokens: those of all pages."""
        return blocks * self.block_tokens


def plan_slots(pool: Pool, kv_dtype: str, layout: Parallelism, page: int, setting: Resolved) -> Slots:
    """Return how a stage's pool is cut by an engine that counts tokens.

    SGLang keeps a share of the pool for states and gives windowed layers a fixed share of the tokens, where
    some layers have none; TensorRT-LLM is taken to keep every layer in full, states beside the tokens.
    """
    within = Parallelism(layout.tp, 1, layout.ep, layout.dp_attention)
    held = kv_bytes(pool.stage.model, 1, kv_dtype, layout.tp, layout=within)
    empty = kv_bytes(pool.stage.model, 0, kv_dtype, layout.tp, layout=within)
    full = windowed = state = 0.0
    for row, bare, (mixer, count) in zip(held.rows, empty.rows, pool.stage.model.mixers):
        state += count * bare.kv_bytes_per_gpu
        grows = count * (row.kv_bytes_per_gpu - bare.kv_bytes_per_gpu)
        if isinstance(mixer, Attention) and mixer.window is not None:
            windowed += grows
        else:
            full += grows
    ratio = setting.rules.get("window_ratio", 1.0) if full else 1.0
    each = full + windowed * ratio
    share = setting.rules.get("state_ratio")
    if not (state and share):
        return Slots(each * page, page, pool.pool_bytes, None, state)
    apart = pool.pool_bytes * share / (1 + share)
    return Slots(each * page, page, pool.pool_bytes - apart, int(apart / state), 0.0)
