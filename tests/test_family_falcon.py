"""Families falcon and bloom: hand counts of both architectures of Falcon, KV rows, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.families import parse_config, read_model
from costmodel.inputs.model import Model
from costmodel.inputs.parameters import count_parameters
from costmodel.memory.kv import kv_bytes

TINY: dict[str, Any] = {
    "model_type": "falcon",
    "vocab_size": 32,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "torch_dtype": "bfloat16",
}
ENDS = 256 + 16


def tiny(**changes: object) -> Model:
    return parse_config({**TINY, **changes}, "tiny.json", "tiny")


@pytest.mark.parametrize(
    ("changes", "layer"),
    [
        # one KV head: (4 + 2)x2x8 and 8x8; two matrices 2x32x8; one LayerNorm 16
        ({}, 96 + 64 + 512 + 16),
        ({"parallel_attn": False}, 96 + 64 + 512 + 32),
        # a KV head a query head: 12x2x8; biases 24, 8, 32 and 8
        ({"multi_query": False, "bias": True}, 192 + 64 + 512 + 72 + 16),
        # two KV heads: 8x2x8; two LayerNorms
        ({"new_decoder_architecture": True, "num_kv_heads": 2}, 128 + 64 + 512 + 32),
        (
            {"new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1},
            128 + 64 + 512 + 16,
        ),
        ({"new_decoder_architecture": True, "ffn_hidden_size": 10}, 192 + 64 + 160 + 32),
    ],
)
def test_parameters_by_hand(changes: dict[str, object], layer: int) -> None:
    counted = count_parameters(tiny(**changes))
    assert counted.total_parameters == 2 * layer + ENDS
    assert counted.extras == {"stored_lm_head": 256}


def test_published_total_of_falcon_11b() -> None:
    # 11,102,822,400 (llmfit 1.1.17, safetensors.total of the Hugging Face API); its head is not tied
    model = tiny(
        vocab_size=65024,
        hidden_size=4096,
        num_hidden_layers=60,
        num_attention_heads=32,
        num_kv_heads=8,
        new_decoder_architecture=True,
        num_ln_in_parallel_attn=1,
        tie_word_embeddings=False,
    )
    assert count_parameters(model).total_parameters == 11_102_822_400
    assert count_parameters(model).extras == {}


@pytest.mark.parametrize(
    ("name", "kv_per_token", "active"),
    [
        # 80 x 2 x 8 x 64 x 2; the published 179,522,565,120 less the stored copy of the head, 65,024 x 14,848
        ("tiiuae/falcon-180B", 163_840, 178_557_088_768),
        # 70 x 2 x 112 x 128 x 2; the published total, all of it used: the head is the embedding
        ("bigscience/bloom", 4_014_080, 176_247_271_424),
    ],
)
def test_kv_and_active_parameters(name: str, kv_per_token: int, active: int) -> None:
    model = read_model(name)
    held = kv_bytes(model, 100, "bf16")
    assert held.kv_bytes_per_token == held.kv_bytes_per_token_all_layers == kv_per_token
    assert held.fixed_bytes_per_sequence == 0
    assert count_parameters(model).active_parameters == active


def test_falcon_7b_caches_one_head() -> None:
    assert kv_bytes(read_model("tiiuae/falcon-7b"), 1, "bf16").kv_bytes == 32 * 2 * 64 * 2


def test_alibi_needs_no_rotary_table() -> None:
    assert tiny(alibi=True, max_position_embeddings=100).rotary_elements == 0
    assert tiny(max_position_embeddings=100).rotary_elements == 100 * 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"num_attention_heads": 3}, "expected a multiple"),
        ({"new_decoder_architecture": True, "num_kv_heads": 3}, "num_kv_heads 3; expected a multiple"),
        ({"num_ln_in_parallel_attn": 3}, "num_ln_in_parallel_attn is 3"),
        ({"multi_query": "yes"}, "multi_query is"),
    ],
)
def test_refusals(changes: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        tiny(**changes)


def test_bloom_by_hand() -> None:
    # 12 x 8 x 8 + 13 x 8 a layer; embedding 32x8, its norm and the last one 16 each
    fields = {"model_type": "bloom", "vocab_size": 32, "n_embed": 8, "n_layer": 3, "n_head": 2}
    model = parse_config(fields, "b.json", "b")
    assert count_parameters(model).total_parameters == 3 * (768 + 104) + 256 + 32
    with pytest.raises(InputError, match="hidden_size is 8 and n_head 3"):
        parse_config({**fields, "n_head": 3}, "b.json", "b")
