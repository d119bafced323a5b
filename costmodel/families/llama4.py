"""Family llama4_text: attention in chunks on most layers, experts with a shared one on all or every second."""

from __future__ import annotations

from dataclasses import replace

from ..inputs.model import Attention, Dense, FeedForward, Model
from .common import Sizes, assemble, paired, read_attention, read_experts, read_sizes
from .config import Config, shown

LAYER_TYPES = ("full_attention", "chunked_attention")


def llama4_text(config: Config) -> Model:
    """Read model_type llama4_text; its norms of queries and keys have no weights.

    Sources: transformers 5.24, configuration_llama4.py and modeling_llama4.py; vLLM 0.27, models/llama4.py.
    """
    sizes = read_sizes(config)
    bias = config.flag("attention_bias", False)
    mixer = read_attention(config, sizes, 8, head_dim_default=128, qkv_bias=bias, out_bias=bias)
    return assemble(config, sizes, paired(_mixers(config, sizes, mixer), _feed_forwards(config, sizes)))


def _mixers(config: Config, sizes: Sizes, mixer: Attention) -> list[Attention]:
    """Layers that rotate see the tokens of their own chunk only; those that do not (NoPE) see all."""
    config.take_default("attention_chunk_size", 8192)
    size = config.nullable("attention_chunk_size")
    own_chunk = mixer if size is None else replace(mixer, window=size, chunked=True)
    rotates = _rotating(config, sizes)
    types = config.words("layer_types", LAYER_TYPES, sizes.layers)
    config.check(
        types is None or size is None or [kind == "chunked_attention" for kind in types] == rotates,
        "layer_types and no_rope_layers name different layers; expected chunked_attention where a layer "
        "rotates and full_attention where it does not: transformers reads the one, vLLM the other",
        "layer_types",
        "no_rope_layers",
    )
    return [own_chunk if rotary else mixer for rotary in rotates]


def _rotating(config: Config, sizes: Sizes) -> list[bool]:
    """Which layers rotate: 1 in ``no_rope_layers``; empty or absent: all but every fourth."""
    stated = config.data.get("no_rope_layers")
    if stated:
        good = isinstance(stated, list) and len(stated) == sizes.layers and all(x in (0, 1) for x in stated)
        config.check(
            good,
            f"no_rope_layers is {shown(stated)}; expected {sizes.layers:,} times 0 (no rotation) or 1",
            "num_hidden_layers",
        )
        if good and isinstance(stated, list):
            return [bool(x) for x in stated]
    config.take_default("no_rope_layer_interval", 4)
    every = config.whole("no_rope_layer_interval")
    return [(index + 1) % every != 0 for index in range(sizes.layers)]


def _feed_forwards(config: Config, sizes: Sizes) -> list[FeedForward]:
    """Experts in every ``interleave_moe_layer_step``-th layer, or in ``moe_layers``; elsewhere a dense block."""
    width = config.whole("intermediate_size")
    experts = read_experts(config, "num_local_experts", "intermediate_size", shared_width=width)
    step = config.whole_or("interleave_moe_layer_step", 1)
    sparse = list(range(step - 1, sizes.layers, step))
    if not config.null("moe_layers"):
        listed = sorted(config.indices("moe_layers", sizes.layers))
        config.check(
            listed == sparse or config.absent("interleave_moe_layer_step"),
            f"moe_layers is {shown(listed)} but interleave_moe_layer_step {step:,}; expected the same layers: "
            "transformers reads the one, vLLM the other",
            "moe_layers",
            "interleave_moe_layer_step",
        )
        sparse = listed
    if len(set(sparse)) == sizes.layers:
        return [experts] * sizes.layers
    dense = Dense(config.whole_or("intermediate_size_mlp", 16_384))
    return [experts if index in sparse else dense for index in range(sizes.layers)]
