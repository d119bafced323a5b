"""Family kimi_linear: a hand count, which layers attend, states and latents, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.families import parse_config, read_model
from costmodel.inputs.model import LatentAttention, Model
from costmodel.inputs.parameters import count_parameters
from costmodel.memory.kv import kv_bytes

KIMI = "moonshotai/Kimi-Linear-48B-A3B-Instruct"
LINEAR: dict[str, Any] = {
    "num_heads": 2,
    "head_dim": 3,
    "short_conv_kernel_size": 4,
    "full_attn_layers": [2],
    "kda_layers": [1, 3],
}
TINY: dict[str, Any] = {
    "model_type": "kimi_linear",
    "vocab_size": 32,
    "hidden_size": 8,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "q_lora_rank": None,
    "kv_lora_rank": 6,
    "qk_nope_head_dim": 4,
    "qk_rope_head_dim": 2,
    "v_head_dim": 5,
    "intermediate_size": 10,
    "num_experts": 4,
    "num_experts_per_token": 2,
    "num_shared_experts": 1,
    "moe_intermediate_size": 3,
    "first_k_dense_replace": 1,
    "model_max_length": 100,
    "tie_word_embeddings": False,
    "mla_use_nope": True,
    "linear_attn_config": LINEAR,
    "dtype": "bfloat16",
}


def tiny(linear: dict[str, object] | None = None, **changes: object) -> Model:
    nested = {"linear_attn_config": LINEAR | (linear or {})}
    return parse_config({**TINY, **nested, **changes}, "tiny.json", "tiny")


def test_parameters_by_hand() -> None:
    # latent attention: q 12x8, kv_a 8x8, norm 6, kv_b 18x6, o 8x10; KDA 375 by hand in test_family_recurrent
    latent = 96 + 64 + 6 + 108 + 80
    # dense 3x10x8; router 4x8 with 4 biases, experts and the shared one 5 x 3x3x8
    mixture = 32 + 4 + 360
    assert count_parameters(tiny()).total_parameters == (
        2 * 375 + latent + 240 + 2 * mixture + 3 * 2 * 8 + 2 * 32 * 8 + 8
    )
    assert tiny().max_context == 100
    assert tiny().rotary_elements == 0  # no position embedding


def test_which_layers_attend() -> None:
    model = read_model(KIMI)
    latent = [isinstance(model.layers[place].blocks[0], LatentAttention) for place in model.order]
    # counted from 1 in the configuration: 4, 8, 12, 16, 20, 24, 27
    assert [index for index, here in enumerate(latent) if here] == [3, 7, 11, 15, 19, 23, 26]


def test_latents_grow_and_states_do_not() -> None:
    held = kv_bytes(read_model(KIMI), 1000, "bf16")
    # 7 layers of 512 + 64 elements; 20 layers of 32 heads of 128 x 128 in fp32, 3 inputs of 3 x 4,096 channels
    assert held.kv_bytes_per_token == 7 * 576 * 2
    assert held.fixed_bytes_per_sequence == 20 * (32 * 128 * 128 * 4 + 3 * 12_288 * 2)


@pytest.mark.parametrize(
    ("linear", "said"),
    [
        ({"kda_layers": [1, 2, 3]}, "do not name each of the layers 1 to 3 once"),
        ({"kda_layers": [1]}, "do not name each of the layers 1 to 3 once"),
        ({"kda_layers": [1, 4]}, "linear_attn_config.kda_layers is"),
        ({"head_dim": 0}, "linear_attn_config.head_dim is 0"),
    ],
)
def test_refusals_of_the_nested_object(linear: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        tiny(linear)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"linear_attn_config": None}, "linear_attn_config is missing"),
        ({"num_nextn_predict_layers": 1}, "MTP layers of kimi_linear are not known"),
        ({"v_head_dim": None}, "v_head_dim is null"),
    ],
)
def test_refusals(changes: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        tiny(**changes)
