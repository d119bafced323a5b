"""A second count of parameters and KV bytes: closed formulas on the raw JSON, sharing no code with the package.

Sources of the formulas: the modelling code of transformers 5.24, one formula a family; class defaults: its
configuration classes, and only those; KV: 2 x KV heads x head size a layer, latent plus rotary part under
MLA, 132 bytes for an indexer's key. A family outside :data:`COUNTS` is not covered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Fields = dict[str, Any]

BF16 = 2
REQUIRED = object()


class Count(NamedTuple):
    """Parameters of the language model; KV bytes of a token in layers without a window, and in all layers."""

    parameters: int
    growing: int
    all_layers: int


class Body(NamedTuple):
    """All layers and norms (not embedding and head), a cache width (elements) and a window a layer."""

    parameters: int
    cached: list[float]
    windows: list[int | None]
    tied: bool = False


EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")

#: Other names of a field in published files.
NAMES: dict[str, tuple[str, ...]] = {
    "hidden_size": ("n_embed", "n_embd", "d_model"),
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers"),
    "num_attention_heads": ("n_head", "n_heads"),
    "num_key_value_heads": ("num_kv_heads", "n_head_kv", "multi_query_group_num", "num_attention_groups"),
    "head_dim": ("attention_head_dim",),
    "num_experts": EXPERTS,
    "num_local_experts": EXPERTS,
    "n_routed_experts": EXPERTS,
    "n_shared_experts": ("moe_num_shared_experts", "num_shared_experts"),
}

#: Wrapper -> family of its ``text_config`` where that names none.
WRAPPED = {
    "gemma3": "gemma3_text",
    "kimi_k25": "deepseek_v3",
    "kimi_vl": "deepseek_v3",
    "llama4": "llama4_text",
    "llava_next": "llama",
    "mistral3": "mistral",
    "qwen2_5_vl": "qwen2_5_vl_text",
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
}


def get(d: Fields, name: str, default: Any = REQUIRED) -> Any:
    """A field under any of its names; absent or null: the default, or KeyError where there is none."""
    for known in (name, *NAMES.get(name, ())):
        if d.get(known) is not None:
            return d[known]
    if default is REQUIRED:
        raise KeyError(name)
    return default


def language_fields(data: Fields) -> Fields:
    """Fields of the language model: those nested in a wrapper, with what the wrapper says for it."""
    wrapper = data.get("model_type")
    if wrapper not in WRAPPED:
        return data
    inner = data.get("text_config")
    if inner is None:
        return {**data, "model_type": WRAPPED[wrapper]}
    inner = {"model_type": WRAPPED[wrapper], **inner}
    if inner.get("tie_word_embeddings") is None and "tie_word_embeddings" in data:
        inner["tie_word_embeddings"] = data["tie_word_embeddings"]
    return inner


def count(data: Fields) -> Count | None:
    """Count a configuration; None: its family is not covered."""
    d = language_fields(data)
    family = COUNTS.get(d["model_type"])
    if family is None:
        return None
    body = family(d)
    vocab = get(d, "vocab_size", 262_208 if d["model_type"] == "gemma3_text" else REQUIRED)
    tables = 1 if d.get("tie_word_embeddings", body.tied) else 2
    cached = [int(BF16 * width) for width in body.cached]
    growing = sum(bytes_ for bytes_, window in zip(cached, body.windows) if window is None)
    return Count(body.parameters + tables * vocab * get(d, "hidden_size"), growing, sum(cached))


def heads_of(d: Fields, kv: int | None, head: int | None) -> tuple[int, int, int, int]:
    """Hidden size, query heads, KV heads, head size, with the class defaults of the family (None: derived)."""
    h, nh = get(d, "hidden_size"), get(d, "num_attention_heads")
    nkv = get(d, "num_key_value_heads", nh if kv is None else kv)
    return h, nh, nkv, get(d, "head_dim", h // nh if head is None else head)


def gqa(sizes: tuple[int, int, int, int], *, qkv: bool = False, out: bool = False) -> int:
    h, nh, nkv, hd = sizes
    return 2 * h * nh * hd + 2 * h * nkv * hd + qkv * (nh + 2 * nkv) * hd + out * h


def swiglu(d: Fields, width: str = "intermediate_size") -> int:
    return int(3 * get(d, "hidden_size") * get(d, width))


def moe(d: Fields, experts: str, width: str, *, router_bias: bool = False) -> int:
    """Router and routed experts, by the family's names of their number and width."""
    e = get(d, experts)
    return int(e * (get(d, "hidden_size") + router_bias) + e * swiglu(d, width))


