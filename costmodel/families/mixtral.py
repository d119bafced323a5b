"""Family mixtral: every layer a mixture of experts as wide as ``intermediate_size``."""

from __future__ import annotations

from ..inputs.model import Model
from .common import assemble, paired, read_attention, read_experts, read_sizes, windowed
from .config import Config
from .mistral import every_layer


def mixtral(config: Config) -> Model:
    """Read model_type mixtral."""
    sizes = read_sizes(config)
    mixer = read_attention(config, sizes, 8)
    ffn = read_experts(config, "num_local_experts", "intermediate_size")
    return assemble(config, sizes, paired(windowed(mixer, every_layer(config, sizes)), [ffn] * sizes.layers))
