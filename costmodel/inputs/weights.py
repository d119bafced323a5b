"""The weight tensors of each block, as checkpoints store them: names, shapes and what tensor parallelism splits."""

from __future__ import annotations

from functools import lru_cache

from .model import Attention, Block, Dense, Experts, LatentAttention, Layer, Model, Recurrent
from .tensor import Tensor, vector

HEAD = "lm_head"


@lru_cache(maxsize=4096)
def block_tensors(block: Block, hidden: int) -> tuple[Tensor, ...]:
    """Return the tensors of one block of a model that is ``hidden`` wide."""
    if isinstance(block, Attention):
        return _attention(block, hidden)
    if isinstance(block, LatentAttention):
        return _latent(block, hidden)
    if isinstance(block, Dense):
        return _dense(block, hidden)
    if isinstance(block, Experts):
        return _experts(block, hidden)
    return block.tensors


def layer_tensors(layer: Layer, hidden: int) -> tuple[Tensor, ...]:
    """Return the tensors of one of the layers that ``layer`` stands for; its norms are one vector."""
    norms = (vector("norms", layer.norm_parameters),) if layer.norm_parameters else ()
    return tuple(tensor for block in layer.blocks for tensor in block_tensors(block, hidden)) + norms


def embedding_tensors(model: Model) -> tuple[Tensor, ...]:
    """Return what comes before the layers: the embedding, learned positions and other lookups."""
    table = Tensor("embed_tokens", model.vocab, model.hidden, "table", parts=model.vocab)
    if not model.position_parameters:
        return (table,)
    if model.lookup_rows:
        rows, cols = model.lookup_rows, model.position_parameters // model.lookup_rows
        return table, Tensor("lookups", rows, cols, "table", parts=rows)
    return table, vector("positions", model.position_parameters)


def head_tensors(model: Model) -> tuple[Tensor, ...]:
    """Return what comes after the layers: the last norm and the head, unless it is the embedding."""
    norm = (vector("norm", model.final_norm_parameters),) if model.final_norm_parameters else ()
    if model.tied_embeddings:
        return norm
    return (*norm, Tensor(HEAD, model.vocab, model.hidden, "table", parts=model.vocab))


def _attention(block: Attention, hidden: int) -> tuple[Tensor, ...]:
    heads, kv_heads = block.heads, block.kv_heads
    query, key = heads * block.head_dim * (2 if block.output_gate else 1), kv_heads * block.head_dim
    value = kv_heads * block.value_dim
    found = [Tensor("self_attn.q_proj", query, hidden, parts=heads, packed="qkv")]
    biases = [vector("self_attn.q_proj.bias", query, heads)]
    if block.own_kv:
        found.append(Tensor("self_attn.k_proj", key, hidden, parts=kv_heads, packed="qkv"))
        biases.append(vector("self_attn.k_proj.bias", key, kv_heads))
        if not block.value_from_key:
            found.append(Tensor("self_attn.v_proj", value, hidden, parts=kv_heads, packed="qkv"))
            biases.append(vector("self_attn.v_proj.bias", value, kv_heads))
    found.append(Tensor("self_attn.o_proj", hidden, heads * block.value_dim, parts=heads, axis=1))
    if block.qkv_bias:
        found += biases
    if block.out_bias:
        found.append(vector("self_attn.o_proj.bias", hidden))
    if block.norm_parameters:
        found.append(vector("self_attn.norms", block.norm_parameters))
    if block.sinks:
        found.append(vector("self_attn.sinks", heads, heads))
    return tuple(found)


def _latent(block: LatentAttention, hidden: int) -> tuple[Tensor, ...]:
    query = block.heads * (block.nope_dim + block.rope_dim)
    key_value = block.heads * (block.nope_dim + block.v_dim)
    found = []
    if block.q_rank is None:
        found.append(Tensor("self_attn.q_proj", query, hidden, parts=block.heads))
    else:
        found.append(Tensor("self_attn.q_a_proj", block.q_rank, hidden, packed="qkv_a"))
        found.append(vector("self_attn.q_a_layernorm", block.q_rank))
        found.append(Tensor("self_attn.q_b_proj", query, block.q_rank, parts=block.heads))
    found += [
        Tensor("self_attn.kv_a_proj_with_mqa", block.kv_rank + block.rope_dim, hidden, packed="qkv_a"),
        vector("self_attn.kv_a_layernorm", block.kv_rank),
        Tensor("self_attn.kv_b_proj", key_value, block.kv_rank, parts=block.heads),
        Tensor("self_attn.o_proj", hidden, block.heads * block.v_dim, parts=block.heads, axis=1),
    ]
    return (*found, *_indexer(block, hidden))


def _indexer(block: LatentAttention, hidden: int) -> tuple[Tensor, ...]:
    """Every GPU has the whole indexer: it must choose the same tokens for all heads."""
    if block.indexer is None:
        return ()
    heads, dim = block.indexer.heads, block.indexer.dim
    return (
        Tensor("self_attn.indexer.wq_b", heads * dim, block.q_rank or hidden),
        Tensor("self_attn.indexer.wk", dim, hidden),
        vector("self_attn.indexer.k_norm", 2 * dim),
        Tensor("self_attn.indexer.weights_proj", heads, hidden, "router"),
    )


def _dense(block: Dense, hidden: int) -> tuple[Tensor, ...]:
    return _feed_forward(block.module, block.width, hidden, block.matrices, block.bias)


def _feed_forward(name: str, width: int, hidden: int, matrices: int, bias: bool) -> tuple[Tensor, ...]:
    ups = ("gate_proj", "up_proj") if matrices == 3 else ("up_proj",)
    found = [Tensor(f"{name}.{up}", width, hidden, parts=width, packed=f"{name}.up") for up in ups]
    found.append(Tensor(f"{name}.down_proj", hidden, width, parts=width, axis=1))
    if bias:
        found += [vector(f"{name}.{up}.bias", width, width) for up in ups]
        found.append(vector(f"{name}.down_proj.bias", hidden))
    return tuple(found)


def _experts(block: Experts, hidden: int) -> tuple[Tensor, ...]:
    name = block.module
    found = [Tensor(f"{name}.gate", block.experts, hidden, "router")]
    beside = block.router_parameters + (block.experts if block.router_bias else 0)
    if beside:
        found.append(vector(f"{name}.gate.bias", beside))
    inner = hidden
    if block.latent:
        inner = block.latent
        found.append(Tensor(f"{name}.fc1_latent_proj", inner, hidden))
        found.append(Tensor(f"{name}.fc2_latent_proj", hidden, inner))
    for tensor in _feed_forward(f"{name}.experts", block.width, inner, block.matrices, block.bias):
        found.append(tensor._replace(copies=block.experts, used=block.top_k))
    if block.shared_width:
        found += _feed_forward(f"{name}.shared_experts", block.shared_width, hidden, block.matrices, False)
    if block.shared_gate:
        found.append(Tensor(f"{name}.shared_expert_gate", 1, hidden, "router"))
    return tuple(found)


def recurrent_products(block: Recurrent) -> tuple[Tensor, ...]:
    """Return the matrices of a recurrent mixer, which every token is multiplied with."""
    return tuple(tensor for tensor in block.tensors if tensor.kind != "vector")
