"""Family nemotron (Nemotron-4, Minitron): squared ReLU with two matrices, LayerNorms."""

from __future__ import annotations

from ..inputs.model import Dense, Model
from .common import assemble, read_attention, read_sizes
from .config import Config
from .rope import rotary_dim

PARTIAL_ROTARY = 0.5


def nemotron(config: Config) -> Model:
    """Read model_type nemotron. Half of each head rotates unless the configuration says otherwise.

    Source: transformers 5.24, modeling_nemotron.py.
    """
    sizes = read_sizes(config)
    bias = config.flag("attention_bias", False)
    mixer = read_attention(config, sizes, None, qkv_bias=bias, out_bias=bias)
    if config.null("partial_rotary_factor"):
        config.data = {**config.data, "partial_rotary_factor": PARTIAL_ROTARY}
    ffn = Dense(config.whole("intermediate_size"), matrices=2, bias=config.flag("mlp_bias", False))
    return assemble(
        config,
        sizes,
        [(mixer, ffn)] * sizes.layers,
        norm_parameters=4 * sizes.hidden,
        final_norm_parameters=2 * sizes.hidden,
        rotary_dims=rotary_dim(config, [mixer]),
    )
