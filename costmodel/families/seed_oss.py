"""Family seed_oss: as llama, with biases on q, k and v and a switch of its own for that of o."""

from __future__ import annotations

from ..inputs.model import Dense, Model
from .common import assemble, read_attention, read_sizes
from .config import Config


def seed_oss(config: Config) -> Model:
    """Read model_type seed_oss. Source: transformers 5.24, configuration_seed_oss.py."""
    sizes = read_sizes(config)
    mixer = read_attention(
        config,
        sizes,
        8,
        head_dim_default=128,
        qkv_bias=config.flag("attention_bias", True),
        out_bias=config.flag("attention_out_bias", False),
    )
    ffn = Dense(config.whole("intermediate_size"), bias=config.flag("mlp_bias", False))
    return assemble(config, sizes, [(mixer, ffn)] * sizes.layers)
