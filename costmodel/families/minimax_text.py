"""Families minimax and minimax_text_01 (MiniMax-Text-01): lightning attention, full every eighth layer, experts."""

from __future__ import annotations

from ..inputs.model import Model
from .common import Sizes, assemble, paired, read_attention, read_experts, read_sizes
from .config import Config, shown
from .recurrent import FULL, LINEAR, lightning, refuse_windows


def minimax(config: Config) -> Model:
    """Read model_type minimax, whose layers ``layer_types`` names."""
    return _minimax(config)


def minimax_text_01(config: Config) -> Model:
    """Read model_type minimax_text_01, whose layers ``attn_type_list`` names: 0 lightning, 1 full attention."""
    return _minimax(config)


def _minimax(config: Config) -> Model:
    """The state of lightning attention has the model's dtype (vLLM 0.23, mamba_utils.py)."""
    sizes = read_sizes(config)
    refuse_windows(config)
    config.check(
        config.data.get("shared_intermediate_size", 0) in (None, 0, [0]),
        f"shared_intermediate_size is {shown(config.data.get('shared_intermediate_size'))}; shared experts "
        f"are not modelled for {config.model_type}",
    )
    full = read_attention(config, sizes, 8)
    linear = lightning(sizes.hidden, sizes.heads, full.head_dim)
    mixers = [full if kind == FULL else linear for kind in _kinds(config, sizes)]
    experts = read_experts(config, "num_local_experts", "intermediate_size")
    rotary = config.optional("rotary_dim")
    tables = (full.head_dim if rotary is None else rotary,)
    return assemble(config, sizes, paired(mixers, [experts] * sizes.layers), rotary_dims=tables)


def _kinds(config: Config, sizes: Sizes) -> list[str]:
    """Kind of each layer. The class alternates where neither field is there, as no published model does."""
    types = config.data.get("attn_type_list")
    if types is None:
        kinds = config.words("layer_types", (LINEAR, FULL), sizes.layers)
        config.check(
            kinds is not None,
            f"layer_types is missing; expected a list of {sizes.layers:,} words (a layer each)",
            "layer_types",
        )
        return kinds or [FULL] * sizes.layers
    good = isinstance(types, list) and len(types) == sizes.layers and all(kind in (0, 1) for kind in types)
    config.check(
        good,
        f"attn_type_list is {shown(types)}; expected a list of {sizes.layers:,} times 0 (lightning) or 1 (full)",
        "num_hidden_layers",
    )
    return [FULL if kind else LINEAR for kind in types] if isinstance(types, list) and good else [FULL]
