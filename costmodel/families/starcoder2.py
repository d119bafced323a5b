"""Family starcoder2: LayerNorms and biases everywhere, a plain two-matrix feed-forward block."""

from __future__ import annotations

from dataclasses import replace

from ..inputs.model import Dense, Model
from .common import assemble, read_attention, read_sizes
from .config import Config


def starcoder2(config: Config) -> Model:
    """Read model_type starcoder2; ``sliding_window`` is the window of every layer.

    Source: transformers 5.24, modeling_starcoder2.py.
    """
    sizes = read_sizes(config)
    bias = config.flag("use_bias", True)
    mixer = read_attention(config, sizes, 2, qkv_bias=bias, out_bias=bias)
    mixer = replace(mixer, window=config.optional("sliding_window"))
    ffn = Dense(config.whole("intermediate_size"), matrices=2, bias=bias)
    return assemble(
        config,
        sizes,
        [(mixer, ffn)] * sizes.layers,
        norm_parameters=4 * sizes.hidden,
        final_norm_parameters=2 * sizes.hidden,
        tied_default=True,
    )
