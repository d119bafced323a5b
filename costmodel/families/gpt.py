"""Families gpt2 and gpt_neox (Pythia): all heads cached, LayerNorms and biases everywhere, two-matrix blocks."""

from __future__ import annotations

from dataclasses import replace

from ..inputs.model import Attention, Dense, Model
from .common import Sizes, assemble, read_attention, read_sizes
from .config import Config
from .rope import default_rotary_part


def gpt2(config: Config) -> Model:
    """Read model_type gpt2: learned positions; ``n_inner`` null is four times the hidden size."""
    sizes = read_sizes(config)
    config.check(not config.data.get("add_cross_attention"), "add_cross_attention is true; not modelled")
    width = config.optional("n_inner") or 4 * sizes.hidden
    positions = config.whole("max_position_embeddings")
    mixer = _attention(config, sizes)
    return assemble(
        config,
        sizes,
        [(mixer, Dense(width, matrices=2, bias=True))] * sizes.layers,
        norm_parameters=4 * sizes.hidden,
        final_norm_parameters=2 * sizes.hidden,
        position_parameters=positions * sizes.hidden,
        tied_default=True,
        rotary_dims=(),
    )


def gpt_neox(config: Config) -> Model:
    """Read model_type gpt_neox: rotary positions on ``rotary_pct`` of each head.

    Source: transformers 5.24, configuration_gpt_neox.py and modeling_gpt_neox.py.
    """
    sizes = read_sizes(config)
    bias = config.flag("attention_bias", True)
    mixer = replace(_attention(config, sizes), qkv_bias=bias, out_bias=bias)
    default_rotary_part(config, 0.25)
    return assemble(
        config,
        sizes,
        [(mixer, Dense(config.whole("intermediate_size"), matrices=2, bias=True))] * sizes.layers,
        norm_parameters=4 * sizes.hidden,
        final_norm_parameters=2 * sizes.hidden,
    )


def _attention(config: Config, sizes: Sizes) -> Attention:
    """Attention with a KV head a query head, whatever fields say."""
    mixer = read_attention(config, sizes, None, qkv_bias=True, out_bias=True)
    config.check(
        mixer.kv_heads == sizes.heads,
        f"num_key_value_heads is {mixer.kv_heads}; {config.model_type} has as many as query heads",
        "num_key_value_heads",
    )
    return mixer
