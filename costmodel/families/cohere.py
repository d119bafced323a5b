"""Families cohere (Command R, R+) and cohere2 (Command R7B, A): one norm a layer without bias, a tied head."""

from __future__ import annotations

from dataclasses import replace

from ..inputs.model import Attention, Dense, Model
from .common import Sizes, assemble, paired, read_attention, read_sizes, spaced_windows, windowed
from .config import Config


def cohere(config: Config) -> Model:
    """Read model_type cohere; ``use_qk_norm`` (R+) gives each query and key head a norm of its own.

    Source: transformers 5.24, modeling_cohere.py.
    """
    sizes = read_sizes(config)
    mixer = _read_attention(config, sizes)
    if config.flag("use_qk_norm", False):
        mixer = replace(mixer, norm_parameters=(mixer.heads + mixer.kv_heads) * mixer.head_dim)
    return _assemble(config, sizes, [mixer] * sizes.layers)


def cohere2(config: Config) -> Model:
    """Read model_type cohere2: windows except in every ``sliding_window_pattern``-th layer.

    Source: transformers 5.24, configuration_cohere2.py. vLLM 0.33 caches one token more than the window.
    """
    sizes = read_sizes(config)
    mixer = _read_attention(config, sizes)
    config.take_default("sliding_window", 4096)
    every = config.whole_or("sliding_window_pattern", 4) if config.null("layer_types") else 1
    windows = spaced_windows(config, sizes, config.optional("sliding_window"), every)
    return _assemble(config, sizes, windowed(mixer, windows))


def _read_attention(config: Config, sizes: Sizes) -> Attention:
    bias = config.flag("attention_bias", False)
    return read_attention(config, sizes, None, qkv_bias=bias, out_bias=bias)


def _assemble(config: Config, sizes: Sizes, mixers: list[Attention]) -> Model:
    ffn = Dense(config.whole("intermediate_size"))
    return assemble(
        config,
        sizes,
        paired(mixers, [ffn] * sizes.layers),
        norm_parameters=sizes.hidden,
        tied_default=True,
    )
