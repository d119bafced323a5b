"""Family mistral4 (Mistral Small 4): latent attention and experts whose router has no bias an expert."""

from __future__ import annotations

from ..inputs.model import Dense, Model
from .common import assemble, first_dense, paired, read_sizes
from .config import Config
from .deepseek import read_latent, read_mixture


def mistral4(config: Config) -> Model:
    """Read model_type mistral4. Source: transformers 5.24, modeling_mistral4.py."""
    sizes = read_sizes(config)
    mixer = read_latent(config, sizes)
    experts = read_mixture(config, router_bias=False)
    ffns = first_dense(config, sizes, experts, Dense(config.whole("intermediate_size")))
    return assemble(config, sizes, paired([mixer] * sizes.layers, ffns))
