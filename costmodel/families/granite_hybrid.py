"""Family granitemoehybrid (Granite 4): Mamba-2 or attention, then shared and, in the larger, routed experts."""

from __future__ import annotations

from ..inputs.model import Attention, Dense, FeedForward, Model, Recurrent
from .common import Sizes, assemble, paired, read_attention, read_experts, read_sizes
from .config import Config
from .recurrent import FULL, LINEAR, read_mamba2, read_state_dtype, refuse_windows

KINDS = ("mamba", LINEAR, "attention", FULL)


def granitemoehybrid(config: Config) -> Model:
    """Read model_type granitemoehybrid; without routed experts the shared one is a plain feed-forward block.

    Rotary embedding only where ``position_embedding_type`` says so. Source: transformers 5.24.
    """
    sizes = read_sizes(config)
    refuse_windows(config)
    config.knows("mamba_d_state")
    shared = config.whole("shared_intermediate_size")
    ffn: FeedForward = Dense(shared)
    if config.whole("num_local_experts", least=0):
        ffn = read_experts(config, "num_local_experts", "intermediate_size", shared_width=shared)
    rotates = config.text("position_embedding_type", ("rope", "nope")) == "rope"
    blocks = paired(_mixers(config, sizes), [ffn] * sizes.layers)
    return assemble(config, sizes, blocks, rotary_dims=None if rotates else ())


def _mixers(config: Config, sizes: Sizes) -> list[Attention | Recurrent]:
    kinds = config.words("layer_types", KINDS, sizes.layers)
    if kinds is None:
        kinds = config.words("layers_block_type", KINDS, sizes.layers)
    if kinds is None:
        config.defaulted("layer_types", "mamba in every layer")
        kinds = ["mamba"] * sizes.layers
    recurrent = {"mamba", LINEAR} & set(kinds)
    bias = config.flag("attention_bias", False)
    full = read_attention(config, sizes, None, qkv_bias=bias, out_bias=bias)
    linear = _mamba(config, sizes) if recurrent else None
    return [linear if linear and kind in recurrent else full for kind in kinds]


def _mamba(config: Config, sizes: Sizes) -> Recurrent:
    return read_mamba2(
        config,
        sizes.hidden,
        config.whole_or("mamba_expand", 2) * sizes.hidden,
        ("mamba_expand x hidden_size", ("mamba_expand", "hidden_size")),
        proj_bias=config.flag("mamba_proj_bias", False),
        state_dtype=read_state_dtype(config, "mamba_ssm_dtype"),
    )
