"""Families cohere and cohere2: hand counts, a published total with norms on heads, windows, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.families import parse_config, read_model
from costmodel.inputs.model import Model
from costmodel.inputs.parameters import count_parameters
from costmodel.memory.kv import kv_bytes

TINY: dict[str, Any] = {
    "vocab_size": 32,
    "hidden_size": 8,
    "num_hidden_layers": 8,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "intermediate_size": 10,
    "torch_dtype": "bfloat16",
}
#: Attention 192, feed-forward 3x10x8, one norm of 8; at the end a norm and the tied embedding.
LAYER, ENDS = 192 + 240 + 8, 256 + 8


def tiny(model_type: str, **changes: object) -> Model:
    return parse_config({**TINY, "model_type": model_type, **changes}, "tiny.json", "tiny")


def windows(model: Model) -> list[int | None]:
    return [model.layers[place].mixers[0].window for place in model.order]


def test_parameters_by_hand() -> None:
    assert count_parameters(tiny("cohere")).total_parameters == 8 * LAYER + ENDS
    assert count_parameters(tiny("cohere2")).total_parameters == 8 * LAYER + ENDS
    # a norm of 4 for each of 2 + 1 heads; biases 16 and 8
    changed = tiny("cohere", use_qk_norm=True, attention_bias=True)
    assert count_parameters(changed).total_parameters == 8 * (LAYER + 12 + 24) + ENDS


def test_published_total_of_command_r_plus() -> None:
    # 103,810,674,688 (llmfit 1.1.17, safetensors.total of the Hugging Face API)
    sizes = {"vocab_size": 256000, "hidden_size": 12288, "intermediate_size": 33792, "num_hidden_layers": 64}
    heads = {"num_attention_heads": 96, "num_key_value_heads": 8, "use_qk_norm": True}
    assert count_parameters(tiny("cohere", **sizes, **heads)).total_parameters == 103_810_674_688


def test_every_fourth_layer_of_cohere2_is_full() -> None:
    assert windows(tiny("cohere2")) == ([4096] * 3 + [None]) * 2
    assert windows(tiny("cohere2", sliding_window=7, sliding_window_pattern=2)) == [7, None] * 4
    listed = ["full_attention"] + ["sliding_attention"] * 7
    assert windows(tiny("cohere2", sliding_window=7, layer_types=listed)) == [None] + [7] * 7
    assert windows(tiny("cohere")) == [None] * 8


def test_kv_of_command_r7b() -> None:
    # 8 of 32 layers grow: 2 x 8 x 128 x 2 bytes each; 24 hold at most 4,096 tokens
    held = kv_bytes(read_model("CohereLabs/c4ai-command-r7b-12-2024"), 10_000, "bf16")
    assert held.kv_bytes == (8 * 10_000 + 24 * 4096) * 4096


@pytest.mark.parametrize(
    ("model_type", "changes", "said"),
    [
        ("cohere2", {"sliding_window_pattern": 0}, "sliding_window_pattern is 0"),
        ("cohere2", {"layer_types": ["full"] * 8}, "layer_types is"),
        ("cohere", {"num_key_value_heads": 3}, "expected a multiple"),
    ],
)
def test_refusals(model_type: str, changes: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        tiny(model_type, **changes)
