"""Mixture of experts: which experts a step touches, and the work of the routed tokens."""

from __future__ import annotations

from typing import Any

from ..formula import formula
from ..ops import ceil, floor, log, maximum, minimum, sqrt
from .operators import FITTED


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
    symbol="r_E",
    source="derived: the most loaded of a few ranks lies sqrt(2 ln r) deviations above the mean",
    assumes=("experts of a rank are loaded independently", "a rank gets at least one row"),
)
def busiest_rows(tokens: Any, top_k: Any, experts: Any, ranks: Any, skew: Any) -> Any:
    """Routed rows of the busiest of ``ranks`` GPUs that have ``experts`` experts each.

    4,096 tokens to 8 experts, 8 ranks of 16, loads that vary by a half: sqrt(2 ln 8 / 16) is 0.51 deviations:

    >>> f"{busiest_rows(tokens=4096, top_k=8, experts=16, ranks=8, skew=0.5):.0f}"
    '5140'
    >>> busiest_rows(tokens=512, top_k=6, experts=64, ranks=1, skew=0.0)
    3072.0
    """
    busiest = 1 + skew * sqrt(2 * log(ranks) / experts)
    most = tokens * minimum(top_k, experts)
    return minimum(maximum(tokens * top_k / ranks * busiest, 1), most)


@formula(
    unit="1",
    symbol="E_d",
    source="derived: expert loads follow a gamma law of the given variation; without variation it is the uniform law",
    assumes=("half of the variation lies between experts that are used at all",),
)
def skewed_distinct_experts(tokens: Any, rows: Any, top_k: Any, experts: Any, ranks: Any, skew: Any) -> Any:
    """Expected number of distinct experts of a GPU that ``rows`` routed rows of ``tokens`` tokens use.

    Two tokens of DeepSeek-V2-Lite use 11.4375 where the choice is uniform (a gamma law of no variation is a hair
    below). 512 tokens hit each expert -512 ln(1 - 6/64) = 50.40 times; where loads vary as much as their mean,
    64 / (1 + 50.40 / 2) ** 2 = 0.093 are missed:

    >>> f"{skewed_distinct_experts(tokens=2, rows=12, top_k=6, experts=64, ranks=1, skew=0.0):.3f}"
    '11.437'
    >>> f"{skewed_distinct_experts(tokens=512, rows=3072, top_k=6, experts=64, ranks=1, skew=1.0):.3f}"
    '63.907'
    """
    variation = maximum(skew * skew / 2, 1e-6)
    hits = -tokens * log(1 - minimum(rows / (tokens * experts), 1 - 1e-6))
    found = experts * (1 - (1 + hits * variation) ** (-1 / variation))
    return maximum(minimum(found, rows), maximum(1, top_k / ranks))


@formula(
    unit="1",
    symbol="r_{pad}",
    source="derived: each expert's rows are filled up to whole tiles, half a tile on average; vLLM takes tiles of 16 "
    "rows up to as many tokens as experts",
)
def padded_rows(tokens: Any, rows: Any, distinct: Any, experts: Any, tile_rows: Any) -> Any:
    """Rows that a grouped matrix product computes for ``rows`` routed rows of ``distinct`` experts.

    3,072 rows of 64 experts in tiles of 64 (512 tokens) leave 31.5 empty each; 60 rows of 10 tokens take tiles of
    16, of which each expert needs one:

    >>> padded_rows(tokens=512, rows=3072, distinct=64, experts=64, tile_rows=64)
    5088.0
    >>> padded_rows(tokens=10, rows=60, distinct=40, experts=64, tile_rows=64)
    640.0
    """
    tile = 16 + (tile_rows - 16) * minimum(1, floor(tokens / (experts + 1)))
    return maximum(rows + distinct * (tile - 1) / 2, distinct * tile)


@formula(
    unit="1",
    symbol=r"\phi_f",
    source="measured: Triton kernels take half as long again where the width is no multiple of 16",
)
def misaligned(width: Any) -> Any:
    """Factor on the time of experts whose width on the GPU is no multiple of 16.

    >>> misaligned(width=1408), misaligned(width=232)
    (1.0, 1.5)
    """
    return 1 + (ceil(width / 16) - floor(width / 16)) / 2


@formula(
    unit="second",
    symbol="t",
    source=FITTED,
    assumes=(
        "the rows of all tokens are moved on every GPU",
        "arithmetic and weights overlap as sides of a triangle",
    ),
)
def experts_time(
    tokens: Any,
    top_k: Any,
    experts: Any,
    ranks: Any,
    hidden: Any,
    width: Any,
    matrices: Any,
    skew: Any,
    weight_dtype_bytes: Any,
    dtype_bytes: Any,
    peak_flop_per_s: Any,
    memory_bytes_per_s: Any,
    compute_share: Any,
    bandwidth_share: Any,
    latency: Any,
    tile_rows: Any,
    flop_per_mac: Any = 2,
) -> Any:
    """Time of the routed experts of one layer: two grouped products, the activation and the sum over experts.

    512 tokens of DeepSeek-V2-Lite: 5,088 padded rows, 88.03 GFLOP at half of 312 TFLOP/s, 564.3 us; 1.107 GB of
    weights at half of 2 TB/s, 1107.3 us; together 1242.8 us; 65.8 MB of activations, 65.8 us; and 30 us:

    >>> t = experts_time(tokens=512, top_k=6, experts=64, ranks=1, hidden=2048, width=1408, matrices=3, skew=0.0,
    ...     weight_dtype_bytes=2, dtype_bytes=2, peak_flop_per_s=312e12, memory_bytes_per_s=2e12, compute_share=0.5,
    ...     bandwidth_share=0.5, latency=30e-6, tile_rows=64)
    >>> f"{t * 1e6:.1f} us"
    '1338.6 us'
    """
    bandwidth = bandwidth_share * memory_bytes_per_s
    rows = busiest_rows(tokens, top_k, experts, ranks, skew)
    distinct = skewed_distinct_experts(tokens, rows, top_k, experts, ranks, skew)
    padded = padded_rows(tokens, rows, distinct, experts, tile_rows)
    slower = misaligned(width)
    wide = ceil(width / 64) * 64
    flop = experts_flop(padded, 1, hidden, wide, matrices, flop_per_mac) * slower
    arithmetic = flop / (compute_share * peak_flop_per_s)
    weights = expert_weight_bytes(distinct, hidden, width, matrices, weight_dtype_bytes) * slower / bandwidth
    moved = expert_activation_bytes(tokens, top_k, hidden, width, dtype_bytes)
    return sqrt(arithmetic**2 + weights**2) + moved / bandwidth + latency
