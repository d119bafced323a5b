"""Families internlm2 and internlm3: as llama, with fields of their own for biases."""

from __future__ import annotations

from ..inputs.model import Dense, Model
from .common import assemble, read_attention, read_sizes
from .config import Config


def internlm2(config: Config) -> Model:
    """Read model_type internlm2; files with biases are refused. Source: vLLM 0.33, internlm2.py, which has none."""
    sizes = read_sizes(config)
    config.check(not config.stated_flag("bias"), "bias is true; not modelled for internlm2", "bias")
    mixer = read_attention(config, sizes, None)
    return assemble(config, sizes, [(mixer, Dense(config.whole("intermediate_size")))] * sizes.layers)


def internlm3(config: Config) -> Model:
    """Read model_type internlm3: llama, where one switch holds for the biases of attention and of the block.

    The repository's files call it ``qkv_bias`` and ``bias``, transformers ``attention_bias`` and ``mlp_bias``.
    Source: transformers 5.24, configuration_internlm3.py (its model is that of llama).
    """
    sizes = read_sizes(config)
    bias = _either(config, "qkv_bias", "attention_bias")
    config.check(
        bias == _either(config, "bias", "mlp_bias"),
        "qkv_bias and bias differ; expected them equal: the class knows one switch for both",
        "qkv_bias",
        "bias",
        "attention_bias",
        "mlp_bias",
    )
    mixer = read_attention(config, sizes, 2, head_dim_default=128, qkv_bias=bias, out_bias=bias)
    ffn = Dense(config.whole("intermediate_size"), bias=bias)
    return assemble(config, sizes, [(mixer, ffn)] * sizes.layers)


def _either(config: Config, field: str, other: str) -> bool:
    """A flag under either name."""
    config.knows(other)
    return config.flag(other if config.absent(field) else field, False)
