"""Family smollm3: as llama, without rotary embedding in every fourth layer."""

from __future__ import annotations

from ..inputs.model import Dense, Model
from .common import assemble, read_attention, read_sizes, refuse_window
from .config import Config


def smollm3(config: Config) -> Model:
    """Read model_type smollm3; published files switch their window off. Source: transformers 5.24."""
    sizes = read_sizes(config)
    bias = config.flag("attention_bias", False)
    mixer = read_attention(config, sizes, 4, qkv_bias=bias, out_bias=bias)
    refuse_window(config, config.flag("use_sliding_window", False), "no published file uses one")
    ffn = Dense(config.whole("intermediate_size"), bias=config.flag("mlp_bias", False))
    return assemble(config, sizes, [(mixer, ffn)] * sizes.layers, tied_default=True)
