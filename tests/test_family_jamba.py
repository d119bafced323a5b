"""Family jamba: a hand count, where attention and experts stand, tied models, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.families import parse_config, read_model
from costmodel.inputs.model import Attention, Experts, Model, Recurrent
from costmodel.inputs.parameters import count_parameters

TINY: dict[str, Any] = {
    "model_type": "jamba",
    "vocab_size": 32,
    "hidden_size": 8,
    "num_hidden_layers": 8,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "intermediate_size": 10,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "mamba_d_state": 3,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_dt_rank": 2,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
ATTENTION = 64 + 2 * 32 + 64
MAMBA = 712  # by hand in test_family_recurrent.py
DENSE = 3 * 10 * 8
ENDS = 2 * 32 * 8 + 8


def tiny(**changes: object) -> Model:
    return parse_config({**TINY, **changes}, "tiny.json", "tiny")


def test_parameters_by_hand() -> None:
    # one of 8 layers attends, every second has 4 experts and their router instead of the dense block
    layers = 7 * MAMBA + ATTENTION + 4 * DENSE + 4 * (4 * DENSE + 4 * 8) + 8 * 2 * 8
    assert count_parameters(tiny()).total_parameters == layers + ENDS
    # one expert is none: no router; "auto" rounds the rank 8/16 up to 1, which saves 16 + 16 + 1 a layer
    dense = 7 * (MAMBA - 33) + ATTENTION + 8 * DENSE + 8 * 2 * 8
    assert count_parameters(tiny(num_experts=1, mamba_dt_rank="auto")).total_parameters == dense + ENDS
    # biases of the projections: 2 x 16 and 8
    biased = count_parameters(tiny(mamba_proj_bias=True)).total_parameters
    assert biased == layers + ENDS + 7 * 40


def test_where_attention_and_experts_stand() -> None:
    model = read_model("ai21labs/AI21-Jamba-1.5-Mini")
    blocks = [model.layers[place].blocks for place in model.order]
    assert [i for i, own in enumerate(blocks) if isinstance(own[0], Attention)] == [4, 12, 20, 28]
    assert [i for i, own in enumerate(blocks) if isinstance(own[1], Experts)] == list(range(1, 32, 2))


def test_mamba_1_has_no_products_within_a_chunk() -> None:
    mixer = next(m for m, _ in tiny().mixers if isinstance(m, Recurrent))
    assert not mixer.chunked_scan
    assert mixer.state_macs == 2


def test_there_is_no_rotary_table() -> None:
    assert read_model("ai21labs/Jamba-v0.1").rotary_elements == 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"attn_layer_offset": 8}, "attn_layer_offset is 8 but attn_layer_period 8"),
        ({"expert_layer_offset": 2}, "expert_layer_offset is 2"),
        ({"mamba_dt_rank": "automatic"}, "mamba_dt_rank is"),
        ({"sliding_window": 1024}, "sliding_window is 1024"),
        ({"num_experts_per_tok": 5}, "expected at most all experts"),
    ],
)
def test_refusals(changes: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        tiny(**changes)
