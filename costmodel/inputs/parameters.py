"""Parameters: how many, how many a token uses, and how many bytes they take.

Counts are exact for a checkpoint that stores the model alone; what a repository stores beside it (MTP
layers, fp8 scales) is in ``Model.extras``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..dtypes import dtype_bytes
from ..errors import InputError
from .model import Attention, Dense, FeedForward, Layer, Mixer, Model

SCALE_BYTES = 4
UNQUANTISED_BYTES = 2


@dataclass(frozen=True)
class Matrix:
    """``count`` weight matrices of ``rows`` outputs and ``cols`` inputs."""

    rows: int
    cols: int
    count: int = 1

    @property
    def size(self) -> int:
        """Weights of all of them."""
        return self.rows * self.cols * self.count

    def scales(self, block: tuple[int, int]) -> int:
        """Scales of all of them when each block of weights, whole or not, has one."""
        return -(-self.rows // block[0]) * -(-self.cols // block[1]) * self.count


@dataclass(frozen=True)
class Parameters:
    """Parameter counts of a model.

    ``total_parameters`` is the main model; ``extras`` what a checkpoint may hold beside it, by name.
    ``active_parameters`` are all but the input embedding and the experts that one token does not use: top_k
    experts of each layer, learned positions and the head (once, tied or not); ``active_core`` leaves the
    head out, too. ``embedding_parameters`` are the lookups: input embedding and learned positions.
    ``weight_bytes`` is None, with the reason, where the configuration states no dtype.
    """

    total_parameters: int
    extras: dict[str, int]
    active_parameters: int
    active_core: int
    embedding_parameters: int
    head_parameters: int
    weight_bytes: int | None
    weight_bytes_reason: str | None = None


def mixer_matrices(mixer: Mixer, hidden: int) -> tuple[Matrix, ...]:
    """Weight matrices of a mixer, as DeepSeek and Llama checkpoints store them (q, k and v apart)."""
    if isinstance(mixer, Attention):
        query, key = mixer.heads * mixer.head_dim, mixer.kv_heads * mixer.head_dim
        return Matrix(query, hidden), Matrix(key, hidden, 2), Matrix(hidden, query)
    query = mixer.heads * (mixer.nope_dim + mixer.rope_dim)
    if mixer.q_rank is None:
        queries: tuple[Matrix, ...] = (Matrix(query, hidden),)
    else:
        queries = (Matrix(mixer.q_rank, hidden), Matrix(query, mixer.q_rank))
    return (
        *queries,
        Matrix(mixer.kv_rank + mixer.rope_dim, hidden),
        Matrix(mixer.heads * (mixer.nope_dim + mixer.v_dim), mixer.kv_rank),
        Matrix(hidden, mixer.heads * mixer.v_dim),
    )


def ffn_matrices(ffn: FeedForward, hidden: int, *, active: bool = False) -> tuple[Matrix, ...]:
    """Weight matrices of a feed-forward block, without its router; ``active``: those one token uses."""
    if isinstance(ffn, Dense):
        return Matrix(ffn.width, hidden, ffn.matrices - 1), Matrix(hidden, ffn.width)
    used = ffn.top_k if active else ffn.experts
    routed = Matrix(ffn.width, hidden, 2 * used), Matrix(hidden, ffn.width, used)
    if not ffn.shared_width:
        return routed
    return *routed, Matrix(ffn.shared_width, hidden, 2), Matrix(hidden, ffn.shared_width)


def mixer_parameters(mixer: Mixer, hidden: int) -> int:
    """Parameters of one layer's mixer: matrices, biases and its own norms."""
    size = sum(matrix.size for matrix in mixer_matrices(mixer, hidden))
    if isinstance(mixer, Attention):
        bias = (mixer.heads + 2 * mixer.kv_heads) * mixer.head_dim if mixer.qkv_bias else 0
        return size + bias + (hidden if mixer.out_bias else 0) + (2 * mixer.head_dim if mixer.qk_norm else 0)
    return size + (mixer.q_rank or 0) + mixer.kv_rank


