"""vLLM's KV blocks: layers in groups of equal size that draw on one pool, and the blocks a sequence needs.

Source: vLLM 0.11 to 0.33, v1/core/kv_cache_utils.py, v1/kv_cache_interface.py; versions differ by the rules
of hardware/engines/vllm.toml.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..formulas import kv as kv_book
from ..formulas import memory as book
from ..inputs.model import Attention, LatentAttention, Mixer, Model, Recurrent
from .kv import bytes_per_gpu, state_bytes_per_gpu, state_dtype_bytes
from .stages import Stage


@dataclass(frozen=True)
class Spec:
    """What one kind of layer caches on one GPU.

    ``kind`` is full, window, chunk or state; ``token_bytes`` those of a token, ``state_bytes`` of a sequence.
    ``checkpointed``: a state that some versions keep at every block, for prefix caching (Mamba).
    """

    kind: str
    token_bytes: int
    window: int | None = None
    state_bytes: int = 0
    checkpointed: bool = False


@dataclass(frozen=True)
class Group:
    """Layers of one spec that share block tables; ``layers`` of them at most on a stage."""

    spec: Spec
    layers: int
    block_tokens: int


@dataclass(frozen=True)
class Plan:
    """How a stage's pool is cut: its groups, the bytes of a block, and the rules that count a sequence's.

    ``block_bytes`` are those of one block of one group: every group takes blocks of this size.
    """

    groups: tuple[Group, ...]
    block_bytes: int
    block_tokens: int
    max_num_batched_tokens: int
    rules: Mapping[str, Any]

    def blocks(self, pool_bytes: float) -> int:
        """Blocks of a pool."""
        return max(0, int(book.pool_blocks(pool_bytes, self.block_bytes)))

    def sequence_blocks(self, tokens: int) -> int:
        """Blocks that a sequence of up to ``tokens`` tokens may need, as the engine plans for it."""
        return sum(self._needed(group, tokens) for group in self.groups)

    def _needed(self, group: Group, tokens: int) -> int:
        spec, budget = group.spec, self.max_num_batched_tokens * int(self.rules["batches_in_flight"])
        if spec.checkpointed and self.rules["state_every_block"]:
            return int(kv_book.blocks_ceil(tokens, group.block_tokens))
        if spec.kind == "state":
            return int(self.rules["state_blocks"])
        if spec.kind == "window" and spec.window is not None:
            return int(book.window_blocks(tokens, spec.window, budget, group.block_tokens))
        kept = tokens if spec.kind != "chunk" or spec.window is None else min(spec.window + budget, tokens)
        return int(kv_book.blocks_ceil(kept, group.block_tokens))

    def concurrency(self, blocks: int, tokens: int) -> float:
        """Sequences of ``tokens`` tokens that this many blocks hold."""
        return blocks / self.sequence_blocks(tokens)

    def tokens(self, blocks: int, max_model_len: int) -> int:
        """The log's "KV cache size" in tokens, as this version defines it."""
        if self.rules["kv_tokens"] == "concurrency":
            return int(self.concurrency(blocks, max_model_len) * max_model_len)
        return blocks // len(self.groups) * self.block_tokens


def plan_pages(
    model: Model,
    stage: Stage,
    kv_dtype: str,
    tp: int,
    block_tokens: int,
    max_num_batched_tokens: int,
    rules: Mapping[str, Any],
) -> Plan:
    """Return how vLLM cuts the pool of a stage into blocks.

    Groups are made over the whole model, then reduced to the layers of the stage. Layers of one spec, or full
    layers of several widths, form one group; windows and states make groups of equal numbers of layers.
    """
    specs = _specs(model, kv_dtype, tp, rules)
    kinds = {spec.kind for spec in specs if spec}
    held = _specs(stage.model, kv_dtype, tp, rules)
    if kinds <= {"full"}:
        own = [spec.token_bytes for spec in held if spec]
        block = block_tokens * sum(own)
        group = Group(Spec("full", sum(own)), len(own), block_tokens)
        return Plan((group,), block, block_tokens, max_num_batched_tokens, rules)
    return _hybrid(model, stage, specs, block_tokens, max_num_batched_tokens, rules)


def _specs(model: Model, kv_dtype: str, tp: int, rules: Mapping[str, Any]) -> list[Spec | None]:
    """Spec of each layer in order; None: it caches nothing of its own."""
    conv = state_dtype_bytes(model)
    by_layer = [_layer_spec(layer.mixers, kv_dtype, tp, conv, rules) for layer in model.layers]
    order = model.order or tuple(i for i, layer in enumerate(model.layers) for _ in range(layer.count))
    return [by_layer[place] for place in order]


def _layer_spec(
    mixers: Sequence[Mixer], kv_dtype: str, tp: int, conv: float, rules: Mapping[str, Any]
) -> Spec | None:
    for mixer in mixers:
        if isinstance(mixer, Recurrent):
            size = state_bytes_per_gpu(mixer, conv, tp)
            return Spec("state", 0, state_bytes=size, checkpointed=mixer.kind.startswith("Mamba"))
        each = bytes_per_gpu(mixer, kv_dtype, tp)
        if not each:
            continue
        if not isinstance(mixer, Attention) or mixer.window is None:
            return Spec("full", each)
        if mixer.chunked and rules["chunks_as_full"]:
            return Spec("full", each)
        return Spec("chunk" if mixer.chunked else "window", each, mixer.window)
    return None


def _hybrid(
    model: Model,
    stage: Stage,
    specs: Sequence[Spec | None],
    block_tokens: int,
    max_num_batched_tokens: int,
    rules: Mapping[str, Any],
) -> Plan:
    distinct = list(dict.fromkeys(spec for spec in specs if spec))
    latent = any(isinstance(mixer, LatentAttention) for mixer, _ in model.mixers)
    alignment = rules["latent_state_alignment" if latent else "state_alignment"]
    block_tokens = _block_tokens(distinct, block_tokens, alignment)
    page = max(block_tokens * spec.token_bytes for spec in distinct) or max(s.state_bytes for s in distinct)
    counts = {spec: sum(other == spec for other in specs) for spec in distinct}
    size = min(counts.values())
    if max(counts.values()) < size * rules["group_slack"]:
        size = max(counts.values())
    places = range(stage.start, stage.start + stage.model.layer_count)
    groups = []
    for spec in distinct:
        layers = [place for place, other in enumerate(specs) if other == spec]
        many = -(-len(layers) // size)
        own = block_tokens if spec.kind == "state" else page // spec.token_bytes
        for start in range(many):
            here = sum(place in places for place in layers[start::many])
            groups.append(Group(spec, here, own))
    widest = max(group.layers for group in groups)
    return Plan(tuple(groups), page * widest, block_tokens, max_num_batched_tokens, rules)


def _block_tokens(specs: Sequence[Spec], block_tokens: int, alignment: int) -> int:
    """Tokens of an attention block: raised until its page holds a recurrent state."""
    state = max((spec.state_bytes for spec in specs), default=0)
    each = max((spec.token_bytes for spec in specs), default=0)
    if not state or not each:
        return block_tokens
    needed = alignment * -(-state // (alignment * each))
    return max(block_tokens, needed)
