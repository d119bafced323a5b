"""MiMo-V2-Flash: full and windowed layers of different heads, narrow values, sinks, MTP layers."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.families import parse_config, read_model
from costmodel.inputs.model import Attention, Model
from costmodel.inputs.parameters import count_parameters
from costmodel.memory.kv import kv_bytes
from costmodel.memory.parallelism import allowed_tp

TINY: dict[str, Any] = {
    "model_type": "mimo_v2_flash",
    "torch_dtype": "bfloat16",
    "hidden_size": 8,
    "num_hidden_layers": 3,
    "vocab_size": 10,
    "hybrid_layer_pattern": [0, 1, 1],
    "moe_layer_freq": [0, 1, 1],
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 3,
    "v_head_dim": 2,
    "swa_num_attention_heads": 4,
    "swa_num_key_value_heads": 2,
    "swa_head_dim": 3,
    "swa_v_head_dim": 2,
    "sliding_window": 16,
    "sliding_window_size": 16,
    "add_swa_attention_sink_bias": True,
    "add_full_attention_sink_bias": False,
    "attention_bias": False,
    "intermediate_size": 6,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_shared_experts": None,
    "moe_intermediate_size": 5,
    "max_position_embeddings": 100,
    "partial_rotary_factor": 0.7,
    "tie_word_embeddings": False,
}


def parse(**changes: Any) -> Model:
    return parse_config({**TINY, **changes}, "config.json", "m")


def test_tiny_model_by_hand() -> None:
    # full: q 8*12, k 8*3, v 8*2, o 8*8: 200; windowed: q 96, k 48, v 32, o 64, sinks 4: 244
    # dense 3*8*6 = 144; experts 8*4 + 4 + 4*3*8*5 = 516; norms 16 a layer
    # layers: 200 + 144 + 16, 2 * (244 + 516 + 16); ends 168
    # three MTP layers: 244 + 144 + 2*64 + 5*8 = 556 each
    counted = count_parameters(parse())
    assert counted.total_parameters == 360 + 1552 + 168
    assert counted.extras == {"mtp": 1668}


def test_each_kind_of_layer_has_a_table() -> None:
    # int(3 * 0.7) = 2 columns each
    assert parse().rotary_elements == 100 * (2 + 2)


def test_flash_has_nine_full_layers_and_39_windows_of_128() -> None:
    model = read_model("XiaomiMiMo/MiMo-V2-Flash")
    found = {
        (mixer.window, mixer.kv_heads, mixer.sinks): count
        for mixer, count in model.mixers
        if isinstance(mixer, Attention)
    }
    assert found == {(None, 4, False): 9, (128, 8, True): 39}


def test_flash_cache_by_hand() -> None:
    # full: 9 layers * 4 heads * (192 + 128) * 2 bytes; windowed: 39 * 8 * (192 + 128) * 2, at most 128 tokens
    held = kv_bytes(read_model("XiaomiMiMo/MiMo-V2-Flash"), 1000, "bf16")
    assert held.kv_bytes_per_token == 23_040
    assert held.kv_bytes_per_token_all_layers == 23_040 + 199_680
    assert held.kv_bytes == 1000 * 23_040 + 128 * 199_680


def test_flash_is_served_at_tp4() -> None:
    # vLLM's recipe: TP4, one KV head of 192 rows a GPU, a block and a half; 2,048 columns of an expert are
    # 128 a GPU at TP16, but 64 at TP32, half a block.
    model = read_model("XiaomiMiMo/MiMo-V2-Flash")
    assert {2, 4, 8, 16} <= set(allowed_tp(model)) and 32 not in allowed_tp(model)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"hybrid_layer_pattern": [0, 1]}, "hybrid_layer_pattern is .*list of 3 zeros and ones"),
        ({"moe_layer_freq": 1}, "moe_layer_freq is 1; expected a list"),
        ({"sliding_window": 8}, "sliding_window is 8 and sliding_window_size 16"),
        ({"n_shared_experts": 1}, "n_shared_experts is 1"),
        ({"swa_num_key_value_heads": 3}, "swa_num_attention_heads is 4 and swa_num_key_value_heads 3"),
        ({"partial_rotary_factor": 2}, "partial_rotary_factor is 2"),
    ],
)
def test_refusals(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse(**changes)
