"""Multimodal wrappers: where the language model lies inside the configuration, and what stands beside it."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import InputError
from .config import Config, shown

#: Where wrappers keep the configuration of their language model.
NESTED = ("text_config", "llm_config", "language_config", "thinker_config")

#: Wrapper -> family of its language model where the nested configuration states no model_type ("": it must).
#: Source: transformers 5.24, class of ``text_config``; vLLM 0.33 for those that transformers does not know.
WRAPPERS: dict[str, str] = {
    "aya_vision": "cohere2",
    "cohere2_vision": "cohere2",
    "deepseek_vl_v2": "deepseek_v2",
    "exaone4_5": "exaone4",
    "gemma3": "gemma3_text",
    "gemma4": "gemma4_text",
    "glm4v": "glm4v_text",
    "glm4v_moe": "glm4v_moe_text",
    "got_ocr2": "qwen2",
    "idefics2": "mistral",
    "idefics3": "llama",
    "internvl": "qwen2",
    "internvl_chat": "",
    "janus": "llama",
    "kimi_k25": "deepseek_v3",
    "kimi_vl": "deepseek_v3",
    "lighton_ocr": "qwen3",
    "llama4": "llama4_text",
    "llava": "llama",
    "llava_next": "llama",
    "llava_next_video": "llama",
    "llava_onevision": "qwen2",
    "mistral3": "mistral",
    "ovis2": "qwen2",
    "paligemma": "gemma",
    "perception_lm": "llama",
    "qwen2_5_omni": "qwen2_5_omni_text",
    "qwen2_5_vl": "qwen2_5_vl_text",
    "qwen2_audio": "qwen2",
    "qwen2_vl": "qwen2_vl_text",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "qwen3_omni_moe": "qwen3_omni_moe_text",
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
    "smolvlm": "llama",
    "video_llava": "llama",
    "vipllava": "llama",
    "voxtral": "llama",
}

#: Class defaults of text types (transformers 5.24) that differ from those of the family that reads them.
TEXT_DEFAULTS: dict[str, dict[str, int]] = {
    "glm4v_moe_text": {"attention_bias": True},
    "qwen2_vl_text": {"num_key_value_heads": 8},
    "qwen2_5_vl_text": {"num_key_value_heads": 8},
    "qwen2_5_omni_text": {"num_key_value_heads": 4},
    "qwen3_vl_moe_text": {"num_key_value_heads": 16},
}

#: Class defaults of sizes (transformers 5.24), which a nested configuration written by transformers leaves out.
SIZES: dict[str, dict[str, int]] = {
    "llama": {
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "vocab_size": 32000,
    },
    "mistral": {
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 32000,
    },
}
#: Wrappers of transformers whose published files leave them out, such as llava-hf/llava-1.5-7b-hf.
SPARING = ("llava", "llava_next", "llava_next_video", "video_llava", "vipllava")

#: Fields of the wrapper that hold for the language model unless it states its own.
INHERITED = (
    "torch_dtype",
    "dtype",
    "quantization_config",
    "compression_config",
    "quantization",
    "tie_word_embeddings",
    "_source",
)


def language_model(data: Mapping[str, object], where: str) -> tuple[dict[str, object], str]:
    """Return the fields of the language model of a wrapper, and the path of keys that leads to them.

    A wrapper may also keep them at its top level, beside a ``vision_config`` (Qwen2-VL did); then the path
    is empty. Raises InputError where the nested configuration is no object.
    """
    wrapper = str(data["model_type"])
    bad = next((key for key in NESTED if key in data and not isinstance(data[key], dict)), None)
    if bad:
        raise InputError(
            f"{bad} is {shown(data[bad])}; expected the object of the language model", where=where
        )
    fields, path = nested_fields(data, where)
    stated = fields.get("model_type")
    if path and stated is not None and not isinstance(stated, str):
        raise InputError(f"{path}.model_type is {shown(stated)}; expected a family", where=where)
    if not path or not isinstance(stated, str) or stated == wrapper:
        fields["model_type"] = WRAPPERS[wrapper]
    if not fields["model_type"]:
        raise InputError(f"{path or 'text_config'}.model_type is missing; expected a family", where=where)
    return fields, path


def fill_defaults(config: Config, wrapper: str = "") -> None:
    """Give a text type its own class defaults where another family's adapter would take others.

    Inside a sparing ``wrapper`` also the sizes of its class, where it states neither width, layers nor heads.
    """
    defaults = dict(TEXT_DEFAULTS.get(config.model_type, {}))
    sizes = SIZES.get(config.model_type, {}) if wrapper in SPARING else {}
    if all(config.absent(field) for field in ("hidden_size", "num_hidden_layers", "num_attention_heads")):
        defaults |= sizes
    for field, value in defaults.items():
        if config.absent(field):
            config.defaulted(field, value)
            config.data = {**config.data, field: value}


def nested_fields(data: Mapping[str, object], where: str) -> tuple[dict[str, object], str]:
    """Return the fields of the language model of any wrapper, known or not; its own where it nests none."""
    key = next((key for key in NESTED if isinstance(data.get(key), dict)), "")
    inner = data.get(key)
    if not isinstance(inner, dict) or (_holds_model(data) and not _holds_model(inner)):
        return dict(data), ""
    deeper, path = nested_fields(inner, where) if key == "thinker_config" else (dict(inner), "")
    return _inherit(deeper, data), f"{key}.{path}" if path else key


def _holds_model(fields: Mapping[str, object]) -> bool:
    return "hidden_size" in fields and "num_hidden_layers" in fields


def _inherit(inner: Mapping[str, object], outer: Mapping[str, object]) -> dict[str, object]:
    given = {key for key in inner if inner[key] is not None}
    if {"torch_dtype", "dtype"} & given:
        given |= {"torch_dtype", "dtype"}
    return {**inner, **{key: outer[key] for key in INHERITED if key in outer and key not in given}}
