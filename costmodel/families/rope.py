"""Tables of sines and cosines that engines precompute: one for each distinct rotary embedding of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..inputs.model import Attention, Block, LatentAttention
from .config import Config

LARGEST_TABLE = 2**40


def rotary_elements(config: Config, dims: Sequence[int]) -> int:
    """Return the elements of tables of these widths: a row a position, by the type of rope scaling.

    Zero where the configuration states no ``max_position_embeddings``. Source: vLLM 0.19,
    rotary_embedding/*.py: tables are made from the configuration, whatever length is served.
    """
    rows = _rows(config, _parameters(config))
    return min(round(rows * sum(dims)), LARGEST_TABLE)


def rotary_elements_by_type(config: Config, dims: Mapping[str, int]) -> int:
    """Return the elements of a table for each type of layer, of these widths.

    ``rope_parameters`` may hold an object a type; where it does not, it is (as ``rope_scaling``) that of full
    attention, and other types are unscaled. Source: vLLM 0.27, models/gemma3.py.
    """
    stated, found = _parameters(config), 0.0
    for kind, dim in dims.items():
        own = stated.get(kind, stated if kind == "full_attention" else {})
        found += dim * _rows(config, own if isinstance(own, dict) else {})
    return min(round(found), LARGEST_TABLE)


def rotary_dim(config: Config, blocks: Sequence[Block]) -> tuple[int, ...]:
    """Return the width of the one table of a model whose layers rotate alike."""
    partial = _parameters(config).get("partial_rotary_factor", config.data.get("partial_rotary_factor"))
    factor = partial if isinstance(partial, (int, float)) and 0 < partial <= 1 else 1.0
    for block in blocks:
        if isinstance(block, LatentAttention):
            return (block.rope_dim,)
        if isinstance(block, Attention):
            return (round(block.head_dim * factor),)
    return ()


def default_rotary_part(config: Config, part: float) -> None:
    """Take ``part``, the class default, as the part of each head that rotates, unless the file states one."""
    if "partial_rotary_factor" not in _parameters(config):
        config.take_default("partial_rotary_factor", part)


def _parameters(config: Config) -> Mapping[str, object]:
    for field in ("rope_parameters", "rope_scaling"):
        found = config.data.get(field)
        if isinstance(found, dict):
            return found
    return {}


def _rows(config: Config, scaling: Mapping[str, object]) -> float:
    positions = _number(config.data.get("max_position_embeddings"))
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    factor = _number(scaling.get("factor")) or 1.0
    original = _number(
        scaling.get("original_max_position_embeddings", config.data.get("original_max_position_embeddings"))
    )
    if kind in ("linear", "dynamic"):
        return positions * factor
    if kind in ("yarn", "deepseek_yarn"):
        return (original or positions) * factor
    if kind in ("longrope", "su"):
        return positions + original
    return positions * (4 if "mrope_section" in scaling else 1)


def _number(value: object) -> float:
    usable = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e9
    return float(value) if usable else 0.0  # type: ignore[arg-type]
