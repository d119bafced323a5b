"""Families hunyuan_v1_dense and hunyuan_v1_moe: a norm on every query and key head."""

from __future__ import annotations

from ..inputs.model import Attention, Dense, Experts, Model
from .common import Sizes, assemble, read_attention, read_sizes
from .config import Config, shown


def hunyuan_v1_dense(config: Config) -> Model:
    """Read model_type hunyuan_v1_dense."""
    sizes = read_sizes(config)
    mixer = _attention(config, sizes)
    return assemble(config, sizes, [(mixer, Dense(config.whole("intermediate_size")))] * sizes.layers)


def hunyuan_v1_moe(config: Config) -> Model:
    """Read model_type hunyuan_v1_moe: experts on every layer and a shared one as wide as each.

    ``moe_topk`` and others may be a list of a number a layer. Source: transformers 5.24,
    modeling_hunyuan_v1_moe.py.
    """
    sizes = read_sizes(config)
    mixer = _attention(config, sizes)
    width = config.whole("intermediate_size")
    shared = config.null("num_shared_expert") or _alike(config, "num_shared_expert") == 1
    config.check(shared, f"num_shared_expert is {shown(config.data.get('num_shared_expert'))}; expected 1")
    same = config.null("moe_intermediate_size") or _alike(config, "moe_intermediate_size") == width
    config.check(same, f"moe_intermediate_size differs from intermediate_size, which is {width:,}")
    experts, top_k = _alike(config, "num_experts"), _alike(config, "num_experts_per_tok")
    config.check(top_k <= experts, f"moe_topk is {top_k:,} but num_experts only {experts:,}")
    return assemble(config, sizes, [(mixer, Experts(experts, top_k, width, width))] * sizes.layers)


def _attention(config: Config, sizes: Sizes) -> Attention:
    for field, known in (("use_cla", False), ("use_qk_norm", True)):
        value = config.data.get(field, known)
        config.check(value is known, f"{field} is {shown(value)}; only {shown(known)} is modelled")
    bias = config.flag("attention_bias", False)
    return read_attention(config, sizes, None, qkv_bias=bias, out_bias=bias, qk_norm=True)


def _alike(config: Config, field: str) -> int:
    """Read a whole number, or a list that repeats one."""
    value = config.data.get(field)
    if isinstance(value, list) and value and all(each == value[0] for each in value):
        config.data = {**config.data, field: value[0]}
    return config.whole(field)
