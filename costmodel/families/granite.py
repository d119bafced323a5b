"""Families granite (3.x dense), granitemoe and granitemoeshared: as llama and mixtral, with other scalings."""

from __future__ import annotations

from ..inputs.model import Attention, Dense, Model
from .common import Sizes, assemble, read_attention, read_experts, read_sizes
from .config import Config


def granite(config: Config) -> Model:
    """Read model_type granite. Source: transformers 5.24, modeling_granite.py."""
    sizes = read_sizes(config)
    mixer = _read_attention(config, sizes)
    ffn = Dense(config.whole("intermediate_size"), bias=config.flag("mlp_bias", False))
    return assemble(config, sizes, [(mixer, ffn)] * sizes.layers)


def granitemoe(config: Config) -> Model:
    """Read model_type granitemoe: experts in every layer, none shared."""
    return _mixture(config, 0)


def granitemoeshared(config: Config) -> Model:
    """Read model_type granitemoeshared: a shared expert of ``shared_intermediate_size`` beside the routed."""
    return _mixture(config, config.whole_or("shared_intermediate_size", 0, least=0))


def _mixture(config: Config, shared: int) -> Model:
    sizes = read_sizes(config)
    mixer = _read_attention(config, sizes)
    experts = read_experts(config, "num_local_experts", "intermediate_size", shared_width=shared)
    return assemble(config, sizes, [(mixer, experts)] * sizes.layers)


def _read_attention(config: Config, sizes: Sizes) -> Attention:
    bias = config.flag("attention_bias", False)
    return read_attention(config, sizes, None, qkv_bias=bias, out_bias=bias)
