"""nemotron-nas: layers with their own attention and width, or none; and the count of Super 49B."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.families import parse_config, read_model
from costmodel.inputs.model import Model
from costmodel.inputs.parameters import count_parameters
from costmodel.memory.kv import kv_bytes

NONE = {"no_op": True, "n_heads_in_group": None}
TINY: dict[str, Any] = {
    "model_type": "nemotron-nas",
    "torch_dtype": "bfloat16",
    "hidden_size": 384,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": None,
    "intermediate_size": None,
    "vocab_size": 10,
    "max_position_embeddings": 100,
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": False,
    "block_configs": [
        {"attention": {"no_op": False, "n_heads_in_group": 2}, "ffn": {"no_op": False, "ffn_mult": 1.0}},
        {"attention": NONE, "ffn": {"no_op": False, "ffn_mult": 1.5}},
        {"attention": {"no_op": False, "n_heads_in_group": 4}, "ffn": {"no_op": True, "ffn_mult": None}},
    ],
}


def parse(**changes: Any) -> Model:
    return parse_config({**TINY, **changes}, "config.json", "m")


def test_tiny_model_by_hand() -> None:
    # heads of 96; widths 2/3 * 384 = 256 and 2/3 * 1.5 * 384 = 384 -> 512, the next multiple of 256
    # layer 0: q, o 2*384*384, k, v 2*384*2*96: 442,368; ffn 3*384*256: 294,912; two norms: 768
    # layer 1: ffn 3*384*512: 589,824; one norm: 384
    # layer 2: q, o 294,912, k, v 2*384*96: 73,728; one norm: 384; ends 2*10*384 + 384
    layers = (442_368 + 294_912 + 768) + (589_824 + 384) + (294_912 + 73_728 + 384)
    assert count_parameters(parse()).total_parameters == layers + 8_064


def test_only_layers_with_attention_cache() -> None:
    # 2 * (2 + 1) heads * 96 * 2 B
    assert kv_bytes(parse(), 10, "bf16").kv_bytes_per_token == 1_152


def test_super_49b_caches_in_49_of_80_layers() -> None:
    # 49 layers * 2 * 8 heads * 128 * 2 B; its block_configs name 31 layers without attention
    assert kv_bytes(read_model("nvidia/Llama-3_3-Nemotron-Super-49B-v1"), 1, "bf16").kv_bytes == 200_704


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"block_configs": TINY["block_configs"][:2]}, "block_configs is .* expected a list of 3 objects"),
        ({"block_configs": None}, "block_configs is null"),
        ({"block_configs": [7, 7, 7]}, r"block_configs\[0\] is 7; expected objects attention and ffn"),
        ({"attention_bias": True}, "biases of nemotron-nas are not modelled"),
    ],
)
def test_refusals(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse(**changes)


@pytest.mark.parametrize(
    ("half", "change", "said"),
    [
        (
            "attention",
            {"replace_with_linear": True},
            r"\[0\].attention.replace_with_linear is true; not modelled",
        ),
        ("attention", {"window_length": 8}, r"\[0\].attention.window_length is 8; not modelled"),
        ("attention", {"n_heads_in_group": 3}, r"\[0\].attention.n_heads_in_group is 3; expected a divisor"),
        ("ffn", {"ffn_mult": -1}, r"\[0\].ffn.ffn_mult is -1; expected a number above 0"),
        ("ffn", {"ffn_mult": None}, r"\[0\].ffn.intermediate_size is missing"),
    ],
)
def test_a_bad_block_is_named(half: str, change: dict[str, Any], said: str) -> None:
    first, *others = TINY["block_configs"]
    changed = {**first, half: {**first[half], **change}}
    with pytest.raises(InputError, match=said):
        parse(block_configs=[changed, *others])
