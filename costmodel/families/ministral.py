"""Families ministral and ministral3: mistral with ``layer_types`` and with heads of a stated width."""

from __future__ import annotations

from ..inputs.model import Dense, Model
from .common import assemble, layer_windows, paired, read_attention, read_sizes, windowed
from .config import Config


def ministral(config: Config) -> Model:
    """Read model_type ministral: mistral with ``layer_types``. Source: transformers 5.24, same-named class."""
    config.take_default("sliding_window", 4096)
    return _ministral(config, None)


def ministral3(config: Config) -> Model:
    """Read model_type ministral3: mistral with heads of 128. Source: transformers 5.24, same-named class."""
    config.take_default("sliding_window", None)
    return _ministral(config, 128)


def _ministral(config: Config, head_dim: int | None) -> Model:
    sizes = read_sizes(config)
    mixer = read_attention(config, sizes, 8, head_dim_default=head_dim)
    windows = layer_windows(config, sizes, config.nullable("sliding_window"), 0)
    ffn = Dense(config.whole("intermediate_size"))
    return assemble(config, sizes, paired(windowed(mixer, windows), [ffn] * sizes.layers))
