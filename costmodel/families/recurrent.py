"""Mixers with a state of constant size, one builder a kind, and what the hybrids that use them share.

Tensors and state: the modules of transformers 5.24 (modeling_qwen3_next.py, modeling_jamba.py,
modeling_nemotron_h.py, modeling_kimi_linear.py, modeling_minimax.py). What tensor parallelism splits and what an
engine fuses: vLLM 0.33, layers/mamba/ (lightning attention: vLLM 0.23). Convolutions, decays and norms are
vectors: no checkpoint quantises them.
"""

from __future__ import annotations

from ..inputs.model import Recurrent
from ..inputs.tensor import Tensor, vector
from .config import Config, shown
from .stored import STORED_DTYPES

LINEAR, FULL = "linear_attention", "full_attention"


def gated_delta_net(
    hidden: int,
    heads: tuple[int, int],
    dims: tuple[int, int],
    kernel: int,
    *,
    fused: bool,
    state_dtype: str | None,
) -> Recurrent:
    """Gated delta net of Qwen3-Next and Qwen3.5: ``heads`` and ``dims`` are those of keys and of values.

    ``fused``: the checkpoint holds one matrix for queries, keys, values and gate, and one for b and a.
    """
    (key_heads, value_heads), (key_dim, value_dim) = heads, dims
    keys, values = key_heads * key_dim, value_heads * value_dim
    name = "linear_attn"
    qkvz, ba = f"{name}.in_proj_qkvz", f"{name}.in_proj_ba"
    if fused:
        inputs = [
            Tensor(qkvz, 2 * keys + 2 * values, hidden, parts=key_heads),
            Tensor(ba, 2 * value_heads, hidden, parts=key_heads),
        ]
    else:
        inputs = [
            Tensor(f"{name}.in_proj_qkv", 2 * keys + values, hidden, parts=key_heads, packed=qkvz),
            Tensor(f"{name}.in_proj_z", values, hidden, parts=value_heads, packed=qkvz),
            Tensor(f"{name}.in_proj_b", value_heads, hidden, parts=value_heads, packed=ba),
            Tensor(f"{name}.in_proj_a", value_heads, hidden, parts=value_heads, packed=ba),
        ]
    channels = 2 * keys + values
    tensors = (
        *inputs,
        vector(f"{name}.conv1d", channels * kernel, key_heads),
        vector(f"{name}.dt_bias", value_heads, value_heads),
        vector(f"{name}.A_log", value_heads, value_heads),
        vector(f"{name}.norm", value_dim),
        Tensor(f"{name}.out_proj", hidden, values, parts=value_heads, axis=1),
    )
    return Recurrent(
        "gated delta net",
        value_heads,
        key_dim,
        value_dim,
        channels,
        kernel,
        3,
        tensors,
        state_dtype,
        key_heads,
    )


def mamba1(
    hidden: int,
    inner: int,
    state: int,
    kernel: int,
    rank: int,
    *,
    conv_bias: bool,
    proj_bias: bool,
    state_dtype: str | None,
) -> Recurrent:
    """Mamba-1 of Jamba: every one of ``inner`` channels is a head with a state of ``state`` elements.

    Jamba adds norms on the step size (of ``rank``), B and C.
    """
    name = "mamba"
    tensors = [
        Tensor(f"{name}.in_proj", 2 * inner, hidden, parts=inner),
        vector(f"{name}.conv1d", inner * (kernel + conv_bias), inner),
        Tensor(f"{name}.x_proj", rank + 2 * state, inner, parts=inner, axis=1),
        Tensor(f"{name}.dt_proj", inner, rank, parts=inner),
        vector(f"{name}.dt_proj.bias", inner, inner),
        vector(f"{name}.A_log", inner * state, inner),
        vector(f"{name}.D", inner, inner),
        vector(f"{name}.norms", rank + 2 * state),
        Tensor(f"{name}.out_proj", hidden, inner, parts=inner, axis=1),
    ]
    if proj_bias:
        tensors += [vector(f"{name}.in_proj.bias", 2 * inner, inner), vector(f"{name}.out_proj.bias", hidden)]
    return Recurrent(
        "Mamba-1", inner, state, 1, inner, kernel, 2, tuple(tensors), state_dtype, chunked_scan=False
    )


