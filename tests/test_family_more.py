"""OLMo 2, StarCoder2, StableLM, GPT-2, GPT-NeoX, Hunyuan and ERNIE 4.5: totals, windows, tables, refusals.

Totals are those of the Hugging Face API, in llmfit 1.1.17 on PyPI (hf_models.json); sizes are typed by hand.
"""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.families import parse_config
from costmodel.inputs.model import Attention, Model
from costmodel.inputs.parameters import count_parameters
from costmodel.memory.kv import kv_bytes


def sizes(
    kind: str, hidden: int, width: int, layers: int, heads: int, kv: int | None, vocab: int, tied: bool
) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "model_type": kind,
        "torch_dtype": "bfloat16",
        "hidden_size": hidden,
        "intermediate_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "vocab_size": vocab,
        "tie_word_embeddings": tied,
    }
    return fields if kv is None else {**fields, "num_key_value_heads": kv}


OLMO_7B = sizes("olmo2", 4096, 11008, 32, 32, 32, 100352, False)
OLMO_13B = sizes("olmo2", 5120, 13824, 40, 40, 40, 100352, False)
STARCODER_3B = sizes("starcoder2", 3072, 12288, 30, 24, 2, 49152, True)
STARCODER_7B = sizes("starcoder2", 4608, 18432, 32, 36, 4, 49152, True)
STARCODER_15B = sizes("starcoder2", 6144, 24576, 40, 48, 4, 49152, False)
STABLELM_2B = {**sizes("stablelm", 2048, 5632, 24, 32, 32, 100352, False), "use_qkv_bias": True}
STABLELM_3B = sizes("stablelm", 2560, 6912, 32, 32, 32, 50304, False)
STABLELM_12B = {
    **sizes("stablelm", 5120, 13824, 40, 32, 8, 100352, False),
    "qk_layernorm": True,
    "use_parallel_residual": True,
}
GPT2_XL = {
    "model_type": "gpt2",
    "torch_dtype": "float32",
    "n_embd": 1600,
    "n_layer": 48,
    "n_head": 25,
    "n_positions": 1024,
    "vocab_size": 50257,
}
GPT2_SMALL = {**GPT2_XL, "n_embd": 768, "n_layer": 12, "n_head": 12}
PYTHIA_12B = sizes("gpt_neox", 5120, 20480, 36, 40, None, 50688, False)
HUNYUAN_7B = {**sizes("hunyuan_v1_dense", 4096, 14336, 32, 32, 8, 128167, True), "head_dim": 128}
HUNYUAN_A13B = {
    **sizes("hunyuan_v1_moe", 4096, 3072, 32, 32, 8, 128167, True),
    "head_dim": 128,
    "num_experts": 64,
    "moe_topk": [8] * 32,
    "num_shared_expert": [1] * 32,
    "moe_intermediate_size": [3072] * 32,
}
ERNIE_SMALL = {**sizes("ernie4_5", 1024, 3072, 18, 16, 2, 103424, True), "head_dim": 128}
ERNIE_21B = {
    **sizes("ernie4_5_moe", 2560, 12288, 28, 20, 4, 103424, True),
    "moe_intermediate_size": 1536,
    "moe_num_experts": 64,
    "moe_num_shared_experts": 2,
    "moe_k": 6,
    "moe_layer_start_index": 1,
}


def parse(fields: dict[str, Any], **changes: Any) -> Model:
    return parse_config({**fields, **changes}, "config.json", "m")


