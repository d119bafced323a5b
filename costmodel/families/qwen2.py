"""Families qwen2 (also Qwen2.5) and qwen2_moe: biases on q, k and v, none on o."""

from __future__ import annotations

from ..inputs.model import Dense, Experts, Model
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
)
from .config import Config


def qwen2(config: Config) -> Model:
    """Read model_type qwen2."""
    sizes = read_sizes(config)
    mixer = read_attention(config, sizes, 32, qkv_bias=True)
    ffn = Dense(config.whole("intermediate_size"))
    return assemble(
        config, sizes, paired(windowed(mixer, switched_windows(config, sizes)), [ffn] * sizes.layers)
    )


def qwen2_moe(config: Config) -> Model:
    """Read model_type qwen2_moe: routed experts and one shared expert behind a gate of ``hidden`` weights."""
    sizes = read_sizes(config)
    config.whole("num_key_value_heads")
    mixer = read_attention(config, sizes, None, qkv_bias=config.flag("qkv_bias", True))
    refuse_window(
        config,
        config.flag("use_sliding_window", False),
        "transformers alternates windowed and full layers, engines do not agree",
    )
    experts = gated_experts(config)
    ffns = sparse_or_dense(config, sizes, experts, Dense(config.whole("intermediate_size")))
    return assemble(config, sizes, paired([mixer] * sizes.layers, ffns))


def gated_experts(config: Config) -> Experts:
    """Read Qwen's routed experts with one shared expert behind a gate of ``hidden`` weights."""
    return read_experts(
        config,
        "num_experts",
        "moe_intermediate_size",
        shared_width=config.whole("shared_expert_intermediate_size"),
        shared_gate=True,
    )
