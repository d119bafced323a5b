"""The page of ``costmodel kv``."""

from __future__ import annotations

from ..questions.capacity import Capacity
from ..questions.kv import KvAnswer
from .page import Block, Code, Heading, Page, facts, table

SIZES = {
    "kv_bytes_per_token": "a token, layers that grow",
    "kv_bytes_per_token_all_layers": "a token, all layers",
    "fixed_bytes_per_sequence": "a sequence, full windows and states",
    "kv_bytes": "this sequence",
    "kv_bytes_per_gpu": "this sequence, on each GPU",
}
MORE_SIZES = {
    "kv_bytes_unwindowed": "this sequence, windows kept in full",
    "kv_bytes_per_token_expanded": "a token, if latents were cached expanded",
    "replication": "copies of each byte",
}
LAYERS = {
    "count": "layers",
    "kind": "kind",
    "window": "window",
    "bytes_per_token": "a token and layer",
    "state_bytes": "a sequence and layer",
    "kv_bytes": "a layer",
    "kv_bytes_per_gpu": "a layer and GPU",
}
STAGES = {
    "stage": "stage",
    "layers": "layers",
    "kv_bytes_per_token_per_gpu": "a token and GPU",
    "kv_bytes_per_gpu": "this sequence, on each GPU",
}
CAPACITY = {
    "memory_bytes": "memory that the engine sees",
    "weights_bytes": "weights",
    "activation_bytes": "peak activation",
    "non_torch_bytes": "outside torch",
    "cuda_graph_bytes": "CUDA graphs",
    "kv_pool_bytes": "left for KV",
    "kv_cache_blocks": "blocks",
    "kv_cache_tokens": "KV tokens",
    "max_concurrency": "sequences of max_model_len",
    "longest_context_tokens": "longest sequence",
    "largest_batch": "sequences of these tokens",
}
STAGE_CAPACITY = {
    "stage": "stage",
    "layers": "layers",
    "parameters": "parameters a GPU",
    "weights_bytes": "weights",
    "activation_bytes": "peak activation",
    "non_torch_bytes": "outside torch",
    "kv_pool_bytes": "left for KV",
}
FACTORS = {"name": "what", "bytes": "bytes", "how": "how"}
LAYOUTS = {
    "gpus": "GPUs",
    "instances": "instances",
    "tp": "TP",
    "pp": "PP",
    "sequences": "sequences an instance",
}
MOST_LAYOUTS = 8


def page(answer: KvAnswer, detail: bool) -> Page:
    """Return the page of an answer; ``detail`` adds other ways to count."""
    split = f", PP{answer.pp}" if answer.pp > 1 else ""
    title = f"KV cache of {answer.model}: {answer.tokens:,} tokens, {answer.kv_dtype}, TP{answer.tp}{split}"
    blocks: list[Block] = [
        facts(answer, SIZES | MORE_SIZES if detail else SIZES),
        table(answer.layers, LAYERS),
    ]
    if answer.pp > 1:
        blocks.append(table(answer.stages, STAGES))
    if answer.capacity:
        blocks += _capacity(answer.capacity)
    if answer.users is not None:
        blocks.append(Heading(f"GPUs that hold {answer.users:,} such sequences at once"))
        blocks.append(table((answer.fewest or ())[: None if detail else MOST_LAYOUTS], LAYOUTS))
    return Page(title, tuple(blocks), answer.about)


def explained(answer: KvAnswer) -> list[Block]:
    """Return every factor of the pool, one a line, and the formulas of layers and pool."""
    capacity = answer.capacity
    if capacity is None:
        return ["Pass --hardware to see where an engine's pool comes from."]
    return [
        Heading("Where the pool comes from, each GPU"),
        table(capacity.factors, FACTORS, binary=True),
        f"{capacity.kv_pool_bytes / 2**30:.4f} GiB are left. KV tokens are {capacity.kv_cache_tokens_mean}.",
    ]


def _capacity(capacity: Capacity) -> list[Block]:
    where = f"{capacity.hardware}, {capacity.engine} {capacity.engine_version}, each GPU"
    blocks: list[Block] = [Heading(where), facts(capacity, CAPACITY, binary=True)]
    if len(capacity.stages) > 1:
        blocks += [
            Heading(f"Stages; stage {capacity.limiting_stage} limits"),
            table(capacity.stages, STAGE_CAPACITY, binary=True),
        ]
    blocks += [Heading("As the engine logs it"), Code("\n".join(capacity.log_lines), "text")]
    return blocks
