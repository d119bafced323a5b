"""Families granite, granitemoe, granitemoeshared and granitemoehybrid: hand counts, layers, states, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.families import parse_config, read_model
from costmodel.inputs.model import Attention, Dense, Model
from costmodel.inputs.parameters import count_parameters
from costmodel.memory.kv import kv_bytes

TINY: dict[str, Any] = {
    "vocab_size": 32,
    "hidden_size": 8,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "intermediate_size": 10,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "shared_intermediate_size": 5,
    "tie_word_embeddings": True,
    "max_position_embeddings": 100,
    "torch_dtype": "bfloat16",
}
MAMBA: dict[str, Any] = {
    "layer_types": ["mamba", "attention", "mamba", "mamba"],
    "mamba_n_heads": 4,
    "mamba_d_head": 4,
    "mamba_expand": 2,
    "mamba_d_state": 5,
    "mamba_n_groups": 1,
    "mamba_d_conv": 4,
}
ATTENTION = 64 + 2 * 32 + 64
EXPERTS = 4 * 3 * 10 * 8 + 4 * 8
SHARED = 3 * 5 * 8
ENDS = 32 * 8 + 8
NORMS = 2 * 8
#: in (2x16 + 2x5 + 4)x8, convolution 26x4 + 26, A_log, D, dt_bias 4 each, norm 16, out 8x16
MIXER = 368 + 130 + 12 + 16 + 128


def tiny(model_type: str, **changes: object) -> Model:
    hybrid = MAMBA if model_type == "granitemoehybrid" else {}
    dense = {"num_local_experts": ...} if model_type == "granite" else {}
    data = {**TINY, **hybrid, **dense, "model_type": model_type, **changes}
    return parse_config({key: value for key, value in data.items() if value is not ...}, "t.json", "t")


@pytest.mark.parametrize(
    ("model_type", "changes", "layers"),
    [
        ("granite", {}, 4 * (ATTENTION + 240 + NORMS)),
        # biases: q, k, v 16 and o 8; feed-forward 2x10 and 8
        ("granite", {"attention_bias": True, "mlp_bias": True}, 4 * (ATTENTION + 24 + 240 + 28 + NORMS)),
        ("granitemoe", {}, 4 * (ATTENTION + EXPERTS + NORMS)),
        ("granitemoeshared", {}, 4 * (ATTENTION + EXPERTS + SHARED + NORMS)),
        ("granitemoeshared", {"shared_intermediate_size": ...}, 4 * (ATTENTION + EXPERTS + NORMS)),
        ("granitemoehybrid", {}, 3 * MIXER + ATTENTION + 4 * (EXPERTS + SHARED + NORMS)),
        ("granitemoehybrid", {"num_local_experts": 0}, 3 * MIXER + ATTENTION + 4 * (SHARED + NORMS)),
        # biases: in 46, out 8
        (
            "granitemoehybrid",
            {"mamba_proj_bias": True, "mamba_d_head": "auto"},
            3 * (MIXER + 54) + ATTENTION + 4 * (EXPERTS + SHARED + NORMS),
        ),
    ],
)
def test_parameters_by_hand(model_type: str, changes: dict[str, object], layers: int) -> None:
    assert count_parameters(tiny(model_type, **changes)).total_parameters == layers + ENDS


def test_published_total_of_a_mixture() -> None:
    # granite-3.1-3b-a800m-instruct: 3,298,793,472 (llmfit 1.1.17, safetensors.total of the Hugging Face API)
    sizes = {"vocab_size": 49155, "hidden_size": 1536, "intermediate_size": 512, "num_hidden_layers": 32}
    heads = {"num_attention_heads": 24, "num_key_value_heads": 8, "num_local_experts": 40}
    model = tiny("granitemoe", **sizes, **heads, num_experts_per_tok=8)
    assert count_parameters(model).total_parameters == 3_298_793_472


def test_layers_of_granite_4_h() -> None:
    model = read_model("ibm-granite/granite-4.0-h-tiny")
    attends = [isinstance(model.layers[place].blocks[0], Attention) for place in model.order]
    assert [index for index, here in enumerate(attends) if here] == [5, 15, 25, 35]
    # 36 layers of 48 heads of 128 x 64, 3 inputs of 3,072 + 2 x 128 channels, all in two bytes
    held = kv_bytes(model, 1000, "bf16")
    assert held.fixed_bytes_per_sequence == 36 * (48 * 128 * 64 + 3 * 3328) * 2
    assert held.kv_bytes_per_token == 4 * 2 * 4 * 128 * 2


def test_dense_granite_4_has_no_experts() -> None:
    model = read_model("ibm-granite/granite-4.0-h-1b")
    assert {block for layer in model.layers for block in layer.feed_forwards} == {Dense(4096)}


def test_rotary_table_only_where_positions_rotate() -> None:
    assert tiny("granite").rotary_elements == 100 * 4
    assert tiny("granitemoehybrid").rotary_elements == 0
    assert tiny("granitemoehybrid", position_embedding_type="nope").rotary_elements == 0
    assert tiny("granitemoehybrid", position_embedding_type="rope").rotary_elements == 100 * 4


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"mamba_d_head": 5}, "expected their product"),
        ({"layer_types": ["mamba"] * 3}, "layer_types is"),
        ({"position_embedding_type": "alibi"}, "position_embedding_type is"),
        ({"shared_intermediate_size": ...}, "shared_intermediate_size is missing"),
    ],
)
def test_refusals(changes: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        tiny("granitemoehybrid", **changes)
