"""What the families share: sizes, grouped-query attention, experts, windows, and grouping equal layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ..inputs.model import Attention, Dense, Experts, FeedForward, Layer, Mixer, Model
from ..inputs.parameters import block_scales
from .config import Config, shown
from .stored import weight_format

MOST_LAYERS = 10_000
LAYER_TYPES = ("full_attention", "sliding_attention")


@dataclass(frozen=True)
class Sizes:
    """The fields that every family names alike."""

    hidden: int
    layers: int
    heads: int
    vocab: int


def read_sizes(config: Config) -> Sizes:
    """Read hidden size, layers, query heads and vocabulary."""
    return Sizes(
        config.whole("hidden_size"),
        config.whole("num_hidden_layers", most=MOST_LAYERS),
        config.whole("num_attention_heads"),
        config.whole("vocab_size"),
    )


def read_attention(
    config: Config,
    sizes: Sizes,
    kv_default: int | None,
    *,
    head_dim_default: int | None = None,
    qkv_bias: bool = False,
    out_bias: bool = False,
    qk_norm: bool = False,
) -> Attention:
    """Read grouped-query attention. ``kv_default``: KV heads of the class where absent (None: all heads)."""
    kv_heads = _kv_heads(config, sizes, kv_default)
    head_dim = _head_dim(config, sizes, head_dim_default)
    config.check(
        sizes.heads % kv_heads == 0,
        f"num_attention_heads is {sizes.heads:,} and num_key_value_heads {kv_heads:,}; "
        "expected a multiple: each KV head serves equally many query heads",
        "num_attention_heads",
        "num_key_value_heads",
    )
    return Attention(sizes.heads, kv_heads, head_dim, qkv_bias=qkv_bias, out_bias=out_bias, qk_norm=qk_norm)


def _kv_heads(config: Config, sizes: Sizes, default: int | None) -> int:
    field = "num_key_value_heads"
    if not config.null(field) or (default is not None and not config.absent(field)):
        return config.whole(field)
    if default is None:
        config.defaulted(field, f"{sizes.heads}, as many as query heads")
        return sizes.heads
    config.defaulted(field, default)
    return default


def _head_dim(config: Config, sizes: Sizes, default: int | None) -> int:
    if not config.null("head_dim") or (default is not None and not config.absent("head_dim")):
        return config.whole("head_dim")
    if default is not None:
        config.defaulted("head_dim", default)
        return default
    config.check(
        sizes.hidden % sizes.heads == 0,
        f"hidden_size is {sizes.hidden:,} and num_attention_heads {sizes.heads:,}; "
        "expected a multiple where head_dim is absent",
        "hidden_size",
        "num_attention_heads",
    )
    config.notes.append(f"head_dim absent: {sizes.hidden // sizes.heads} = hidden_size / num_attention_heads")
    return max(1, sizes.hidden // sizes.heads)


def read_experts(
    config: Config,
    count_field: str,
    width_field: str,
    *,
    shared_width: int = 0,
    shared_gate: bool = False,
    router_bias: bool = False,
) -> Experts:
    """Read a mixture of experts whose family calls their number and width by these fields."""
    experts = config.whole(count_field)
    top_k = config.whole("num_experts_per_tok")
    config.check(
        top_k <= experts,
        f"num_experts_per_tok is {top_k:,} but {count_field} only {experts:,}; expected at most all experts",
        "num_experts_per_tok",
        count_field,
    )
    width = config.whole(width_field)
    return Experts(experts, top_k, width, shared_width, shared_gate, router_bias)


def sparse_or_dense(config: Config, sizes: Sizes, experts: Experts, dense: Dense) -> list[FeedForward]:
    """The Qwen rule: layer i has experts unless ``mlp_only_layers`` names it or i + 1 misses the step."""
    dense_layers = set(config.indices("mlp_only_layers", sizes.layers))
    step = config.whole_or("decoder_sparse_step", 1)
    return [
        experts if index not in dense_layers and (index + 1) % step == 0 else dense
        for index in range(sizes.layers)
    ]


def layer_windows(config: Config, sizes: Sizes, window: int | None, full_below: int) -> list[int | None]:
    """Window of each layer: none below layer ``full_below``; ``layer_types``, where given, decides."""
    types = config.words("layer_types", LAYER_TYPES, sizes.layers)
    if types is None:
        return [window if index >= full_below else None for index in range(sizes.layers)]
    config.check(
        window is not None or "sliding_attention" not in types,
        "layer_types has sliding_attention layers but no sliding_window is in force",
        "sliding_window",
    )
    return [window if kind == "sliding_attention" else None for kind in types]


def switched_windows(config: Config, sizes: Sizes) -> list[int | None]:
    """Windows of qwen2 and qwen3: only with ``use_sliding_window``, from layer ``max_window_layers`` on.

    Source: transformers 5.24, configuration_qwen2.py and configuration_qwen3.py.
    """
    if not config.flag("use_sliding_window", False):
        return layer_windows(config, sizes, None, 0)
    window = config.nullable("sliding_window")
    needed = window is not None and config.null("layer_types")
    full_below = config.whole("max_window_layers", least=0) if needed else 0
    return layer_windows(config, sizes, window, full_below)


def refuse_window(config: Config, applies: bool, reason: str) -> None:
    """Refuse a window where transformers and engines disagree about which layers have it."""
    config.check(
        config.null("sliding_window") or not applies,
        f"sliding_window is {shown(config.data.get('sliding_window'))}; "
        f"not modelled for {config.model_type}: {reason}",
    )
    types = config.data.get("layer_types")
    config.check(
        not isinstance(types, list) or all(kind == "full_attention" for kind in types),
        f"layer_types names layers other than full_attention; not modelled for {config.model_type}: {reason}",
    )


def windowed(mixer: Attention, windows: Iterable[int | None]) -> list[Attention]:
    """The same attention once a layer, each with its window."""
    return [replace(mixer, window=window) for window in windows]


def assemble(
    config: Config,
    sizes: Sizes,
    mixers: Sequence[Mixer],
    ffns: Sequence[FeedForward],
    *,
    norm_parameters: int | None = None,
    final_norm_parameters: int | None = None,
    position_parameters: int = 0,
    tied_default: bool = False,
) -> Model:
    """Build the model of one mixer and one feed-forward block a layer, equal layers grouped.

    Norm weights default to RMSNorm: 2 x hidden a layer and hidden at the end. Raises InputError with every
    problem that reading found.
    """
    hidden = sizes.hidden
    tied = config.flag("tie_word_embeddings", tied_default)
    dtype, block = weight_format(config)
    max_context = config.optional("max_position_embeddings")
    config.finish()
    norms = 2 * hidden if norm_parameters is None else norm_parameters
    layers = tuple(
        Layer(count, mixer, ffn, norms) for (mixer, ffn), count in Counter(zip(mixers, ffns)).items()
    )
    extras: tuple[tuple[str, int], ...] = ()
    if block:
        scales = block_scales(layers, hidden, block)
        extras = (("fp8_scales", scales),)
        config.notes.append(f"fp8 weights: {scales:,} scales, one a block of {block[0]} x {block[1]} weights")
    source = config.data.get("_source")
    return Model(
        name=config.name,
        model_type=config.model_type,
        hidden=hidden,
        vocab=sizes.vocab,
        layers=layers,
        tied_embeddings=tied,
        weight_dtype=dtype,
        max_context=max_context,
        source=source if isinstance(source, str) else config.where,
        position_parameters=position_parameters,
        final_norm_parameters=hidden if final_norm_parameters is None else final_norm_parameters,
        weight_block=block,
        extras=extras,
        notes=tuple(config.notes),
    )
