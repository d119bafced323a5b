"""Families glm, chatglm, glm4, glm4_moe, glm4_moe_lite and glm_moe_dsa (GLM-4 to GLM-5.2).

Sources: transformers 5.24, configuration_*.py and modeling_*.py of these names; chatglm: vLLM 0.27, chatglm.py.
"""

from __future__ import annotations

from dataclasses import replace

from ..inputs.model import Attention, Block, Dense, FeedForward, Model
from .common import Sizes, assemble, layer_beside, paired, read_attention, read_sizes, with_mtp
from .config import Config
from .deepseek import latent_tables, read_latent, read_mixture, read_mtp_layers
from .rope import default_rotary_part

CHATGLM_SWITCHES = ("multi_query_attention", "add_qkv_bias", "add_bias_linear", "rmsnorm", "post_layer_norm")


def glm(config: Config) -> Model:
    """Read model_type glm (glm-4-9b as transformers stores it)."""
    return _dense(config, norms=2)


def glm4(config: Config) -> Model:
    """Read model_type glm4 (GLM-4-0414): a norm before and after each block."""
    return _dense(config, norms=4)


def _dense(config: Config, *, norms: int) -> Model:
    sizes = read_sizes(config)
    bias = config.flag("attention_bias", True)
    # The text class of GLM-4.1V has neither field: its model divides, and always has biases.
    vision = config.model_type == "glm4v_text"
    config.check(
        bias or not vision, "attention_bias is false; glm4v_text always has biases", "attention_bias"
    )
    head_dim = None if vision else 128
    mixer = read_attention(config, sizes, 2, head_dim_default=head_dim, qkv_bias=bias)
    ffn = Dense(config.whole("intermediate_size"))
    default_rotary_part(config, 0.5)
    return assemble(config, sizes, [(mixer, ffn)] * sizes.layers, norm_parameters=norms * sizes.hidden)


