"""How an instance spreads a model over its GPUs, and which degrees a model allows."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import InputError
from ..inputs.model import Attention, Dense, FeedForward, Layer, Mixer, Model, Recurrent
from ..inputs.tensor import Tensor
from ..inputs.weights import block_tensors, layer_tensors

MOST_TP = 1024
#: Parts of a fused projection, whose blocks may be cut: vLLM pull request 30836, for MiMo-V2-Flash at TP4.
CUT_ANYWHERE = ("self_attn.k_proj", "self_attn.v_proj")


@dataclass(frozen=True)
class Parallelism:
    """``tp`` x ``pp`` GPUs. ``ep`` spreads whole experts over that many GPUs of a stage; ``dp_attention``
    splits the ``tp`` GPUs into that many groups, each with its own sequences and a full copy of attention.
    """

    tp: int = 1
    pp: int = 1
    ep: int = 1
    dp_attention: int = 1

    def __post_init__(self) -> None:
        named = (
            ("--tp", self.tp),
            ("--pp", self.pp),
            ("--ep", self.ep),
            ("--dp-attention", self.dp_attention),
        )
        problems = [
            f"{name} must be a whole number of at least 1, not {value!r}"
            for name, value in named
            if not isinstance(value, int) or isinstance(value, bool) or value < 1
        ]
        if not problems:
            problems = [
                f"{name} {value} does not divide --tp {self.tp}: it splits the tensor-parallel GPUs"
                for name, value in named[2:]
                if self.tp % value
            ]
        if problems:
            raise InputError(problems)

    @property
    def gpus(self) -> int:
        """GPUs of one instance."""
        return self.tp * self.pp

    @property
    def attention_tp(self) -> int:
        """GPUs among which the heads of a layer are spread."""
        return self.tp // self.dp_attention

    def label(self) -> str:
        """Short name: TP8 PP2 EP8 DP8, degrees of 1 left out."""
        named = (("TP", self.tp), ("PP", self.pp), ("EP", self.ep), ("DP", self.dp_attention))
        return " ".join(f"{name}{degree}" for name, degree in named if degree > 1) or "TP1"


def check_tp(model: Model, tp: int, layout: Parallelism | None = None) -> None:
    """Check that ``tp`` GPUs (or those of a whole ``layout``) can share every layer.

    TP must divide the query heads and the widths of feed-forward blocks and experts, into whole blocks where
    a checkpoint has a scale a block; KV heads must divide TP or be divided by it. Raises InputError naming
    what is not divisible and the degrees that are allowed.
    """
    if not isinstance(tp, int) or isinstance(tp, bool) or tp < 1:
        raise InputError(f"TP is {tp!r}; expected a whole number of at least 1")
    spread = layout or Parallelism(tp=tp)
    if spread.ep > 1 and not model.has_experts:
        raise InputError(f"--ep {spread.ep}: {model.name} has no experts to share out")
    obstacles = _obstacles(model, spread)
    if obstacles:
        allowed = ", ".join(str(degree) for degree in allowed_tp(model))
        raise InputError(
            f"{spread.label()} does not divide {model.name}: {'; '.join(obstacles)}; "
            f"allowed TP: {allowed}{_or_experts(obstacles)}"
        )
    if layout and layout.pp > model.layer_count:
        raise InputError(f"PP{layout.pp} is more than the {model.layer_count} layers of {model.name}")


def _or_experts(obstacles: list[str]) -> str:
    return "; or share out whole experts with --ep" if any("expert" in text for text in obstacles) else ""


def allowed_tp(model: Model) -> tuple[int, ...]:
    """Return every TP degree up to 1,024 that the model allows."""
    heads = [mixer.heads for mixer, _ in model.mixers]
    most = min([MOST_TP, *heads])
    return tuple(degree for degree in range(1, most + 1) if not _obstacles(model, Parallelism(tp=degree)))


def divides(model: Model, layout: Parallelism) -> bool:
    """Return whether the GPUs of a layout can share every layer."""
    return layout.pp <= model.layer_count and not _obstacles(model, layout)


def _obstacles(model: Model, layout: Parallelism) -> list[str]:
    found: dict[str, None] = {}
    for layer in model.layers:
        for mixer in layer.mixers:
            for obstacle in _mixer_obstacles(mixer, layout.attention_tp):
                found[obstacle] = None
        for feed_forward in layer.feed_forwards:
            for what, width, degree in _widths(feed_forward, layout):
                if width % degree:
                    found[f"{what} of width {width:,}"] = None
    return list(found) or _cut_blocks(model, layout)


def _cut_blocks(model: Model, layout: Parallelism) -> list[str]:
    """Matrices that a split would cut inside a block of weights that shares a scale: engines refuse them.

    Source: vLLM issue 17569 (Qwen3-235B-A22B-FP8 at TP8: 192 rows a GPU, blocks of 128). Formats whose
    kernels round widths up are let through.
    """
    found: dict[str, None] = {}
    for layer in model.layers if layout.tp > 1 else ():
        for tensor, degree in spread_tensors(layer, layout, model.hidden) if layer.formats else ():
            stored = layer.format_of.get(tensor.module)
            if stored is None or stored.block is None or stored.width_multiple > 1:
                continue
            if tensor.module in CUT_ANYWHERE:
                continue
            local = tensor.on_gpu(degree, layout.ep)
            whole, held = (tensor.rows, local.rows) if tensor.axis == 0 else (tensor.cols, local.cols)
            side = stored.block[tensor.axis]
            if held != whole and side > 1 and held % side:
                name = tensor.module.rsplit(".", 1)[0]
                found[f"{name}: {held:,} a GPU in blocks of {side} that share a scale"] = None
    return list(found)


def spread_tensors(layer: Layer, layout: Parallelism, hidden: int) -> list[tuple[Tensor, int]]:
    """Tensors of a layer, each with the number of GPUs that split it; dense blocks: all of them."""
    mixing = {tensor for mixer in layer.mixers for tensor in block_tensors(mixer, hidden)}
    return [
        (tensor, layout.attention_tp if tensor in mixing else layout.tp)
        for tensor in layer_tensors(layer, hidden)
    ]


def _mixer_obstacles(mixer: Mixer, tp: int) -> list[str]:
    kind = f"{mixer.kind} heads" if isinstance(mixer, Recurrent) else "query heads"
    found = [f"{mixer.heads:,} {kind}"] if mixer.heads % tp else []
    if isinstance(mixer, Recurrent) and mixer.groups > 1 and mixer.groups % tp:
        found.append(f"{mixer.groups:,} {mixer.kind} groups of heads")
    if isinstance(mixer, Attention) and mixer.kv_heads % tp and tp % mixer.kv_heads:
        found.append(f"{mixer.kv_heads:,} KV heads (neither divides the other)")
    return found


def _widths(block: FeedForward, layout: Parallelism) -> tuple[tuple[str, int, int], ...]:
    """Widths that are split, each with the number of GPUs that split it."""
    if isinstance(block, Dense):
        return (("feed-forward block", block.width, layout.tp),)
    return (
        ("expert", block.width, max(1, layout.tp // layout.ep)),
        ("shared experts", block.shared_width, layout.tp),
    )
