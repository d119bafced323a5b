"""Family gemma4_text: two kinds of attention, embeddings of each layer's own, experts beside a dense block."""

from __future__ import annotations

from dataclasses import replace

from ..inputs.model import Attention, Block, Dense, Experts, Model
from ..inputs.weights import block_tensors
from .common import (
    LAYER_TYPES,
    Sizes,
    assemble,
    paired,
    read_attention,
    read_experts,
    read_sizes,
    with_extras,
)
from .config import Config
from .gemma import HEAD_DIM, refuse_bidirectional
from .rope import rotary_elements_by_type

FULL, SLIDING = LAYER_TYPES


def gemma4_text(config: Config) -> Model:
    """Read model_type gemma4_text: dense (31B), experts beside a dense block (26B-A4B) and E2B/E4B.

    Sources: transformers 5.24, configuration_gemma4.py and modeling_gemma4.py; vLLM 0.27, models/gemma4.py.
    """
    refuse_bidirectional(config, "all")
    sizes = read_sizes(config)
    types = _layer_types(config, sizes)
    first_shared = _first_shared(config, sizes, types)
    kinds = _attention(config, sizes)
    mixers = [
        kinds[kind] if index < first_shared else _without_kv(kinds[kind]) for index, kind in enumerate(types)
    ]
    columns: list[list[Block]] = [[*mixers], _dense(config, sizes, first_shared)]
    norms = 4 * sizes.hidden + 1  # one scalar a layer multiplies its output
    if config.flag("enable_moe_block", False):
        columns.append([_experts(config, sizes)] * sizes.layers)
        norms += 3 * sizes.hidden
    width = _layer_input_width(config)
    if width:
        columns.append([Dense(width, module="per_layer_input")] * sizes.layers)
        norms += sizes.hidden
    rows = config.whole_or("vocab_size_per_layer_input", 262_144) if width else 0
    table = rows * width * sizes.layers
    model = assemble(
        config,
        sizes,
        paired(*columns),
        norm_parameters=norms,
        final_norm_parameters=sizes.hidden + width,
        position_parameters=table,
        idle_parameters=table,
        lookup_rows=rows,
        tied_default=True,
    )
    tables = {kind: kinds[kind].head_dim for kind in LAYER_TYPES}
    model = replace(model, rotary_elements=rotary_elements_by_type(config, tables))
    return _with_stored_copies(model, [kinds[kind] for kind in types[first_shared:]])


def _layer_types(config: Config, sizes: Sizes) -> list[str]:
    """Five layers with a window to one without; the last never has one."""
    types = config.words("layer_types", LAYER_TYPES, sizes.layers)
    if types is None:
        types = [SLIDING if (index + 1) % 6 else FULL for index in range(sizes.layers)]
    if types[-1] != FULL:
        config.notes.append("the last layer is read as full_attention, as transformers 5.24 does")
    return [*types[:-1], FULL]


def _first_shared(config: Config, sizes: Sizes, types: list[str]) -> int:
    """The first of the ``num_kv_shared_layers`` last layers, which read the cache of an earlier one."""
    shared = config.whole_or("num_kv_shared_layers", 0, least=0)
    first = max(0, sizes.layers - shared)
    config.check(
        set(types[:first]) == set(types),
        f"num_kv_shared_layers is {shared:,} of {sizes.layers:,} layers; expected a layer before them of each "
        "type that they have, whose cache they read",
        "num_kv_shared_layers",
        "layer_types",
        "num_hidden_layers",
    )
    return first


def _attention(config: Config, sizes: Sizes) -> dict[str, Attention]:
    """Both kinds: full attention has heads of its own width and, where values are keys, fewer KV heads.

    Values pass another norm than keys, so both are cached all the same (vLLM keeps two slots).
    """
    bias = config.flag("attention_bias", False)
    local = read_attention(
        config, sizes, 4, head_dim_default=HEAD_DIM, qkv_bias=bias, out_bias=bias, qk_norm=True
    )
    config.take_default("sliding_window", 512)
    head_dim = config.whole_or("global_head_dim", 512)
    same = config.flag("attention_k_eq_v", False)
    kv_heads = (config.optional("num_global_key_value_heads") if same else None) or local.kv_heads
    config.check(
        sizes.heads % kv_heads == 0,
        f"num_attention_heads is {sizes.heads:,} and num_global_key_value_heads {kv_heads:,}; "
        "expected a multiple: each KV head serves equally many query heads",
        "num_attention_heads",
        "num_key_value_heads",
        "num_global_key_value_heads",
    )
    full = replace(
        local, kv_heads=kv_heads, head_dim=head_dim, norm_parameters=2 * head_dim, value_from_key=same
    )
    return {FULL: full, SLIDING: replace(local, window=config.whole("sliding_window"))}


def _without_kv(mixer: Attention) -> Attention:
    """The attention of a layer that reads another's cache: no keys, no values, no norm of keys."""
    return replace(mixer, own_kv=False, norm_parameters=mixer.head_dim)


def _dense(config: Config, sizes: Sizes, first_shared: int) -> list[Block]:
    """The dense block of each layer; with ``use_double_wide_mlp`` twice as wide where KV is shared."""
    width = config.whole("intermediate_size")
    shared_width = 2 * width if config.flag("use_double_wide_mlp", False) else width
    return [Dense(width if index < first_shared else shared_width) for index in range(sizes.layers)]


def _experts(config: Config, sizes: Sizes) -> Experts:
    """Experts; the router also scales its input (a weight each) and each expert's output."""
    experts = read_experts(config, "num_experts", "moe_intermediate_size")
    return replace(experts, router_parameters=sizes.hidden + experts.experts)


def _layer_input_width(config: Config) -> int:
    """Width of the embedding that every layer adds, 0 for none.

    A layer gates it: down-projection of its state, that of the token's embedding, and a projection back make
    a gated feed-forward block of this width. Engines keep two of its three matrices whole on every GPU.
    """
    field = "hidden_size_per_layer_input"
    if config.null(field) and not config.absent(field):
        return 0
    return config.whole_or(field, 256, least=0)


def _with_stored_copies(model: Model, shared: list[Attention]) -> Model:
    """Name the copies that repositories may store: the tied head, keys and values of layers that share KV."""
    owned = sum(_stored_kv(mixer, model.hidden) for mixer in shared)
    extras = [("stored_lm_head", model.vocab * model.hidden)] if model.tied_embeddings else []
    if owned:
        extras.append(("stored_shared_kv", owned))
    return with_extras(model, *extras)


def _stored_kv(mixer: Attention, hidden: int) -> int:
    def size(own: Attention) -> int:
        return sum(tensor.size for tensor in block_tensors(own, hidden))

    return size(mixer) - size(_without_kv(mixer))
