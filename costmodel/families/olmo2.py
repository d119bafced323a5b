"""Family olmo2: norms behind the blocks, and norms across all query and all key heads."""

from __future__ import annotations

from dataclasses import replace

from ..inputs.model import Dense, Model
from .common import assemble, read_attention, read_sizes
from .config import Config


def olmo2(config: Config) -> Model:
    """Read model_type olmo2. Source: transformers 5.24, modeling_olmo2.py."""
    sizes = read_sizes(config)
    bias = config.flag("attention_bias", False)
    mixer = read_attention(config, sizes, None, qkv_bias=bias, out_bias=bias)
    mixer = replace(mixer, norm_parameters=(mixer.heads + mixer.kv_heads) * mixer.head_dim)
    return assemble(config, sizes, [(mixer, Dense(config.whole("intermediate_size")))] * sizes.layers)
