"""Families qwen3_next, qwen3_5_text and qwen3_5_moe_text: hand counts, published totals, layers, refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.families import parse_config, read_model
from costmodel.inputs.model import Attention, Dense, Experts, Model, Recurrent
from costmodel.inputs.parameters import count_parameters
from costmodel.memory.kv import kv_bytes

MODELS = Path(__file__).parents[1] / "models"

TINY: dict[str, Any] = {
    "vocab_size": 32,
    "hidden_size": 8,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 4,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 3,
    "linear_value_head_dim": 5,
    "linear_conv_kernel_dim": 4,
    "intermediate_size": 10,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 3,
    "shared_expert_intermediate_size": 5,
    "tie_word_embeddings": False,
    "dtype": "bfloat16",
}
#: Query with gate 16x8, key and value 4x8 each, output 8x8, two norms of 4.
FULL = 128 + 64 + 64 + 8
DELTA = 781  # by hand in test_family_recurrent.py
#: Router 4x8, experts 4x3x3x8, shared 3x5x8, its gate 8.
MIXTURE = 32 + 288 + 120 + 8
ENDS = 2 * 32 * 8 + 8
NORMS = 2 * 8


def tiny(model_type: str, **changes: object) -> Model:
    dense = {"num_experts": ...} if model_type == "qwen3_5_text" else {}
    data = {**TINY, **dense, "model_type": model_type, **changes}
    return parse_config({key: value for key, value in data.items() if value is not ...}, "t.json", "t")


def language_model(name: str) -> Model:
    data = json.loads((MODELS / f"{name.replace('/', '--')}.json").read_text())
    inner = {"tie_word_embeddings": data["tie_word_embeddings"], **data["text_config"]}
    return parse_config(inner, name, name)


@pytest.mark.parametrize(
    ("model_type", "feed_forward"),
    [("qwen3_next", MIXTURE), ("qwen3_5_moe_text", MIXTURE), ("qwen3_5_text", 3 * 10 * 8)],
)
def test_parameters_by_hand(model_type: str, feed_forward: int) -> None:
    counted = count_parameters(tiny(model_type))
    assert counted.total_parameters == 3 * DELTA + FULL + 4 * (feed_forward + NORMS) + ENDS
    # MTP: a layer with full attention, a projection of 16 to 8 and three norms
    assert counted.extras == {"mtp": FULL + feed_forward + NORMS + 16 * 8 + 3 * 8}


def test_every_fourth_layer_has_full_attention() -> None:
    model = read_model("Qwen/Qwen3-Next-80B-A3B-Instruct")
    kinds = [type(model.layers[place].blocks[0]) for place in model.order]
    assert [index for index, kind in enumerate(kinds) if kind is Attention] == list(range(3, 48, 4))
    full = model.layers[model.order[3]].blocks[0]
    assert isinstance(full, Attention)
    assert full.output_gate


def test_layer_types_and_interval_place_full_attention() -> None:
    listed = tiny("qwen3_5_text", layer_types=["full_attention"] + ["linear_attention"] * 3)
    assert [type(listed.layers[place].blocks[0]) for place in listed.order] == [Attention] + [Recurrent] * 3
    spaced = tiny("qwen3_5_text", full_attention_interval=2)
    assert [layer.count for layer in spaced.layers] == [2, 2]


def test_dense_layers_of_qwen3_next() -> None:
    model = tiny("qwen3_next", mlp_only_layers=[0])
    assert [type(model.layers[place].blocks[1]) for place in model.order] == [Dense] + [Experts] * 3


@pytest.mark.parametrize(
    ("name", "hidden", "total"),
    [
        ("Qwen/Qwen3.5-27B", 5120, 27_781_427_952),
        ("Qwen/Qwen3.5-35B-A3B", 2048, 35_951_822_704),
        ("Qwen/Qwen3.5-122B-A10B", 3072, 125_086_497_008),
        ("Qwen/Qwen3.5-397B-A17B", 4096, 403_397_928_944),
    ],
)
def test_published_totals_leave_one_vision_tower(name: str, hidden: int, total: int) -> None:
    # What the language model and its MTP layer leave of the published total (llmfit 1.1.17, Hugging Face API)
    # is one tower for all four, and its projection to the hidden size with a bias: 4,608 x hidden + hidden.
    counted = count_parameters(language_model(name))
    left = total - counted.total_parameters - counted.extras["mtp"]
    assert left - 4609 * hidden == 437_132_016


def test_state_of_qwen3_5_is_fp32() -> None:
    # 48 layers of 48 heads of 128 x 128 in 4 bytes, and 3 inputs of 2 x 2,048 + 6,144 channels in 2
    held = kv_bytes(language_model("Qwen/Qwen3.5-27B"), 1, "bf16")
    assert held.fixed_bytes_per_sequence == 48 * (48 * 128 * 128 * 4 + 3 * 10_240 * 2)
    assert held.kv_bytes_per_token == 16 * 2 * 4 * 256 * 2


def test_active_parameters_of_qwen3_next() -> None:
    # 79,674,391,296 less the input embedding, 151,936 x 2,048, and 502 of 512 experts in 48 layers: 48 x 502
    # x 3 x 512 x 2,048
    counted = count_parameters(read_model("Qwen/Qwen3-Next-80B-A3B-Instruct"))
    assert counted.active_parameters == 3_563_764_480


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"use_sliding_window": True}, "use_sliding_window is true"),
        ({"sliding_window": 4096}, "sliding_window is 4096"),
        ({"layer_types": ["sliding_attention"] * 4}, "layer_types is"),
        ({"linear_num_value_heads": 5}, "expected a multiple: each key head"),
        ({"hidden_size": ...}, "hidden_size is missing"),
        ({"mtp_num_hidden_layers": 2}, "mtp_num_hidden_layers is 2"),
        ({"mtp_use_dedicated_embeddings": True}, "not modelled"),
    ],
)
def test_refusals(changes: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        tiny("qwen3_5_text", **changes)
