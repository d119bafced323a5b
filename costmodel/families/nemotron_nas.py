"""Family nemotron-nas (Llama-Nemotron Super and Ultra): llama layers with their own attention and width, or none."""

from __future__ import annotations

from ..inputs.model import Attention, Block, Dense, Model
from .common import Sizes, assemble, read_sizes
from .config import Config, shown

FIELD = "block_configs"
WIDTH_MULTIPLE = 256
#: Parts of a block that are not modelled.
UNUSED = ("replace_with_linear", "sparsify", "window_length", "num_sink_tokens", "unshifted_sink")


def nemotron_nas(config: Config) -> Model:
    """Read model_type nemotron-nas; ``block_configs`` says what each layer has.

    A part that is ``no_op`` has no norm either. Source: vLLM 0.33, nemotron_nas.py.
    """
    sizes = read_sizes(config)
    bias = config.flag("attention_bias", False)
    mlp_bias = config.flag("mlp_bias", False)
    config.check(not bias and not mlp_bias, "biases of nemotron-nas are not modelled")
    entries = _entries(config, sizes)
    layers = [_blocks(entry, sizes) for entry in entries]
    config.problems += [problem for entry in entries for problem in entry.problems]
    norms = [len(blocks) * sizes.hidden for blocks in layers]
    return assemble(config, sizes, layers, norm_parameters=norms, rotary_dims=_rotary(layers))


def _entries(config: Config, sizes: Sizes) -> list[Config]:
    """The halves ``attention`` and ``ffn`` of every entry, as one configuration a layer."""
    stated = config.data.get(FIELD)
    good = isinstance(stated, list) and len(stated) == sizes.layers
    config.check(
        good, f"{FIELD} is {shown(stated)}; expected a list of {sizes.layers:,} objects, one a layer"
    )
    entries = []
    for index, entry in enumerate(stated if good and isinstance(stated, list) else []):
        name = f"{FIELD}[{index}]"
        halves = [entry.get(half) if isinstance(entry, dict) else None for half in ("attention", "ffn")]
        if all(isinstance(half, dict) for half in halves):
            entries.append(Config(entry, config.where, config.name, inside=name))
        else:
            config.check(False, f"{name} is {shown(entry)}; expected objects attention and ffn")
    return entries


def _blocks(entry: Config, sizes: Sizes) -> tuple[Block, ...]:
    attention, ffn = (_half(entry, half) for half in ("attention", "ffn"))
    blocks: list[Block] = []
    if not attention.flag("no_op", False):
        blocks.append(_attention(attention, sizes))
    if not ffn.flag("no_op", False):
        blocks.append(Dense(_width(ffn, sizes)))
    entry.problems += attention.problems + ffn.problems
    return tuple(blocks)


def _half(entry: Config, half: str) -> Config:
    fields = entry.data[half]
    assert isinstance(fields, dict)
    found = Config(fields, entry.where, entry.name, inside=f"{entry.inside}{half}")
    for field in UNUSED:
        found.check(
            not fields.get(field), f"{found.inside}{field} is {shown(fields.get(field))}; not modelled"
        )
    return found


def _attention(half: Config, sizes: Sizes) -> Attention:
    group = half.whole("n_heads_in_group")
    half.check(
        sizes.heads % group == 0 and sizes.hidden % sizes.heads == 0,
        f"{half.inside}n_heads_in_group is {group:,}; expected a divisor of num_attention_heads {sizes.heads:,}, "
        "and that one of hidden_size",
        "n_heads_in_group",
    )
    return Attention(sizes.heads, max(1, sizes.heads // group), max(1, sizes.hidden // sizes.heads))


def _width(half: Config, sizes: Sizes) -> int:
    """Width of a feed-forward block: two thirds of ``ffn_mult`` hidden sizes, up to a multiple of 256."""
    factor = half.data.get("ffn_mult")
    if factor is None:
        return half.whole("intermediate_size")
    good = isinstance(factor, (int, float)) and not isinstance(factor, bool) and 0 < factor <= 1000
    half.check(good, f"{half.inside}ffn_mult is {shown(factor)}; expected a number above 0", "ffn_mult")
    width = int(2 * factor * sizes.hidden / 3) if good and isinstance(factor, (int, float)) else 1
    return -(-max(1, width) // WIDTH_MULTIPLE) * WIDTH_MULTIPLE


def _rotary(layers: list[tuple[Block, ...]]) -> tuple[int, ...]:
    """One table of sines and cosines: the heads of all layers are as wide."""
    return tuple({block.head_dim for own in layers for block in own if isinstance(block, Attention)})
