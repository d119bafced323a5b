"""Family bloom: LayerNorms and biases everywhere, positions by ALiBi, a norm after the embedding."""

from __future__ import annotations

from ..inputs.model import Attention, Dense, Model
from .common import assemble, read_sizes
from .config import Config


def bloom(config: Config) -> Model:
    """Read model_type bloom; the norm after the embedding is counted with the last one.

    Source: transformers 5.24, modeling_bloom.py: 12 h^2 + 13 h a layer, 4 h of norms beside the layers.
    """
    sizes = read_sizes(config)
    hidden = sizes.hidden
    config.check(
        hidden % sizes.heads == 0,
        f"hidden_size is {hidden:,} and n_head {sizes.heads:,}; expected a multiple",
        "hidden_size",
        "num_attention_heads",
    )
    mixer = Attention(sizes.heads, sizes.heads, max(1, hidden // sizes.heads), qkv_bias=True, out_bias=True)
    ffn = Dense(4 * hidden, matrices=2, bias=True)
    return assemble(
        config,
        sizes,
        [(mixer, ffn)] * sizes.layers,
        norm_parameters=4 * hidden,
        final_norm_parameters=4 * hidden,
        tied_default=True,
        rotary_dims=(),
    )
