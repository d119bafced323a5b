"""Family minimax_m2 (MiniMax-M2 to M2.7): norms across all query and all key heads, experts on every layer."""

from __future__ import annotations

from dataclasses import replace

from ..inputs.model import Model
from .common import assemble, read_attention, read_experts, read_sizes
from .config import Config, shown

#: Fields of the published files and the one value that transformers' class knows.
FIXED = {
    "use_qk_norm": True,
    "qk_norm_type": "per_layer",
    "use_routing_bias": True,
    "shared_intermediate_size": 0,
}


def minimax_m2(config: Config) -> Model:
    """Read model_type minimax_m2; ``intermediate_size`` is the width of one expert.

    Its files name ``num_mtp_modules``, but none is stored. Source: transformers 5.24, minimax_m2.
    """
    sizes = read_sizes(config)
    for field, known in FIXED.items():
        value = config.data.get(field, known)
        config.check(value == known, f"{field} is {shown(value)}; only {shown(known)} is modelled")
    mixer = read_attention(config, sizes, 8, head_dim_default=128)
    mixer = replace(mixer, norm_parameters=(mixer.heads + mixer.kv_heads) * mixer.head_dim)
    experts = read_experts(config, "num_local_experts", "intermediate_size", router_bias=True)
    rotary = config.optional("rotary_dim")
    blocks = [(mixer, experts)] * sizes.layers
    model = assemble(config, sizes, blocks, rotary_dims=(rotary,) if rotary else None)
    modules = config.data.get("num_mtp_modules")
    if not modules:
        return model
    note = f"num_mtp_modules is {shown(modules)}: not counted, published checkpoints store none"
    return replace(model, notes=(*model.notes, note))
