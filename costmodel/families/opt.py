"""Family opt: learned positions, LayerNorms and biases everywhere, a plain two-matrix feed-forward block."""

from __future__ import annotations

from ..inputs.model import Attention, Dense, Model
from .common import assemble, read_sizes
from .config import Config

POSITION_OFFSET = 2


def opt(config: Config) -> Model:
    """Read model_type opt. The table of positions has two rows more than ``max_position_embeddings``."""
    sizes = read_sizes(config)
    hidden = sizes.hidden
    config.check(
        hidden % sizes.heads == 0,
        f"hidden_size is {hidden:,} and num_attention_heads {sizes.heads:,}; expected a multiple",
        "hidden_size",
        "num_attention_heads",
    )
    embedding = config.optional("word_embed_proj_dim")
    config.check(
        embedding in (None, hidden),
        f"word_embed_proj_dim is {embedding} but hidden_size {hidden}; embeddings narrower than the model "
        "(OPT-350m) are not modelled",
        "word_embed_proj_dim",
        "hidden_size",
    )
    bias = config.flag("enable_bias", True)
    norm = 2 * hidden if config.flag("layer_norm_elementwise_affine", True) else 0
    final = config.flag("do_layer_norm_before", True) and not config.data.get("_remove_final_layer_norm")
    mixer = Attention(sizes.heads, sizes.heads, hidden // sizes.heads, qkv_bias=bias, out_bias=bias)
    ffn = Dense(config.whole("ffn_dim"), matrices=2, bias=bias)
    positions = config.whole("max_position_embeddings")
    return assemble(
        config,
        sizes,
        [(mixer, ffn)] * sizes.layers,
        norm_parameters=2 * norm,
        final_norm_parameters=norm if final else 0,
        position_parameters=(positions + POSITION_OFFSET) * hidden,
        tied_default=True,
        rotary_dims=(),
    )
