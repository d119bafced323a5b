"""Family gpt_oss: hand count with every bias, published totals, windows in turn, KV rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.families import parse_config
from costmodel.inputs.model import Attention, Model
from costmodel.inputs.parameters import count_parameters
from costmodel.memory.kv import kv_bytes

MODELS = Path(__file__).parents[1] / "models"

TINY: dict[str, Any] = {
    "model_type": "gpt_oss",
    "vocab_size": 32,
    "hidden_size": 8,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 4,
    "sliding_window": 5,
    "intermediate_size": 6,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "torch_dtype": "bfloat16",
}


def tiny(**fields: object) -> Model:
    return parse_config({**TINY, **fields}, "tiny.json", "tiny")


def wide(name: str) -> Model:
    """The packaged model as if it were stored in 16 bits."""
    data = json.loads((MODELS / f"{name.replace('/', '--')}.json").read_text())
    return parse_config({**data, "quantization_config": None}, name, name)


def test_hand_count() -> None:
    # q 8x8 + 8, k and v 4x8 + 4 each, o 8x8 + 8, a sink a head: 218. Router 4x8 + 4 = 36.
    # An expert: gate and up 6x8 + 6 each, down 8x6 + 8 = 164. Norms 2 x 8.
    layer = 218 + 36 + 4 * 164 + 16
    counted = count_parameters(tiny())
    assert counted.total_parameters == 3 * layer + 2 * 32 * 8 + 8
    assert counted.active_parameters == 3 * (layer - 2 * 164) + 32 * 8 + 8


def test_attention_bias_governs_attention_alone() -> None:
    # 8 + 4 + 4 + 8 a layer
    without = count_parameters(tiny(attention_bias=False)).total_parameters
    assert count_parameters(tiny()).total_parameters - without == 3 * 24


# safetensors.total of the Hugging Face API, in llmfit 1.1.17 on PyPI; active ones: 3.6 and 5.1 billion published.
@pytest.mark.parametrize(
    ("name", "total", "active"),
    [
        ("openai/gpt-oss-20b", 20_914_757_184, 3.6e9),
        ("openai/gpt-oss-120b", 116_829_156_672, 5.1e9),
    ],
)
def test_published_total(name: str, total: int, active: float) -> None:
    counted = count_parameters(wide(name))
    assert counted.total_parameters == total
    assert counted.active_parameters == pytest.approx(active, rel=0.01)


def test_windows_come_first_and_in_turn() -> None:
    model = tiny()
    mixers = [model.layers[place].mixers[0] for place in model.order]
    assert [mixer.window for mixer in mixers] == [5, None, 5]
    assert all(isinstance(mixer, Attention) and mixer.sinks for mixer in mixers)


# 2 x 8 x 64 x 2 B = 2,048 B a layer
@pytest.mark.parametrize(
    ("name", "half", "every_layer", "growing"),
    [("openai/gpt-oss-20b", 12, 49_152, 24_576), ("openai/gpt-oss-120b", 18, 73_728, 36_864)],
)
def test_kv_rows(name: str, half: int, every_layer: int, growing: int) -> None:
    cached = kv_bytes(wide(name), 1, "bf16")
    assert {(row.count, row.window) for row in cached.rows} == {(half, 128), (half, None)}
    assert cached.kv_bytes_per_token_all_layers == every_layer
    assert cached.kv_bytes_per_token == growing


def test_rotary_table_is_in_fp32() -> None:
    # 32 x 4096 positions of 64 elements of 4 bytes; the model counts elements of 2
    assert wide("openai/gpt-oss-20b").rotary_elements * 2 == 131_072 * 64 * 4


def test_layer_types_out_of_turn_are_refused() -> None:
    types = ["full_attention", "sliding_attention", "full_attention"]
    with pytest.raises(InputError, match="layer_types is other"):
        tiny(layer_types=types)


def test_more_experts_a_token_than_there_are_is_refused() -> None:
    with pytest.raises(InputError, match="num_experts_per_tok is 5"):
        tiny(num_experts_per_tok=5)
