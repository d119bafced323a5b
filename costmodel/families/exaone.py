"""Families exaone (EXAONE 3 and 3.5, as llama) and exaone4 (norms on query and key heads, windows)."""

from __future__ import annotations

from ..inputs.model import Dense, Model
from .common import (
    Sizes,
    assemble,
    layer_windows,
    paired,
    read_attention,
    read_sizes,
    windowed,
)
from .config import Config, shown


def exaone(config: Config) -> Model:
    """Read model_type exaone. Sources: transformers 5.24, configuration_exaone.py; vLLM 0.33, exaone.py."""
    sizes = read_sizes(config)
    mixer = read_attention(config, sizes, 8)
    return assemble(config, sizes, [(mixer, Dense(config.whole("intermediate_size")))] * sizes.layers)


def exaone4(config: Config) -> Model:
    """Read model_type exaone4; its two norms a layer follow the blocks.

    Source: transformers 5.24, configuration_exaone4.py; vLLM 0.33, exaone4.py.
    """
    sizes = read_sizes(config)
    mixer = read_attention(config, sizes, 32, qk_norm=True)
    ffn = Dense(config.whole("intermediate_size"))
    return assemble(config, sizes, paired(windowed(mixer, _windows(config, sizes)), [ffn] * sizes.layers))


def _windows(config: Config, sizes: Sizes) -> list[int | None]:
    """Window of each layer: ``layer_types`` decides, else the pattern (a number, or letters L and G in turn)."""
    config.take_default("sliding_window", 4096)
    window = config.nullable("sliding_window")
    if window is None or not config.null("layer_types"):
        return layer_windows(config, sizes, window, sizes.layers)
    config.take_default("sliding_window_pattern", 4)
    pattern = config.data["sliding_window_pattern"]
    if isinstance(pattern, str) and pattern and set(pattern) <= {"L", "G"}:
        letters = pattern
    elif isinstance(pattern, int) and not isinstance(pattern, bool) and 0 < pattern <= sizes.layers:
        letters = "L" * (pattern - 1) + "G"
    else:
        config.check(
            False,
            f"sliding_window_pattern is {shown(pattern)}; expected a number of layers or letters L and G",
        )
        letters = "G"
    return [window if letters[index % len(letters)] == "L" else None for index in range(sizes.layers)]
