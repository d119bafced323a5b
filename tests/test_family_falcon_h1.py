"""Falcon-H1: attention and Mamba-2 side by side in every layer, against published totals."""

from __future__ import annotations

import math
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.families import parse_config
from costmodel.inputs.model import Model
from costmodel.inputs.parameters import count_parameters
from costmodel.memory.kv import kv_bytes

#: Sizes of Falcon-H1-0.5B.
SMALL: dict[str, Any] = {
    "model_type": "falcon_h1",
    "torch_dtype": "bfloat16",
    "hidden_size": 1024,
    "num_hidden_layers": 36,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "intermediate_size": 2048,
    "mamba_d_ssm": 1536,
    "mamba_d_state": 128,
    "mamba_n_heads": 24,
    "mamba_d_head": 64,
    "mamba_n_groups": 1,
    "mamba_d_conv": 4,
    "mamba_rms_norm": False,
    "vocab_size": 32784,
    "time_step_limit": [0.0, math.inf],
    "tie_word_embeddings": False,
}
#: Falcon-H1-7B, whose Mamba-2 has a norm.
LARGE = {
    **SMALL,
    "hidden_size": 3072,
    "num_hidden_layers": 44,
    "num_attention_heads": 12,
    "head_dim": 128,
    "intermediate_size": 12288,
    "mamba_d_ssm": 3072,
    "mamba_d_state": 256,
    "mamba_d_head": 128,
    "mamba_rms_norm": True,
    "vocab_size": 130049,
}


def parse(data: dict[str, Any], **changes: Any) -> Model:
    return parse_config({**data, **changes}, "config.json", "m")


@pytest.mark.parametrize(
    ("data", "published"),
    # tiiuae/Falcon-H1-0.5B-Instruct and -7B-Instruct: safetensors.total of the Hugging Face API (llmfit 1.1.17)
    [(SMALL, 521_411_104), (LARGE, 7_585_654_880)],
)
def test_published_totals(data: dict[str, Any], published: int) -> None:
    assert count_parameters(parse(data)).total_parameters == published


def test_a_layer_has_a_cache_and_a_state() -> None:
    found = kv_bytes(parse(LARGE), 100, "bf16")
    # 44 layers * 2 * 2 heads * 128 * 2 B; state 24*128*256 and convolution (3072 + 2*256) * 3, both bf16
    assert found.kv_bytes_per_token == 45_056
    assert found.fixed_bytes_per_sequence == 44 * (24 * 128 * 256 + 3_584 * 3) * 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"mamba_d_head": 32}, "mamba_n_heads is 24 and mamba_d_head 32, but the inner width 1,536"),
        ({"projectors_bias": True}, "projectors_bias is true; not modelled"),
        ({"time_step_limit": None, "rope_theta": math.inf}, "rope_theta is inf; expected a finite number"),
    ],
)
def test_refusals(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse(SMALL, **changes)
