"""Mixture of experts: which experts a step touches, and the work of the routed tokens."""

from __future__ import annotations

from typing import Any

from ..formula import formula
from ..ops import ceil, minimum


@formula(
    unit="1",
    symbol="E_d",
    source="derived: an expert is missed by every token with probability (1 - k/E)**tokens",
    assumes=("each token picks its k experts uniformly and independently of the other tokens",),
)
def distinct_experts(experts: Any, top_k: Any, tokens: Any) -> Any:
    """Expected number of distinct experts that ``tokens`` tokens use.

    DeepSeek-V2-Lite, 64 experts of which 6: two tokens meet in 36/64 experts on average,
    12 - 0.5625 = 11.4375:

    >>> distinct_experts(experts=64, top_k=6, tokens=2)
    11.4375
    """
    return experts * (1 - (1 - top_k / experts) ** tokens)


@formula(
    unit="1",
    symbol="E_{min}",
    source="derived: all tokens may choose the same experts",
    assumes=("there is at least one token",),
)
def fewest_distinct_experts(experts: Any, top_k: Any, tokens: Any) -> Any:
    """Fewest distinct experts that any number of tokens can use: what a lower bound may count.

    >>> fewest_distinct_experts(experts=64, top_k=6, tokens=512)
    6
    """
    return minimum(experts, top_k)


@formula(
    unit="flop",
    symbol="F",
    source="definition: every token passes through the matrices of its k experts",
)
def experts_flop(
    tokens: Any, top_k: Any, hidden: Any, width: Any, matrices: Any, flop_per_mac: Any = 2
) -> Any:
    """FLOPs of the routed experts of one layer.

    DeepSeek-V2-Lite, 512 tokens: 2 * 512 * 6 * 2048 * 1408 * 3:

    >>> experts_flop(tokens=512, top_k=6, hidden=2048, width=1408, matrices=3)
    53150220288
    """
    return flop_per_mac * tokens * top_k * hidden * width * matrices


@formula(
    unit="byte",
    symbol="Q_w",
    source="definition: the weights of each distinct expert once",
    assumes=("an expert's tokens are processed together",),
)
def expert_weight_bytes(
    distinct: Any, hidden: Any, width: Any, matrices: Any, weight_dtype_bytes: Any
) -> Any:
    """HBM bytes of the expert weights that one layer reads.

    DeepSeek-V2-Lite in bf16, all 64 experts of a layer: 64 * 2048 * 1408 * 3 * 2:

    >>> expert_weight_bytes(distinct=64, hidden=2048, width=1408, matrices=3, weight_dtype_bytes=2)
    1107296256
    """
    return distinct * hidden * width * matrices * weight_dtype_bytes


@formula(
    unit="byte",
    symbol="Q_a",
    source="derived: traffic of two grouped matrix products and the sum over a token's experts",
    assumes=(
        "gated experts: the first product writes gate and up, 2 f a row",
        "the activation between the products is an element-wise operator, counted apart",
    ),
)
def expert_activation_bytes(tokens: Any, top_k: Any, hidden: Any, width: Any, dtype_bytes: Any) -> Any:
    """HBM bytes of the activations of one layer's routed experts.

    A routed row (tokens * k of them) is read (h), leaves the first product (2 f), enters the second (f)
    and leaves it (h); the reduction reads the rows again (h) and writes one row (h) a token.

    DeepSeek-V2-Lite in bf16, 512 tokens: 3072 rows * 3 * (2048 + 1408) * 2 + 512 * 2048 * 2:

    >>> expert_activation_bytes(tokens=512, top_k=6, hidden=2048, width=1408, dtype_bytes=2)
    65798144
    """
    products = tokens * top_k * (hidden + 2 * width + width + hidden)
    reduction = tokens * (top_k + 1) * hidden
    return (products + reduction) * dtype_bytes


@formula(
    unit="1",
    symbol="r_{pad}",
    source="derived: rows split evenly over the distinct experts, each filled up to whole tiles",
    assumes=("even split: an uneven one pads at most one tile an expert more",),
)
def padded_rows(tokens: Any, top_k: Any, distinct: Any, tile_rows: Any) -> Any:
    """Rows that a grouped matrix product computes for ``tokens * top_k`` routed rows.

    100 tokens to 6 of 64 experts, tiles of 16: 9.4 rows an expert fill one tile, 64 * 16:

    >>> padded_rows(tokens=100, top_k=6, distinct=64, tile_rows=16)
    1024.0
    """
    return distinct * ceil(tokens * top_k / distinct / tile_rows) * tile_rows
