"""Family llama: Llama 2 and 3, Yi and others of model_type llama."""

from __future__ import annotations

from ..inputs.model import Dense, Model
from .common import assemble, read_attention, read_sizes, refuse_window
from .config import Config


def llama(config: Config) -> Model:
    """Read model_type llama; ``attention_bias`` adds a bias to q, k, v and o."""
    sizes = read_sizes(config)
    bias = config.flag("attention_bias", False)
    mixer = read_attention(config, sizes, None, qkv_bias=bias, out_bias=bias)
    switched_off = config.data.get("use_sliding_window") is False
    refuse_window(config, not switched_off, "transformers ignores the field, engines may apply it")
    ffn = Dense(config.whole("intermediate_size"), bias=config.flag("mlp_bias", False))
    return assemble(config, sizes, [(mixer, ffn)] * sizes.layers)
