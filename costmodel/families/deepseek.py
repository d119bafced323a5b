"""Families deepseek_v2 and deepseek_v3: latent attention, first dense layers, then experts."""

from __future__ import annotations

from dataclasses import replace

from ..inputs.model import Dense, LatentAttention, Model
from .common import assemble, first_dense, paired, read_experts, read_sizes, with_mtp
from .config import Config


def deepseek_v2(config: Config) -> Model:
    """Read model_type deepseek_v2; only the topk_method noaux_tc gives its router a bias an expert."""
    return _deepseek(config, router_bias=config.data.get("topk_method") == "noaux_tc")


def deepseek_v3(config: Config) -> Model:
    """Read model_type deepseek_v3 (also R1): the router always holds a bias an expert."""
    return _deepseek(config, router_bias=True)


def _deepseek(config: Config, *, router_bias: bool) -> Model:
    sizes = read_sizes(config)
    config.optional("num_key_value_heads")  # latent attention has none; a bad one is a bad file all the same
    mixer = LatentAttention(
        heads=sizes.heads,
        q_rank=config.nullable("q_lora_rank"),
        kv_rank=config.whole("kv_lora_rank"),
        nope_dim=config.whole("qk_nope_head_dim"),
        rope_dim=config.whole("qk_rope_head_dim"),
        v_dim=config.whole("v_head_dim"),
    )
    config.check(
        not config.flag("attention_bias", False),
        "attention_bias is true; biases of latent attention are not modelled",
        "attention_bias",
    )
    width = config.whole("moe_intermediate_size")
    experts = read_experts(
        config,
        "n_routed_experts",
        "moe_intermediate_size",
        shared_width=config.whole("n_shared_experts", least=0) * width,
        router_bias=router_bias,
    )
    ffns = first_dense(config, sizes, experts, Dense(config.whole("intermediate_size")))
    mtp_layers = config.optional("num_nextn_predict_layers", least=0, most=100) or 0
    model = assemble(config, sizes, paired([mixer] * sizes.layers, ffns))
    if not mtp_layers:
        return model
    last = replace(model.layers[model.order[-1]], count=mtp_layers)
    return with_mtp(model, last, copies=True)
