"""Families ministral and ministral3: a published total less its tower, hand count, windows."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.families import parse_config
from costmodel.inputs.model import Model
from costmodel.inputs.parameters import count_parameters
from costmodel.memory.kv import kv_bytes

TINY: dict[str, Any] = {
    "vocab_size": 32,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 4,
    "intermediate_size": 10,
    "torch_dtype": "bfloat16",
}


def tiny(model_type: str, **fields: object) -> Model:
    return parse_config({**TINY, "model_type": model_type, **fields}, "tiny.json", "tiny")


@pytest.mark.parametrize("model_type", ["ministral", "ministral3"])
def test_hand_count(model_type: str) -> None:
    # Attention 8x8 + 2 x 4x8 + 8x8, feed-forward 3 x 8x10, norms 2 x 8; embedding, head and last norm.
    assert count_parameters(tiny(model_type)).total_parameters == 2 * (192 + 240 + 16) + 2 * 32 * 8 + 8


def test_published_total_of_ministral_3_8b_less_its_tower() -> None:
    # 8,918,026,240: safetensors.total of the Hugging Face API, in llmfit 1.1.17 on PyPI. Pixtral tower of
    # 403,305,472; projector: norm 1024, merger 4 x 1024^2, 1024x4096 and 4096^2.
    fields = {
        "model_type": "ministral3",
        "vocab_size": 131_072,
        "hidden_size": 4096,
        "num_hidden_layers": 34,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14_336,
        "torch_dtype": "bfloat16",
    }
    model = parse_config(fields, "config.json", "Ministral-3-8B")
    projector = 1024 + 4 * 1024**2 + 1024 * 4096 + 4096**2
    assert count_parameters(model).total_parameters == 8_918_026_240 - 403_305_472 - projector
    # 34 layers of 2 x 8 x 128 x 2 B
    assert kv_bytes(model, 1, "bf16").kv_bytes_per_token == 34 * 4096


def test_windows() -> None:
    types = ["sliding_attention", "full_attention"]
    mixed = tiny("ministral", sliding_window=5, layer_types=types)
    assert [mixed.layers[place].mixers[0].window for place in mixed.order] == [5, None]
    assert [mixer.window for mixer, _ in tiny("ministral").mixers] == [4096]
    assert [mixer.window for mixer, _ in tiny("ministral3").mixers] == [None]


def test_windowed_layers_without_a_window_are_refused() -> None:
    with pytest.raises(InputError, match="no sliding_window is in force"):
        tiny("ministral3", layer_types=["sliding_attention", "full_attention"])
