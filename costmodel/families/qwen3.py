"""Families qwen3 and qwen3_moe: RMSNorm on every query and key head."""

from __future__ import annotations

from ..inputs.model import Dense, Model
from .common import (
    assemble,
    paired,
    read_attention,
    read_experts,
    read_sizes,
    refuse_window,
    sparse_or_dense,
    switched_windows,
    windowed,
    with_extras,
)
from .config import Config


def qwen3(config: Config) -> Model:
    """Read model_type qwen3."""
    sizes = read_sizes(config)
    bias = config.flag("attention_bias", False)
    mixer = read_attention(
        config, sizes, 32, head_dim_default=128, qkv_bias=bias, out_bias=bias, qk_norm=True
    )
    ffn = Dense(config.whole("intermediate_size"))
    model = assemble(
        config, sizes, paired(windowed(mixer, switched_windows(config, sizes)), [ffn] * sizes.layers)
    )
    return _with_stored_head(model) if model.tied_embeddings and config.model_type == "qwen3" else model


def _with_stored_head(model: Model) -> Model:
    """Name the copy of the tied head that the small repositories (0.6B, 1.7B) store; no field tells."""
    return with_extras(model, ("stored_lm_head", model.vocab * model.hidden))


def qwen3_moe(config: Config) -> Model:
    """Read model_type qwen3_moe: routed experts alone, none shared."""
    sizes = read_sizes(config)
    bias = config.flag("attention_bias", False)
    mixer = read_attention(config, sizes, 4, qkv_bias=bias, out_bias=bias, qk_norm=True)
    refuse_window(
        config, config.flag("use_sliding_window", False), "transformers windows every layer, vLLM none"
    )
    experts = read_experts(config, "num_experts", "moe_intermediate_size")
    ffns = sparse_or_dense(config, sizes, experts, Dense(config.whole("intermediate_size")))
    return assemble(config, sizes, paired([mixer] * sizes.layers, ffns))
