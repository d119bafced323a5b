"""MiniMax-M2: norms over all heads, experts everywhere, and what its configuration must not say."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.families import parse_config, read_model
from costmodel.inputs.model import Model
from costmodel.inputs.parameters import count_parameters
from costmodel.memory.kv import kv_bytes

TINY: dict[str, Any] = {
    "model_type": "minimax_m2",
    "torch_dtype": "bfloat16",
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 3,
    "vocab_size": 10,
    "intermediate_size": 5,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "max_position_embeddings": 100,
    "rotary_dim": 2,
    "tie_word_embeddings": False,
    "num_mtp_modules": 3,
}


def parse(**changes: Any) -> Model:
    return parse_config({**TINY, **changes}, "config.json", "m")


def test_tiny_model_by_hand() -> None:
    # q 8*12, k and v 2*8*6, o 12*8: 288; norms 12 + 6 = 18; layer norms 16
    # router 8*4 + 4, experts 4*3*8*5: 36 + 480; a layer: 838; ends 2*10*8 + 8
    counted = count_parameters(parse())
    assert counted.total_parameters == 2 * 838 + 168
    assert counted.extras == {}
    # a token uses two of four experts, and not the embedding
    assert counted.active_parameters == 2 * (838 - 240) + 168 - 80


def test_tables_are_as_wide_as_rotary_dim() -> None:
    assert parse().rotary_elements == 100 * 2
    assert parse(rotary_dim=None).rotary_elements == 100 * 3


def test_mtp_modules_are_named_as_not_stored() -> None:
    assert any("num_mtp_modules is 3: not counted" in note for note in parse().notes)
    assert not any("num_mtp_modules" in note for note in parse(num_mtp_modules=0).notes)


def test_m2_cache() -> None:
    # 62 layers of 2 * 8 heads * 128 * 2 bytes, no window
    held = kv_bytes(read_model("MiniMaxAI/MiniMax-M2.5"), 10, "bf16")
    assert (held.kv_bytes_per_token, held.kv_bytes) == (253_952, 2_539_520)


@pytest.mark.parametrize(
    "changes",
    [
        {"use_qk_norm": False},
        {"qk_norm_type": "per_head"},
        {"use_routing_bias": False},
        {"shared_intermediate_size": 64},
    ],
)
def test_fields_that_the_published_class_does_not_know_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(changes))} is .*only .* is modelled"):
        parse(**changes)
