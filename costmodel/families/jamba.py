"""Family jamba: Mamba-1, attention without rotary embedding every eighth layer, experts every second."""

from __future__ import annotations

from dataclasses import replace

from ..inputs.model import Dense, FeedForward, Model, Recurrent
from .common import Sizes, assemble, paired, read_attention, read_experts, read_sizes
from .config import Config, shown
from .recurrent import mamba1, read_state_dtype, refuse_windows

MODULE = "feed_forward"


def jamba(config: Config) -> Model:
    """Read model_type jamba; some repositories of tied models store a copy of the head."""
    sizes = read_sizes(config)
    refuse_windows(config)
    full, linear = read_attention(config, sizes, 8), _read_mamba(config, sizes)
    attends = _placed(config, sizes, "attn_layer", 8, 4)
    mixers = [full if here else linear for here in attends]
    return assemble(config, sizes, paired(mixers, _feed_forwards(config, sizes)), rotary_dims=())


def _read_mamba(config: Config, sizes: Sizes) -> Recurrent:
    hidden = sizes.hidden
    automatic = config.absent("mamba_dt_rank") or config.data["mamba_dt_rank"] == "auto"
    rank = -(-hidden // 16) if automatic else config.whole("mamba_dt_rank")
    return mamba1(
        hidden,
        config.whole_or("mamba_expand", 2) * hidden,
        config.whole_or("mamba_d_state", 16),
        config.whole_or("mamba_d_conv", 4),
        rank,
        conv_bias=config.flag("mamba_conv_bias", True),
        proj_bias=config.flag("mamba_proj_bias", False),
        state_dtype=read_state_dtype(config, "mamba_ssm_dtype"),
    )


def _feed_forwards(config: Config, sizes: Sizes) -> list[FeedForward]:
    dense = Dense(config.whole("intermediate_size"), module=MODULE)
    if config.whole("num_experts") == 1:
        return [dense] * sizes.layers
    experts = replace(read_experts(config, "num_experts", "intermediate_size"), module=MODULE)
    return [experts if here else dense for here in _placed(config, sizes, "expert_layer", 2, 1)]


def _placed(config: Config, sizes: Sizes, name: str, period: int, offset: int) -> list[bool]:
    """Whether each layer is one of those that ``name``_period and ``name``_offset place."""
    every = config.whole_or(f"{name}_period", period)
    start = config.whole_or(f"{name}_offset", offset, least=0)
    config.check(
        start < every,
        f"{name}_offset is {shown(start)} but {name}_period {every:,}; expected a smaller offset",
        f"{name}_offset",
        f"{name}_period",
    )
    return [index % every == start for index in range(sizes.layers)]
