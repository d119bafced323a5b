"""Mistral Small 4: DeepSeek's structure without a bias an expert in its router."""

from __future__ import annotations

from typing import Any

from costmodel.families import parse_config
from costmodel.inputs.parameters import count_parameters
from costmodel.memory.kv import kv_bytes

SMALL_4: dict[str, Any] = {
    "model_type": "mistral4",
    "torch_dtype": "bfloat16",
    "hidden_size": 4096,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "vocab_size": 131072,
    "q_lora_rank": 1024,
    "kv_lora_rank": 256,
    "qk_nope_head_dim": 64,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "attention_bias": False,
    "intermediate_size": 12288,
    "n_routed_experts": 128,
    "num_experts_per_tok": 4,
    "n_shared_experts": 1,
    "moe_intermediate_size": 2048,
    "first_k_dense_replace": 0,
    "tie_word_embeddings": False,
}


def test_small_4_is_the_published_total_less_its_tower_and_scales() -> None:
    """Sizes: the class defaults of transformers 5.24, which are this model's.

    mlx-community/Mistral-Small-4-119B-2603-OptiQ-2bit counts the text model alone (llmfit 1.1.17 on PyPI).
    """
    model = parse_config(SMALL_4, "config.json", "m")
    assert count_parameters(model).total_parameters == 118_972_826_624
    # 36 layers * (256 + 64) * 2 bytes
    assert kv_bytes(model, 1, "bf16").kv_bytes_per_token == 23_040
