"""Families minimax and minimax_text_01: a hand count, which layers attend, the constant state, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.families import parse_config, read_model
from costmodel.inputs.model import Attention, Model
from costmodel.inputs.parameters import count_parameters
from costmodel.memory.kv import kv_bytes

TINY: dict[str, Any] = {
    "model_type": "minimax_text_01",
    "vocab_size": 32,
    "hidden_size": 8,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 3,
    "intermediate_size": 10,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "attn_type_list": [0, 0, 1],
    "tie_word_embeddings": False,
    "max_position_embeddings": 100,
    "torch_dtype": "bfloat16",
}


def tiny(**changes: object) -> Model:
    data = {key: value for key, value in {**TINY, **changes}.items() if value is not ...}
    return parse_config(data, "tiny.json", "tiny")


def test_parameters_by_hand() -> None:
    # lightning 246 (by hand in test_family_recurrent.py); full: q, o 6x8 each, k, v 3x8 each
    # experts 4x3x10x8 and their router 4x8, no bias; norms 2x8
    layers = 2 * 246 + 144 + 3 * (960 + 32 + 16)
    assert count_parameters(tiny()).total_parameters == layers + 2 * 32 * 8 + 8


def test_both_names_of_the_layers() -> None:
    words = ["linear_attention", "linear_attention", "full_attention"]
    assert tiny(model_type="minimax", attn_type_list=..., layer_types=words).layers == tiny().layers


def test_every_eighth_layer_attends() -> None:
    model = read_model("MiniMaxAI/MiniMax-Text-01")
    attends = [isinstance(model.layers[place].blocks[0], Attention) for place in model.order]
    assert [index for index, here in enumerate(attends) if here] == list(range(7, 80, 8))
    # 70 layers of 64 heads of 128 x 128 in two bytes; 10 layers of 2 x 8 x 128
    held = kv_bytes(model, 1000, "bf16")
    assert held.fixed_bytes_per_sequence == 70 * 64 * 128 * 128 * 2
    assert held.kv_bytes_per_token == 10 * 2 * 8 * 128 * 2


def test_width_of_the_rotary_table() -> None:
    assert tiny().rotary_elements == 100 * 3
    assert tiny(rotary_dim=2).rotary_elements == 100 * 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"attn_type_list": [0, 1]}, "expected a list of 3 times 0"),
        ({"attn_type_list": [0, 1, 2]}, "expected a list of 3 times 0"),
        ({"attn_type_list": ...}, "layer_types is missing"),
        ({"shared_intermediate_size": 5}, "shared experts are not modelled"),
        ({"sliding_window": 64}, "sliding_window is 64"),
    ],
)
def test_refusals(changes: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        tiny(**changes)
