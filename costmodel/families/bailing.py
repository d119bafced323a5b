"""Families bailing_moe (Ling and Ring) and bailing_moe_v2 (Ling 2.0): DeepSeek's experts, grouped-query attention."""

from __future__ import annotations

from ..inputs.model import Dense, Model
from .common import (
    assemble,
    first_dense,
    layer_beside,
    paired,
    read_attention,
    read_experts,
    read_sizes,
    with_mtp,
)
from .config import Config
from .deepseek import read_mtp_layers


def bailing_moe(config: Config) -> Model:
    """Read model_type bailing_moe or bailing_moe_v2; the files of Ling 2.0 differ by their fields alone.

    ``use_qk_norm`` norms every query and key head, ``moe_router_enable_expert_bias`` stores a bias an expert.
    Source: vLLM 0.33, bailing_moe.py.
    """
    sizes = read_sizes(config)
    bias = config.stated_flag("use_bias")
    mixer = read_attention(
        config,
        sizes,
        None,
        qkv_bias=config.stated_flag("use_qkv_bias") or bias,
        out_bias=bias,
        qk_norm=config.flag("use_qk_norm", False),
    )
    config.check(not bias, "use_bias is true; biases of the experts are not modelled", "use_bias")
    own = config.optional("moe_shared_expert_intermediate_size") or config.whole("moe_intermediate_size")
    experts = read_experts(
        config,
        "num_experts",
        "moe_intermediate_size",
        shared_width=config.whole("n_shared_experts", least=0) * own,
        router_bias=config.flag("moe_router_enable_expert_bias", False),
    )
    ffns = first_dense(config, sizes, experts, Dense(config.whole("intermediate_size")))
    mtp_layers = read_mtp_layers(config)
    model = assemble(config, sizes, paired([mixer] * sizes.layers, ffns))
    if not mtp_layers:
        return model
    last = layer_beside(config, model, (mixer, ffns[-1]), count=mtp_layers)
    return with_mtp(model, last, copies=False)
