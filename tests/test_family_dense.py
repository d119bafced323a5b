"""Dense families close to llama (SmolLM3, Seed-OSS, EXAONE, InternLM, OLMo 3, Phi-4-multimodal), sizes as published.

Totals: safetensors.total of the Hugging Face API, in llmfit 1.1.17 (hf_models.json).
"""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.families import parse_config
from costmodel.inputs.model import Model
from costmodel.inputs.parameters import count_parameters
from costmodel.memory.kv import kv_bytes


def sizes(
    family: str, hidden: int, layers: int, heads: tuple[int, int, int], ffn: int, vocab: int
) -> dict[str, Any]:
    return {
        "model_type": family,
        "torch_dtype": "bfloat16",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads[0],
        "num_key_value_heads": heads[1],
        "head_dim": heads[2],
        "intermediate_size": ffn,
        "vocab_size": vocab,
        "tie_word_embeddings": False,
    }


SMOLLM3 = {**sizes("smollm3", 2048, 36, (16, 4, 128), 11008, 128256), "tie_word_embeddings": True}
SEED = sizes("seed_oss", 5120, 64, (80, 8, 128), 27648, 155136)
EXAONE = sizes("exaone", 4096, 32, (32, 8, 128), 14336, 102400)
EXAONE4 = {**sizes("exaone4", 5120, 64, (40, 8, 128), 27392, 102400), "sliding_window": 4096}
INTERNLM2 = {**sizes("internlm2", 4096, 32, (32, 8, 128), 14336, 92544), "bias": False}
INTERNLM3 = {**sizes("internlm3", 4096, 48, (32, 2, 128), 10240, 128512), "bias": False, "qkv_bias": False}
OLMO3 = {**sizes("olmo3", 5120, 64, (40, 8, 128), 27648, 100278), "sliding_window": 4096}
PHI4MM = {
    **sizes("phi4mm", 3072, 32, (24, 8, 128), 8192, 200064),
    "tie_word_embeddings": True,
    "sliding_window": None,
}

PUBLISHED = [
    pytest.param(SMOLLM3, 3_075_098_624, id="HuggingFaceTB/SmolLM3-3B"),
    pytest.param(SEED, 36_151_104_512, id="ByteDance-Seed/Seed-OSS-36B-Instruct"),
    pytest.param(EXAONE, 7_818_448_896, id="LGAI-EXAONE/EXAONE-3.5-7.8B-Instruct"),
    pytest.param(
        {**EXAONE4, "sliding_window_pattern": "LLLG"}, 32_003_216_384, id="LGAI-EXAONE/EXAONE-4.0-32B"
    ),
    pytest.param(INTERNLM2, 7_737_708_544, id="internlm/internlm2_5-7b-chat"),
    pytest.param(INTERNLM3, 8_804_241_408, id="internlm/internlm3-8b-instruct"),
    pytest.param(OLMO3, 32_233_522_176, id="allenai/Olmo-3-1125-32B"),
    # its language model is that of Phi-4-mini: 3,836,021,760
    pytest.param(PHI4MM, 3_836_021_760, id="microsoft/Phi-4-multimodal-instruct"),
]


def parse(data: dict[str, Any], **changes: Any) -> Model:
    return parse_config({**data, **changes}, "config.json", "m")


@pytest.mark.parametrize(("data", "published"), PUBLISHED)
def test_published_totals(data: dict[str, Any], published: int) -> None:
    assert count_parameters(parse(data)).total_parameters == published


@pytest.mark.parametrize(
    ("data", "changes", "added"),
    [
        # q, k and v of all layers; o where it has a switch of its own
        (SEED, {"attention_bias": False}, -64 * (80 + 16) * 128),
        (SEED, {"attention_out_bias": True}, 64 * 5120),
        (SMOLLM3, {"attention_bias": True}, 36 * ((16 + 8) * 128 + 2048)),
        # q, k, v and o, then gate, up and down: one switch for all, as in the model of llama
        (INTERNLM3, {"qkv_bias": True, "bias": True}, 48 * ((32 + 4) * 128 + 4096 + 2 * 10240 + 4096)),
    ],
)
def test_biases(data: dict[str, Any], changes: dict[str, Any], added: int) -> None:
    changed, plain = (count_parameters(parse(data, **fields)).total_parameters for fields in (changes, {}))
    assert changed - plain == added


@pytest.mark.parametrize(
    "data",
    [
        {**EXAONE4, "sliding_window_pattern": "LLLG"},
        {**EXAONE4, "sliding_window_pattern": 4},
        {**EXAONE4, "layer_types": (["sliding_attention"] * 3 + ["full_attention"]) * 16},
        OLMO3,
    ],
)
def test_windows_in_three_of_four_layers(data: dict[str, Any]) -> None:
    # 2 * 8 heads * 128 * 2 B = 4,096 B a layer and token: 16 full layers, 48 of 4,096 tokens
    found = kv_bytes(parse(data), 10_000, "bf16")
    assert found.kv_bytes_per_token == 16 * 4_096
    assert found.fixed_bytes_per_sequence == 48 * 4_096 * 4_096


def test_exaone4_without_a_window() -> None:
    small = sizes("exaone4", 2048, 30, (32, 8, 64), 4096, 102400)
    model = parse(small, tie_word_embeddings=True, sliding_window=None, sliding_window_pattern="LLLG")
    assert count_parameters(model).total_parameters == 1_279_391_488  # LGAI-EXAONE/EXAONE-4.0-1.2B
    assert kv_bytes(model, 1, "bf16").kv_bytes_per_token == 30 * 2 * 8 * 64 * 2


def test_phi4mm_says_what_it_leaves_out() -> None:
    assert any("LoRA weights are not counted" in note for note in parse(PHI4MM).notes)


@pytest.mark.parametrize(
    ("data", "changes", "said"),
    [
        (EXAONE4, {"sliding_window_pattern": "LXG"}, 'sliding_window_pattern is "LXG"'),
        (EXAONE4, {"sliding_window_pattern": None}, "sliding_window_pattern is null"),
        (INTERNLM2, {"bias": True}, "bias is true; not modelled"),
        (INTERNLM3, {"bias": True}, "qkv_bias and bias differ"),
        (SMOLLM3, {"use_sliding_window": True, "sliding_window": 8}, "sliding_window is 8; not modelled"),
        ({key: value for key, value in INTERNLM2.items() if key != "bias"}, {}, "bias is missing"),
    ],
)
def test_refusals(data: dict[str, Any], changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse(data, **changes)
