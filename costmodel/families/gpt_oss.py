"""Family gpt_oss: experts with biases, a sink for each head, a window in every other layer."""

from __future__ import annotations

from dataclasses import replace

from ..inputs.model import Attention, Model
from .common import assemble, paired, read_attention, read_experts, read_sizes, spaced_windows, windowed
from .config import Config


def gpt_oss(config: Config) -> Model:
    """Read model_type gpt_oss; router and experts always have biases, attention by ``attention_bias``.

    Sources: transformers 5.24, configuration_gpt_oss.py and modeling_gpt_oss.py; for the table of sines and
    cosines in fp32, twice as long as one of 16 bits, vLLM 0.27, models/gpt_oss.py.
    """
    sizes = read_sizes(config)
    bias = config.flag("attention_bias", True)
    mixer = read_attention(config, sizes, 8, head_dim_default=64, qkv_bias=bias, out_bias=bias)
    config.take_default("sliding_window", 128)
    window = config.nullable("sliding_window")
    windows = spaced_windows(config, sizes, window, 2)
    alternate = [None if index % 2 else window for index in range(sizes.layers)]
    config.check(
        windows == alternate,
        "layer_types is other than sliding_attention and full_attention in turn; "
        "not modelled for gpt_oss: vLLM alternates them whatever it says",
        "layer_types",
        "sliding_window",
    )
    experts = read_experts(config, "num_local_experts", "intermediate_size", router_bias=True)
    mixers: list[Attention] = windowed(replace(mixer, sinks=True), windows)
    blocks = paired(mixers, [replace(experts, bias=True)] * sizes.layers)
    return assemble(config, sizes, blocks, rotary_dims=(mixer.head_dim, mixer.head_dim))
