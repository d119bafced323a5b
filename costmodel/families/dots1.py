"""Family dots1 (dots.llm1): grouped-query attention with norms on query and key heads, DeepSeek's experts."""

from __future__ import annotations

from ..inputs.model import Dense, Model
from .common import assemble, first_dense, layer_windows, paired, read_attention, read_sizes, windowed
from .config import Config
from .deepseek import read_mixture


def dots1(config: Config) -> Model:
    """Read model_type dots1; its router holds a bias an expert. Source: transformers 5.24."""
    sizes = read_sizes(config)
    bias = config.flag("attention_bias", False)
    mixer = read_attention(config, sizes, 32, qkv_bias=bias, out_bias=bias, qk_norm=True)
    config.take_default("sliding_window", 4096)
    window = config.nullable("sliding_window")
    full_below = 0 if window is None else config.whole_or("max_window_layers", 62, least=0)
    windows = layer_windows(config, sizes, window, full_below)
    ffns = first_dense(config, sizes, read_mixture(config), Dense(config.whole("intermediate_size")))
    return assemble(config, sizes, paired(windowed(mixer, windows), ffns))
