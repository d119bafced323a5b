"""Family falcon: multi-query (7B), grouped-query (40B, 180B, 11B) or multi-head attention, LayerNorms."""

from __future__ import annotations

from ..inputs.model import Attention, Dense, Model
from .common import Sizes, assemble, read_sizes, with_extras
from .config import Config


def falcon(config: Config) -> Model:
    """Read model_type falcon. Tied repositories store a copy of the head (7B, 40B, 180B).

    Source: transformers 5.24, configuration_falcon.py and modeling_falcon.py.
    """
    sizes = read_sizes(config)
    hidden = sizes.hidden
    bias = config.flag("bias", False)
    mixer = _read_attention(config, sizes, bias)
    width = config.optional("ffn_hidden_size") or 4 * hidden
    rotates = not config.flag("alibi", False)
    model = assemble(
        config,
        sizes,
        [(mixer, Dense(width, matrices=2, bias=bias))] * sizes.layers,
        norm_parameters=(4 if _two_norms(config) else 2) * hidden,
        final_norm_parameters=2 * hidden,
        tied_default=True,
        rotary_dims=None if rotates else (),
    )
    if not model.tied_embeddings:
        return model
    return with_extras(model, ("stored_lm_head", model.vocab * hidden))


def _read_attention(config: Config, sizes: Sizes, bias: bool) -> Attention:
    """KV heads: as stated in the new architecture; in the old one with ``multi_query``, else one a query head."""
    heads, hidden = sizes.heads, sizes.hidden
    config.check(
        hidden % heads == 0,
        f"hidden_size is {hidden:,} and num_attention_heads {heads:,}; expected a multiple",
        "hidden_size",
        "num_attention_heads",
    )
    kv_heads = heads
    if config.flag("new_decoder_architecture", False):
        stated = config.optional("num_key_value_heads")
        if stated is None:
            config.defaulted("num_kv_heads", f"{heads}, as many as query heads")
        kv_heads = stated or heads
        config.check(
            heads % kv_heads == 0,
            f"num_attention_heads is {heads:,} and num_kv_heads {kv_heads:,}; expected a multiple",
            "num_attention_heads",
            "num_key_value_heads",
        )
    elif config.flag("multi_query", True):
        kv_heads = 1
    return Attention(heads, kv_heads, max(1, hidden // heads), qkv_bias=bias, out_bias=bias)


def _two_norms(config: Config) -> bool:
    """Whether a layer has two LayerNorms."""
    parallel = config.flag("parallel_attn", True)
    stated = config.optional("num_ln_in_parallel_attn", most=2)
    if config.data.get("new_decoder_architecture") is True:
        return stated != 1
    return stated == 2 or not parallel
