"""Family stablelm: LayerNorms, a quarter of each head rotates, optionally one norm a head or parallel blocks."""

from __future__ import annotations

from dataclasses import replace

from ..inputs.model import Dense, Model
from .common import assemble, read_attention, read_sizes
from .config import Config
from .rope import default_rotary_part


def stablelm(config: Config) -> Model:
    """Read model_type stablelm; blocks in parallel share one norm. Source: transformers 5.24, modeling_stablelm.py."""
    sizes = read_sizes(config)
    mixer = read_attention(config, sizes, 32, qkv_bias=config.flag("use_qkv_bias", False))
    if config.flag("qk_layernorm", False):
        mixer = replace(mixer, norm_parameters=(mixer.heads + mixer.kv_heads) * mixer.head_dim)
    norms = 1 if config.flag("use_parallel_residual", False) else 2
    default_rotary_part(config, 0.25)
    return assemble(
        config,
        sizes,
        [(mixer, Dense(config.whole("intermediate_size")))] * sizes.layers,
        norm_parameters=norms * 2 * sizes.hidden,
        final_norm_parameters=2 * sizes.hidden,
    )