def ffn_parameters(ffn: FeedForward, hidden: int, *, active: bool = False) -> int:
    """Parameters of one layer's feed-forward block; ``active``: those one token uses (all of the router)."""
    size = sum(matrix.size for matrix in ffn_matrices(ffn, hidden, active=active))
    if isinstance(ffn, Dense):
        return size + ((ffn.matrices - 1) * ffn.width + hidden if ffn.bias else 0)
    router = ffn.experts * hidden + (ffn.experts if ffn.router_bias else 0)
    return size + router + (hidden if ffn.shared_gate else 0)


def layer_parameters(layer: Layer, hidden: int, *, active: bool = False) -> int:
    """Parameters of one of the layers that ``layer`` stands for."""
    ffn = ffn_parameters(layer.ffn, hidden, active=active)
    return mixer_parameters(layer.mixer, hidden) + ffn + layer.norm_parameters


def block_scales(layers: Iterable[Layer], hidden: int, block: tuple[int, int]) -> int:
    """Scales of a block-quantised checkpoint: one for each block of each mixer and feed-forward matrix.

    DeepSeek-V3 with its MTP layer: 41,540,496, the published total less the weights.
    """
    return sum(
        layer.count * matrix.scales(block)
        for layer in layers
        for matrix in (*mixer_matrices(layer.mixer, hidden), *ffn_matrices(layer.ffn, hidden))
    )


def total_parameters(model: Model) -> int:
    """Parameters of the main model; tied embeddings count once."""
    layers = sum(layer.count * layer_parameters(layer, model.hidden) for layer in model.layers)
    tables = model.vocab * model.hidden * (1 if model.tied_embeddings else 2)
    return layers + tables + model.position_parameters + model.final_norm_parameters


def count_parameters(model: Model) -> Parameters:
    """Count the parameters of a model. Raises nothing: an unknown dtype leaves ``weight_bytes`` None."""
    active = sum(layer.count * layer_parameters(layer, model.hidden, active=True) for layer in model.layers)
    table = model.vocab * model.hidden
    core = active + model.position_parameters + model.final_norm_parameters
    return Parameters(
        total_parameters=total_parameters(model),
        extras=dict(model.extras),
        active_parameters=core + table,
        active_core=core,
        embedding_parameters=table + model.position_parameters,
        head_parameters=table,
        weight_bytes=weight_bytes(model) if model.weight_dtype else None,
        weight_bytes_reason=None if model.weight_dtype else _no_dtype(model),
    )


def weight_bytes(model: Model, dtype: str | None = None) -> int:
    """Bytes of the main model's weights in ``dtype`` (default: that of the checkpoint).

    With one-byte weights only the matrices of mixers, feed-forward blocks and experts are one byte wide;
    norms, biases, embeddings, head and router stay at two, and each block of an fp8 checkpoint adds a scale
    of 4 bytes. Source: DeepSeek-V3's README_WEIGHTS.md; the number of its scales is that of exactly these
    matrices. (Its router bias is stored in fp32: 30 kB more, left out.)

    Raises InputError for an unknown dtype, or where none is stated and none is passed.
    """
    chosen = dtype or model.weight_dtype
    if not chosen:
        raise InputError(_no_dtype(model))
    each = dtype_bytes(chosen)
    total = total_parameters(model)
    if each >= UNQUANTISED_BYTES:
        return total * each
    quantised = sum(
        layer.count * matrix.size
        for layer in model.layers
        for matrix in (*mixer_matrices(layer.mixer, model.hidden), *ffn_matrices(layer.ffn, model.hidden))
    )
    stored = model.weight_block if chosen == model.weight_dtype else None
    scales = block_scales(model.layers, model.hidden, stored) if stored else 0
    return quantised * each + (total - quantised) * UNQUANTISED_BYTES + scales * SCALE_BYTES


def _no_dtype(model: Model) -> str:
    return f"{model.name}: its configuration states no dtype; pass --dtype, such as --dtype bf16"