def uniform(d: Fields, layer: int, sizes: tuple[int, int, int, int], *, norms: int = 2, **more: Any) -> Body:
    """Equal layers with RMSNorms: ``norms`` x h a layer and h at the end."""
    layers, h = get(d, "num_hidden_layers"), sizes[0]
    windows = more.pop("windows", None) or [None] * layers
    return Body(layers * (layer + norms * h) + h, [2 * sizes[2] * sizes[3]] * layers, windows, **more)


def typed(d: Fields, window: int | None, otherwise: list[int | None]) -> list[int | None]:
    types = d.get("layer_types")
    if types is None:
        return otherwise
    return [None if kind == "full_attention" else window for kind in types]


def switched(d: Fields) -> list[int | None]:
    """qwen2 and qwen3: windows only where switched on, from layer ``max_window_layers`` on."""
    layers = get(d, "num_hidden_layers")
    window = d["sliding_window"] if d.get("use_sliding_window", False) else None
    if window is None:
        return [None] * layers
    if d.get("layer_types") is None:
        return [window if i >= d["max_window_layers"] else None for i in range(layers)]
    return typed(d, window, [])


def llama(d: Fields) -> Body:
    sizes, bias = heads_of(d, None, None), d.get("attention_bias", False)
    mlp_bias = d.get("mlp_bias", False) * (2 * get(d, "intermediate_size") + sizes[0])
    return uniform(d, gqa(sizes, qkv=bias, out=bias) + swiglu(d) + mlp_bias, sizes)


def mistral(d: Fields) -> Body:
    sizes, window = heads_of(d, 8, None), d.get("sliding_window")
    windows = typed(d, window, [window] * get(d, "num_hidden_layers"))
    return uniform(d, gqa(sizes) + swiglu(d), sizes, windows=windows)


def mixtral(d: Fields) -> Body:
    sizes, window = heads_of(d, 8, None), d.get("sliding_window")
    windows = typed(d, window, [window] * get(d, "num_hidden_layers"))
    return uniform(d, gqa(sizes) + moe(d, "num_local_experts", "intermediate_size"), sizes, windows=windows)


def qwen2(d: Fields) -> Body:
    sizes = heads_of(d, 8 if d["model_type"] == "qwen2_5_vl_text" else 32, None)
    return uniform(d, gqa(sizes, qkv=True) + swiglu(d), sizes, windows=switched(d))


def sparse_layers(d: Fields) -> int:
    """Layers with experts by the rule of Qwen."""
    dense, step = d.get("mlp_only_layers") or [], d.get("decoder_sparse_step", 1)
    return sum(i not in dense and (i + 1) % step == 0 for i in range(get(d, "num_hidden_layers")))


def qwen_moe(d: Fields, sizes: tuple[int, int, int, int], attention: int, shared: int) -> Body:
    layers, sparse = get(d, "num_hidden_layers"), sparse_layers(d)
    experts = moe(d, "num_experts", "moe_intermediate_size") + shared
    body = uniform(d, attention, sizes)
    return body._replace(parameters=body.parameters + sparse * experts + (layers - sparse) * swiglu(d))


def qwen2_moe(d: Fields) -> Body:
    sizes = heads_of({**d, "num_key_value_heads": get(d, "num_key_value_heads")}, None, None)
    shared = swiglu(d, "shared_expert_intermediate_size") + sizes[0]
    return qwen_moe(d, sizes, gqa(sizes, qkv=d.get("qkv_bias", True)), shared)


