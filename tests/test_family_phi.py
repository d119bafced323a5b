"""Families phi, phi3, phi3small and phimoe: hand counts, windows, KV rows, refusals."""

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
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "intermediate_size": 10,
    "ff_intermediate_size": 10,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "sliding_window": None,
    "max_position_embeddings": 100,
    "torch_dtype": "bfloat16",
}
#: q, o 8x8 each, k, v 4x8 each; their biases q, k, v 16 and o 8.
ATTENTION, BIASES = 192, 24


def tiny(model_type: str, **changes: object) -> Model:
    dense = {} if model_type == "phimoe" else {"num_local_experts": ...}
    data = {**TINY, **dense, "model_type": model_type, **changes}
    return parse_config({key: value for key, value in data.items() if value is not ...}, "t.json", "t")


@pytest.mark.parametrize(
    ("model_type", "changes", "total"),
    [
        # 2 matrices 2x10x8 with 18 biases, one LayerNorm 16; at the end 16 and a bias a token of the vocabulary
        ("phi", {}, 2 * (ATTENTION + BIASES + 178 + 16) + 2 * 256 + 16 + 32),
        # two LayerNorms of 4 more a layer, weights and biases
        ("phi", {"qk_layernorm": True}, 2 * (ATTENTION + BIASES + 178 + 16 + 16) + 2 * 256 + 16 + 32),
        ("phi3", {}, 2 * (ATTENTION + 240 + 16) + 2 * 256 + 8),
        ("phi3", {"tie_word_embeddings": True}, 2 * (ATTENTION + 240 + 16) + 256 + 8),
        # 20x8 + 20 and 10x8 + 8, two LayerNorms 32; tied; at the end 16
        ("phi3small", {}, 2 * (ATTENTION + BIASES + 180 + 88 + 32) + 256 + 16),
        # router 4x8, experts 4x3x10x8
        ("phimoe", {}, 2 * (ATTENTION + 32 + 960 + 32) + 2 * 256 + 16),
        (
            "phimoe",
            {"attention_bias": True, "lm_head_bias": True},
            2 * (ATTENTION + BIASES + 32 + 960 + 32) + 2 * 256 + 16 + 32,
        ),
    ],
)
def test_parameters_by_hand(model_type: str, changes: dict[str, object], total: int) -> None:
    assert count_parameters(tiny(model_type, **changes)).total_parameters == total


def test_phi_3_mini_forgets_beyond_its_window() -> None:
    # 32 layers x 2 x 32 x 96 x 2 bytes a token, none of them growing beyond 2,047 tokens
    held = kv_bytes(read_model("microsoft/Phi-3-mini-4k-instruct"), 4096, "bf16")
    assert held.kv_bytes_per_token_all_layers == 393_216
    assert held.kv_bytes_per_token == 0
    assert held.kv_bytes == 2047 * 393_216
    # the published 3,821,079,552 less the input embedding, 32,064 x 3,072
    counted = count_parameters(read_model("microsoft/Phi-3-mini-4k-instruct"))
    assert counted.active_parameters == 3_722_578_944


@pytest.mark.parametrize("model_type", ["phi3", "phimoe"])
def test_a_window_as_long_as_the_context_is_none(model_type: str) -> None:
    wide = tiny(model_type, sliding_window=100)
    assert {mixer.window for mixer, _ in wide.mixers} == {None}
    assert any("no window" in note for note in wide.notes)
    assert {mixer.window for mixer, _ in tiny(model_type, sliding_window=99).mixers} == {99}


def test_phi_3_small_caches_everything_and_says_what_is_not_modelled() -> None:
    model = read_model("microsoft/Phi-3-small-8k-instruct")
    assert kv_bytes(model, 10, "bf16").kv_bytes == 10 * 32 * 2 * 8 * 128 * 2
    assert any("blocksparse" in note for note in model.notes)


@pytest.mark.parametrize(
    ("model_type", "changes", "width"),
    [
        ("phi", {}, 2),  # half of 4 unless stated
        ("phi", {"partial_rotary_factor": 1.0}, 4),
        ("phi3", {}, 4),
        ("phi3", {"partial_rotary_factor": 0.75}, 3),
    ],
)
def test_width_of_the_rotary_table(model_type: str, changes: dict[str, object], width: int) -> None:
    assert tiny(model_type, **changes).rotary_elements == 100 * width


@pytest.mark.parametrize(
    ("model_type", "changes", "said"),
    [
        ("phi3", {"attention_bias": True}, "phi3 has no such bias"),
        ("phi3", {"sliding_window": -1}, "sliding_window is -1"),
        ("phi3small", {"ff_intermediate_size": ...}, "ff_intermediate_size is missing"),
        ("phimoe", {"num_experts_per_tok": 9}, "expected at most all experts"),
    ],
)
def test_refusals(model_type: str, changes: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        tiny(model_type, **changes)
