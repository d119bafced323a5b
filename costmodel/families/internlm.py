"""Families internlm2 and internlm3: as llama, with biases of their own."""

from __future__ import annotations

from ..inputs.model import Dense, Model
from .common import assemble, read_attention, read_sizes
from .config import Config


def internlm2(config: Config) -> Model:
    """Read model_type internlm2; ``bias`` adds one to the fused q, k, v and to o.

    Source: modeling_internlm2.py of the repository; vLLM 0.33, internlm2.py.
    """
    sizes = read_sizes(config)
    bias = _flag(config, "bias")
    mixer = read_attention(config, sizes, None, qkv_bias=bias, out_bias=bias)
    return assemble(config, sizes, [(mixer, Dense(config.whole("intermediate_size")))] * sizes.layers)


def internlm3(config: Config) -> Model:
    """Read model_type internlm3; ``bias`` is that of o and of the feed-forward block.

    Source: modeling_internlm3.py of the repository.
    """
    sizes = read_sizes(config)
    config.whole("num_key_value_heads")
    bias = _flag(config, "bias")
    mixer = read_attention(config, sizes, None, qkv_bias=_flag(config, "qkv_bias"), out_bias=bias)
    ffn = Dense(config.whole("intermediate_size"), bias=bias)
    return assemble(config, sizes, [(mixer, ffn)] * sizes.layers)


def _flag(config: Config, field: str) -> bool:
    """A flag that must be there: versions of the repositories' classes differ in its default."""
    config.check(not config.absent(field), f"{field} is missing; expected true or false")
    return False if config.absent(field) else config.flag(field, False)