def qwen3(d: Fields) -> Body:
    sizes, bias = heads_of(d, 32, 128), d.get("attention_bias", False)
    attention = gqa(sizes, qkv=bias, out=bias) + 2 * sizes[3]
    return uniform(d, attention + swiglu(d), sizes, windows=switched(d))


def qwen3_moe(d: Fields) -> Body:
    sizes = heads_of(d, 16 if d["model_type"] == "qwen3_vl_moe_text" else 4, None)
    bias = d.get("attention_bias", False)
    return qwen_moe(d, sizes, gqa(sizes, qkv=bias, out=bias) + 2 * sizes[3], 0)


def mla(d: Fields) -> int:
    h, nh, r = get(d, "hidden_size"), get(d, "num_attention_heads"), get(d, "kv_lora_rank")
    nope, rope, v = get(d, "qk_nope_head_dim"), get(d, "qk_rope_head_dim"), get(d, "v_head_dim")
    ql = d["q_lora_rank"]
    q = h * nh * (nope + rope) if ql is None else h * ql + ql + ql * nh * (nope + rope)
    return int(q + h * (r + rope) + r + r * nh * (nope + v) + nh * v * h)


def indexer(d: Fields) -> int:
    h, heads, dim = get(d, "hidden_size"), get(d, "index_n_heads"), get(d, "index_head_dim")
    ql = d["q_lora_rank"]
    return int((h if ql is None else ql) * heads * dim + h * dim + 2 * dim + h * heads)


def deepseek_mixture(d: Fields, *, router_bias: bool) -> int:
    routed = moe(d, "n_routed_experts", "moe_intermediate_size", router_bias=router_bias)
    return routed + get(d, "n_shared_experts") * swiglu(d, "moe_intermediate_size")


def deepseek(d: Fields) -> Body:
    h, layers, kind = get(d, "hidden_size"), get(d, "num_hidden_layers"), d["model_type"]
    first, every = get(d, "first_k_dense_replace"), d.get("moe_layer_freq", 1)
    sparse = sum(i >= first and i % every == 0 for i in range(layers))
    bias = kind != "deepseek_v2" or d.get("topk_method") == "noaux_tc"
    total = layers * (mla(d) + 2 * h) + h
    total += sparse * deepseek_mixture(d, router_bias=bias) + (layers - sparse) * swiglu(d)
    cached: float = get(d, "kv_lora_rank") + get(d, "qk_rope_head_dim")
    if kind == "deepseek_v32":
        total += layers * indexer(d)
        cached += get(d, "index_head_dim") * (1 + 4 / 128) / BF16
    return Body(total, [cached] * layers, [None] * layers)


def glm4_moe(d: Fields) -> Body:
    sizes, layers = heads_of(d, 8, None), get(d, "num_hidden_layers")
    attention = gqa(sizes, qkv=d.get("attention_bias", False)) + d.get("use_qk_norm", False) * 2 * sizes[3]
    sparse = layers - d.get("first_k_dense_replace", 1)
    body = uniform(d, attention, sizes)
    ffns = sparse * deepseek_mixture(d, router_bias=True) + (layers - sparse) * swiglu(d)
    return body._replace(parameters=body.parameters + ffns)


def glm_moe_dsa(d: Fields) -> Body:
    h, layers = get(d, "hidden_size"), get(d, "num_hidden_layers")
    sparse = layers - d.get("first_k_dense_replace", 3)
    if d.get("indexer_types") is not None:
        own = [kind == "full" for kind in d["indexer_types"]]
    else:
        every, offset = d.get("index_topk_freq", 1), d.get("index_skip_topk_offset", 2)
        own = [max(i - offset + 1, 0) % every == 0 for i in range(layers)]
    total = layers * (mla(d) + 2 * h) + h + sum(own) * indexer(d)
    total += sparse * deepseek_mixture(d, router_bias=True) + (layers - sparse) * swiglu(d)
    latent = get(d, "kv_lora_rank") + get(d, "qk_rope_head_dim")
    key = get(d, "index_head_dim") * (1 + 4 / 128) / BF16
    return Body(total, [latent + has * key for has in own], [None] * layers)


