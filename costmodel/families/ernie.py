"""Families ernie4_5 and ernie4_5_moe."""

from __future__ import annotations

from collections.abc import Sequence

from ..inputs.model import Attention, Dense, FeedForward, Layer, Model
from ..inputs.parameters import layer_parameters
from .common import Sizes, assemble, paired, read_attention, read_experts, read_sizes, with_extras
from .config import Config
from .deepseek import read_mtp_layers


def ernie4_5(config: Config) -> Model:
    """Read model_type ernie4_5; ``use_bias`` holds for every matrix. Source: transformers 5.24."""
    sizes = read_sizes(config)
    bias = config.flag("use_bias", False)
    mixer = read_attention(config, sizes, 2, head_dim_default=128, qkv_bias=bias, out_bias=bias)
    ffn = Dense(config.whole("intermediate_size"), bias=bias)
    return assemble(config, sizes, [(mixer, ffn)] * sizes.layers, tied_default=True)


def ernie4_5_moe(config: Config) -> Model:
    """Read model_type ernie4_5_moe: experts, routed with a bias each, from one layer to another at an interval.

    Its MTP layer has a dense block. Source: transformers 5.24, modeling_ernie4_5_moe.py.
    """
    sizes = read_sizes(config)
    config.check(not config.flag("use_bias", False), "use_bias is true; not modelled for ernie4_5_moe")
    mixer = read_attention(config, sizes, 4)
    dense = Dense(config.whole("intermediate_size"))
    mtp_layers = read_mtp_layers(config)
    model = assemble(
        config, sizes, paired([mixer] * sizes.layers, _feed_forwards(config, sizes, dense)), tied_default=True
    )
    return _with_mtp(model, mixer, dense, mtp_layers) if mtp_layers else model


def _feed_forwards(config: Config, sizes: Sizes, dense: Dense) -> Sequence[FeedForward]:
    shared = config.whole("moe_num_shared_experts", least=0) * config.whole("moe_intermediate_size")
    experts = read_experts(
        config, "moe_num_experts", "moe_intermediate_size", shared_width=shared, router_bias=True
    )
    first = config.whole_or("moe_layer_start_index", 1, least=0)
    last = config.whole_or("moe_layer_end_index", -1, least=-1)
    every = config.whole_or("moe_layer_interval", 1)
    end = sizes.layers - 1 if last == -1 else last
    return [experts if first <= i <= end and (i + 1) % every == 0 else dense for i in range(sizes.layers)]


def _with_mtp(model: Model, mixer: Attention, dense: Dense, count: int) -> Model:
    """Name MTP layers: a layer, a projection of 2 hidden to hidden and two norms more each."""
    each = layer_parameters(Layer(1, (mixer, dense), 2 * model.hidden), model.hidden)
    return with_extras(model, ("mtp", count * (each + 2 * model.hidden**2 + 2 * model.hidden)))
