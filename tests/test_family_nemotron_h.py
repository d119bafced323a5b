"""Families nemotron_h and nemotron: hand counts, patterns of layers, MTP, states, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.families import parse_config, read_model
from costmodel.inputs.model import Attention, Experts, Model, Recurrent
from costmodel.inputs.parameters import count_parameters
from costmodel.memory.kv import kv_bytes

TINY: dict[str, Any] = {
    "model_type": "nemotron_h",
    "vocab_size": 32,
    "hidden_size": 8,
    "hybrid_override_pattern": "M*-E",
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 4,
    "intermediate_size": 10,
    "mamba_num_heads": 4,
    "mamba_head_dim": 3,
    "n_groups": 2,
    "ssm_state_size": 5,
    "conv_kernel": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 3,
    "moe_shared_expert_intermediate_size": 6,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
MAMBA = 664  # by hand in test_family_recurrent.py
ATTENTION = 64 + 2 * 32 + 64
DENSE = 2 * 10 * 8
#: Router 4x8 with 4 biases, experts 4x2x3x8, shared 2x6x8.
MIXTURE = 32 + 4 + 192 + 96
ENDS = 2 * 32 * 8 + 8


def tiny(**changes: object) -> Model:
    data = {key: value for key, value in {**TINY, **changes}.items() if value is not ...}
    return parse_config(data, "tiny.json", "tiny")


def test_parameters_by_hand() -> None:
    # one block and one norm of 8 a layer
    assert count_parameters(tiny()).total_parameters == MAMBA + ATTENTION + DENSE + MIXTURE + 4 * 8 + ENDS


def test_experts_in_a_latent_width() -> None:
    # routed experts see 5 of the 8: 4x2x3x5, projections 2x5x8; the shared one sees all
    latent = count_parameters(tiny(moe_latent_size=5)).total_parameters
    assert latent == MAMBA + ATTENTION + DENSE + (32 + 4 + 120 + 96 + 80) + 4 * 8 + ENDS


def test_mtp_layers_are_blocks_with_a_norm_each() -> None:
    # attention and experts with a norm of 8 each, a projection of 16 to 8, three norms
    counted = count_parameters(tiny(num_nextn_predict_layers=1))
    assert counted.extras == {"mtp": ATTENTION + MIXTURE + 16 + 128 + 24}
    attention = count_parameters(tiny(num_nextn_predict_layers=1, mtp_layers_block_type=["attention"]))
    assert attention.extras == {"mtp": ATTENTION + 8 + 128 + 24}


def test_words_and_letters_name_the_same_layers() -> None:
    words = ["mamba", "attention", "mlp", "moe"]
    listed = tiny(hybrid_override_pattern=..., layers_block_type=words)
    assert listed.layers == tiny().layers
    assert tiny(layers_block_type=words).layers == tiny().layers


@pytest.mark.parametrize(
    ("name", "layers", "attention"),
    [
        ("nvidia/Nemotron-H-56B-Base-8K", 118, 10),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 52, 6),
        ("nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16", 108, 12),
    ],
)
def test_layers_of_packaged_models(name: str, layers: int, attention: int) -> None:
    model = read_model(name)
    counts = dict.fromkeys((Attention, Recurrent, Experts), 0)
    for layer in model.layers:
        assert len(layer.blocks) == 1
        for kind in counts:
            counts[kind] += layer.count * isinstance(layer.blocks[0], kind)
    assert (model.layer_count, counts[Attention]) == (layers, attention)


def test_state_is_fp32_unless_stated() -> None:
    # Nano: 23 layers of 64 heads of 128 x 64 in 4 bytes, 3 inputs of 4,096 + 2 x 8 x 128 channels in 2
    held = kv_bytes(read_model("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"), 1, "bf16")
    assert held.fixed_bytes_per_sequence == 23 * (64 * 128 * 64 * 4 + 3 * 6144 * 2)
    assert held.kv_bytes_per_token == 6 * 2 * 2 * 128 * 2
    assert any("mamba_ssm_cache_dtype absent: float32" in note for note in tiny().notes)
    # tiny: 60 elements of the state, 96 of the convolution
    assert kv_bytes(tiny(), 0, "bf16").kv_bytes == 60 * 4 + 96 * 2
    assert kv_bytes(tiny(mamba_ssm_cache_dtype="bfloat16"), 0, "bf16").kv_bytes == 60 * 2 + 96 * 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"hybrid_override_pattern": "M*-X"}, "expected letters out of"),
        ({"hybrid_override_pattern": ...}, "hybrid_override_pattern is missing"),
        ({"layers_block_type": ["mamba"] * 4}, "hybrid_override_pattern and layers_block_type differ"),
        ({"layers_block_type": ["mamba", "mixer"]}, "layers_block_type is"),
        ({"num_hidden_layers": 5}, "num_hidden_layers is 5 but the pattern of layers names 4"),
        ({"n_shared_experts": 2}, "n_shared_experts is 2"),
        ({"attention_bias": True}, "attention_bias is true"),
        ({"mamba_proj_bias": True}, "mamba_proj_bias is true"),
        ({"sliding_window": 128}, "sliding_window is 128"),
        ({"ssm_state_size": ...}, "ssm_state_size is missing"),
    ],
)
def test_refusals(changes: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        tiny(**changes)


def test_nemotron_by_hand() -> None:
    # attention 192, two matrices 2x10x8, four norm vectors of 8; at the end two
    fields = {key: TINY[key] for key in list(TINY)[1:3]} | {"num_hidden_layers": 2, "torch_dtype": "bfloat16"}
    fields |= {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "intermediate_size": 10}
    model = parse_config({"model_type": "nemotron", "max_position_embeddings": 100, **fields}, "n.json", "n")
    assert count_parameters(model).total_parameters == 2 * (192 + 160 + 32) + 2 * 32 * 8 + 16
    assert model.rotary_elements == 100 * 2  # half of each head rotates


def test_minitron_8b_is_as_large_as_its_class() -> None:
    # built from transformers 5.24's class: 8,271,699,968 parameters
    sizes = {"hidden_size": 4096, "intermediate_size": 16384, "num_hidden_layers": 32, "vocab_size": 256000}
    heads = {"num_attention_heads": 48, "num_key_value_heads": 8, "head_dim": 128}
    model = parse_config({"model_type": "nemotron", **sizes, **heads}, "minitron.json", "minitron")
    assert count_parameters(model).total_parameters == 8_271_699_968
