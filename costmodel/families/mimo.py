"""Families mimo (MiMo-7B) and mimo_v2_flash: MTP layers beside a dense, and beside a windowed, sparse model."""

from __future__ import annotations

from ..inputs.model import Attention, Dense, Model
from .common import (
    Sizes,
    assemble,
    layer_beside,
    paired,
    read_attention,
    read_experts,
    read_sizes,
    switched_windows,
    windowed,
    with_mtp,
)
from .config import Config, shown

#: The configuration names no number; the published total is that of three.
MTP_LAYERS = 3


def mimo(config: Config) -> Model:
    """Read model_type mimo: qwen2 with MTP layers. Source: vLLM 0.33, mimo.py and mimo_mtp.py."""
    sizes = read_sizes(config)
    mixer = read_attention(config, sizes, None, qkv_bias=config.flag("attention_bias", True))
    ffn = Dense(config.whole("intermediate_size"))
    mtp_layers = config.optional("num_nextn_predict_layers", least=0, most=100) or 0
    model = assemble(
        config, sizes, paired(windowed(mixer, switched_windows(config, sizes)), [ffn] * sizes.layers)
    )
    if not mtp_layers:
        return model
    return with_mtp(model, layer_beside(config, model, (mixer, ffn), count=mtp_layers), copies=False)


def mimo_v2_flash(config: Config) -> Model:
    """Read model_type mimo_v2_flash as its repository states it.

    ``hybrid_layer_pattern`` has 1 for a windowed layer, ``moe_layer_freq`` 1 for one with experts. A MTP
    layer has windowed attention and a dense block. Sources: vLLM 0.27, mimo_v2.py and mimo_v2_mtp.py.
    """
    sizes = read_sizes(config)
    config.knows("attention_chunk_size")
    full, narrow = _attention(config, "", "full"), _attention(config, "swa_", "swa")
    dense = Dense(config.whole("intermediate_size"))
    experts = read_experts(config, "n_routed_experts", "moe_intermediate_size", router_bias=True)
    config.check(
        config.data.get("n_shared_experts") in (None, 0),
        f"n_shared_experts is {shown(config.data.get('n_shared_experts'))}; shared experts are not modelled",
    )
    mixers = [narrow if bit else full for bit in _bits(config, "hybrid_layer_pattern", sizes)]
    ffns = [experts if bit else dense for bit in _bits(config, "moe_layer_freq", sizes)]
    tables = (_rotary(config, full.head_dim), _rotary(config, narrow.head_dim))
    model = assemble(config, sizes, paired(mixers, ffns), rotary_dims=tables)
    mtp = layer_beside(config, model, (narrow, dense), count=MTP_LAYERS)
    return with_mtp(model, mtp, copies=False)


def _attention(config: Config, prefix: str, kind: str) -> Attention:
    """Read the attention of full layers, or, with the prefix ``swa_``, of windowed ones.

    The window is vLLM's ``sliding_window_size`` tokens; transformers lets a token see itself besides.
    """
    heads = config.whole(f"{prefix}num_attention_heads")
    kv_heads = config.whole(f"{prefix}num_key_value_heads")
    config.check(
        heads % kv_heads == 0,
        f"{prefix}num_attention_heads is {heads:,} and {prefix}num_key_value_heads {kv_heads:,}; "
        "expected a multiple",
        f"{prefix}num_attention_heads",
        f"{prefix}num_key_value_heads",
    )
    return Attention(
        heads,
        kv_heads,
        config.whole(f"{prefix}head_dim"),
        window=_window(config) if prefix else None,
        v_dim=config.whole(f"{prefix}v_head_dim"),
        qkv_bias=config.flag("attention_bias", False),
        sinks=config.stated_flag(f"add_{kind}_attention_sink_bias"),
    )


def _window(config: Config) -> int:
    window = config.whole("sliding_window_size")
    other = config.optional("sliding_window")
    config.check(
        other in (None, window),
        f"sliding_window is {other} and sliding_window_size {window}; expected them equal",
        "sliding_window",
        "sliding_window_size",
    )
    return window


def _bits(config: Config, field: str, sizes: Sizes) -> list[int]:
    """Read a list of 0 and 1, one a layer."""
    value = config.data.get(field)
    good = isinstance(value, list) and len(value) == sizes.layers
    if isinstance(value, list) and good and all(type(bit) is int and bit in (0, 1) for bit in value):
        return value
    config.check(False, f"{field} is {shown(value)}; expected a list of {sizes.layers:,} zeros and ones")
    return [0] * sizes.layers


def _rotary(config: Config, head_dim: int) -> int:
    """Width of a table: vLLM rounds down. The part must be stated: vLLM assumes 1, transformers 0.334."""
    factor = config.data.get("partial_rotary_factor")
    usable = isinstance(factor, (int, float)) and 0 < factor <= 1
    config.check(usable, f"partial_rotary_factor is {shown(factor)}; expected a number from 0 to 1")
    return int(head_dim * factor) if usable and isinstance(factor, (int, float)) else head_dim
