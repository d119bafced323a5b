"""What a model is to this package: layers made of a mixer (attention) and a feed-forward block.

Family adapters (:mod:`costmodel.families`) turn a ``config.json`` into a :class:`Model`; nothing above
them reads a configuration field.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True)
class Attention:
    """Multi-head (kv_heads == heads), grouped-query or multi-query (kv_heads == 1) attention."""

    heads: int
    kv_heads: int
    head_dim: int
    window: int | None = None
    qkv_bias: bool = False
    out_bias: bool = False
    qk_norm: bool = False


@dataclass(frozen=True)
class LatentAttention:
    """Multi-head latent attention (MLA): expanded in prefill, absorbed in decode."""

    heads: int
    q_rank: int | None
    kv_rank: int
    nope_dim: int
    rope_dim: int
    v_dim: int
    window: None = None


@dataclass(frozen=True)
class Dense:
    """Feed-forward block: gated (3 matrices: gate, up, down) or plain (2)."""

    width: int
    matrices: int = 3
    bias: bool = False


@dataclass(frozen=True)
class Experts:
    """Mixture of experts: ``top_k`` of ``experts`` gated blocks of ``width``, plus shared experts.

    ``shared_width`` is the summed width of the shared experts (0: none); ``shared_gate`` says that they
    are scaled by a gate of ``hidden`` weights; ``router_bias`` that the router stores one bias an expert.
    """

    experts: int
    top_k: int
    width: int
    shared_width: int = 0
    shared_gate: bool = False
    router_bias: bool = False


Mixer = Attention | LatentAttention
FeedForward = Dense | Experts


@dataclass(frozen=True)
class Layer:
    """``count`` equal layers: a mixer, a feed-forward block and the weights of their norms (per layer)."""

    count: int
    mixer: Mixer
    ffn: FeedForward
    norm_parameters: int


@dataclass(frozen=True)
class Model:
    """A decoder-only language model as the cost model sees it. Sizes are counts of elements.

    ``weight_dtype`` is None where the configuration states none; ``weight_block`` is the block of weights
    (rows, columns) that shares one scale in an fp8 checkpoint.
    """

    name: str
    model_type: str
    hidden: int
    vocab: int
    layers: tuple[Layer, ...]
    tied_embeddings: bool
    weight_dtype: str | None
    max_context: int | None
    source: str
    position_parameters: int = 0
    final_norm_parameters: int = 0
    weight_block: tuple[int, int] | None = None
    extras: tuple[tuple[str, int], ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def layer_count(self) -> int:
        """Number of layers of the main model."""
        return sum(layer.count for layer in self.layers)

    @cached_property
    def mixers(self) -> tuple[tuple[Mixer, int], ...]:
        """Each distinct mixer and the number of layers that have it."""
        counts: dict[Mixer, int] = {}
        for layer in self.layers:
            counts[layer.mixer] = counts.get(layer.mixer, 0) + layer.count
        return tuple(counts.items())