def gemma(d: Fields) -> Body:
    kind, layers = d["model_type"], get(d, "num_hidden_layers")
    if kind == "gemma3_text":
        d = {"num_attention_heads": 8, **d}
    sizes, bias = heads_of(d, 16 if kind == "gemma" else 4, 256), d.get("attention_bias", False)
    layer = gqa(sizes, qkv=bias, out=bias) + swiglu(d) + (kind == "gemma3_text") * 2 * sizes[3]
    if kind == "gemma":
        return uniform(d, layer, sizes, tied=True)
    every = 2 if kind == "gemma2" else d.get("sliding_window_pattern", 6)
    window = d.get("sliding_window", 4096)
    spaced = [None if (i + 1) % every == 0 else window for i in range(layers)]
    return uniform(d, layer, sizes, norms=4, tied=True, windows=typed(d, window, spaced))


def gpt_oss(d: Fields) -> Body:
    sizes, bias, layers = heads_of(d, 8, 64), d.get("attention_bias", True), get(d, "num_hidden_layers")
    h, e, width = sizes[0], get(d, "num_local_experts"), get(d, "intermediate_size")
    layer = gqa(sizes, qkv=bias, out=bias) + sizes[1] + h * e + e + e * (3 * h * width + 2 * width + h)
    window = d.get("sliding_window", 128)
    windows = typed(d, window, [None if i % 2 else window for i in range(layers)])
    return uniform(d, layer, sizes, windows=windows)


def llama4_text(d: Fields) -> Body:
    sizes, bias, layers = heads_of(d, 8, 128), d.get("attention_bias", False), get(d, "num_hidden_layers")
    every = d.get("no_rope_layer_interval", 4)
    rotates = d.get("no_rope_layers") or [(i + 1) % every != 0 for i in range(layers)]
    chunk = d.get("attention_chunk_size", 8192)
    windows = [chunk if own else None for own in rotates]
    step = d.get("interleave_moe_layer_step", 1)
    sparse = range(step - 1, layers, step)
    if d.get("moe_layers") is not None:
        sparse = d["moe_layers"]
    experts = moe(d, "num_local_experts", "intermediate_size") + swiglu(d)
    dense = 3 * sizes[0] * d.get("intermediate_size_mlp", 16_384)
    body = uniform(d, gqa(sizes, qkv=bias, out=bias), sizes, windows=windows)
    ffns = len(set(sparse)) * experts + (layers - len(set(sparse))) * dense
    return body._replace(parameters=body.parameters + ffns)


def phi3(d: Fields) -> Body:
    sizes, window = heads_of(d, None, None), d.get("sliding_window")
    if window is not None and window >= (get(d, "max_position_embeddings", None) or window + 1):
        window = None
    windows = [window] * get(d, "num_hidden_layers")
    return uniform(d, gqa(sizes) + swiglu(d), sizes, windows=windows)


