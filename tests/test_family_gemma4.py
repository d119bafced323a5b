"""Family gemma4_text: hand count of a tiny model with every feature, published totals, shared KV."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.families import parse_config
from costmodel.inputs.model import Model
from costmodel.inputs.parameters import count_parameters
from costmodel.inputs.weights import embedding_tensors
from costmodel.memory.kv import kv_bytes

MODELS = Path(__file__).parents[1] / "models"
S, F = "sliding_attention", "full_attention"

TINY: dict[str, Any] = {
    "model_type": "gemma4_text",
    "vocab_size": 32,
    "vocab_size_per_layer_input": 16,
    "hidden_size": 8,
    "hidden_size_per_layer_input": 2,
    "num_hidden_layers": 6,
    "num_kv_shared_layers": 2,
    "layer_types": [S, S, S, F, S, F],
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_global_key_value_heads": 1,
    "attention_k_eq_v": True,
    "head_dim": 4,
    "global_head_dim": 8,
    "sliding_window": 5,
    "intermediate_size": 10,
    "use_double_wide_mlp": True,
    "enable_moe_block": True,
    "num_experts": 4,
    "top_k_experts": 2,
    "moe_intermediate_size": 6,
    "max_position_embeddings": 100,
    "dtype": "bfloat16",
}

# In every layer: experts 3 x 8x6 x 4 = 576, router 4x8 + 8 + 4 = 44, layer input 3 x 8x2 = 48,
# norms (4 + 3 + 1) x 8 and a scalar = 65: 733.
# Attention: windowed q 16x8, k and v 8x8, o 8x16, norms 2 x 4 = 392; full q and o 32x8, k 8x8 and no v,
# norms 2 x 8 = 592; of layers that share, without k, v and the norm of k: 260 and 520.
# Dense block: 3 x 8x10 = 240, twice that where KV is shared.
LAYERS = 3 * (392 + 240 + 733) + (592 + 240 + 733) + (260 + 480 + 733) + (520 + 480 + 733)
TABLE = 16 * 2 * 6
TOTAL = LAYERS + 32 * 8 + TABLE + 8 + 2


def tiny(**fields: object) -> Model:
    return parse_config({**TINY, **fields}, "tiny.json", "tiny")


def language_model(name: str) -> Model:
    data = json.loads((MODELS / f"{name.replace('/', '--')}.json").read_text())
    return parse_config(data["text_config"], name, name)


def test_hand_count() -> None:
    counted = count_parameters(tiny())
    assert counted.total_parameters == TOTAL == 9324
    # One token uses 2 of 4 experts, and of the layers' embeddings a row.
    assert counted.active_parameters == TOTAL - 6 * 576 // 2 - TABLE
    assert counted.embedding_parameters == 32 * 8 + TABLE


def test_stored_keys_and_values_of_layers_that_share() -> None:
    # windowed: k and v 2 x 8x8 and the norm of k, 4; full: k 8x8 and its norm, 8
    assert dict(tiny().extras)["stored_shared_kv"] == 132 + 72


def test_table_of_layer_inputs_is_split_like_the_vocabulary() -> None:
    _, table = embedding_tensors(tiny())
    assert (table.rows, table.cols) == (16, 12)
    assert table.on_gpu(4).size == TABLE // 4


def test_kv_of_a_token() -> None:
    # 3 windowed layers of 2 x 2 x 4 elements, one full layer of 2 x 1 x 8, two bytes each; two layers share.
    cached = kv_bytes(tiny(), 1, "bf16")
    assert cached.kv_bytes_per_token_all_layers == 3 * 32 + 32
    assert cached.kv_bytes_per_token == 32
    assert sum(row.count for row in cached.rows if row.kind == "shared KV") == 2


def test_global_kv_heads_hold_only_where_values_are_keys() -> None:
    # Without: 2 KV heads of 8 in full layers, k and v: 2 x 2 x 8 x 2 B.
    assert kv_bytes(tiny(attention_k_eq_v=False), 1, "bf16").kv_bytes_per_token == 64


def test_default_pattern_ends_with_full_attention() -> None:
    seven = tiny(num_hidden_layers=7, layer_types=None, num_kv_shared_layers=0)
    full = [seven.layers[place].mixers[0].window is None for place in seven.order]
    assert full == [False] * 5 + [True, True]
    assert any("last layer" in note for note in seven.notes)


# Published totals (safetensors.total of the Hugging Face API, in llmfit 1.1.17 on PyPI) less the tower and
# its projector: 26B-A4B 572,794,416; 31B, 1152 x (5376 - 2816) more.
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("google/gemma-4-26B-A4B", 25_805_936_206 - 572_794_416),
        ("google/gemma-4-31B-it", 31_273_088_876 - 575_743_536),
        ("nvidia/Gemma-4-31B-IT-NVFP4", 31_273_088_876 - 575_743_536),
    ],
)
def test_published_total_less_tower(name: str, text: int) -> None:
    assert count_parameters(language_model(name)).total_parameters == text


def test_published_totals_of_e2b_and_e4b_differ_by_the_text_and_the_projectors() -> None:
    # Same towers; two projectors (768 and 1536 wide) onto hidden sizes of 1536 and 2560.
    small, large = (count_parameters(language_model(f"google/gemma-4-{size}-it")) for size in ("E2B", "E4B"))
    stored = [found.total_parameters + found.extras["stored_shared_kv"] for found in (small, large)]
    assert stored[1] - stored[0] + (768 + 1536) * (2560 - 1536) == 7_996_156_490 - 5_123_178_051


# Layers with a cache of their own, windowed and full; KV bytes of a token in all of them.
# 31B: 50 x 2 x 16 x 256 x 2 B and 10 x 2 x 4 x 512 x 2 B; E2B: 12 x 2 x 256 x 2 B and 3 x 2 x 512 x 2 B.
@pytest.mark.parametrize(
    ("name", "rows", "every_layer"),
    [
        ("google/gemma-4-31B-it", {(50, 1024), (10, None)}, 819_200 + 81_920),
        ("google/gemma-4-26B-A4B", {(25, 1024), (5, None)}, 204_800 + 20_480),
        ("google/gemma-4-E2B-it", {(12, 512), (3, None)}, 12_288 + 6_144),
        ("google/gemma-4-E4B-it", {(20, 512), (4, None)}, 40_960 + 16_384),
    ],
)
def test_kv_rows(name: str, rows: set[tuple[int, int | None]], every_layer: int) -> None:
    cached = kv_bytes(language_model(name), 1, "bf16")
    assert {(row.count, row.window) for row in cached.rows if row.kind != "shared KV"} == rows
    assert cached.kv_bytes_per_token_all_layers == every_layer


def test_rotary_tables_are_as_wide_as_the_heads_of_each_kind() -> None:
    assert tiny().rotary_elements == 100 * (4 + 8)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"use_bidirectional_attention": "all"}, "use_bidirectional_attention"),
        ({"num_kv_shared_layers": 6}, "num_kv_shared_layers"),
        ({"num_kv_shared_layers": 3}, "num_kv_shared_layers"),
        ({"num_global_key_value_heads": 3}, "num_global_key_value_heads"),
        ({"num_experts": None}, "num_experts"),
    ],
)
def test_refusals(fields: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        tiny(**fields)


def test_attention_to_later_image_tokens_is_no_obstacle() -> None:
    assert count_parameters(tiny(use_bidirectional_attention="vision")).total_parameters == TOTAL
