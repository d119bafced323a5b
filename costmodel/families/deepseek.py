"""Families deepseek, deepseek_v2, _v3, _v32 and kimi_k2: first dense layers, then experts; latent attention.

Only the first generation (deepseek) and files that switch it off have grouped-query attention.
"""

from __future__ import annotations

from ..inputs.model import Dense, Experts, Indexer, LatentAttention, Model
from .common import (
    Sizes,
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

#: Families whose class (transformers 5.24) assumes an MTP layer where the configuration names none.
MTP_ASSUMED = ("deepseek_v3", "glm4_moe")


def deepseek(config: Config) -> Model:
    """Read model_type deepseek (DeepSeekMoE) and deepseek_v2 without latent attention (DeepSeek-VL2-tiny).

    Source: vLLM 0.33, deepseek_v2.py (DeepseekAttention, which has no biases).
    """
    sizes = read_sizes(config)
    config.check(config.data.get("attention_bias") is not True, "attention_bias is true; not modelled here")
    config.knows("attention_bias")
    mixer = read_attention(config, sizes, None)
    experts = read_mixture(config, router_bias=False)
    ffns = first_dense(config, sizes, experts, Dense(config.whole("intermediate_size")))
    return assemble(config, sizes, paired([mixer] * sizes.layers, ffns))


def deepseek_v2(config: Config) -> Model:
    """Read model_type deepseek_v2; only the topk_method noaux_tc gives its router a bias an expert.

    A file whose head sizes of latent attention are all 0 has none, whether it says ``use_mla`` or not.
    """
    heads = (config.data.get("qk_nope_head_dim"), config.data.get("qk_rope_head_dim"))
    if heads == (0, 0):
        config.check(config.data.get("use_mla") is not True, "use_mla is true, but its head sizes are 0")
        return deepseek(config)
    config.check(
        config.data.get("use_mla") is not False,
        "use_mla is false, but qk_nope_head_dim is given; expected one",
    )
    return _deepseek(config, router_bias=config.data.get("topk_method") == "noaux_tc")


def deepseek_v3(config: Config) -> Model:
    """Read model_type deepseek_v3 (also R1): the router always holds a bias an expert."""
    return _deepseek(config)


def deepseek_v32(config: Config) -> Model:
    """Read model_type deepseek_v32: deepseek_v3 with an indexer on every layer (DSA)."""
    return _deepseek(config, sparse=True)


def kimi_k2(config: Config) -> Model:
    """Read model_type kimi_k2: the classes of deepseek_v3; no copies of embedding and head are stored."""
    return _deepseek(config, mtp_copies=False)


def _deepseek(
    config: Config, *, router_bias: bool = True, sparse: bool = False, mtp_copies: bool = True
) -> Model:
    sizes = read_sizes(config)
    mixer = read_latent(config, sizes, sparse=sparse)
    experts = read_mixture(config, router_bias=router_bias)
    ffns = first_dense(config, sizes, experts, Dense(config.whole("intermediate_size")))
    mtp_layers = read_mtp_layers(config)
    model = assemble(
        config, sizes, paired([mixer] * sizes.layers, ffns), rotary_dims=latent_tables(config, mixer)
    )
    if not mtp_layers:
        return model
    last = layer_beside(config, model, (mixer, ffns[-1]), count=mtp_layers)
    return with_mtp(model, last, copies=mtp_copies)


def read_latent(config: Config, sizes: Sizes, *, sparse: bool = False) -> LatentAttention:
    """Read latent attention; ``sparse``: with an indexer that picks ``index_topk`` tokens (DSA).

    Source: transformers 5.24, modeling_deepseek_v3.py; DeepSeek-V3.2's indexer: vLLM 0.33, deepseek_v32.
    """
    config.optional("num_key_value_heads")  # latent attention has none; a bad one is a bad file all the same
    biased = config.flag("attention_bias", False)
    config.check(
        not biased, "attention_bias is true; biases of latent attention are not modelled", "attention_bias"
    )
    return LatentAttention(
        heads=sizes.heads,
        q_rank=config.nullable("q_lora_rank"),
        kv_rank=config.whole("kv_lora_rank"),
        nope_dim=config.whole("qk_nope_head_dim"),
        rope_dim=config.whole("qk_rope_head_dim"),
        v_dim=config.whole("v_head_dim"),
        indexer=Indexer(config.whole("index_n_heads"), config.whole("index_head_dim")) if sparse else None,
        top_k=config.whole("index_topk") if sparse else None,
    )


def read_mixture(config: Config, *, router_bias: bool = True) -> Experts:
    """Read the experts of DeepSeek's field names; the shared ones are as wide as the routed."""
    shared = config.whole("n_shared_experts", least=0) * config.whole("moe_intermediate_size")
    return read_experts(
        config, "n_routed_experts", "moe_intermediate_size", shared_width=shared, router_bias=router_bias
    )


def read_mtp_layers(config: Config) -> int:
    """Number of MTP layers; a configuration that names none has none, whatever its class assumes."""
    if config.absent("num_nextn_predict_layers") and config.model_type in MTP_ASSUMED:
        config.notes.append(
            "num_nextn_predict_layers absent: no MTP layer is counted (transformers 5.24 assumes 1)"
        )
    return config.optional("num_nextn_predict_layers", least=0, most=100) or 0


def latent_tables(config: Config, mixer: LatentAttention) -> tuple[int, ...]:
    """Widths of an engine's tables: an indexer that rotates halves, not pairs, has one of its own.

    Source: vLLM 0.27, deepseek_v2.py (indexer_rope_emb).
    """
    own = mixer.top_k is not None and config.data.get("indexer_rope_interleave") is not True
    return (mixer.rope_dim,) * (2 if own else 1)
