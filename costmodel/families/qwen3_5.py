"""Families qwen3_5_text and qwen3_5_moe_text: the hybrid of Qwen3-Next, dense or of experts in every layer."""

from __future__ import annotations

from ..inputs.model import Dense, Model
from .common import read_sizes
from .config import Config
from .qwen2 import gated_experts
from .qwen3_next import build, read_mixers


def qwen3_5_text(config: Config) -> Model:
    """Read model_type qwen3_5_text."""
    sizes = read_sizes(config)
    mixers = read_mixers(config, sizes, kv_default=4, fused=False)
    ffn = Dense(config.whole("intermediate_size"))
    return build(config, sizes, mixers, [ffn] * sizes.layers, mtp_layers=_mtp_layers(config))


def qwen3_5_moe_text(config: Config) -> Model:
    """Read model_type qwen3_5_moe_text: a shared expert behind a gate beside the routed ones."""
    sizes = read_sizes(config)
    mixers = read_mixers(config, sizes, kv_default=2, fused=False)
    experts = gated_experts(config)
    return build(config, sizes, mixers, [experts] * sizes.layers, mtp_layers=_mtp_layers(config))


def _mtp_layers(config: Config) -> int:
    """One layer, or none; every published configuration states it. Absent, vLLM 0.33 takes one."""
    config.check(
        config.data.get("mtp_use_dedicated_embeddings") is not True,
        "mtp_use_dedicated_embeddings is true; an MTP layer with its own embedding is not modelled",
        "mtp_use_dedicated_embeddings",
    )
    stated = config.optional("mtp_num_hidden_layers", least=0, most=1)
    return 1 if stated is None else stated
