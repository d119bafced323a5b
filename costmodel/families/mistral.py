"""Family mistral: a window, where there is one, applies to every layer."""

from __future__ import annotations

from ..inputs.model import Dense, Model
from .common import Sizes, assemble, layer_windows, paired, read_attention, read_sizes, windowed
from .config import Config


def mistral(config: Config) -> Model:
    """Read model_type mistral."""
    sizes = read_sizes(config)
    mixer = read_attention(config, sizes, 8)
    ffn = Dense(config.whole("intermediate_size"))
    return assemble(config, sizes, paired(windowed(mixer, every_layer(config, sizes)), [ffn] * sizes.layers))


def every_layer(config: Config, sizes: Sizes) -> list[int | None]:
    """Windows of mistral and mixtral: ``sliding_window`` in every layer, null for none.

    Absent, it is taken as none and noted: the class default of mistral is 4,096 tokens, but a copy of the
    configuration without the field is a shortened one.
    """
    if config.absent("sliding_window"):
        config.notes.append(
            "sliding_window absent: taken as none (transformers 5.24 assumes "
            f"{'4096 tokens' if config.model_type == 'mistral' else 'none'})"
        )
    return layer_windows(config, sizes, config.optional("sliding_window"), 0)
