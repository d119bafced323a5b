"""What a model is to this package: layers made of blocks that mix tokens (attention) or do not (feed-forward).

Family adapters (:mod:`costmodel.families`) turn a ``config.json`` into a :class:`Model`; nothing above
them reads a configuration field.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from .formats import WeightFormat
from .tensor import Tensor


@dataclass(frozen=True)
class Attention:
    """Multi-head (kv_heads == heads), grouped-query or multi-query (kv_heads == 1) attention.

    ``window``: a token sees that many tokens, itself included; with ``chunked``, those of its own chunk of
    ``window`` tokens only (Llama 4). ``v_dim`` None: values are as wide as keys. ``output_gate`` doubles
    the query projection; ``sinks`` adds a weight a head. A layer without ``own_kv`` reads the cache of an
    earlier one; ``value_from_key`` has no value projection of its own. ``norm_parameters`` are the weights
    of norms on queries, keys and values.
    """

    heads: int
    kv_heads: int
    head_dim: int
    window: int | None = None
    chunked: bool = False
    v_dim: int | None = None
    qkv_bias: bool = False
    out_bias: bool = False
    norm_parameters: int = 0
    output_gate: bool = False
    sinks: bool = False
    own_kv: bool = True
    value_from_key: bool = False

    @property
    def value_dim(self) -> int:
        """Width of a value head."""
        return self.head_dim if self.v_dim is None else self.v_dim


@dataclass(frozen=True)
class Indexer:
    """Sparse attention's (DSA) scorer of cached tokens: it caches one key of ``dim`` a token."""

    heads: int
    dim: int


@dataclass(frozen=True)
class LatentAttention:
    """Multi-head latent attention (MLA): expanded in prefill, absorbed in decode.

    ``top_k``: each token attends to at most that many cached ones (DSA), chosen by this layer's ``indexer``
    or, where it has none, by that of an earlier layer.
    """

    heads: int
    q_rank: int | None
    kv_rank: int
    nope_dim: int
    rope_dim: int
    v_dim: int
    indexer: Indexer | None = None
    top_k: int | None = None
    window: None = None


@dataclass(frozen=True)
class Recurrent:
    """A mixer with a state of constant size instead of a cache: linear attention or a state-space model.

    The state of a sequence is ``heads`` matrices of ``key_dim`` x ``value_dim`` in ``state_dtype`` (None:
    that of the model) and the last ``conv_kernel`` - 1 inputs of ``conv_channels`` channels.
    ``state_macs``: multiply-adds of a token with each element of the state (2: write and read; 3: delta rule).
    Several heads may share one of ``groups`` keys, which tensor parallelism must divide, too (1: repeated).
    With ``chunked_scan`` the tokens of a chunk are multiplied with each other; Mamba-1 has no such products.
    """

    kind: str
    heads: int
    key_dim: int
    value_dim: int
    conv_channels: int
    conv_kernel: int
    state_macs: int
    tensors: tuple[Tensor, ...]
    state_dtype: str | None = None
    groups: int = 1
    chunked_scan: bool = True
    window: None = None

    @property
    def state_elements(self) -> int:
        """Elements of the recurrent state of a sequence."""
        return self.heads * self.key_dim * self.value_dim

    @property
    def conv_elements(self) -> int:
        """Elements of the convolution's state of a sequence."""
        return self.conv_channels * max(0, self.conv_kernel - 1)


@dataclass(frozen=True)
class Dense:
    """Feed-forward block: gated (3 matrices: gate, up, down) or plain (2). ``module``: its name in a layer."""

    width: int
    matrices: int = 3
    bias: bool = False
    module: str = "mlp"


