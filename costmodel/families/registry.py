"""Which adapter reads which model_type. Modules are imported when a model needs them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from ..inputs.model import Model
from .config import Config

#: model_type -> module of this package; the adapter is its function of the same name or of that behind the colon.
ADAPTERS: dict[str, str] = {
    "bailing_moe": "bailing",
    "bailing_moe_v2": "bailing:bailing_moe",
    "bloom": "bloom",
    "chatglm": "glm",
    "cohere": "cohere",
    "cohere2": "cohere",
    "deepseek": "deepseek",
    "deepseek_v2": "deepseek",
    "deepseek_v3": "deepseek",
    "deepseek_v32": "deepseek",
    "dots1": "dots1",
    "ernie4_5": "ernie",
    "ernie4_5_moe": "ernie",
    "exaone": "exaone",
    "exaone4": "exaone",
    "falcon": "falcon",
    "falcon_h1": "falcon_h1",
    "gemma": "gemma",
    "gemma2": "gemma",
    "gemma3_text": "gemma",
    "gemma4_text": "gemma4",
    "glm": "glm",
    "glm4": "glm",
    "glm4_moe": "glm",
    "glm4_moe_lite": "glm",
    "glm4v_moe_text": "glm:glm4_moe",
    "glm4v_text": "glm:glm4",
    "glm_moe_dsa": "glm",
    "gpt2": "gpt",
    "gpt_neox": "gpt",
    "gpt_oss": "gpt_oss",
    "granite": "granite",
    "granitemoe": "granite",
    "granitemoehybrid": "granite_hybrid",
    "granitemoeshared": "granite",
    "hunyuan_v1_dense": "hunyuan",
    "hunyuan_v1_moe": "hunyuan",
    "internlm2": "internlm",
    "internlm3": "internlm",
    "jamba": "jamba",
    "kimi_k2": "deepseek",
    "kimi_linear": "kimi_linear",
    "llama": "llama",
    "llama4_text": "llama4",
    "mimo": "mimo",
    "mimo_v2_flash": "mimo",
    "minimax": "minimax_text",
    "minimax_m1": "minimax_text:minimax_text_01",
    "minimax_m2": "minimax",
    "minimax_text_01": "minimax_text",
    "ministral": "ministral",
    "ministral3": "ministral",
    "mistral": "mistral",
    "mistral4": "mistral4",
    "mixtral": "mixtral",
    "nemotron": "nemotron",
    "nemotron-nas": "nemotron_nas:nemotron_nas",
    "nemotron_h": "nemotron_h",
    "olmo2": "olmo2",
    "olmo3": "olmo2",
    "olmoe": "olmo2",
    "opt": "opt",
    "phi": "phi",
    "phi3": "phi",
    "phi3small": "phi",
    "phi4mm": "phi",
    "phimoe": "phi",
    "qwen2": "qwen2",
    "qwen2_5_omni_text": "qwen2:qwen2",
    "qwen2_5_vl_text": "qwen2:qwen2",
    "qwen2_moe": "qwen2",
    "qwen2_vl_text": "qwen2:qwen2",
    "qwen3": "qwen3",
    "qwen3_5_moe_text": "qwen3_5",
    "qwen3_5_text": "qwen3_5",
    "qwen3_moe": "qwen3",
    "qwen3_next": "qwen3_next",
    "qwen3_omni_moe_text": "qwen3:qwen3_moe",
    "qwen3_vl_moe_text": "qwen3:qwen3_moe",
    "qwen3_vl_text": "qwen3:qwen3",
    "seed_oss": "seed_oss",
    "smollm3": "smollm3",
    "stablelm": "stablelm",
    "starcoder2": "starcoder2",
}


def adapter(model_type: str) -> Callable[[Config], Model]:
    """Return the adapter of a known model_type."""
    module, _, function = ADAPTERS[model_type].partition(":")
    found: Callable[[Config], Model] = getattr(
        import_module(f".{module}", __package__), function or model_type
    )
    return found
