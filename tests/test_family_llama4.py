"""Family llama4_text: hand count, published totals less the tower, chunks and NoPE layers, KV rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.families import parse_config
from costmodel.inputs.model import Attention, Experts, Model
from costmodel.inputs.parameters import count_parameters
from costmodel.memory.kv import kv_bytes

MODELS = Path(__file__).parents[1] / "models"

TINY: dict[str, Any] = {
    "model_type": "llama4_text",
    "vocab_size": 32,
    "hidden_size": 8,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 4,
    "attention_chunk_size": 5,
    "intermediate_size": 6,
    "intermediate_size_mlp": 10,
    "num_local_experts": 4,
    "num_experts_per_tok": 1,
    "interleave_moe_layer_step": 2,
    "torch_dtype": "bfloat16",
}


def tiny(**fields: object) -> Model:
    return parse_config({**TINY, **fields}, "tiny.json", "tiny")


def language_model(name: str) -> Model:
    data = json.loads((MODELS / f"{name.replace('/', '--')}.json").read_text())
    return parse_config(data["text_config"], name, name)


def windows(model: Model) -> list[int | None]:
    return [model.layers[place].mixers[0].window for place in model.order]


def sparse(model: Model) -> list[int]:
    ffns = [model.layers[place].feed_forwards[0] for place in model.order]
    return [index for index, ffn in enumerate(ffns) if isinstance(ffn, Experts)]


def test_hand_count() -> None:
    # Attention 8x8 + 2 x 4x8 + 8x8 = 192 and norms 2 x 8, none on queries and keys. Dense block 3 x 8x10.
    # Experts: router 4x8, four and a shared one of 3 x 8x6.
    experts, dense = 32 + 5 * 144, 240
    counted = count_parameters(tiny(use_qk_norm=True))
    assert counted.total_parameters == 4 * 208 + 2 * experts + 2 * dense + 2 * 32 * 8 + 8
    # One token uses one routed expert.
    assert counted.total_parameters - counted.active_parameters == 2 * 3 * 144 + 32 * 8


# Published totals (safetensors.total of the Hugging Face API, in llmfit 1.1.17 on PyPI) less the tower of
# 811,115,008, its adapter 5632x4096 + 4096x4096 and the projector 4096x5120.
@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 108_641_793_536),
        ("meta-llama/Llama-4-Maverick-17B-128E-Instruct", 401_583_781_376),
    ],
)
def test_published_total_less_tower(name: str, published: int) -> None:
    tower = 811_115_008 + (5632 + 4096) * 4096 + 4096 * 5120
    assert count_parameters(language_model(name)).total_parameters == published - tower


@pytest.mark.parametrize("model", ["Scout-17B-16E", "Maverick-17B-128E"])
def test_kv_rows(model: str) -> None:
    # 2 x 8 x 128 x 2 B = 4,096 B a layer; three of four layers see a chunk of 8,192 tokens
    cached = kv_bytes(language_model(f"meta-llama/Llama-4-{model}-Instruct"), 1, "bf16")
    assert {(row.count, row.window) for row in cached.rows} == {(36, 8192), (12, None)}
    assert cached.kv_bytes_per_token_all_layers == 196_608
    assert cached.kv_bytes_per_token == 49_152


def test_experts_in_every_or_every_second_layer() -> None:
    assert sparse(tiny()) == [1, 3]
    assert sparse(tiny(interleave_moe_layer_step=1)) == [0, 1, 2, 3]
    stated = {key: value for key, value in TINY.items() if key != "interleave_moe_layer_step"}
    assert sparse(parse_config({**stated, "moe_layers": [2]}, "tiny.json", "tiny")) == [2]


def test_layers_that_rotate_see_their_own_chunk() -> None:
    model = tiny()
    assert windows(model) == [5, 5, 5, None]
    mixers = [mixer for mixer, _ in model.mixers]
    assert all(isinstance(mixer, Attention) for mixer in mixers)
    assert [mixer.chunked for mixer in mixers if isinstance(mixer, Attention)] == [True, False]
    assert windows(tiny(no_rope_layers=[])) == [5, 5, 5, None]
    assert windows(tiny(no_rope_layers=[0, 1, 1, 0])) == [None, 5, 5, None]
    assert windows(tiny(no_rope_layer_interval=2)) == [5, None, 5, None]
    assert windows(tiny(attention_chunk_size=None)) == [None] * 4


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"no_rope_layers": [1, 0]}, "no_rope_layers"),
        ({"no_rope_layers": "all"}, "no_rope_layers"),
        ({"layer_types": ["full_attention"] * 4}, "layer_types and no_rope_layers"),
        ({"moe_layers": [0]}, "moe_layers is"),
        ({"num_experts_per_tok": 5}, "num_experts_per_tok is 5"),
    ],
)
def test_refusals(fields: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        tiny(**fields)