def chatglm(config: Config) -> Model:
    """Read model_type chatglm (ChatGLM2 to glm-4-9b): glm under older field names."""
    for field in CHATGLM_SWITCHES:
        config.check(not config.absent(field), f"{field} is missing; expected true or false")
    grouped, qkv_bias, bias, rms, last_norm = (config.flag(field, False) for field in CHATGLM_SWITCHES)
    sizes = Sizes(
        config.whole("hidden_size"),
        config.whole("num_hidden_layers", most=10_000),
        config.whole("num_attention_heads"),
        config.whole("padded_vocab_size"),
    )
    kv_heads = config.whole("num_key_value_heads") if grouped else sizes.heads
    head_dim = config.whole("kv_channels")
    config.check(sizes.heads % kv_heads == 0, f"{sizes.heads:,} query heads do not divide into {kv_heads:,}")
    mixer = Attention(sizes.heads, kv_heads, head_dim, qkv_bias=qkv_bias or bias, out_bias=bias)
    norm = sizes.hidden * (1 if rms else 2)
    return assemble(
        config,
        sizes,
        [(mixer, Dense(config.whole("ffn_hidden_size"), bias=bias))] * sizes.layers,
        norm_parameters=2 * norm,
        final_norm_parameters=norm if last_norm else 0,
        rotary_dims=(head_dim // 2,),
    )


def glm4_moe(config: Config) -> Model:
    """Read model_type glm4_moe (GLM-4.5 to 4.7): grouped-query attention and DeepSeek's experts."""
    sizes = read_sizes(config)
    mixer = read_attention(
        config,
        sizes,
        8,
        qkv_bias=config.flag("attention_bias", False),
        qk_norm=config.flag("use_qk_norm", False),
    )
    ffns = _feed_forwards(config, sizes, dense_default=1)
    mtp_layers = read_mtp_layers(config)
    blocks = paired([mixer] * sizes.layers, ffns)
    default_rotary_part(config, 0.5)
    return _with_mtp(config, assemble(config, sizes, blocks), blocks[-1], mtp_layers)


def glm4_moe_lite(config: Config) -> Model:
    """Read model_type glm4_moe_lite (GLM-4.7-Flash): latent attention and DeepSeek's experts."""
    sizes = read_sizes(config)
    mixer = read_latent(config, sizes)
    ffns = _feed_forwards(config, sizes, dense_default=1)
    mtp_layers = read_mtp_layers(config)
    blocks = paired([mixer] * sizes.layers, ffns)
    return _with_mtp(config, assemble(config, sizes, blocks), blocks[-1], mtp_layers)


def glm_moe_dsa(config: Config) -> Model:
    """Read model_type glm_moe_dsa (GLM-5 on): sparse latent attention; some layers share an indexer."""
    sizes = read_sizes(config)
    own = read_latent(config, sizes, sparse=True)
    shared = replace(own, indexer=None)
    mixers = [own if has else shared for has in _indexers(config, sizes.layers)]
    ffns = _feed_forwards(config, sizes, dense_default=3)
    mtp_layers = read_mtp_layers(config)
    model = assemble(config, sizes, paired(mixers, ffns), rotary_dims=latent_tables(config, own))
    return _with_mtp(config, model, (own, ffns[-1]), mtp_layers)


def _with_mtp(config: Config, model: Model, blocks: tuple[Block, ...], count: int) -> Model:
    """Name the MTP layers, and the copies of embedding and head that only some repositories store.

    GLM-4.5, 4.5-Air, 4.7 and 4.7-Flash store them, 4.6, 5, 5.1 and 5.2 do not; no field tells.
    """
    if not count:
        return model
    return with_mtp(model, layer_beside(config, model, blocks, count=count), copies=True)


def _feed_forwards(config: Config, sizes: Sizes, *, dense_default: int) -> list[FeedForward]:
    """Dense layers first, then experts; ``mlp_layer_types`` says so of each layer."""
    experts, dense = read_mixture(config), Dense(config.whole("intermediate_size"))
    for field, only in (("moe_layer_freq", 1), ("mlp_bias", False)):
        config.check(
            config.null(field) or config.data[field] == only,
            f"{field} is {config.data.get(field)}; only {only} is modelled for {config.model_type}",
        )
    types = config.words("mlp_layer_types", ("dense", "sparse"), sizes.layers)
    if types is None or not config.null("first_k_dense_replace"):
        first = config.whole_or("first_k_dense_replace", dense_default, least=0, most=sizes.layers)
        ruled = ["dense"] * first + ["sparse"] * (sizes.layers - first)
        config.check(
            types is None or types == ruled,
            f"mlp_layer_types contradicts first_k_dense_replace, which is {first}",
            "first_k_dense_replace",
            "mlp_layer_types",
        )
        types = ruled
    return [experts if kind == "sparse" else dense for kind in types]


def _indexers(config: Config, layers: int) -> list[bool]:
    """Which layers have an indexer of their own; the others use the tokens that an earlier one chose.

    transformers reads ``indexer_types`` first, vLLM (0.33, deepseek_v32/attention.py) never: they must agree
    with ``index_topk_pattern`` or, without one, with frequency and offset wherever those are stated.
    """
    kinds = ("full", "shared")
    types = config.words("indexer_types", kinds, layers)
    steps = ("index_topk_freq", "index_skip_topk_offset")
    if not config.null("index_topk_pattern"):
        ruled = _pattern(config, layers)
    elif types is None or not all(config.absent(field) for field in steps):
        every = config.whole_or("index_topk_freq", 1)
        offset = config.whole_or("index_skip_topk_offset", 2, least=0)
        ruled = [kinds[bool(max(i - offset + 1, 0) % every)] for i in range(layers)]
    else:
        ruled = types
    config.check(
        types is None or types == ruled,
        "indexer_types contradicts index_topk_pattern or index_topk_freq and index_skip_topk_offset",
        "indexer_types",
        "index_topk_pattern",
        *steps,
    )
    config.check(ruled[0] == "full", "the first layer has no indexer; expected one whose choice others share")
    return [kind == "full" for kind in ruled]


def _pattern(config: Config, layers: int) -> list[str]:
    """Read ``index_topk_pattern``: a letter (F, S) or a word a layer."""
    pattern = config.data["index_topk_pattern"]
    letters = {"F": "full", "S": "shared"}
    if not isinstance(pattern, str):
        return config.words("index_topk_pattern", ("full", "shared"), layers) or ["full"] * layers
    good = len(pattern) == layers and set(pattern) <= set(letters)
    config.check(good, f"index_topk_pattern is {pattern!r}; expected {layers} letters out of F and S")
    return [letters[letter] for letter in pattern] if good else ["full"] * layers