def read_mamba2(
    config: Config,
    hidden: int,
    inner: int,
    width: tuple[str, tuple[str, ...]],
    *,
    proj_bias: bool,
    state_dtype: str | None,
    gated_norm: bool = True,
) -> Recurrent:
    """Read the ``mamba_`` fields of Granite 4 and Falcon-H1; ``width``: what ``inner`` is called, and its fields."""
    heads, (called, fields) = config.whole("mamba_n_heads"), width
    automatic = config.absent("mamba_d_head") or config.data["mamba_d_head"] == "auto"
    head_dim = max(1, inner // heads) if automatic else config.whole("mamba_d_head")
    config.check(
        heads * head_dim == inner,
        f"mamba_n_heads is {heads:,} and mamba_d_head {head_dim:,}, but {called} {inner:,}; "
        "expected their product",
        "mamba_n_heads",
        "mamba_d_head",
        *fields,
    )
    return mamba2(
        hidden,
        heads,
        head_dim,
        config.whole_or("mamba_n_groups", 1),
        config.whole_or("mamba_d_state", 256),
        config.whole_or("mamba_d_conv", 4),
        conv_bias=config.flag("mamba_conv_bias", True),
        proj_bias=proj_bias,
        state_dtype=state_dtype,
        gated_norm=gated_norm,
    )


def mamba2(
    hidden: int,
    heads: int,
    head_dim: int,
    groups: int,
    state: int,
    kernel: int,
    *,
    conv_bias: bool,
    proj_bias: bool,
    state_dtype: str | None,
    gated_norm: bool = True,
    name: str = "mamba",
) -> Recurrent:
    """Mamba-2 of Nemotron-H, Granite 4 and Falcon-H1: ``groups`` of heads share B and C; the only group is repeated.

    ``gated_norm``: a norm as wide as the inner state before the output projection.
    """
    inner, shared = heads * head_dim, 2 * groups * state
    own = 2 * inner + heads
    if groups == 1:
        inputs = [
            Tensor(f"{name}.in_proj", own, hidden, parts=heads, packed=f"{name}.in_proj"),
            Tensor(f"{name}.in_proj", shared, hidden, packed=f"{name}.in_proj"),
        ]
    else:
        inputs = [Tensor(f"{name}.in_proj", own + shared, hidden, parts=groups)]
    tensors = [
        *inputs,
        vector(f"{name}.conv1d", inner * (kernel + conv_bias), heads),
        vector(f"{name}.conv1d", shared * (kernel + conv_bias), groups),
        vector(f"{name}.dt_bias", heads, heads),
        vector(f"{name}.A_log", heads, heads),
        vector(f"{name}.D", heads, heads),
        Tensor(f"{name}.out_proj", hidden, inner, parts=heads, axis=1),
    ]
    if gated_norm:
        tensors.append(vector(f"{name}.norm", inner, heads))
    if proj_bias:
        tensors += [
            vector(f"{name}.in_proj.bias", own, heads),
            vector(f"{name}.in_proj.bias", shared, groups),
            vector(f"{name}.out_proj.bias", hidden),
        ]
    return Recurrent(
        "Mamba-2", heads, state, head_dim, inner + shared, kernel, 2, tuple(tensors), state_dtype, groups
    )


def kimi_delta(hidden: int, heads: int, dim: int, kernel: int) -> Recurrent:
    """Kimi delta attention (KDA): a decay for every channel of a head, from a projection of one head's width.

    Its state is fp32 whatever the model's dtype. Source: vLLM 0.33, mamba_utils.py (kda_state_dtype).
    """
    name, wide = "self_attn", heads * dim
    packed = f"{name}.in_proj"
    tensors = (
        Tensor(f"{name}.q_proj", wide, hidden, parts=heads, packed=packed),
        Tensor(f"{name}.k_proj", wide, hidden, parts=heads, packed=packed),
        Tensor(f"{name}.v_proj", wide, hidden, parts=heads, packed=packed),
        Tensor(f"{name}.b_proj", heads, hidden, parts=heads, packed=packed),
        Tensor(f"{name}.f_a_proj", dim, hidden, packed=packed),
        Tensor(f"{name}.f_b_proj", wide, dim, parts=heads),
        Tensor(f"{name}.g_a_proj", dim, hidden),
        Tensor(f"{name}.g_b_proj", wide, dim, parts=heads),
        vector(f"{name}.conv1d", 3 * wide * kernel, heads),
        vector(f"{name}.dt_bias", wide, heads),
        vector(f"{name}.A_log", heads, heads),
        vector(f"{name}.o_norm", dim),
        Tensor(f"{name}.o_proj", hidden, wide, parts=heads, axis=1),
    )
    return Recurrent("KDA", heads, dim, dim, 3 * wide, kernel, 3, tensors, "fp32")


def lightning(hidden: int, heads: int, dim: int) -> Recurrent:
    """Lightning attention of MiniMax: linear attention with a fixed decay a head, a norm and an output gate."""
    name, wide = "self_attn", heads * dim
    tensors = (
        Tensor(f"{name}.qkv_proj", 3 * wide, hidden, parts=heads),
        Tensor(f"{name}.output_gate", wide, hidden, parts=heads),
        vector(f"{name}.norm", wide, heads),
        Tensor(f"{name}.out_proj", hidden, wide, parts=heads, axis=1),
    )
    return Recurrent("lightning attention", heads, dim, dim, 0, 1, 2, tensors)


def read_state_dtype(config: Config, field: str, default: str | None = None) -> str | None:
    """Return the dtype of the recurrent state; absent: ``default``, "auto": that of the model (None)."""
    if config.null(field):
        return default
    return STORED_DTYPES.get(config.text(field, (*STORED_DTYPES, "auto")) or "")


def every_nth_full(config: Config, layers: int, default: int) -> list[str]:
    """Kind of each layer: ``layer_types``, else full attention in every ``full_attention_interval``-th."""
    kinds = config.words("layer_types", (LINEAR, FULL), layers)
    if kinds is not None:
        return kinds
    every = config.whole_or("full_attention_interval", default)
    return [LINEAR if (index + 1) % every else FULL for index in range(layers)]


def refuse_windows(config: Config) -> None:
    """Refuse a window: the attention layers of the hybrids have none in any published configuration."""
    config.check(
        config.null("sliding_window") or config.data.get("use_sliding_window") is False,
        f"sliding_window is {shown(config.data.get('sliding_window'))}; not modelled for {config.model_type}",
        "sliding_window",
    )
    config.check(
        config.data.get("use_sliding_window") is not True,
        f"use_sliding_window is true; not modelled for {config.model_type}",
        "use_sliding_window",
    )