@dataclass(frozen=True)
class Experts:
    """Mixture of experts: ``top_k`` of ``experts`` blocks of ``width``, plus shared experts.

    ``shared_width`` is the summed width of the shared experts (0: none); ``shared_gate`` says that they
    are scaled by a gate of ``hidden`` weights; ``router_bias`` that the router stores one bias an expert,
    ``router_parameters`` what else it stores; ``bias`` that every matrix of an expert has one. With a
    ``latent`` width, routed experts work on a projection of the hidden state. ``module``: its name in a layer.
    """

    experts: int
    top_k: int
    width: int
    shared_width: int = 0
    shared_gate: bool = False
    router_bias: bool = False
    matrices: int = 3
    bias: bool = False
    latent: int | None = None
    router_parameters: int = 0
    module: str = "mlp"


Mixer = Attention | LatentAttention | Recurrent
FeedForward = Dense | Experts
Block = Mixer | FeedForward
MIXERS = (Attention, LatentAttention, Recurrent)


@dataclass(frozen=True)
class Layer:
    """``count`` equal layers: their blocks in order, and the weights of their norms (per layer).

    ``formats`` holds the modules that the checkpoint stores in a format of its own; all others are wide.
    """

    count: int
    blocks: tuple[Block, ...]
    norm_parameters: int
    formats: tuple[tuple[str, WeightFormat], ...] = ()

    @cached_property
    def mixers(self) -> tuple[Mixer, ...]:
        """The blocks that mix tokens."""
        return tuple(block for block in self.blocks if isinstance(block, MIXERS))

    @cached_property
    def feed_forwards(self) -> tuple[FeedForward, ...]:
        """The blocks that see one token at a time."""
        return tuple(block for block in self.blocks if not isinstance(block, MIXERS))

    @cached_property
    def format_of(self) -> dict[str, WeightFormat]:
        """Format of each module that is not wide."""
        return dict(self.formats)


@dataclass(frozen=True)
class Model:
    """A decoder-only language model as the cost model sees it. Sizes are counts of elements.

    ``layers`` are the distinct ones; ``order`` says which of them stands at each position of the model.
    ``weight_dtype`` names the format of the checkpoint and ``wide_dtype`` that of all it leaves unquantised;
    None where the configuration states none. ``kv_dtype`` is what an engine keeps its KV cache in unless told
    otherwise, where the checkpoint says so; ``head_format`` that of a quantised head of the model's own.
    ``extras`` may lie beside the model in a checkpoint; ``loaded_extras`` names those that an engine loads with
    it (vision towers). ``rotary_elements`` are the precomputed sines and cosines that an engine keeps.
    ``lookup_parameters`` are tables read by row (learned positions), ``idle_parameters`` those of them that
    count as no token's work; with ``lookup_rows`` they are one table of so many rows, which tensor parallelism
    splits like the embedding (without: whole everywhere).
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
    order: tuple[int, ...] = ()
    wide_dtype: str | None = None
    kv_dtype: str | None = None
    head_format: WeightFormat | None = None
    position_parameters: int = 0
    idle_parameters: int = 0
    lookup_rows: int = 0
    final_norm_parameters: int = 0
    rotary_elements: int = 0
    extras: tuple[tuple[str, int], ...] = ()
    loaded_extras: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())
    warnings: tuple[str, ...] = field(default=())

    @property
    def layer_count(self) -> int:
        """Number of layers of the main model."""
        return sum(layer.count for layer in self.layers)

    @cached_property
    def has_experts(self) -> bool:
        """Whether any layer shares its feed-forward out to experts."""
        return any(isinstance(block, Experts) for layer in self.layers for block in layer.blocks)

    @cached_property
    def mixers(self) -> tuple[tuple[Mixer, int], ...]:
        """Each distinct mixer and the number of layers that have it."""
        counts: dict[Mixer, int] = {}
        for layer in self.layers:
            for mixer in layer.mixers:
                counts[mixer] = counts.get(mixer, 0) + layer.count
        return tuple(counts.items())

    @cached_property
    def quantised(self) -> bool:
        """Whether the checkpoint stores some modules in a format of their own."""
        return any(layer.formats for layer in self.layers)
