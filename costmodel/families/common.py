"""What the families share: sizes, grouped-query attention, experts, windows, and grouping equal layers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ..inputs.model import Attention, Block, Dense, Experts, FeedForward, Layer, Model
from ..inputs.parameters import layer_parameters, stored_scales
from ..inputs.weights import head_tensors, layer_tensors
from .config import Config, shown
from .ignored import refuse_ignored
from .rope import rotary_dim, rotary_elements
from .stored import Stored, read_storage

MOST_LAYERS = 10_000
LAYER_TYPES = ("full_attention", "sliding_attention")


@dataclass(frozen=True)
class Sizes:
    """The fields that every family names alike."""

    hidden: int
    layers: int
    heads: int
    vocab: int


def read_sizes(config: Config, *, layers: int | None = None) -> Sizes:
    """Read hidden size, layers (unless known already), query heads and vocabulary."""
    return Sizes(
        config.whole("hidden_size"),
        config.whole("num_hidden_layers", most=MOST_LAYERS) if layers is None else layers,
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
    """Read grouped-query attention. ``kv_default``: KV heads of the class where absent (None: all heads).

    ``qk_norm``: a norm of one head's width on queries and one on keys.
    """
    kv_heads = _kv_heads(config, sizes, kv_default)
    head_dim = _head_dim(config, sizes, head_dim_default)
    config.check(
        sizes.heads % kv_heads == 0,
        f"num_attention_heads is {sizes.heads:,} and num_key_value_heads {kv_heads:,}; "
        "expected a multiple: each KV head serves equally many query heads",
        "num_attention_heads",
        "num_key_value_heads",
    )
    norms = 2 * head_dim if qk_norm else 0
    return Attention(
        sizes.heads, kv_heads, head_dim, qkv_bias=qkv_bias, out_bias=out_bias, norm_parameters=norms
    )


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


def first_dense(config: Config, sizes: Sizes, experts: Experts, dense: Dense) -> list[FeedForward]:
    """The DeepSeek rule: experts from ``first_k_dense_replace`` on, where ``moe_layer_freq`` divides i."""
    first = config.whole("first_k_dense_replace", least=0)
    config.check(
        first <= sizes.layers,
        f"first_k_dense_replace is {first:,} but num_hidden_layers only {sizes.layers:,}; expected no more",
        "first_k_dense_replace",
        "num_hidden_layers",
    )
    # Not a field of the configuration classes: engines read it, and take 1 where it is absent.
    every = 1 if config.absent("moe_layer_freq") else config.whole("moe_layer_freq")
    return [experts if i >= first and i % every == 0 else dense for i in range(sizes.layers)]


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


def spaced_windows(config: Config, sizes: Sizes, window: int | None, every: int) -> list[int | None]:
    """Window of each layer: full attention in every ``every``-th one unless ``layer_types`` decides."""
    if not config.null("layer_types"):
        return layer_windows(config, sizes, window, 0)
    return [window if (index + 1) % every else None for index in range(sizes.layers)]


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
    types = None if config.null("layer_types") else config.data["layer_types"]
    config.check(
        not isinstance(types, list) or all(kind == "full_attention" for kind in types),
        f"layer_types names layers other than full_attention; not modelled for {config.model_type}: {reason}",
    )


def windowed(mixer: Attention, windows: Iterable[int | None]) -> list[Attention]:
    """The same attention once a layer, each with its window."""
    return [replace(mixer, window=window) for window in windows]


def paired(*columns: Sequence[Block]) -> list[tuple[Block, ...]]:
    """Blocks of each layer, from a column of mixers, one of feed-forward blocks, ..."""
    return list(zip(*columns))


def assemble(
    config: Config,
    sizes: Sizes,
    blocks: Sequence[tuple[Block, ...]],
    *,
    norm_parameters: int | Sequence[int] | None = None,
    final_norm_parameters: int | None = None,
    position_parameters: int = 0,
    idle_parameters: int = 0,
    lookup_rows: int = 0,
    tied_default: bool = False,
    rotary_dims: Sequence[int] | None = None,
) -> Model:
    """Build the model of the blocks of each layer in order, equal layers grouped.

    Norm weights default to RMSNorm: 2 x hidden a layer and hidden at the end; ``norm_parameters`` may differ
    from layer to layer. ``rotary_dims``: width of each table of sines and cosines that an engine keeps
    (default: that of the first layer's heads). Raises InputError with every problem that reading found.
    """
    hidden = sizes.hidden
    tied = config.flag("tie_word_embeddings", tied_default)
    stored = read_storage(config)
    max_context = config.optional("max_position_embeddings")
    refuse_ignored(config)
    config.finish()
    norms = 2 * hidden if norm_parameters is None else norm_parameters
    each = [norms] * len(blocks) if isinstance(norms, int) else list(norms)
    layers, order = _grouped(blocks, each, stored, hidden)
    config.check(
        stored.rule is None or any(layer.formats for layer in layers),
        "quantization_config leaves every matrix of the layers unquantised; expected one that is not",
    )
    config.finish()
    if stored.weight_dtype == "fp32":
        config.notes.append("stored in float32: engines load 16 bits unless told otherwise")
    source = config.data.get("_source")
    flat = [block for own in blocks for block in own]
    dims = rotary_dim(config, flat) if rotary_dims is None else rotary_dims
    model = Model(
        name=config.name,
        model_type=config.model_type,
        hidden=hidden,
        vocab=sizes.vocab,
        layers=layers,
        tied_embeddings=tied,
        weight_dtype=stored.weight_dtype,
        max_context=max_context,
        source=source if isinstance(source, str) else config.where,
        order=order,
        wide_dtype=stored.wide_dtype,
        kv_dtype=stored.kv_dtype,
        head_format=None if tied else stored.head,
        position_parameters=position_parameters,
        idle_parameters=idle_parameters,
        lookup_rows=lookup_rows,
        final_norm_parameters=hidden if final_norm_parameters is None else final_norm_parameters,
        rotary_elements=rotary_elements(config, dims),
        notes=tuple(config.notes),
    )
    return with_scales(model, ())


def _grouped(
    blocks: Sequence[tuple[Block, ...]], norms: Sequence[int], stored: Stored, hidden: int
) -> tuple[tuple[Layer, ...], tuple[int, ...]]:
    """Distinct layers with their number, and which of them stands where."""
    seen: dict[Layer, int] = {}
    order = []
    for index, (own, norm) in enumerate(zip(blocks, norms)):
        layer = Layer(1, own, norm)
        formats = stored.formats(index, layer_tensors(layer, hidden))
        layer = replace(layer, formats=formats) if formats else layer
        order.append(seen.setdefault(layer, len(seen)))
    counted = tuple(replace(layer, count=order.count(place)) for layer, place in seen.items())
    return counted, tuple(order)


def with_extras(model: Model, *extras: tuple[str, int], loaded: tuple[str, ...] = ()) -> Model:
    """Name what a checkpoint may hold beside the main model; ``loaded``: what engines load with it."""
    names = {name for name, _ in extras}
    kept = tuple(extra for extra in model.extras if extra[0] not in names)
    return replace(model, extras=(*kept, *extras), loaded_extras=(*model.loaded_extras, *loaded))


def with_scales(model: Model, beside: tuple[Layer, ...]) -> Model:
    """Name the scales of a quantised checkpoint, those of the layers ``beside`` the main model included."""
    scales = stored_scales((*model.layers, *beside), model.hidden)
    kinds = {fmt.name for layer in model.layers for _, fmt in layer.formats}
    if model.head_format:
        scales += sum(model.head_format.scales(t) for t in head_tensors(model) if t.kind == "table")
        kinds.add(model.head_format.name)
    if not scales:
        return model
    return with_extras(model, (f"{'_'.join(sorted(kinds))}_scales", scales))


def layer_beside(config: Config, model: Model, blocks: tuple[Block, ...], *, count: int = 1) -> Layer:
    """Return ``count`` layers that follow the main model in its checkpoint, in the formats stored there."""
    layer = Layer(count, blocks, 2 * model.hidden)
    formats = read_storage(config).formats(model.layer_count, layer_tensors(layer, model.hidden))
    return replace(layer, formats=formats)


def with_mtp(model: Model, mtp: Layer, *, copies: bool) -> Model:
    """Name ``mtp.count`` MTP layers: a layer, a projection of 2 hidden to hidden and three norms more each.

    ``copies``: the checkpoint repeats embedding and head for them. Source: DeepSeek-V3's README_WEIGHTS.md.
    """
    hidden = model.hidden
    unique = mtp.count * (layer_parameters(mtp, hidden) + 2 * hidden**2 + 3 * hidden)
    extras = [("mtp", unique)]
    if copies:
        extras.append(("stored_mtp_embed_head", mtp.count * 2 * model.vocab * hidden))
    scales = tuple(extra for extra in model.extras if extra[0].endswith("_scales"))
    kept = replace(model, extras=tuple(extra for extra in model.extras if extra not in scales))
    return with_scales(with_extras(kept, *extras), (mtp,))
