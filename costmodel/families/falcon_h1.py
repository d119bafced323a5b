"""Family falcon_h1: attention and Mamba-2 side by side in every layer, then a feed-forward block."""

from __future__ import annotations

from ..inputs.model import Dense, Model, Recurrent
from .common import Sizes, assemble, read_attention, read_sizes
from .config import Config
from .recurrent import read_mamba2, refuse_windows


def falcon_h1(config: Config) -> Model:
    """Read model_type falcon_h1: both mixers share one norm. Source: transformers 5.24; vLLM 0.33, falcon_h1.py."""
    sizes = read_sizes(config)
    refuse_windows(config)
    config.knows("mamba_d_state")
    for field in ("attention_bias", "mlp_bias", "mamba_proj_bias", "projectors_bias"):
        config.check(not config.flag(field, False), f"{field} is true; not modelled for falcon_h1", field)
    config.check(config.null("attn_layer_indices"), "attn_layer_indices is given; not modelled for falcon_h1")
    mixer = read_attention(config, sizes, 8)
    blocks = (mixer, _mamba(config, sizes), Dense(config.whole("intermediate_size")))
    return assemble(config, sizes, [blocks] * sizes.layers)


def _mamba(config: Config, sizes: Sizes) -> Recurrent:
    config.take_default("mamba_d_ssm", 1024)
    stated = config.nullable("mamba_d_ssm")
    inner = config.whole_or("mamba_expand", 2) * sizes.hidden if stated is None else stated
    return read_mamba2(
        config,
        sizes.hidden,
        inner,
        ("the inner width", ("mamba_d_ssm",)),
        proj_bias=False,
        state_dtype=None,
        gated_norm=config.flag("mamba_rms_norm", False),
    )
