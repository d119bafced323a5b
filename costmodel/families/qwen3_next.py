"""Family qwen3_next: gated delta nets, every fourth layer gated full attention, experts with a shared one."""

from __future__ import annotations

from dataclasses import replace

from ..inputs.model import Attention, Block, Dense, FeedForward, Model, Recurrent
from .common import (
    Sizes,
    assemble,
    layer_beside,
    paired,
    read_attention,
    read_sizes,
    sparse_or_dense,
    with_mtp,
)
from .config import Config
from .qwen2 import gated_experts
from .recurrent import FULL, every_nth_full, gated_delta_net, read_state_dtype, refuse_windows
from .rope import rotary_dim

INTERVAL = 4
PARTIAL_ROTARY = 0.25


def qwen3_next(config: Config) -> Model:
    """Read model_type qwen3_next. Its repositories store one MTP layer or (Coder-Next) none; no field tells."""
    sizes = read_sizes(config)
    mixers = read_mixers(config, sizes, kv_default=2, fused=True)
    experts = gated_experts(config)
    ffns = sparse_or_dense(config, sizes, experts, Dense(config.whole("intermediate_size")))
    return build(config, sizes, mixers, ffns, mtp_layers=1)


def build(
    config: Config,
    sizes: Sizes,
    mixers: list[Attention | Recurrent],
    ffns: list[FeedForward],
    *,
    mtp_layers: int,
) -> Model:
    """Assemble a hybrid of Qwen; its MTP layer has full attention and shares embedding and head.

    A quarter of each head rotates unless the configuration says otherwise (transformers 5.24).
    """
    blocks: list[tuple[Block, ...]] = paired(mixers, ffns)
    full = next((mixer for mixer in mixers if isinstance(mixer, Attention)), None)
    if full and config.null("partial_rotary_factor"):
        config.data = {**config.data, "partial_rotary_factor": PARTIAL_ROTARY}
    tables = rotary_dim(config, [full]) if full else ()
    model = assemble(config, sizes, blocks, rotary_dims=tables)
    if not mtp_layers or full is None:
        return model
    return with_mtp(model, layer_beside(config, model, (full, ffns[-1])), copies=False)


def read_mixers(config: Config, sizes: Sizes, *, kv_default: int, fused: bool) -> list[Attention | Recurrent]:
    """Read both mixers of a hybrid of Qwen and return that of each layer."""
    refuse_windows(config)
    bias = config.flag("attention_bias", False)
    full = read_attention(
        config, sizes, kv_default, head_dim_default=256, qkv_bias=bias, out_bias=bias, qk_norm=True
    )
    # Not a field of the configuration classes: engines read it, and gate where it is absent.
    gated = config.absent("attn_output_gate") or config.flag("attn_output_gate", True)
    full = replace(full, output_gate=gated)
    linear = _read_delta_net(config, sizes, fused=fused)
    kinds = every_nth_full(config, sizes.layers, INTERVAL)
    return [full if kind == FULL else linear for kind in kinds]


def _read_delta_net(config: Config, sizes: Sizes, *, fused: bool) -> Recurrent:
    key_heads = config.whole_or("linear_num_key_heads", 16)
    value_heads = config.whole_or("linear_num_value_heads", 32)
    config.check(
        value_heads % key_heads == 0,
        f"linear_num_value_heads is {value_heads:,} and linear_num_key_heads {key_heads:,}; expected a "
        "multiple: each key head serves equally many value heads",
        "linear_num_value_heads",
        "linear_num_key_heads",
    )
    dims = config.whole_or("linear_key_head_dim", 128), config.whole_or("linear_value_head_dim", 128)
    kernel = config.whole_or("linear_conv_kernel_dim", 4)
    state = read_state_dtype(config, "mamba_ssm_dtype")
    return gated_delta_net(
        sizes.hidden, (key_heads, value_heads), dims, kernel, fused=fused, state_dtype=state
    )
