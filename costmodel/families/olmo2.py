"""Families olmo2, olmo3 and olmoe: norms across all query and all key heads."""

from __future__ import annotations

from dataclasses import replace

from ..inputs.model import Attention, Dense, Model
from .common import (
    Sizes,
    assemble,
    paired,
    read_attention,
    read_experts,
    read_sizes,
    spaced_windows,
    windowed,
)
from .config import Config


def olmo2(config: Config) -> Model:
    """Read model_type olmo2; its norms follow the blocks. Source: transformers 5.24, modeling_olmo2.py."""
    sizes = read_sizes(config)
    blocks = (_attention(config, sizes), Dense(config.whole("intermediate_size")))
    return assemble(config, sizes, [blocks] * sizes.layers)


def olmo3(config: Config) -> Model:
    """Read model_type olmo3: olmo2 with full attention in every fourth layer. Source: transformers 5.24."""
    sizes = read_sizes(config)
    mixer = _attention(config, sizes)
    windows = spaced_windows(config, sizes, config.whole_or("sliding_window", 4096), 4)
    ffn = Dense(config.whole("intermediate_size"))
    return assemble(config, sizes, paired(windowed(mixer, windows), [ffn] * sizes.layers))


def olmoe(config: Config) -> Model:
    """Read model_type olmoe: experts as wide as ``intermediate_size``. Source: transformers 5.24, modeling_olmoe.py."""
    sizes = read_sizes(config)
    experts = read_experts(config, "num_experts", "intermediate_size")
    return assemble(config, sizes, [(_attention(config, sizes), experts)] * sizes.layers)


def _attention(config: Config, sizes: Sizes) -> Attention:
    bias = config.flag("attention_bias", False)
    mixer = read_attention(config, sizes, None, qkv_bias=bias, out_bias=bias)
    return replace(mixer, norm_parameters=(mixer.heads + mixer.kv_heads) * mixer.head_dim)