@pytest.mark.parametrize(
    ("fields", "published", "buffers"),
    [
        (OLMO_7B, 7_298_617_344, 0),
        (OLMO_13B, 13_716_198_400, 0),
        (STARCODER_3B, 3_030_371_328, 0),
        (STARCODER_7B, 7_173_923_840, 0),
        (STARCODER_15B, 15_957_889_024, 0),
        (STABLELM_2B, 1_644_515_328, 0),
        (STABLELM_3B, 2_795_443_200, 0),
        (STABLELM_12B, 12_143_185_920, 0),
        # the files also store causal masks: a square of the context a layer
        (GPT2_SMALL, 137_022_720, 12 * 1024**2),
        (GPT2_XL, 1_607_942_848, 48 * 1024**2),
        # and Pythia's 16 rotary frequencies a layer
        (PYTHIA_12B, 11_997_067_840, 36 * (2048**2 + 16)),
        (HUNYUAN_7B, 7_504_568_320, 0),
        (HUNYUAN_A13B, 80_393_183_232, 0),
        (ERNIE_SMALL, 360_748_032, 0),
        (ERNIE_21B, 21_825_437_888, 0),
    ],
)
def test_published_totals(fields: dict[str, Any], published: int, buffers: int) -> None:
    assert count_parameters(parse(fields)).total_parameters + buffers == published


def test_ernie_mtp_is_the_difference_between_two_repositories() -> None:
    # baidu/ERNIE-4.5-21B-A3B-PT stores an MTP layer, -Thinking none
    counted = count_parameters(parse(ERNIE_21B, num_nextn_predict_layers=1))
    assert counted.total_parameters + counted.extras["mtp"] == 21_948_655_808


@pytest.mark.parametrize(
    ("fields", "per_token"),
    [
        (OLMO_7B, 32 * 2 * 32 * 128 * 2),
        (STARCODER_3B, 30 * 2 * 2 * 128 * 2),
        (GPT2_XL, 48 * 2 * 25 * 64 * 2),
        (ERNIE_SMALL, 18 * 2 * 2 * 128 * 2),
    ],
)
def test_cache_is_layers_times_keys_and_values(fields: dict[str, Any], per_token: int) -> None:
    assert kv_bytes(parse(fields), 1, "bf16").kv_bytes_per_token == per_token


def test_starcoder2_windows_every_layer() -> None:
    ((mixer, count),) = parse(STARCODER_15B, sliding_window=4096).mixers
    assert isinstance(mixer, Attention)
    assert (mixer.window, count) == (4096, 40)


@pytest.mark.parametrize(
    ("fields", "changes", "columns"),
    [
        (STABLELM_3B, {}, 20),  # a quarter of 80
        (PYTHIA_12B, {"rotary_pct": 0.5}, 64),  # half of 128
        (PYTHIA_12B, {}, 32),
        (GPT2_XL, {}, 0),  # learned positions
    ],
)
def test_rotary_tables(fields: dict[str, Any], changes: dict[str, Any], columns: int) -> None:
    assert parse(fields, max_position_embeddings=10, **changes).rotary_elements == 10 * columns


def test_ernie_experts_lie_between_two_layers_at_an_interval() -> None:
    # 28 layers from 3 to 10 with i + 1 even: 3, 5, 7, 9
    changes = {"moe_layer_start_index": 3, "moe_layer_end_index": 10, "moe_layer_interval": 2}
    model = parse(ERNIE_21B, **changes)
    sparse = [i for i, place in enumerate(model.order) if hasattr(model.layers[place].blocks[1], "top_k")]
    assert sparse == [3, 5, 7, 9]


@pytest.mark.parametrize(
    ("fields", "changes", "said"),
    [
        (HUNYUAN_A13B, {"moe_topk": [8, 4]}, "moe_topk is .*expected a whole number"),
        (HUNYUAN_A13B, {"moe_topk": 65}, "moe_topk is 65 but num_experts only 64"),
        (HUNYUAN_A13B, {"num_shared_expert": 2}, "num_shared_expert is 2; expected 1"),
        (HUNYUAN_A13B, {"moe_intermediate_size": 64}, "moe_intermediate_size differs"),
        (HUNYUAN_7B, {"use_cla": True}, "use_cla is true; only false is modelled"),
        (ERNIE_21B, {"use_bias": True}, "use_bias is true"),
        (ERNIE_21B, {"moe_k": 65}, "num_experts_per_tok is 65 but moe_num_experts only 64"),
        (GPT2_XL, {"add_cross_attention": True}, "add_cross_attention is true"),
        (PYTHIA_12B, {"num_key_value_heads": 8}, "gpt_neox has as many as query heads"),
    ],
)
def test_refusals(fields: dict[str, Any], changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse(fields, **changes)
