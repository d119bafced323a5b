"""Families deepseek_v2 and deepseek_v3: latent attention, first dense layers, then experts."""

from __future__ import annotations

from dataclasses import replace

from ..inputs.model import Dense, Experts, FeedForward, LatentAttention, Layer, Model
from ..inputs.parameters import block_scales, layer_parameters
from .common import Sizes, assemble, read_experts, read_sizes
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
    ffns = _feed_forward(config, sizes, experts)
    mtp_layers = config.optional("num_nextn_predict_layers", least=0, most=100) or 0
    model = assemble(config, sizes, [mixer] * sizes.layers, ffns)
    if not mtp_layers:
        return model
    return _with_mtp(model, Layer(mtp_layers, mixer, experts, 2 * sizes.hidden))


def _feed_forward(config: Config, sizes: Sizes, experts: Experts) -> list[FeedForward]:
    """Layer i has experts from ``first_k_dense_replace`` on, where ``moe_layer_freq`` divides i (vLLM)."""
    dense = Dense(config.whole("intermediate_size"))
    first = config.whole("first_k_dense_replace", least=0)
    config.check(
        first <= sizes.layers,
        f"first_k_dense_replace is {first:,} but num_hidden_layers only {sizes.layers:,}; expected no more",
        "first_k_dense_replace",
        "num_hidden_layers",
    )
    every = config.whole_or("moe_layer_freq", 1)
    return [experts if i >= first and i % every == 0 else dense for i in range(sizes.layers)]


def _with_mtp(model: Model, mtp: Layer) -> Model:
    """Name what the checkpoint holds beside the main model: MTP layers, their copies, all fp8 scales.

    An MTP layer is a layer with experts, a projection of 2 hidden to hidden and three norms more; the
    checkpoint repeats embedding and head for it. Source: DeepSeek-V3's README_WEIGHTS.md.
    """
    hidden = model.hidden
    unique = mtp.count * (layer_parameters(mtp, hidden) + 2 * hidden**2 + 3 * hidden)
    extras = {"mtp": unique, "stored_mtp_embed_head": mtp.count * 2 * model.vocab * hidden}
    if model.weight_block:
        extras["fp8_scales"] = block_scales((*model.layers, mtp), hidden, model.weight_block)
    return replace(model, extras=tuple(extras.items()))
