"""Families gemma, gemma2 and gemma3_text: wide heads, tied embeddings, from gemma2 on windows in most layers."""

from __future__ import annotations

from dataclasses import replace

from ..inputs.model import Dense, Model
from .common import Sizes, assemble, paired, read_attention, read_sizes, spaced_windows, windowed
from .config import Config, shown
from .rope import rotary_elements_by_type

HEAD_DIM = 256

#: What the files of gemma3 leave out, as they are written as differences from their class.
GEMMA3_DEFAULTS = {
    "vocab_size": 262_208,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": HEAD_DIM,
    "max_position_embeddings": 131_072,
}


def gemma(config: Config) -> Model:
    """Read model_type gemma: two norms a layer, no windows.

    Source: transformers 5.24, configuration_gemma.py and modeling_gemma.py.
    """
    refuse_bidirectional(config, True)
    sizes = read_sizes(config)
    bias = config.flag("attention_bias", False)
    mixer = read_attention(config, sizes, 16, head_dim_default=HEAD_DIM, qkv_bias=bias, out_bias=bias)
    ffn = Dense(config.whole("intermediate_size"))
    return assemble(config, sizes, [(mixer, ffn)] * sizes.layers, tied_default=True)


def gemma2(config: Config) -> Model:
    """Read model_type gemma2: norms before and after each block; every second layer has full attention.

    Source: transformers 5.24, configuration_gemma2.py and modeling_gemma2.py.
    """
    return _windowed_gemma(config, read_sizes(config), every=2, qk_norm=False)


def gemma3_text(config: Config) -> Model:
    """Read model_type gemma3_text: gemma2 with norms on queries and keys and full attention in every sixth layer.

    Layers with a window rotate by a table of their own, which no scaling lengthens.
    Source: transformers 5.24, configuration_gemma3.py and modeling_gemma3.py.
    """
    for field, value in GEMMA3_DEFAULTS.items():
        config.take_default(field, value)
    config.take_default("sliding_window_pattern", 6)
    every = config.whole("sliding_window_pattern") if config.null("layer_types") else 1
    model = _windowed_gemma(config, read_sizes(config), every, qk_norm=True)
    head_dim = config.whole("head_dim")
    tables = {"full_attention": head_dim, "sliding_attention": head_dim}
    return replace(model, rotary_elements=rotary_elements_by_type(config, tables))


def _windowed_gemma(config: Config, sizes: Sizes, every: int, *, qk_norm: bool) -> Model:
    refuse_bidirectional(config, True)
    config.take_default("sliding_window", 4096)
    bias = config.flag("attention_bias", False)
    mixer = read_attention(
        config, sizes, 4, head_dim_default=HEAD_DIM, qkv_bias=bias, out_bias=bias, qk_norm=qk_norm
    )
    windows = spaced_windows(config, sizes, config.nullable("sliding_window"), every)
    ffns = [Dense(config.whole("intermediate_size"))] * sizes.layers
    blocks = paired(windowed(mixer, windows), ffns)
    return assemble(config, sizes, blocks, norm_parameters=4 * sizes.hidden, tied_default=True)


def refuse_bidirectional(config: Config, word: object) -> None:
    """Refuse attention to later text tokens (where the field equals ``word``): such a model decodes nothing."""
    stated = config.data.get("use_bidirectional_attention")
    config.check(
        stated != word,
        f"use_bidirectional_attention is {shown(stated)}; only causal models can be served token by token",
    )