def falcon(d: Fields) -> Body:
    h, nh, layers = get(d, "hidden_size"), get(d, "num_attention_heads"), get(d, "num_hidden_layers")
    new, bias = d.get("new_decoder_architecture", False), d.get("bias", False)
    old = 1 if d.get("multi_query", True) else nh
    sizes = (h, nh, get(d, "num_key_value_heads", nh) if new else old, h // nh)
    width = get(d, "ffn_hidden_size", 4 * h)
    ln = d.get("num_ln_in_parallel_attn")
    two = ln != 1 if new else ln == 2 or not d.get("parallel_attn", True)
    layer = gqa(sizes, qkv=bias, out=bias) + 2 * h * width + bias * (width + h) + (4 if two else 2) * h
    return Body(layers * layer + 2 * h, [2 * sizes[2] * sizes[3]] * layers, [None] * layers, tied=True)


def bloom(d: Fields) -> Body:
    h, layers = get(d, "hidden_size"), get(d, "num_hidden_layers")
    return Body(layers * (12 * h * h + 13 * h) + 4 * h, [2 * h] * layers, [None] * layers, tied=True)


def opt(d: Fields) -> Body:
    h, layers, f = get(d, "hidden_size"), get(d, "num_hidden_layers"), get(d, "ffn_dim")
    bias, affine = d.get("enable_bias", True), d.get("layer_norm_elementwise_affine", True)
    layer = 4 * h * h + 2 * h * f + bias * (5 * h + f) + affine * 4 * h
    last = d.get("do_layer_norm_before", True) and not d.get("_remove_final_layer_norm", False)
    positions = (get_positions(d) + 2) * h
    total = layers * layer + positions + last * affine * 2 * h
    return Body(total, [2 * h] * layers, [None] * layers, tied=True)


def get_positions(d: Fields) -> int:
    names = ("max_position_embeddings", "n_positions", "seq_length", "max_seq_len", "model_max_length")
    return int(next(d[name] for name in names if d.get(name) is not None))


def jamba(d: Fields) -> Body:
    sizes, layers = heads_of(d, 8, None), get(d, "num_hidden_layers")
    h, di, n = sizes[0], d.get("mamba_expand", 2) * sizes[0], d.get("mamba_d_state", 16)
    k, rank = d.get("mamba_d_conv", 4), d.get("mamba_dt_rank", "auto")
    rank = -(-h // 16) if rank == "auto" else rank
    conv = di * k + d.get("mamba_conv_bias", True) * di
    bias = d.get("mamba_proj_bias", False) * (2 * di + h)
    mamba = (
        2 * h * di + conv + di * (rank + 2 * n) + rank * di + di + di * n + di + di * h + rank + 2 * n + bias
    )
    full = [i % d.get("attn_layer_period", 8) == d.get("attn_layer_offset", 4) for i in range(layers)]
    every, start = d.get("expert_layer_period", 2), d.get("expert_layer_offset", 1)
    sparse = sum(i % every == start for i in range(layers)) if get(d, "num_experts") > 1 else 0
    total = sum(full) * gqa(sizes) + (layers - sum(full)) * mamba + layers * 2 * h + h
    total += sparse * moe(d, "num_experts", "intermediate_size") + (layers - sparse) * swiglu(d)
    return Body(total, [here * 2 * sizes[2] * sizes[3] for here in full], [None] * layers)


def qwen3_next(d: Fields) -> Body:
    sizes, layers, bias = heads_of(d, 2, 256), get(d, "num_hidden_layers"), d.get("attention_bias", False)
    h, nh, _, hd = sizes
    gate = d.get("attn_output_gate", True) * (h * nh * hd + bias * nh * hd)
    attention = gqa(sizes, qkv=bias, out=bias) + gate + 2 * hd
    nv, dv = d.get("linear_num_value_heads", 32), d.get("linear_value_head_dim", 128)
    kd = d.get("linear_num_key_heads", 16) * d.get("linear_key_head_dim", 128)
    vd, kernel = nv * dv, d.get("linear_conv_kernel_dim", 4)
    linear = h * (2 * kd + 2 * vd) + 2 * h * nv + (2 * kd + vd) * kernel + 2 * nv + dv + vd * h
    every = d.get("full_attention_interval", 4)
    kinds = d.get("layer_types")
    full = [(i + 1) % every == 0 if kinds is None else kinds[i] == "full_attention" for i in range(layers)]
    sparse = sparse_layers(d)
    experts = (
        moe(d, "num_experts", "moe_intermediate_size") + swiglu(d, "shared_expert_intermediate_size") + h
    )
    total = sum(full) * attention + (layers - sum(full)) * linear + layers * 2 * h + h
    total += sparse * experts + (layers - sparse) * swiglu(d)
    return Body(total, [here * 2 * sizes[2] * hd for here in full], [None] * layers)


def nemotron_h(d: Fields) -> Body:
    h = get(d, "hidden_size")
    letters = d.get("hybrid_override_pattern") or d["layers_block_type"]
    kinds = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
    kinds |= {"linear_attention": "mamba", "full_attention": "attention"}
    layers = [kinds.get(kind, kind) for kind in letters]
    sizes = heads_of(d, 8, 128) if "attention" in layers else (h, 0, 0, 0)
    counts = {kind: layers.count(kind) for kind in ("mamba", "attention", "mlp", "moe")}
    each = {"mamba": nemotron_mamba, "mlp": relu2, "moe": nemotron_experts}
    total = sum(counts[kind] * of(d) for kind, of in each.items() if counts[kind])
    total += counts["attention"] * gqa(sizes) + len(layers) * h + h
    cached = [2 * sizes[2] * sizes[3] * (kind == "attention") for kind in layers]
    return Body(total, cached, [None] * len(layers))


def nemotron_mamba(d: Fields) -> int:
    h, heads = get(d, "hidden_size"), get(d, "mamba_num_heads")
    di, gn = heads * get(d, "mamba_head_dim"), d.get("n_groups", 8) * get(d, "ssm_state_size")
    own = 2 * di + 2 * gn + heads
    bias = d.get("use_bias", False) * (own + h)
    conv = (di + 2 * gn) * (d.get("conv_kernel", 4) + d.get("use_conv_bias", True))
    return int(h * own + conv + 3 * heads + di + di * h + bias)


def relu2(d: Fields) -> int:
    h, width = get(d, "hidden_size"), get(d, "intermediate_size")
    return int(2 * h * width + d.get("mlp_bias", False) * (width + h))


def nemotron_experts(d: Fields) -> int:
    """Two matrices an expert, in the latent width where there is one; the shared expert in the full one."""
    h, e, latent = get(d, "hidden_size"), get(d, "n_routed_experts"), d.get("moe_latent_size")
    width, shared = get(d, "moe_intermediate_size"), get(d, "moe_shared_expert_intermediate_size")
    inner, bias = h if latent is None else latent, d.get("mlp_bias", False)
    routed = e * (2 * inner * width + bias * (width + inner)) + h * e + e
    return int(routed + 2 * h * shared + bias * (shared + h) + (0 if latent is None else 2 * h * latent))


def cohere(d: Fields) -> Body:
    sizes, bias, layers = heads_of(d, None, None), d.get("attention_bias", False), get(d, "num_hidden_layers")
    layer = gqa(sizes, qkv=bias, out=bias) + swiglu(d)
    if d["model_type"] == "cohere":
        layer += d.get("use_qk_norm", False) * (sizes[1] + sizes[2]) * sizes[3]
        return uniform(d, layer, sizes, norms=1, tied=True)
    window, every = d.get("sliding_window", 4096), d.get("sliding_window_pattern", 4)
    spaced = [None if (i + 1) % every == 0 else window for i in range(layers)]
    return uniform(d, layer, sizes, norms=1, tied=True, windows=typed(d, window, spaced))


def minimax_m2(d: Fields) -> Body:
    sizes = heads_of(d, 8, 128)
    attention = gqa(sizes) + (sizes[1] + sizes[2]) * sizes[3]
    return uniform(d, attention + moe(d, "num_local_experts", "intermediate_size", router_bias=True), sizes)


COUNTS: dict[str, Callable[[Fields], Body]] = {
    "bloom": bloom,
    "cohere": cohere,
    "cohere2": cohere,
    "deepseek_v2": deepseek,
    "deepseek_v3": deepseek,
    "deepseek_v32": deepseek,
    "falcon": falcon,
    "gemma": gemma,
    "gemma2": gemma,
    "gemma3_text": gemma,
    "glm4_moe": glm4_moe,
    "glm_moe_dsa": glm_moe_dsa,
    "gpt_oss": gpt_oss,
    "granite": llama,
    "jamba": jamba,
    "kimi_k2": deepseek,
    "llama": llama,
    "llama4_text": llama4_text,
    "minimax_m2": minimax_m2,
    "mistral": mistral,
    "mixtral": mixtral,
    "nemotron_h": nemotron_h,
    "opt": opt,
    "phi3": phi3,
    "qwen2": qwen2,
    "qwen2_5_vl_text": qwen2,
    "qwen2_moe": qwen2_moe,
    "qwen3": qwen3,
    "qwen3_moe": qwen3_moe,
    "qwen3_next": qwen3_next,
    "qwen3_vl_moe_text": qwen3_moe,
    "qwen3_vl_text": qwen3,
}
